# SPDX-License-Identifier: Apache-2.0
"""The figure of report.py with all that a run has by step: a panel for each quantity, one above the other, on one axis of
steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import FuncFormatter

from shoal.draw.curves import smoothed, window
from shoal.draw.figures import Nothing
from shoal.draw.styles import FAINT, LINE_COLOURS, PLAIN, line_colours, plt, whole_numbers
from shoal.read.run import Run, Series
from shoal.read.run_parts import span

WIDTH, HEIGHT, TALL = 9.4, 1.6, 2.9  # inches; the loss is the taller panel

THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")
Draw = Callable  # draws one quantity into axes


@dataclass(frozen=True)
class Panel:
    label: str  # of its own axis
    of: Callable[[Run], Draw]  # raises Nothing if the run does not have it; without words if only some runs have it
    height: float = HEIGHT


def loss(run: Run) -> Draw:
    steps, losses = run.losses
    if not len(steps):
        raise Nothing("no losses: neither summary.json nor metrics.jsonl has any")

    def draw(axes) -> None:
        noisy(axes, steps, losses, LINE_COLOURS[0], "training")
        val_steps, val_losses = run.val_losses
        if len(val_steps):
            axes.plot(val_steps, val_losses, color=LINE_COLOURS[1], marker="o", ms=4, label="validation")
        if run.entropy_rate is not None:
            axes.axhline(run.entropy_rate, color=FAINT, ls=(0, (4, 3)), lw=1.2,
                         label=f"best possible: {run.entropy_rate:.4f}")  # fmt: skip
        axes.yaxis.set_major_formatter(PLAIN)

    return draw


def gradient_norm(run: Run) -> Draw:
    steps, values = column(run, "grad_norm", "no gradient norm: metrics.jsonl has none")

    def draw(axes) -> None:
        noisy(axes, steps, values, LINE_COLOURS[4])
        lost = steps[~np.isfinite(values)]
        if len(lost):
            axes.plot(lost, np.zeros(len(lost)), ls="", marker="x", color=LINE_COLOURS[3], label="not finite",
                      clip_on=False)  # fmt: skip
        from_zero(axes, values)

    return draw


def learning_rate(run: Run) -> Draw:
    steps, values = column(run, "lr", "no learning rate: metrics.jsonl has none")

    def draw(axes) -> None:
        line(axes, steps, values, LINE_COLOURS[2])
        from_zero(axes, values)

    return draw


def loss_scale(run: Run) -> Draw:
    steps, values = column(run, "loss_scale", "")

    def draw(axes) -> None:
        line(axes, steps, values, LINE_COLOURS[5], drawstyle="steps-mid")
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(PLAIN)

    return draw


def gain(run: Run) -> Draw:
    steps, values = column(run, "gain", "")

    def draw(axes) -> None:
        line(axes, steps, values, LINE_COLOURS[6])
        axes.yaxis.set_major_formatter(PLAIN)

    return draw


def tokens_per_s(run: Run) -> Draw:
    steps, rates = run.tokens_per_s
    if not len(steps):
        raise Nothing("no tokens/s: metrics.jsonl has none, and the trace has no steps")

    def draw(axes) -> None:
        line(axes, steps, rates, LINE_COLOURS[0])
        for (part, mean), colour in zip(run.rates_of_parts, line_colours(len(run.starts) + 1)[1:], strict=False):
            axes.plot([part[0], part[-1]], [mean, mean], color=colour, lw=1.4, ls=(0, (4, 3)),
                      label=f"{mean:,.0f}: mean of steps {span(part)}")  # fmt: skip
        from_zero(axes, rates)
        axes.yaxis.set_major_formatter(THOUSANDS)

    return draw


def utilization(run: Run) -> Draw:
    """MFU: the model's operations per second, as a share of the peak that the program measured at its start."""
    steps, values = run.utilization
    if not len(steps):
        raise Nothing("no utilization: no trace with steps and the peak of its ranks")

    def draw(axes) -> None:
        noisy(axes, steps, 100 * values, LINE_COLOURS[9])
        from_zero(axes, 100 * values)

    return draw


PANELS = (
    Panel("loss, nats per token", loss, TALL),
    Panel("gradient norm", gradient_norm),
    Panel("learning rate", learning_rate),
    Panel("loss scale (log)", loss_scale),
    Panel("AdaScale's gain", gain),
    Panel("tokens/s, all ranks", tokens_per_s),
    Panel("MFU, % of the peak", utilization),
)


def panels_of(run: Run) -> tuple[list[tuple[Panel, Draw]], list[str]]:
    """The panels of a run, and why others are missing, a sentence each."""
    found, absent = [], []
    for panel in PANELS:
        try:
            found.append((panel, panel.of(run)))
        except Nothing as nothing:
            absent += [str(nothing)] if str(nothing) else []
    return found, absent


def curves(run: Run):
    found, absent = panels_of(run)
    if not found:
        raise Nothing("; ".join(absent))
    heights = [panel.height for panel, _ in found]
    figure, panels = plt.subplots(len(found), 1, squeeze=False, sharex=True, height_ratios=heights,
                                  figsize=(WIDTH, 0.7 + sum(heights)))  # fmt: skip
    for axes, (panel, draw) in zip(panels.flat, found, strict=True):
        draw(axes)
        for i, start in enumerate(run.starts[1:]):
            axes.axvline(start - 0.5, color=FAINT, ls=":", lw=1, label="resumed" if i == 0 else None)
        axes.set_ylabel(panel.label)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.03), fontsize=9, borderaxespad=0)
    figure.align_ylabels()
    steps = max((run.losses[0], run.tokens_per_s[0]), key=len)
    panels[0, 0].set_title(f"Steps {span(steps)}")
    panels[-1, 0].set_xlabel("step")
    whole_numbers(panels[-1, 0].xaxis)
    return figure


def column(run: Run, name: str, absent: str) -> Series:
    """A column of metrics.jsonl."""
    steps, values = run.series(name)
    if not len(steps):
        raise Nothing(absent)
    return steps, values


def line(axes, steps: np.ndarray, values: np.ndarray, colour: str, label: str | None = None, **look) -> None:
    axes.plot(
        steps, values, color=colour, label=label, marker="o" if len(steps) < 12 else "", ms=4, **{"lw": 1.6, **look}
    )


def noisy(axes, steps: np.ndarray, values: np.ndarray, colour: str, name: str = "") -> None:
    """Draws a line over the steps; if there are many, a pale one with its running mean in front."""
    over = window([len(steps)])
    if over == 1:
        line(axes, steps, values, colour, name or None)
        return
    line(axes, steps, values, colour, lw=1, alpha=0.3)
    mean = f"running mean of {over} steps"
    axes.plot(steps, smoothed(values, over), color=colour, label=f"{name}, {mean}" if name else mean)


def from_zero(axes, values: np.ndarray) -> None:
    """Begins the axis at 0, so that heights can be compared."""
    finite = values[np.isfinite(values)]
    if len(finite) and finite.min() >= 0:
        axes.set_ylim(0, (1.2 * finite.max()) or 1)
    axes.yaxis.set_major_formatter(PLAIN)
