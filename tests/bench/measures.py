# SPDX-License-Identifier: Apache-2.0
"""What bench.py measures, a function each. Figures that are compared come from runs by turns, so that both sides meet the same
state of the machine."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launch import RunFailed, Shoal, finish
from verdicts import Line

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench" / "peers"), str(ROOT / "analysis")]
import breakdown
import export_work
from shoal_trace import Trace
from work import WORKS, Work

# Kernels that are matrix products: the layers of src/model/block.cpp and head.cpp by their labels (forward, _dx, _dw), attention.
PRODUCTS = ("attention", "qkv", "mlp", "head")


@dataclass
class Bench:
    shoal: Shoal
    scratch: Path
    text: Path | None
    cpus: Sequence[int]
    rounds: int
    steps: int
    decks: dict[tuple[str, int], Path] = field(default_factory=dict)

    def deck(self, work: Work, ranks: int = 1) -> Path:
        """The work as files, made on first use."""
        key = (work.name, ranks)
        if key not in self.decks:
            directory = self.scratch / f"{work.name}-{ranks}"
            self.decks[key] = export_work.export(work, directory, seed=1, steps=self.steps, ranks=ranks, text=self.text)
        return self.decks[key]

    def train(self, deck: Path, *options: str, ranks: int = 1):
        if not any(option.startswith("--train.steps=") for option in options):
            options = (f"--train.steps={self.steps}", *options)
        return self.shoal.train(deck, self.scratch / "run", options, cpus=self.cpus[:ranks], ranks=ranks)


def settled(result) -> float:
    """Seconds of a step without the first: the lower quartile, which other jobs on the machine move least."""
    return statistics.quantiles(result.step_seconds[1:], n=4)[0]


def parts(bench: Bench, work: Work, dtype: str) -> list[Line]:
    """A step by part and by kernel, on one rank; the share of the measured peak."""
    name = f"{work.name} {dtype}"
    result = bench.train(bench.deck(work), f"--train.dtype={dtype}", "--trace.level=kernels")
    trace = Trace.read(result.out)
    names, seconds = breakdown.step_parts(trace)
    step = seconds[:, 0].sum()
    lines = [Line(f"{name} {part}", 1e3 * value, "ms", note=f"{100 * value / step:.1f} % of the step")
             for part, value in zip(names, seconds[:, 0], strict=True)]  # fmt: skip
    products = 0.0
    for kernel in breakdown.kernels(trace):
        products += kernel.seconds_per_step if kernel.name.startswith(PRODUCTS) else 0.0
        lines.append(Line(f"{name} kernel {kernel.name}", 1e3 * kernel.seconds_per_step, "ms",
                          note=f"{100 * kernel.share:.1f} % of the step, {kernel.calls_per_step:.0f} calls"))  # fmt: skip
    lines.append(Line(f"{name} outside matrix products", 1 - products / step, "of step", at_most=0.10))
    peak = re.search(r"matrix products ([0-9.]+) GFLOP/s per rank", result.log)
    if peak is None:
        raise RunFailed("the banner does not tell the measured peak of matrix products")
    reached = result.tokens_per_s * work.flops_per_token / 1e9
    lines.append(Line(f"{name} share of the product peak", reached / float(peak[1]), "",
                      note=f"{reached:.0f} of {peak[1]} GFLOP/s, attention counted in full"))  # fmt: skip
    return lines


def scaling(bench: Bench, work: Work) -> list[Line]:
    """Two ranks against two runs of one rank at the same time, a core each: what communication costs."""
    if len(bench.cpus) < 2:
        print("SKIPPED: two ranks need two cores")
        return []
    options = (f"--train.steps={bench.steps}",)
    ratios = []
    for turn in range(bench.rounds):

        def together() -> float:
            return bench.train(bench.deck(work, 2), ranks=2).tokens_per_s

        def apart() -> float:
            outs = [bench.scratch / f"alone{i}" for i in (0, 1)]
            running = [
                bench.shoal.start(bench.deck(work), out, options, cpus=[bench.cpus[i]]) for i, out in enumerate(outs)
            ]
            logs = [finish(process, "shoal train, one of two", 900) for process in running]
            return sum(bench.shoal.result(out, log, 0).tokens_per_s for out, log in zip(outs, logs, strict=True))

        if turn % 2 == 0:
            two, alone = together(), apart()
        else:
            alone, two = apart(), together()
        ratios.append(two / alone)
    return [Line(f"{work.name} two ranks / two that do not communicate", statistics.median(ratios), "x", at_least=0.97,
                 note=f"rounds {min(ratios):.3f} to {max(ratios):.3f}")]  # fmt: skip


def trace_overhead(bench: Bench, work: Work) -> list[Line]:
    """Level comm and level kernels against off, by turns."""
    levels = ("off", "comm", "kernels")
    seconds: dict[str, list[float]] = {level: [] for level in levels}
    for turn in range(bench.rounds):
        for level in levels[turn % 3 :] + levels[: turn % 3]:
            seconds[level].append(settled(bench.train(bench.deck(work), f"--trace.level={level}")))
    lines = []
    for level, most in (("comm", 0.01), ("kernels", 0.03)):
        over = [traced / off - 1 for traced, off in zip(seconds[level], seconds["off"], strict=True)]
        lines.append(Line(f"{work.name} trace.level={level} costs", statistics.median(over), "of step", at_most=most,
                          note=f"rounds {min(over):+.3f} to {max(over):+.3f}"))  # fmt: skip
    return lines


def memory(bench: Bench, work: Work, dtype: str) -> list[Line]:
    """Resident memory against what the states take: the program, its libraries and MPI may add 60 MB and a twentieth."""
    result = bench.train(bench.deck(work), f"--train.dtype={dtype}")
    states = sum(result.summary["state_bytes"]["planned"].values())
    allowed = 1.05 * states + 60e6
    return [Line(f"{work.name} {dtype} peak memory / (1.05 x states + 60 MB)", result.peak_rss_bytes / allowed, "x",
                 at_most=1, note=f"{result.peak_rss_bytes / 1e6:.0f} MB, states {states / 1e6:.0f} MB")]  # fmt: skip


def start_up(bench: Bench, work: Work) -> list[Line]:
    """From the launch to the begin of the first step, on as many ranks as there are cores, at most two.

    The first line of metrics.jsonl is written when that step ends, and tells how long it took.
    """
    ranks = min(2, len(bench.cpus))
    found = []
    for _ in range(bench.rounds):
        out = bench.scratch / "start"
        deck = bench.deck(work, ranks)
        begin = time.monotonic()
        process = bench.shoal.start(deck, out, ("--train.steps=1",), cpus=bench.cpus[:ranks], ranks=ranks)
        while process.poll() is None and not first_line(out):
            time.sleep(0.002)
        seen = time.monotonic()
        log = finish(process, "shoal train, one step", 300)
        found.append(seen - begin - bench.shoal.result(out, log, 0).step_seconds[0])
    return [Line(f"{work.name} start to first step, {ranks} rank(s)", statistics.median(found), "s", at_most=1)]


def first_line(out: Path) -> bool:
    try:
        return b"\n" in (out / "metrics.jsonl").read_bytes()
    except FileNotFoundError:
        return False


def checkpoints(bench: Bench, work: Work) -> list[Line]:
    """How fast checkpoints are written, against dd with conv=fsync of as many bytes to the same directory."""
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
    return [Line(f"{work.name} checkpoint / dd conv=fsync", statistics.median(ratios), "x", at_least=0.7,
                 note=f"{statistics.median(rates) / 1e6:.0f} MB/s on {ranks} rank(s)")]  # fmt: skip


def disk_rate(path: Path, size: int) -> float:
    rates = []
    for _ in range(3):
        begin = time.monotonic()
        subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={-(-size // 2**20)}", "conv=fsync", "status=none"],
                       check=True)  # fmt: skip
        rates.append(size / (time.monotonic() - begin))
        os.remove(path)
    return statistics.median(rates)


MEASURES = {
    "parts": lambda bench: [line for dtype in ("fp32", "bf16") for line in parts(bench, WORKS["W1"], dtype)],
    "scaling": lambda bench: scaling(bench, WORKS["W1"]),
    "trace": lambda bench: trace_overhead(bench, WORKS["W1"]),
    "memory": lambda bench: [line for dtype in ("fp32", "bf16") for line in memory(bench, WORKS["W1"], dtype)],
    "start": lambda bench: start_up(bench, WORKS["W1"]),
    "checkpoint": lambda bench: checkpoints(bench, WORKS["W1"]),
}
