# SPDX-License-Identifier: Apache-2.0
"""The figures of report.py and compare.py. Every function draws one figure and returns it, or raises Nothing with a
sentence that explains why there is nothing to draw. Every title or label names the steps that a mean is taken over."""

from __future__ import annotations

import numpy as np

from shoal.draw import curves
from shoal.draw import labels as words
from shoal.draw.curves import smoothed, window
from shoal.draw.styles import (
    INK,
    LINE_COLOURS,
    OTHER_COLOURS,
    PART_COLOURS,
    bytes_text,
    dashes,
    line_colours,
    plain,
    plt,
    time_unit,
    whole_numbers,
)
from shoal.read.run import Run
from shoal.read.run_parts import span
from shoal.read.trace import Trace
from shoal.times import breakdown

MOST_RANKS = 24  # with a bar for each
PERCENTILES = (
    (0, "least work"),
    (5, "5 %"),
    (25, "25 %"),
    (50, "median"),
    (75, "75 %"),
    (95, "95 %"),
    (100, "most work"),
)


class Nothing(Exception):
    """There is nothing to draw; the message explains why."""


def part_colours(parts: list[str]) -> list[str]:
    others = iter(OTHER_COLOURS * len(parts))
    return [PART_COLOURS.get(part) or next(others) for part in parts]


