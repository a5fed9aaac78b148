# SPDX-License-Identifier: Apache-2.0
"""Matrix products within a step, compared with oneDNN alone on the same shapes (products_alone.cpp)."""

from __future__ import annotations

import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from bench_session import Bench, quick, ratio_line
from launch import RunFailed, finish, pinned
from shoal.read.trace import Trace
from shoal.times.breakdown import settled_steps
from verdicts import Line
from work import Work


def shapes(work: Work, dtype: str) -> Iterator[tuple[str, ...]]:
    """The products of src/model/block.cpp and head.cpp, in the form that products_alone.cpp reads: label, m, n, k,
    whether A and B are transposed, the type of the operands, the type of the result, and what is added (a bias, the
    contents of C)."""
    rows, c = work.tokens_per_step, work.width
    # attention_out and mlp_out are added to a copy of the residual.
    for label, into, out, adds in (
        ("qkv", c, 3 * c, "bias"),
        ("attention_out", c, c, "bias,c"),
        ("mlp", c, 4 * c, "bias"),
        ("mlp_out", 4 * c, c, "bias,c"),
    ):
        yield label, rows, out, into, "n", "n", dtype, dtype, adds
        yield label + "_dx", rows, into, out, "n", "t", dtype, dtype, "-"
        yield label + "_dw", into, out, rows, "t", "n", dtype, "fp32", "-"
    # With this few symbols all rows are one chunk.
    yield "head", rows, work.rows, c, "n", "t", dtype, "fp32", "-"
    yield "head_dx", rows, c, work.rows, "n", "n", dtype, dtype, "-"
    yield "head_dw", work.rows, c, rows, "t", "n", dtype, "fp32", "-"


def alone(bench: Bench, work: Work, dtype: str) -> dict[str, float]:
    """Seconds per call, by label."""
    program = bench.shoal.program.parent / "tests" / "bench" / "products_alone"
    if not program.is_file():
        raise RunFailed(f"{program}: no such program (cmake --build BUILD --target products_alone)")
    asked = bench.scratch / "products.txt"
    bench.scratch.mkdir(parents=True, exist_ok=True)
    asked.write_text("".join(" ".join(map(str, shape)) + "\n" for shape in shapes(work, dtype)))
    process = subprocess.Popen([program, asked], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               preexec_fn=pinned(bench.cpus[:1]))  # fmt: skip
    lines = [line.split() for line in finish(process, "products_alone", 600).splitlines()]
    return {label: quick([float(value) for value in seconds]) for label, *seconds in lines}


def in_run(bench: Bench, work: Work, dtype: str) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds per call and calls per step, by label."""
    trace = Trace.read(bench.train(bench.deck(work), f"--train.dtype={dtype}", "--trace.level=kernels").out)
    steps = settled_steps(trace)
    events = trace.of_kind("kernel", rank=0)
    events = events[np.isin(events["step"], steps)]
    seconds, calls = {}, {}
    for label, *_ in shapes(work, dtype):
        these = events["duration_ns"][trace.names[events["name"]] == label]
        if not len(these):
            raise RunFailed(f"the trace has no kernel {label}: measures_products.py and src/model disagree")
        seconds[label], calls[label] = quick(these / 1e9), len(these) / len(steps)
    return seconds, calls


def products(bench: Bench, work: Work, dtype: str) -> list[Line]:
    """Measured in turn. Both sides are the lower quartile over calls, in wall-clock time; a step's products are the sum
    of calls times that."""
    ratios = []
    of_label: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for turn in range(bench.rounds):
        if turn % 2 == 0:
            own, (ran, calls) = alone(bench, work, dtype), in_run(bench, work, dtype)
        else:
            (ran, calls), own = in_run(bench, work, dtype), alone(bench, work, dtype)
        ratios.append(sum(calls[k] * own[k] for k in calls) / sum(calls[k] * ran[k] for k in calls))
        for label in calls:
            of_label[label].append((own[label], ran[label]))
    name = f"{work.name} {dtype} products"
    lines = []
    for label, pairs in of_label.items():
        own, ran = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
        lines.append(Line(f"{name}: {label}", statistics.median(a / r for a, r in pairs), "x",
                          note=f"{own:.2f} ms alone, {ran:.2f} ms in the step"))  # fmt: skip
    lines.append(ratio_line(f"{name}: oneDNN alone / in the step", ratios, note="time", at_least=0.95))
    return lines
