# SPDX-License-Identifier: Apache-2.0
"""The figures of report.py on learning rate, gradient norm and utilization, and on the parts of a resumed run."""

from __future__ import annotations

import numpy as np

from shoal.draw.curves import smoothed, window
from shoal.draw.figures import Nothing, borders
from shoal.draw.styles import FAINT, LINE_COLOURS, PLAIN, REPEATED, RESTART, plain, plt, time_unit, whole_numbers
from shoal.read.run import Run
from shoal.read.run_parts import span
from shoal.times import restarts


def _over_steps(run: Run, steps: np.ndarray, values: np.ndarray, title: str, ylabel: str, colour: str, smooth: bool):
    figure, axes = plt.subplots(figsize=(8.4, 3.0))
    over = window([len(steps)]) if smooth else 1
    few = {"marker": "o", "ms": 4} if len(steps) < 12 else {}
    axes.plot(steps, values, color=colour, alpha=0.3 if over > 1 else 1, lw=1 if over > 1 else 1.8,
              label="step by step", **few)  # fmt: skip
    if over > 1:
        axes.plot(steps, smoothed(values, over), color=colour, label=f"running mean of {over} steps")
    borders(axes, run)
    finite = values[np.isfinite(values)]
    axes.set(title=f"{title}, steps {span(steps)}", xlabel="step", ylabel=ylabel)
    if len(finite) and finite.min() >= 0:
        axes.set_ylim(0, (1.2 * finite.max()) or 1)
    axes.yaxis.set_major_formatter(PLAIN)
    whole_numbers(axes.xaxis)
    if over > 1 or len(run.starts) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def learning_rate(run: Run):
    steps, values = run.series("lr")
    if not len(steps):
        raise Nothing("no learning rate: metrics.jsonl has none")
    return _over_steps(run, steps, values, "Learning rate", "learning rate", LINE_COLOURS[2], smooth=False)


def gradient_norm(run: Run):
    steps, values = run.series("grad_norm")
    if not len(steps):
        raise Nothing("no gradient norm: metrics.jsonl has none")
    figure = _over_steps(run, steps, values, "Norm of the gradient", "norm", LINE_COLOURS[4], smooth=True)
    lost = steps[~np.isfinite(values)]
    if len(lost):
        axes = figure.axes[0]
        axes.plot(
            lost, np.zeros(len(lost)), ls="", marker="x", color=LINE_COLOURS[3], label="not finite", clip_on=False
        )
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def utilization(run: Run):
    """MFU: the model's operations per second, as a share of the peak that the program measured at its start."""
    steps, values = run.utilization
    if not len(steps):
        raise Nothing("no trace that names the peak of its ranks")
    figure = _over_steps(run, steps, 100 * values, "Utilization of the measured peak (MFU)", "% of the peak", LINE_COLOURS[0],
                         smooth=True)  # fmt: skip
    return figure


def parts_in_time(run: Run):
    """Every part of a resumed run on one time line, with the time that restarts cost."""
    found = restarts.segments(run.begun)
    if len(found) < 2:
        raise Nothing("the run was not resumed")
    whole = restarts.lost(found)
    factor, unit = time_unit(whole.whole_seconds)
    figure, axes = plt.subplots(figsize=(8.4, 1.6 + 0.42 * len(found)))
    colours = {"steps that count": LINE_COLOURS[0], "steps made once more later": REPEATED,
               "from end to first step": RESTART}  # fmt: skip
    for row, part in enumerate(found):
        numbers, begins, ends = restarts.step_spans(part.trace)
        again = np.isin(numbers, part.repeated)
        zero = part.begin
        if part.restart_seconds:
            axes.barh(row, part.restart_seconds * factor, left=(part.first_step - part.restart_seconds) * factor,
                      height=0.5, color=colours["from end to first step"])  # fmt: skip
        for chosen, name in ((~again, "steps that count"), (again, "steps made once more later")):
            if chosen.any():
                left, right = zero + begins[chosen].min() / 1e9, zero + ends[chosen].max() / 1e9
                axes.barh(row, (right - left) * factor, left=left * factor, height=0.5, color=colours[name])
    for name, colour in colours.items():
        axes.barh(0, 0, color=colour, label=name)
    axes.set_yticks(
        range(len(found)), [f"{place + 1}: steps {span(part.trace.steps)}" for place, part in enumerate(found)]
    )
    axes.set(title=f"Parts of the run, {plain(100 * whole.share)} % of the time lost to restarts",
             xlabel=f"{unit} since the start of the first part", xlim=(0, None))  # fmt: skip
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def clocks(trace):
    """How far the clock of each node runs ahead of that of rank 0's node."""
    found = trace.clocks
    if found is None or len(found.hosts) < 2:
        raise Nothing("clocks: one node, or no readings in the trace")
    if len(found.seconds) < 2:
        raise Nothing("clocks: a single reading, so no drift is known")
    figure, axes = plt.subplots(figsize=(8.4, 3.0))
    micro = found.offsets_ns / 1e3
    if len(found.hosts) <= 8:
        for host, colour in zip(range(1, len(found.hosts)), LINE_COLOURS, strict=False):
            axes.plot(found.seconds, micro[:, host], color=colour, marker="o", ms=4, label=found.hosts[host])
    else:
        low, middle, high = np.percentile(micro[:, 1:], (5, 50, 95), axis=1)
        axes.fill_between(
            found.seconds, low, high, color=LINE_COLOURS[0], alpha=0.25, lw=0, label="5th to 95th percentile"
        )
        axes.plot(found.seconds, middle, color=LINE_COLOURS[0], marker="o", ms=4, label="median node")
    axes.axhline(0, color=FAINT, lw=1)
    axes.set(title="Clocks of the nodes", xlabel=f"s since the start of this part of the run ({trace.path.name})",
             ylabel=f"µs ahead of {found.hosts[0]}")  # fmt: skip
    axes.yaxis.set_major_formatter(PLAIN)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure
