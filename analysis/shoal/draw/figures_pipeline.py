# SPDX-License-Identifier: Apache-2.0
"""The figure of report.py on pipelines: what each stage did in a typical step."""

from __future__ import annotations

import numpy as np

from shoal.draw.figures import Nothing
from shoal.draw.styles import BACKWARD_PARTS, FORWARD_PARTS, INK, PART_COLOURS, part_shades, plain, plt, time_unit
from shoal.read.trace import Trace
from shoal.times import pipeline
from shoal.times.pipeline import Passes

WIDTH = 6.4  # inches of a row
DIGIT = 0.07  # inches
MOST_EDGED = 600  # passes with a white edge
MOST_NAMED = 4  # parts of a stage in the legend; of more only the first and the last one


def stages(trace: Trace):
    """A row for each stage of the first pipeline, in the step of median time."""
    every = pipeline.passes(trace)
    if every is None:
        raise Nothing("the layers are not divided among ranks, or the trace has no passes")
    step = pipeline.typical_step(trace)
    found = every.of(0, step)
    if not len(found.events):
        raise Nothing(f"the trace has no passes of step {step}")
    zero, end = int(found.events["begin_ns"].min()), int(found.end_ns.max())
    factor, unit = time_unit((end - zero) / 1e9)
    scale = factor / 1e9
    height = min(0.42, max(0.1, 5.0 / found.stages))
    figure, axes = plt.subplots(figsize=(8.4, 1.5 + height * found.stages))
    _draw_passes(axes, found, zero, scale)
    for name, where, share in (("recompute", "phase", 0.86), ("wait", "wait", 0.12)):
        _draw_spans(axes, trace, found, (name, where, share), (zero, end), scale)
    _number(axes, found, zero, end, scale)
    idle = float(np.mean([stage.idle for stage in pipeline.stages(found)]))
    axes.set(title=f"Pipeline of {found.stages} stages, step {step} (of median time): idle {plain(100 * idle)} %, "
             f"ideal {plain(100 * found.ideal_idle)} %",
             xlabel=f"{unit} since the first pass of the step", ylabel="stage", xlim=(0, (end - zero) * scale),
             ylim=(found.stages - 0.5, -0.5))  # fmt: skip
    if height >= 0.2:
        axes.set_yticks(range(found.stages))
    axes.grid(visible=False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def _draw_passes(axes, found: Passes, zero: int, scale: float) -> None:
    count, stage = found.parts_of_stage, found.stage_of(found.events["rank"])
    for forward, name, family in ((True, "forward", FORWARD_PARTS), (False, "backward", BACKWARD_PARTS)):
        for place, colour in enumerate(part_shades(family, count)):
            chosen = (found.forward == forward) & (found.part // found.stages == place)
            named = count <= MOST_NAMED or place in (0, count - 1)
            label = f"{name}, part {place}" if count > 1 else name
            for row in np.unique(stage[chosen]):
                _bars(axes, found.events[chosen & (stage == row)], int(row), 0.86, zero, scale, colour,
                      label if named else None, 0.5 if len(found.events) <= MOST_EDGED else 0.0)  # fmt: skip
                named = False


def _bars(
    axes,
    events: np.ndarray,
    row: int,
    height: float,
    zero: int,
    scale: float,
    colour: str,
    label: str | None,
    edge: float = 0.0,
) -> None:
    spans = np.stack([(events["begin_ns"] - zero) * scale, events["duration_ns"] * scale], axis=1)
    middle = row if height > 0.5 else row + 0.43 - height / 2  # thin bars at the bottom of the row
    bars = axes.broken_barh(spans, (middle - height / 2, height), facecolors=colour, edgecolors="white",
                            linewidth=edge)  # fmt: skip
    bars.set_label(label or "_")


def _draw_spans(
    axes, trace: Trace, found: Passes, what: tuple[str, str, float], bounds: tuple[int, int], scale: float
) -> None:
    """Recomputation, over the backward passes that it is part of, or waits for other stages, in the gaps."""
    name, kind, height = what
    labels = {"recompute": "recompute", "wait": "waiting for another stage"}
    label = labels[name]
    for row, rank in enumerate(found.ranks[0].tolist()):
        events = trace.of_kind(kind, rank=rank)
        events = events[(events["begin_ns"] >= bounds[0]) & (events["begin_ns"] < bounds[1])]
        names = np.flatnonzero(trace.names == name)
        events = events[pipeline.is_border(trace, events) if kind == "wait" else np.isin(events["name"], names)]
        if len(events):
            events["duration_ns"] = np.minimum(events["duration_ns"], bounds[1] - events["begin_ns"])
            _bars(axes, events, row, height, bounds[0], scale, PART_COLOURS[name], label)
            label = None


def _number(axes, found: Passes, zero: int, end: int, scale: float) -> None:
    """Writes the micro-batches' numbers into the bars; none if they fit into less than half of them."""
    inches = found.events["duration_ns"] / (end - zero) * WIDTH
    texts = [str(micro) for micro in found.events["micro"]]
    fits = inches > [DIGIT * (len(text) + 0.5) for text in texts]
    if fits.mean() < 0.5:
        return
    for i in np.flatnonzero(fits):
        event, row = found.events[i], int(found.stage_of(found.events["rank"][i]))
        axes.text((event["begin_ns"] - zero + event["duration_ns"] / 2) * scale, row, texts[i], ha="center", va="center", fontsize=7,
                  color=INK if found.forward[i] else "white")  # fmt: skip
