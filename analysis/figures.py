# SPDX-License-Identifier: Apache-2.0
"""The figures of report.py and compare.py. Cool colours compute, warm ones communicate; a part has one colour everywhere.

Every function draws one figure and returns it; what cannot be drawn raises Nothing with the reason, in words.
"""

from __future__ import annotations

import matplotlib
import numpy as np

import breakdown
from run_options import period_of
from shoal_run import Run
from shoal_trace import Trace

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

PART_COLOURS = {
    "data": "#9db4c0",
    "forward": "#5b8fc7",
    "recompute": "#a9c4e4",
    "backward": "#2b5c9e",
    "optimizer": "#3b9c83",
    "clip": "#8ccfb8",
    "release": "#c9ccd1",
    "reduce": "#f2b138",
    "publish": "#f6d27a",
    "losses": "#e8884a",
    "wait": "#d1495b",
    "rest": "#dcdfe4",
}
OTHER_COLOURS = ("#8e6bb0", "#b59ccd", "#a97155", "#c9a58f")
LINE_COLOURS = ("#2b5c9e", "#e0803a", "#3b9c83", "#d1495b", "#8e6bb0", "#a97155", "#5b8fc7", "#6b7280")
INK, FAINT = "#222831", "#6b7280"

plt.rcParams.update(
    {
        "figure.figsize": (8.4, 3.8),
        "figure.dpi": 110,
        "savefig.dpi": 160,
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "font.family": "DejaVu Sans",
        "axes.titlesize": 11.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.labelcolor": FAINT,
        "axes.edgecolor": "#b8bec7",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e8ebef",
        "text.color": INK,
        "xtick.color": FAINT,
        "ytick.color": FAINT,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
    }
)


class Nothing(Exception):
    """There is nothing to draw, and why."""


def scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    """A value in the largest unit that leaves it at least 1, with three figures."""
    for factor, unit in units:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {unit}" if abs(value) < 999.5 * factor else f"{value / factor:.0f} {unit}"
    return f"{value / units[-1][0]:.3g} {units[-1][1]}"


def bytes_text(value: float) -> str:
    return scaled(value, ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")))


def rate_text(value: float) -> str:
    return scaled(value, ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")))


def seconds_text(value: float) -> str:
    return scaled(value, ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")))


def time_unit(largest: float) -> tuple[float, str]:
    return (1.0, "s") if largest >= 2 else (1e3, "ms") if largest >= 2e-3 else (1e6, "µs")


def whole_numbers(axis) -> None:
    axis.set_major_locator(MaxNLocator(integer=True))


def smoothed(values: np.ndarray) -> np.ndarray:
    """A centred running mean over about a fortieth of the run; shorter windows at the ends."""
    half = max(1, len(values) // 80)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    low = np.maximum(np.arange(len(values)) - half, 0)
    high = np.minimum(np.arange(len(values)) + half + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)


def loss(run: Run):
    steps, losses = run.losses
    if not len(steps):
        raise Nothing("no losses: neither summary.json nor metrics.jsonl has any")
    figure, axes = plt.subplots()
    noisy = len(steps) >= 80 and bool(np.isfinite(losses).all())
    axes.plot(steps, losses, color=LINE_COLOURS[0], alpha=0.3 if noisy else 1, lw=1 if noisy else 1.8,
              marker="o" if len(steps) < 12 else "", ms=4, label=None if noisy else "training")  # fmt: skip
    if noisy:
        axes.plot(steps, smoothed(losses), color=LINE_COLOURS[0], label="training (running mean)")
    val_steps, val_losses = run.val_losses
    if len(val_steps):
        axes.plot(val_steps, val_losses, color=LINE_COLOURS[1], marker="o", ms=4, label="validation")
    if run.entropy_rate is not None:
        axes.axhline(run.entropy_rate, color=FAINT, ls=(0, (4, 3)), lw=1.2,
                     label=f"entropy of the data: {run.entropy_rate:.4f}")  # fmt: skip
    axes.set(title="Loss", xlabel="step", ylabel="nats per token")
    whole_numbers(axes.xaxis)
    axes.legend(loc="upper right")
    return figure


def tokens_per_s(run: Run):
    steps, rates = run.tokens_per_s
    if not len(steps):
        raise Nothing("no tokens/s: metrics.jsonl has none, and the trace has no steps")
    figure, axes = plt.subplots()
    median = float(np.median(rates))
    axes.plot(steps, rates, color=LINE_COLOURS[0], lw=1.2)
    axes.axhline(median, color=LINE_COLOURS[1], lw=1.2, ls=(0, (4, 3)))
    axes.annotate(f"median {median:,.0f}", (1, median), (0, 4), xycoords=("axes fraction", "data"),
                  textcoords="offset points", ha="right", color=LINE_COLOURS[1], fontsize=9)  # fmt: skip
    axes.set(title="Throughput, all ranks together", xlabel="step", ylabel="tokens/s", ylim=(0, 1.12 * rates.max()))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    whole_numbers(axes.xaxis)
    return figure


def part_colours(parts: list[str]) -> list[str]:
    others = iter(OTHER_COLOURS * len(parts))
    return [PART_COLOURS.get(part) or next(others) for part in parts]


def step_parts(trace: Trace):
    parts, seconds = breakdown.step_parts(trace)
    if not seconds.size or not seconds.any():
        raise Nothing("the trace has no steps")
    ranks = np.arange(trace.world_size)
    figure, axes = plt.subplots(figsize=(8.4, 1.9 + 0.42 * min(trace.world_size, 24)))
    factor, unit = time_unit(seconds.sum(axis=0).max())
    left = np.zeros(trace.world_size)
    longest = seconds.sum(axis=0).max()
    for part, colour, row in zip(parts, part_colours(parts), seconds, strict=True):
        axes.barh(ranks, row * factor, left=left * factor, height=0.72, color=colour, edgecolor="white", lw=0.6,
                  label="exposed communication" if part == "wait" else part)  # fmt: skip
        if trace.world_size <= 16:
            dark = part in ("forward", "backward", "optimizer", "wait")
            for rank in ranks[row > 0.045 * longest]:
                axes.text((left[rank] + row[rank] / 2) * factor, rank, f"{row[rank] * factor:.3g}", ha="center",
                          va="center", fontsize=8, color="white" if dark else INK)  # fmt: skip
        left += row
    hosts = trace.hosts if len(set(trace.hosts)) > 1 else []
    axes.set(title="Where a step's time goes", xlabel=f"{unit} per step (mean)", ylabel="rank", xlim=(0, None))
    if trace.world_size <= 24:
        axes.set_yticks(ranks, [f"{rank} · {hosts[rank]}" if hosts else str(rank) for rank in ranks])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def memory(trace: Trace):
    marks = breakdown.memory(trace)
    if not marks:
        raise Nothing("the trace has no memory marks (counters named memory/...)")
    figure, axes = plt.subplots()
    order = sorted(marks, key=lambda name: -max(values.max() for _, values in marks[name].values()))
    colours = iter(LINE_COLOURS * len(order))
    for name in order:
        rank, (seconds, values) = max(marks[name].items(), key=lambda item: item[1][1].max())
        of = f" (rank {rank})" if trace.world_size > 1 else ""
        axes.step(seconds, values / 2**20, where="post", color=next(colours), marker="o" if len(seconds) < 3 else "",
                  ms=4, label=f"{name}{of}: {bytes_text(values.max())}")  # fmt: skip
    axes.set(title="Memory, each mark on the rank that has most", xlabel="s since the start", ylabel="MiB",
             ylim=(0, None))  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def step_times(run: Run):
    _, seconds = run.step_seconds
    if len(seconds) < 3:
        raise Nothing(f"{len(seconds)} step times: too few for a distribution")
    settled = seconds[1:]
    factor, unit = time_unit(float(np.median(settled)))
    figure, axes = plt.subplots(figsize=(8.4, 3.2))
    axes.hist(settled * factor, bins=min(60, max(8, len(settled) // 4)), color=PART_COLOURS["forward"],
              edgecolor="white", lw=0.6)  # fmt: skip
    top = axes.get_ylim()[1]
    for i, (share, name) in enumerate(((50, "median"), (95, "95 %"))):
        value = float(np.percentile(settled, share)) * factor
        axes.axvline(value, color=LINE_COLOURS[1], lw=1.2, ls=(0, (4, 3)))
        axes.annotate(f" {name} {value:.3g} {unit}", (value, top * (0.97 - 0.1 * i)), va="top", fontsize=9,
                      color=LINE_COLOURS[1])  # fmt: skip
    axes.set(title="Step times, the first left out", xlabel=f"{unit} (slowest rank)", ylabel="steps")
    whole_numbers(axes.yaxis)
    return figure


def comparison(runs: list[Run], labels: list[str]):
    """Losses of several runs, and their tokens/s."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), width_ratios=(3, 2))
    for run, label, colour in zip(runs, labels, LINE_COLOURS * len(runs), strict=False):
        steps, losses = run.losses
        left.plot(steps, smoothed(losses) if len(steps) >= 80 else losses, color=colour, label=label, alpha=0.85)
        val_steps, val_losses = run.val_losses
        if len(val_steps):
            left.plot(val_steps, val_losses, color=colour, ls="", marker="o", ms=4)
    left.set(title="Loss (dots: validation)", xlabel="step", ylabel="nats per token")
    left.legend(fontsize=9)
    whole_numbers(left.xaxis)
    rows = np.arange(len(runs))
    rates = [throughput(run) for run in runs]
    right.barh(rows, rates, height=0.62, color=(LINE_COLOURS * len(runs))[: len(runs)])
    for row, rate in zip(rows, rates, strict=True):
        right.annotate(f"{rate:,.0f}" if rate else "unknown", (rate, row), (4, 0), textcoords="offset points",
                       va="center", fontsize=9)  # fmt: skip
    right.set(title="tokens/s", xlim=(0, 1.25 * max(max(rates), 1)))
    right.set_yticks(rows, labels)
    right.tick_params(labelbottom=False, length=0)
    right.grid(visible=False)
    right.invert_yaxis()
    return figure


def throughput(run: Run) -> float:
    """Tokens/s, 0 where nothing tells it: the median over steps, where nodes meet now and then the mean."""
    seconds = run.mean_step_seconds
    if period_of(run.options) > 1 and seconds and run.tokens_per_step:
        return run.tokens_per_step / seconds
    if run.summary.get("tokens_per_s"):
        return float(run.summary["tokens_per_s"])
    _, rates = run.tokens_per_s
    return float(np.median(rates)) if len(rates) else 0.0
