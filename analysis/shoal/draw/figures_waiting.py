# SPDX-License-Identifier: Apache-2.0
"""The figures of report.py on exposed communication: late ranks and transfers, and the critical path."""

from __future__ import annotations

import numpy as np

from shoal.draw import labels as words
from shoal.draw.figures import Nothing, part_colours
from shoal.draw.styles import LATE, PART_COLOURS, TRANSFER, plain, plt, seconds_text, time_unit
from shoal.read.run_parts import span
from shoal.read.trace import Trace
from shoal.times import late_ranks
from shoal.times.breakdown import PARTS, settled_steps

MOST_RANKS = 12  # in the picture of the critical path


def waiting(trace: Trace):
    """Of each operation: how long a rank waited for the last one to enter it, and for the transfer."""
    operations = late_ranks.exposed(trace, late_ranks.split_waits(trace))
    if not any(op.seconds for op in operations):
        raise Nothing("no waits for messages in the trace")
    factor, unit = time_unit(max(op.seconds for op in operations))
    rows = np.arange(len(operations))
    figure, axes = plt.subplots(figsize=(8.4, 1.5 + 0.42 * len(operations)))
    left = np.zeros(len(rows))
    for name, colour, label in (("late", LATE, "for a late rank"), ("transfer", TRANSFER, "for the transfer"),
                                ("computing", PART_COLOURS["rest"], "between its messages")):  # fmt: skip
        values = np.array([getattr(op, name) for op in operations]) * factor
        if name != "computing" or values.any():
            axes.barh(rows, values, left=left, height=0.62, color=colour, label=label)
        left += values
    for row, op in zip(rows, operations, strict=True):
        axes.annotate(seconds_text(op.seconds), (op.seconds * factor, row), (4, 0), textcoords="offset points", va="center",
                      fontsize=9)  # fmt: skip
    axes.set(title=f"Waiting for communication, mean of steps {span(settled_steps(trace))}",
             xlabel=f"{unit} per step, mean of ranks", xlim=(0, 1.2 * max(op.seconds for op in operations) * factor))  # fmt: skip
    axes.set_yticks(rows, [_label(op.name, op.group) for op in operations])
    axes.grid(axis="y", visible=False)
    axes.invert_yaxis()
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def _label(name: str, group: str) -> str:
    return f"{name}, {words.group(group)}" if group else name


def critical_path(trace: Trace):
    """Whose work and which transfers the critical path of a mean step consists of."""
    path = late_ranks.critical_path(trace, late_ranks.split_waits(trace))
    if not path.work:
        raise Nothing("the trace has no steps")
    ranks = list(path.of_ranks())[:MOST_RANKS]
    parts = sorted({part for _, part in path.work}, key=lambda part: PARTS.index(part) if part in PARTS else len(PARTS))
    factor, unit = time_unit(path.seconds)
    rows = len(ranks) + 1
    figure, axes = plt.subplots(figsize=(8.4, 1.5 + 0.42 * rows))
    for part, colour in zip(parts, part_colours(parts), strict=True):
        values = np.array([path.work.get((rank, part), 0.0) * factor for rank in ranks])
        left = np.array(
            [sum(path.work.get((rank, other), 0.0) for other in parts[: parts.index(part)]) * factor for rank in ranks]
        )
        axes.barh(range(len(ranks)), values, left=left, height=0.62, color=colour, label=words.part(part))
    transfer = sum(path.transfer.values()) * factor
    axes.barh(rows - 1, transfer, height=0.62, color=TRANSFER, label="transfer")
    sums = [*(path.of_ranks()[rank] * factor for rank in ranks), transfer]
    for row, value in enumerate(sums):
        axes.annotate(f"{plain(100 * value / factor / path.seconds)} %", (value, row), (4, 0), textcoords="offset points",
                      va="center", fontsize=9)  # fmt: skip
    axes.set(title=f"Critical path, mean of steps {span(settled_steps(trace))}", xlabel=f"{unit} per step",
             xlim=(0, 1.2 * max(sums)))  # fmt: skip
    axes.set_yticks(range(rows), [*(f"rank {rank}" for rank in ranks), "transfer"])
    axes.grid(axis="y", visible=False)
    axes.invert_yaxis()
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure
