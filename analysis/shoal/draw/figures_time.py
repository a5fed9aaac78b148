# SPDX-License-Identifier: Apache-2.0
"""The figures of report.py on the parts of a resumed run, and on the clocks of its nodes."""

from __future__ import annotations

import numpy as np

from shoal.draw.figures import Nothing
from shoal.draw.styles import FAINT, LINE_COLOURS, PLAIN, REPEATED, RESTART, plain, plt, time_unit
from shoal.read.run import Run
from shoal.read.run_parts import span
from shoal.times import restarts


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