def step_parts(trace: Trace):
    parts, seconds = breakdown.step_parts(trace)
    if not seconds.size or not seconds.any():
        raise Nothing("the trace has no steps")
    if trace.world_size > MOST_RANKS:
        return step_parts_by_percentile(trace, parts, seconds)
    ranks = np.arange(trace.world_size)
    figure, axes = plt.subplots(figsize=(8.4, 1.9 + 0.42 * trace.world_size))
    factor, unit = time_unit(seconds.sum(axis=0).max())
    left = np.zeros(trace.world_size)
    longest = seconds.sum(axis=0).max()
    for part, colour, row in zip(parts, part_colours(parts), seconds, strict=True):
        axes.barh(ranks, row * factor, left=left * factor, height=0.72, color=colour, edgecolor="white", lw=0.6,
                  label=words.part(part))  # fmt: skip
        if trace.world_size <= 16:
            dark = part in ("forward", "backward", "optimizer", "wait")
            for rank in ranks[row > 0.045 * longest]:
                axes.text((left[rank] + row[rank] / 2) * factor, rank, plain(row[rank] * factor), ha="center",
                          va="center", fontsize=8, color="white" if dark else INK)  # fmt: skip
        left += row
    hosts = trace.hosts if len(set(trace.hosts)) > 1 else []
    settled = breakdown.settled_steps(trace)
    axes.set(
        title=f"Where a step's time goes, mean of steps {span(settled)}",
        xlabel=f"{unit} per step (mean)",
        ylabel="rank",
        xlim=(0, None),
    )
    axes.set_yticks(ranks, [f"{rank} · {hosts[rank]}" if hosts else str(rank) for rank in ranks])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def step_parts_by_percentile(trace: Trace, parts: list[str], seconds: np.ndarray):
    """A bar for each of a few ranks, in the order of their own work (the step without its waits)."""
    work = seconds.sum(axis=0) - (seconds[parts.index("wait")] if "wait" in parts else 0)
    order = np.argsort(work, kind="stable")
    places = [order[round(percent / 100 * (len(order) - 1))] for percent, _ in PERCENTILES]
    figure, axes = plt.subplots(figsize=(8.4, 1.9 + 0.42 * len(places)))
    factor, unit = time_unit(seconds.sum(axis=0).max())
    left = np.zeros(len(places))
    for part, colour, row in zip(parts, part_colours(parts), seconds[:, places] * factor, strict=True):
        axes.barh(
            range(len(places)),
            row,
            left=left,
            height=0.72,
            color=colour,
            edgecolor="white",
            lw=0.6,
            label=words.part(part),
        )
        left += row
    axes.set(title=f"Where a step's time goes on {trace.world_size} ranks, mean of steps {span(breakdown.settled_steps(trace))}",
             xlabel=f"{unit} per step (mean); percentiles of ranks by their own work, without waiting", xlim=(0, None))  # fmt: skip
    hosts = [f" · {trace.hosts[rank]}" if len(set(trace.hosts)) > 1 else "" for rank in places]
    axes.set_yticks(range(len(places)), [f"{name}: rank {rank}{host}" for (_, name), rank, host
                                         in zip(PERCENTILES, places, hosts, strict=True)])  # fmt: skip
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
    for name, colour in zip(order, line_colours(len(order)), strict=True):
        rank, (seconds, values) = max(marks[name].items(), key=lambda item: item[1][1].max())
        of = f" (rank {rank})" if trace.world_size > 1 else ""
        axes.step(seconds, values / 2**20, where="post", color=colour, marker="o" if len(seconds) < 3 else "",
                  ms=4, label=f"{words.memory(name)}{of}: {bytes_text(values.max())}")  # fmt: skip
    axes.set(title=f"Memory over time, steps {span(trace.steps)} (largest rank)",
             xlabel=f"s since the start of this part of the run ({trace.path.name})", ylabel="MiB",
             ylim=(0, None))  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def step_times(run: Run):
    steps, seconds = run.step_seconds
    if len(seconds) < 3:
        raise Nothing(f"{len(seconds)} step times: too few for a distribution")
    parts = [part[1:] for part in np.split(np.arange(len(steps)), np.searchsorted(steps, run.starts)) if len(part) > 1]
    if not parts:
        raise Nothing("step times: no part of the run has more than its first step, which does not count")
    counted = np.concatenate(parts)
    factor, unit = time_unit(float(np.median(seconds[counted])))
    figure, axes = plt.subplots(figsize=(8.4, 3.2))
    colours = [PART_COLOURS["forward"]] if len(parts) == 1 else line_colours(len(parts))
    labels = ["_nolegend_"] if len(parts) == 1 else [f"steps {span(steps[part])}" for part in parts]
    axes.hist([seconds[part] * factor for part in parts], bins=min(60, max(8, len(counted) // 4)), color=colours,
              stacked=True, edgecolor="white", lw=0.6, label=labels)  # fmt: skip
    if len(parts) == 1:
        mark_middle(axes, seconds[counted] * factor, unit)
    first = "the first" if len(run.starts) < 2 else "the first of each part"
    axes.set(title=f"Step times, steps {span(steps)} without {first}", ylabel="steps",
             xlabel=f"{unit} ({'slowest rank' if run.parts else 'rank 0'})")  # fmt: skip
    whole_numbers(axes.yaxis)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def mark_middle(axes, values: np.ndarray, unit: str) -> None:
    marks = (("median", np.median(values)), ("mean", np.mean(values)), ("95th percentile", np.percentile(values, 95)))
    for (name, value), colour in zip(marks, LINE_COLOURS[1:], strict=False):
        axes.axvline(value, color=colour, lw=1.2, ls=(0, (4, 3)), label=f"{name} {plain(value)} {unit}")


def comparison(runs: list[Run], labels: list[str]):
    """Draws the losses of several runs, and their tokens/s."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), width_ratios=(3, 2))
    colours = line_colours(len(runs))
    over = window([len(run.losses[0]) for run in runs])
    placed = curves.places([run.losses for run in runs], labels)
    for run, label, colour, place in zip(runs, labels, colours, placed, strict=True):
        draw_losses(left, run, f"{label} ({place.remark})" if place.remark else label, colour, place, over)
    smooth = f" (running mean of {over} steps)" if over > 1 else ""
    left.set(title=f"Loss{smooth}; marks: validation", xlabel="step", ylabel="nats per token")
    left.legend(fontsize=8)
    whole_numbers(left.xaxis)
    draw_rates(right, [run.throughput for run in runs], labels, colours)
    return figure


def draw_losses(axes, run: Run, label: str, colour: str, place: curves.Place, over: int) -> None:
    """Draws one run's losses. If lines coincide, the first is solid and wider and the others are dashed, so that all
    are visible."""
    steps, losses = run.losses
    marker = {"marker": "o", "ms": 4 + 3 * (place.count > 1 and place.place == 0)} if len(steps) == 1 else {}
    (line,) = axes.plot(steps, smoothed(losses, over), color=colour, ls=dashes(place.place, place.count),
                        lw=3.2 if place.count > 1 and place.place == 0 else 1.8, **marker)  # fmt: skip
    line.set_label("_" + label)  # hidden: the legend is too short for these dashes, the next line is its entry
    axes.plot([], [], color=colour, lw=line.get_linewidth(), ls="-" if place.place == 0 else (0, (2, 1)), label=label)
    val_steps, val_losses = run.val_losses
    if len(val_steps):  # rings around the marks of the lines below
        axes.plot(val_steps, val_losses, color=colour, ls="", marker="o", ms=4 + 3 * place.place, mew=1.3,
                  mfc=colour if place.place == 0 else "none")  # fmt: skip


def draw_rates(axes, rates: list[float | None], labels: list[str], colours: list[str]) -> None:
    rows = np.arange(len(rates))
    axes.barh(rows, [rate or 0 for rate in rates], height=0.62, color=colours)
    for row, rate in zip(rows, rates, strict=True):
        axes.annotate(f"{rate:,.0f}" if rate else "unknown", (rate or 0, row), (4, 0), textcoords="offset points",
                      va="center", fontsize=9)  # fmt: skip
    axes.set(title="tokens/s, mean of settled steps", xlim=(0, 1.25 * max([rate for rate in rates if rate] or [1])))
    axes.set_yticks(rows, labels)
    axes.tick_params(labelbottom=False, length=0)
    axes.grid(visible=False)
    axes.invert_yaxis()
