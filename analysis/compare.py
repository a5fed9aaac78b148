#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares runs: loss, tokens/s, memory and bytes sent, and the options in which they differ.

usage: compare.py RUN RUN ... [-o FILE.png]

Each RUN is an output directory or a trace file. Losses are compared bit for bit with those of the first run: strategies
that only move data must agree exactly, so the table names the first step that differs. Rates are computed in the same
way for all runs: tokens of a step, divided by the mean time of the settled steps. Prints a table and draws FILE
(default: compare.png); lines that coincide are dashed there, and the legend names them.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from shoal.program import packages, run_main

packages("h5py", "numpy", "matplotlib")

import numpy as np

from shoal.draw import figures
from shoal.draw.styles import bytes_text
from shoal.draw.text_table import aligned
from shoal.read.bad_input import BadInput
from shoal.read.run import Run
from shoal.read.run_options import differing_options

NOTE = """\
# tokens/s: tokens of a step / mean time of the settled steps. These are all steps but the first (of each part, if the run was
# resumed), including those in which nodes that train locally synchronize. relative: to the first run. sent/step: bytes, of the
# rank that sends most."""


def agreement(first: Run, other: Run) -> str:
    """Compares the losses of two runs, over the steps that both have."""
    steps, a, b = np.intersect1d(first.losses[0], other.losses[0], return_indices=True)
    if not len(steps):
        return "no step in common"
    x, y = first.losses[1][a], other.losses[1][b]
    unequal = np.flatnonzero(~((x == y) | (np.isnan(x) & np.isnan(y))))
    if not len(unequal):
        return f"equal, bit for bit ({len(steps)} steps)"
    worst = np.nanmax(np.abs(x - y))
    return f"first difference at step {steps[unequal[0]]}, largest {worst:.2g}"


def labels_of(runs: list[Run], arguments: list[str]) -> list[str]:
    """The names of the directories if they differ, otherwise the paths as given."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else arguments


def number(value, form: str) -> str:
    return format(value, form) if value is not None else "-"


def rows_of(runs: list[Run], labels: list[str], options: list[str]) -> list[list[str]]:
    head = ["run", "ranks", "steps", "loss", "val loss", "tokens/s", "relative", "peak RSS", "sent/step", "losses"]
    rows = [[*head, *options]]
    base = runs[0].throughput
    for run, label in zip(runs, labels, strict=True):
        steps, losses = run.losses
        _, val_losses = run.val_losses
        rate = run.throughput
        rss, sent = run.summary.get("peak_rss_bytes"), run.summary.get("comm_bytes_per_step")
        rows.append([
            label,
            number(run.world_size, "d"),
            number(steps[-1] if len(steps) else None, "d"),
            number(losses[-1] if len(losses) else None, ".4f"),
            number(val_losses[-1] if len(val_losses) else None, ".4f"),
            number(rate or None, ",.0f"),
            number(rate / base if rate and base else None, ".3f"),
            bytes_text(max(rss)) if rss else "-",
            bytes_text(sum(v["intra"] + v["inter"] for v in sent.values())) if sent is not None else "-",
            "" if run is runs[0] else agreement(runs[0], run),
            *[run.options.get(name, "-") for name in options],
        ])  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="output directories of runs")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", default=Path("compare.png"))
    arguments = parser.parse_args()
    if len(arguments.runs) < 2:
        raise BadInput("give two runs or more")
    runs = [Run.read(path) for path in arguments.runs]
    labels = labels_of(runs, [os.path.normpath(path) for path in arguments.runs])
    rows = rows_of(runs, labels, differing_options([run.options for run in runs]))
    print("\n".join(aligned(rows)))
    print(NOTE)
    for run, label in zip(runs, labels, strict=True):
        if run.unsettled:
            print(f"# {label}: {run.unsettled}.")
        if run.moved:
            print(f"# {label} was resumed {run.moved}; its tokens/s are those of the last part.")
        if run.summary_is_of_last_part:
            print(f"# {label} was resumed; its peak RSS and sent/step are those of the last part.")
    try:
        figures.comparison(runs, labels).savefig(arguments.output)
    except (OSError, ValueError) as error:  # ValueError: the name's ending is no image format
        raise BadInput(f"{arguments.output}: cannot be written: {error}") from error
    print(arguments.output)


if __name__ == "__main__":
    run_main(main)
