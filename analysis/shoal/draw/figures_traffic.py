# SPDX-License-Identifier: Apache-2.0
"""The figures of report.py on communication: by operation, and by unit. As in figures.py, one function draws one
figure."""

from __future__ import annotations

import numpy as np

from shoal.draw import labels as words
from shoal.draw.figures import Nothing
from shoal.draw.styles import PART_COLOURS, bytes_text, operation_colour, plt, rate_text, time_unit
from shoal.read.run_parts import span
from shoal.read.trace import Trace
from shoal.times import traffic
from shoal.times.breakdown import settled_steps

MOST_UNITS = 64  # in the figure; the table has all units


def communication(trace: Trace):
    operations = [op for op in traffic.operations(trace) if op.calls_per_step]
    if not operations:
        level = f"trace.level = {trace.level}, and messages are recorded from comm on"
        raise Nothing(
            f"no messages in the trace: {level if trace.level in ('off', 'steps') else 'one rank, or no step'}"
        )
    labels = [f"{op.name}\n{words.group(op.group)}" if op.group else op.name for op in operations]
    rows = np.arange(len(operations))
    figure, (left, right) = plt.subplots(1, 2, sharey=True, figsize=(8.4, 1.7 + 0.55 * len(operations)))
    for axes, values, texts, title in (
        (left, [op.bytes_per_step for op in operations], bytes_text, "Bytes sent per step"),
        (right, [op.bandwidth for op in operations], rate_text, "Bandwidth while in flight"),
    ):
        axes.barh(rows, values, height=0.62, color=[operation_colour(op.name) for op in operations])
        for row, value in zip(rows, values, strict=True):
            axes.annotate(texts(value), (value, row), (4, 0), textcoords="offset points", va="center", fontsize=9)
        axes.set(title=title, xlim=(0, 1.3 * max(max(values), 1)), yticks=rows)
        axes.tick_params(labelbottom=False, length=0)
        axes.grid(visible=False)
        axes.spines["bottom"].set_visible(False)
    figure.suptitle(f"of a rank, mean of steps {span(settled_steps(trace))}", x=0.01, ha="left", fontsize=9)
    left.set_yticks(rows, labels)
    left.invert_yaxis()
    return figure


def units(trace: Trace):
    """Draws a bar for each unit and operation: first the time that a rank waited, then the time hidden behind
    computation."""
    rows = [op for op in traffic.unit_operations(trace) if op.name != "release"]
    if not rows:
        raise Nothing("no messages of single units in the trace")
    shown = sorted({op.unit for op in rows})[:MOST_UNITS]
    rows = [op for op in rows if op.unit in shown]
    operations = sorted({op.name for op in rows})
    colours = {name: operation_colour(name) for name in operations}
    factor, unit = time_unit(max(op.open_per_step for op in rows))
    height = 0.8 / len(operations)
    figure, axes = plt.subplots(figsize=(8.4, 1.6 + (0.16 + 0.2 * len(operations)) * len(shown)))
    for op in rows:
        y = shown.index(op.unit) - 0.4 + height * (operations.index(op.name) + 0.5)
        exposed = op.exposed_in_flight
        axes.barh(y, exposed * factor, height=0.92 * height, color=PART_COLOURS["wait"])
        axes.barh(y, (op.open_per_step - exposed) * factor, left=exposed * factor, height=0.92 * height,
                  color=colours[op.name])  # fmt: skip
        axes.annotate(bytes_text(op.bytes_per_step), (op.open_per_step * factor, y), (4, 0), va="center", fontsize=8,
                      textcoords="offset points")  # fmt: skip
    for name in operations:
        axes.barh(0, 0, color=colours[name], label=f"{name}, overlapped")
    axes.barh(0, 0, color=PART_COLOURS["wait"], label=words.part("wait"))
    first = f", the first {MOST_UNITS}" if len({op.unit for op in traffic.unit_operations(trace)}) > MOST_UNITS else ""
    axes.set(title=f"Communication by unit{first}, mean of steps {span(settled_steps(trace))}",
             xlabel=f"{unit} in flight per step; bytes sent by a rank. A message of several units counts for one of them",
             ylim=(len(shown) - 0.4, -0.6), xlim=(0, 1.12 * max(op.open_per_step for op in rows) * factor))  # fmt: skip
    axes.set_yticks(range(len(shown)), [str(trace.units[u]) for u in shown])
    axes.grid(axis="y", visible=False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure
