#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a scaling study of `shoal study`: strong and weak scaling, efficiency, communication that is not hidden, memory
and cost per token, each with the plan's prediction beside what was measured.

usage: scaling.py STUDY_DIR [-o DIR]

STUDY_DIR is output.dir of the study. Prints a table, and writes report.html, which needs no other file, and each figure
as PNG to DIR (default: STUDY_DIR/report). Points that are not done yet are left out of the figures, and named.
"""

from __future__ import annotations

import argparse
import html
from pathlib import Path

from shoal.program import packages, run_main

packages("h5py", "numpy", "matplotlib")

from shoal.draw import figures_scaling
from shoal.draw.page import Page
from shoal.draw.styles import bytes_text, plain
from shoal.draw.text_table import aligned
from shoal.read.bad_input import BadInput
from shoal.times.study import Curve, Point, Study, read_study

HEAD = ("strategy", "scaling", "nodes", "ranks", "micro", "batch", "memory", "planned", "s/step", "predicted", "error %", "tokens/s",
        "efficiency", "predicted", "exposed s", "predicted", "node s/Mtoken", "predicted")  # fmt: skip
NOTE = """\
# memory: of a rank. s/step: mean over settled steps, median over repeats. efficiency: tokens/s per rank, as a share of that on
# the fewest ranks of the curve; above 1: super-linear. exposed: seconds of a step that a rank waits for messages, from the
# traces. node s/Mtoken: seconds of a node for a million tokens. predicted: by the plan, with study.network."""


def text_of(value: float | None, figures: int = 4) -> str:
    """Less than a nanosecond is the rounding of sums of seconds."""
    return "-" if value is None else plain(value if abs(value) > 1e-9 else 0.0, figures)


def row_of(curve: Curve, point: Point) -> tuple[str, ...]:
    step, predicted = point.step, point.predicted_step
    error = None if step is None or predicted is None else 100 * (predicted / step - 1)
    speed = point.speed(step)
    return (
        curve.strategy,
        curve.scaling,
        str(point.nodes),
        str(point.ranks),
        str(point.micro),
        str(point.batch),
        bytes_text(point.memory) if point.memory else ", ".join(sorted(set(point.states))),
        bytes_text(point.predicted["memory_bytes"]),
        text_of(step),
        text_of(predicted),
        "-" if error is None else f"{error:+.1f}",
        "-" if speed is None else f"{speed:,.0f}",
        text_of(curve.efficiency(point, lambda each: each.step), 3),
        text_of(curve.efficiency(point, lambda each: each.predicted_step), 3),
        text_of(point.exposed_s, 3),
        text_of(point.predicted.get("exposed_s"), 3),
        text_of(point.cost(step)),
        text_of(point.cost(predicted)),
    )


def rows_of(study: Study) -> list[tuple[str, ...]]:
    return [row_of(curve, point) for curve in study.curves for point in curve.points]


def notes(study: Study) -> list[str]:
    """What a reader must know about the points."""
    machine, system = study.content["machine"], study.content["study"]["system"]
    found = []
    if system == "local":
        ran = f"all ranks ran on one machine ({machine['device']}), and its nodes are pretended"
        found.append(f"{ran}: more ranks than cores are no faster")
    absent = sum(len(point.states) for curve in study.curves for point in curve.points)
    if absent:
        found.append(f"{absent} {'run is' if absent == 1 else 'runs are'} not done")
    if all(point.predicted_step is None for curve in study.curves for point in curve.points):
        found.append("step times are not predicted: the study has no study.network")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", metavar="STUDY_DIR", type=Path, help="output.dir of the study")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: STUDY_DIR/report")
    arguments = parser.parse_args()
    study = read_study(arguments.study)
    directory = arguments.output or arguments.study / "report"
    rows = rows_of(study)
    print("\n".join(aligned([list(HEAD), *map(list, rows)], numbers_from=2)))
    print(NOTE)
    for note in notes(study):
        print(f"# {note}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        page = Page(study, directory)
        for note in notes(study):
            page.text(note[0].upper() + note[1:] + ".")
        for quantity in figures_scaling.QUANTITIES:
            page.heading(quantity.title.capitalize())
            page.figure(quantity.name, lambda source, q=quantity: figures_scaling.draw(source, q), study)
        page.heading("All points")
        page.table(HEAD, rows)
        page.text(" ".join(NOTE.replace("# ", "").split()))
        deck = html.escape(str(study.content.get("deck", "")))
        written = page.write(f"Scaling study {study.directory.resolve().name}", f'<p class="lead">{deck}</p>')
    except OSError as error:
        raise BadInput(f"{directory}: cannot be written: {error.strerror}") from error
    for why in page.absent:
        print(f"not drawn: {why}")
    print(written)


if __name__ == "__main__":
    run_main(main)
