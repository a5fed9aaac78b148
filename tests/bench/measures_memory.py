# SPDX-License-Identifier: Apache-2.0
"""Resident memory compared with the plan, with and without activation checkpointing, and how it falls at stage 3 with
more ranks."""

from __future__ import annotations

from bench_session import Bench
from launch import Result
from verdicts import Line
from work import Work

# At stage 3 each of D ranks keeps a D-th part of these states; the other kinds in state_bytes are what a micro-batch
# needs.
STATES = ("parameters", "master", "gradients", "moments")


def planned(result: Result) -> int:
    return sum(result.summary["state_bytes"]["planned"].values())


def against_plan(name: str, result: Result) -> Line:
    """The program, its libraries and MPI may add 60 MB and a twentieth."""
    allowed = 1.05 * planned(result) + 60e6
    return Line(f"{name} peak memory / (1.05 x plan + 60 MB)", result.peak_rss_bytes / allowed, "x", at_most=1,
                note=f"{result.peak_rss_bytes / 1e6:.0f} MB, planned {planned(result) / 1e6:.0f} MB")  # fmt: skip


def memory(bench: Bench, work: Work, dtype: str) -> list[Line]:
    return [against_plan(f"{work.name} {dtype}", bench.train(bench.deck(work), f"--train.dtype={dtype}"))]


def activations(bench: Bench, work: Work, stage: int) -> list[Line]:
    """activation.checkpoint_interval 0 and auto on two ranks: each compared with its plan, and their difference."""
    if not bench.has_two_cores():
        return []
    intervals = ("0", "auto")
    results = [
        bench.train(bench.deck(work, 2), f"--zero.stage={stage}", f"--activation.checkpoint_interval={interval}",
                    "--train.steps=3", ranks=2)
        for interval in intervals
    ]  # fmt: skip
    name = f"{work.name} stage {stage}"
    lines = [
        against_plan(f"{name}, checkpoint_interval={interval}", result)
        for interval, result in zip(intervals, results, strict=True)
    ]
    fall = results[0].peak_rss_bytes - results[1].peak_rss_bytes
    promised = planned(results[0]) - planned(results[1])
    lines.append(Line(f"{name}, auto: fall of peak memory / planned", fall / promised, "x", at_least=0.95,
                      note=f"{fall / 1e6:.0f} of {promised / 1e6:.0f} MB"))  # fmt: skip
    return lines


def shards(bench: Bench, work: Work) -> list[Line]:
    """Stage 3 on 1, 2 and 4 ranks: memory of the model's states, as the allocator counts it and as resident memory.

    Resident memory is taken without activations and buffers, because gathered units exist only with more than one rank.
    """
    results = {
        ranks: bench.train(bench.deck(work, ranks), "--zero.stage=3", "--train.steps=3", ranks=ranks)
        for ranks in (1, 2, 4)
    }

    def taken(ranks: int, *, states: bool) -> int:
        kinds = results[ranks].summary["state_bytes"]["taken"]
        return sum(size for kind, size in kinds.items() if (kind in STATES) == states)

    def resident(ranks: int) -> int:
        return results[ranks].peak_rss_bytes - taken(ranks, states=False)

    whole = taken(1, states=True)
    lines = []
    for ranks in (2, 4):
        name = f"{work.name} stage 3, {ranks} ranks:"
        part = taken(ranks, states=True)
        lines.append(Line(f"{name} states x {ranks} / those of one rank", ranks * part / whole, "x", at_most=1.01,
                          note=f"{part / 1e6:.0f} of {whole / 1e6:.0f} MB a rank"))  # fmt: skip
        fall, promised = resident(1) - resident(ranks), whole * (1 - 1 / ranks)
        lines.append(Line(f"{name} fall of peak memory / 1 - 1/{ranks} of the states", fall / promised, "x", at_least=0.95,
                          note=f"{fall / 1e6:.0f} of {promised / 1e6:.0f} MB; peaks {results[1].peak_rss_bytes / 1e6:.0f} "
                               f"and {results[ranks].peak_rss_bytes / 1e6:.0f} MB"))  # fmt: skip
    return lines
