# SPDX-License-Identifier: Apache-2.0
"""The part of report.py on pipelines: figure, table of stages, and the words beside them."""

from __future__ import annotations

from shoal.draw import figures_pipeline
from shoal.draw.page import Page, Row
from shoal.draw.styles import bytes_text, plain, seconds_text
from shoal.read.run_parts import span
from shoal.read.trace import Trace
from shoal.times import breakdown, pipeline
from shoal.times.pipeline import Passes

HEAD = ("stage", "ranks", "layers", "forward", "backward", "idle", "planned buffers", "whole process")


def add(page: Page, trace: Trace | None, suffix: str, where: str) -> None:
    """Adds nothing if the layers are not divided among ranks."""
    if trace is None or not len(pipeline.pipelines(trace)):
        return
    page.heading(f"Pipeline{where}")
    if page.figure(f"pipeline{suffix}", figures_pipeline.stages, trace):
        found = pipeline.passes(trace)
        page.text(note(trace, found))
        page.table(HEAD, stage_rows(trace, found))


def note(trace: Trace, found: Passes) -> str:
    words = (
        f"Means of steps {span(breakdown.settled_steps(trace))}"
        + (f" and {len(found.ranks)} pipelines. " if len(found.ranks) > 1 else ". ")
        + "forward, backward: of a micro-batch. idle: share of the time from the first pass of a step to the last one in which the "
        f"stage ran none; ideal {plain(100 * found.ideal_idle)} %: (P - 1) / (v A + P - 1) with P = {found.stages} stages, "
        f"v = {found.parts_of_stage} part{'' if found.parts_of_stage == 1 else 's'} of a stage and A = {found.micro_batches} "
        "micro-batches, if all parts took the same time and messages no time. Memory: of the largest rank of the stage."
    )
    if trace.device_queues:
        words += " The passes are the host's, which only enqueues their work on the device."
    return words


def stage_rows(trace: Trace, found: Passes) -> list[Row]:
    marks = breakdown.memory(trace)

    def most(name: str, ranks: list[int]) -> str:
        values = [marks[name][rank][1].max() for rank in ranks if rank in marks.get(name, {})]
        return bytes_text(max(values)) if values else ""

    rows = []
    for number, stage in enumerate(pipeline.stages(found)):
        ranks = found.ranks[:, number].tolist()
        parts = range(number, len(found.first_units), found.stages)
        rows.append(
            (str(number), ranks_text(ranks), ", ".join(units_text(trace, found, part) for part in parts), seconds_text(stage.forward),
             seconds_text(stage.backward), f"{100 * stage.idle:.1f} %", most("arenas", ranks), most("resident", ranks))
        )  # fmt: skip
    return rows


def ranks_text(ranks: list[int]) -> str:
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(map(str, ranks)) if len(ranks) <= 4 else f"{len(ranks)} ranks from {ranks[0]}"


def units_text(trace: Trace, found: Passes, part: int) -> str:
    units = found.units_of(part, len(trace.units))
    names = [str(trace.units[unit]) for unit in (units[0], units[-1])] if units else [""]
    return names[0] if len(set(names)) == 1 else " to ".join(names)
