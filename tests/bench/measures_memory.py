# SPDX-License-Identifier: Apache-2.0
"""Resident memory against the plan, with and without activation checkpointing."""

from __future__ import annotations

from bench_session import Bench
from launch import Result
from verdicts import Line
from work import Work


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
    """activation.checkpoint_interval 0 and auto on two ranks: each against its plan, and their difference."""
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
