# SPDX-License-Identifier: Apache-2.0
"""The speed at which checkpoints are written, and what a save in the background costs the steps that run at the same
time."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
from bench_session import Bench, ratio_line
from launch import RunFailed
from shoal.read.trace import Trace
from verdicts import Line
from work import Work


def checkpoints(bench: Bench, work: Work) -> list[Line]:
    """The speed at which checkpoints are written, compared with dd conv=fsync of the same size to the same
    directory."""
    ranks = min(2, len(bench.cpus))
    ratios, rates = [], []
    for _ in range(bench.rounds):
        steps = (
            f"--train.steps={min(3, bench.steps)}",
            "--checkpoint.every=1",
            "--checkpoint.keep=1",
            "--trace.level=steps",
        )
        result = bench.train(bench.deck(work, ranks), *steps, ranks=ranks)
        trace = Trace.read(result.out)
        phases = trace.of_kind("phase")
        phases = phases[trace.names[phases["name"]] == "checkpoint"]
        if not len(phases):
            raise RunFailed("the trace has no checkpoint phases")
        count = len(phases) // ranks
        seconds = [phases["duration_ns"][phases["rank"] == rank].sum() / 1e9 / count for rank in range(ranks)]
        size = max(path.stat().st_size for path in (result.out / "checkpoints").glob("step_*.h5"))
        rates.append(size / max(seconds))
        ratios.append(rates[-1] / disk_rate(bench.scratch / "dd", size))
    note = f"{statistics.median(rates) / 1e6:.0f} MB/s on {ranks} rank{'' if ranks == 1 else 's'}"
    return [ratio_line(f"{work.name} checkpoint / dd conv=fsync", ratios, note=note, at_least=0.7)]


def disk_rate(path: Path, size: int) -> float:
    rates = []
    for _ in range(3):
        begin = time.monotonic()
        subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={-(-size // 2**20)}", "conv=fsync", "status=none"],
                       check=True)  # fmt: skip
        rates.append(size / (time.monotonic() - begin))
        os.remove(path)
    return statistics.median(rates)


def background(bench: Bench, work: Work) -> list[Line]:
    """Steps during which a checkpoint is written in the background, compared with the other steps of the same run.

    A step lasts until the beginning of the next one, so work of a save between two steps, above all the copy, counts
    for the first.
    """
    ranks = min(2, len(bench.cpus))
    options = (f"--train.steps={4 * bench.steps}", f"--checkpoint.every={max(4, bench.steps // 2)}",
               "--checkpoint.keep=1", "--checkpoint.async=true", "--trace.level=steps")  # fmt: skip
    ratios, during, written = [], 0, []
    for _ in range(bench.rounds):
        trace = Trace.read(bench.train(bench.deck(work, ranks), *options, ranks=ranks).out)
        steps = trace.of_kind("step", rank=0)["begin_ns"].astype(np.int64)
        saving = trace.of_kind("io")
        saving = saving[[str(name).startswith("checkpoint/") for name in trace.names[saving["name"]]]]
        begins = saving["begin_ns"].astype(np.int64)
        ends = begins + saving["duration_ns"].astype(np.int64)
        overlaps = (begins < steps[1:, None]) & (ends > steps[:-1, None])
        saves = overlaps.any(axis=1)[1:]  # the first step touches its memory for the first time
        seconds = np.diff(steps)[1:] / 1e9
        if not saves.any() or saves.all():
            raise RunFailed(f"{saves.sum()} of {len(saves)} steps ran during a save: nothing to compare")
        during += int(saves.sum())
        writes = saving[trace.names[saving["name"]] == "checkpoint/write"]
        written.append(float(writes["duration_ns"].mean()) / 1e9)
        ratios.append(middle(seconds[saves]) / middle(seconds[~saves]))
    note = f"{during} steps on {ranks} rank{'' if ranks == 1 else 's'}; a write took {statistics.median(written):.2f} s"
    return [ratio_line(f"{work.name} step during a background save / others", ratios, note=note, at_most=1.1)]


def middle(seconds: np.ndarray) -> float:
    """The median: the lower quartile would pick the last step of each save, which the save hardly disturbs."""
    return float(np.median(seconds))
