# SPDX-License-Identifier: Apache-2.0
"""The measures of bench.py, one function each. Runs that are compared are made in turn, so that both sides see the same
state of the machine."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from bench_session import Bench, ratio_line, settled

# isort: split
from launch import finish
from measures_checkpoints import background, checkpoints
from measures_limits import shares
from measures_memory import activations, memory, shards
from measures_pipeline import pipelines
from measures_portable import kernel_by_kernel, whole
from measures_products import products
from measures_ranks import order_of_sums, scaling, stages
from shoal.read.trace import Trace
from shoal.times import breakdown
from verdicts import Line
from work import WORKS, Work

# Kernels that are matrix products: the layers of src/model/block.cpp and head.cpp, by their labels (forward, _dx, _dw),
# and attention.
PRODUCTS = ("attention", "qkv", "mlp", "head")
DTYPES = ("fp32", "bf16")


def parts(bench: Bench, work: Work, dtype: str) -> list[Line]:
    """A step by part and by kernel, on one rank."""
    name = f"{work.name} {dtype}"
    result = bench.train(bench.deck(work), f"--train.dtype={dtype}", "--trace.level=kernels")
    trace = Trace.read(result.out)
    names, seconds = breakdown.step_parts(trace)
    step = seconds[:, 0].sum()
    lines = [Line(f"{name} {part}", 1e3 * value, "ms", note=f"{100 * value / step:.1f} % of the step")
             for part, value in zip(names, seconds[:, 0], strict=True)]  # fmt: skip
    products = 0.0
    for kernel in breakdown.kernel_times(trace).kernels:
        products += kernel.seconds_per_step if kernel.name.startswith(PRODUCTS) else 0.0
        lines.append(Line(f"{name} kernel {kernel.name}", 1e3 * kernel.seconds_per_step, "ms",
                          note=f"{100 * kernel.share:.1f} % of the step, {kernel.calls_per_step:.0f} calls"))  # fmt: skip
    lines.append(Line(f"{name} outside matrix products", 1 - products / step, "of step", at_most=0.10))
    return lines


def trace_overhead(bench: Bench, work: Work) -> list[Line]:
    """Trace levels comm and kernels against off, in turn."""
    levels = ("off", "comm", "kernels")
    seconds: dict[str, list[float]] = {level: [] for level in levels}
    for turn in range(bench.rounds):
        for level in levels[turn % 3 :] + levels[: turn % 3]:
            seconds[level].append(settled(bench.train(bench.deck(work), f"--trace.level={level}")))
    lines = []
    for level, most in (("comm", 0.01), ("kernels", 0.03)):
        over = [traced / off - 1 for traced, off in zip(seconds[level], seconds["off"], strict=True)]
        lines.append(ratio_line(f"{work.name} trace.level={level} costs", over, "of step", at_most=most))
    return lines


def start_up(bench: Bench, work: Work) -> list[Line]:
    """From the launch to the beginning of the first step, on as many ranks as there are cores, at most two.

    The first line of metrics.jsonl is written at the end of that step and contains its duration.
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
    return [
        Line(
            f"{work.name} start to first step, {ranks} rank{'' if ranks == 1 else 's'}",
            statistics.median(found),
            "s",
            at_most=1,
        )
    ]


def first_line(out: Path) -> bool:
    try:
        return b"\n" in (out / "metrics.jsonl").read_bytes()
    except FileNotFoundError:
        return False


MEASURES = {
    "parts": lambda bench: [line for dtype in DTYPES for line in parts(bench, WORKS["W1"], dtype)],
    "limits": lambda bench: shares(bench, bench.works("W1", "W2", "W3"), DTYPES),
    "products": lambda bench: [line for dtype in DTYPES for line in products(bench, WORKS["W1"], dtype)],
    "scaling": lambda bench: scaling(bench, WORKS["W1"]),
    "stages": lambda bench: [
        line for work in bench.works("W1", "W2") for dtype in DTYPES for line in stages(bench, work, dtype)
    ],
    "pipelines": lambda bench: pipelines(bench, WORKS["W1"]),
    "sums": lambda bench: [line for stage in (0, 3) for line in order_of_sums(bench, WORKS["W1"], stage)],
    "trace": lambda bench: trace_overhead(bench, WORKS["W1"]),
    "memory": lambda bench: [line for dtype in DTYPES for line in memory(bench, WORKS["W1"], dtype)],
    "shards": lambda bench: [line for work in bench.works("W1", "W2") for line in shards(bench, work)],
    "activations": lambda bench: [
        line for work in bench.works("W1", "W2") for stage in (0, 3) for line in activations(bench, work, stage)
    ],
    "start": lambda bench: start_up(bench, WORKS["W1"]),
    "checkpoint": lambda bench: checkpoints(bench, WORKS["W1"]),
    "background": lambda bench: background(bench, WORKS["W1"]),
    "portable": lambda bench: [line for dtype in DTYPES for line in whole(bench, WORKS["W1"], dtype)],
    "kernels": kernel_by_kernel,
}
