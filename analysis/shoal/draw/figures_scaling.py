# SPDX-License-Identifier: Apache-2.0
"""The figures of scaling.py: a panel for each scaling, a line for each strategy. What was measured is filled, what the
plan predicts is hollow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import NullFormatter, NullLocator

from shoal.draw.figures import Nothing
from shoal.draw.figures_strategies import legend, styles
from shoal.draw.styles import FAINT, PLAIN, dashes, plain, plt
from shoal.times.study import Curve, Point, Study

ALIKE = 0.01  # lines whose values differ by less than this share are drawn dashed, so that all of them are visible

PREDICTED, IDEAL = "hollow: predicted", "dotted: ideal"

Value = Callable[[Curve, Point], float | None]


@dataclass(frozen=True)
class Quantity:
    name: str
    title: str
    unit: str  # of the axis
    measured: Value
    predicted: Value
    ideal: Callable[[Point, float, Point], float] | None = None  # from the first point and its value
    logarithmic: bool = False


QUANTITIES = (
    Quantity(
        "speed",
        "tokens/s",
        "tokens/s",
        lambda _, point: point.speed(point.step),
        lambda _, point: point.speed(point.predicted_step),
        lambda first, value, point: value * point.ranks / first.ranks,
        logarithmic=True,
    ),
    Quantity(
        "efficiency",
        "efficiency",
        "tokens/s per rank, share of that on the fewest ranks",
        lambda curve, point: curve.efficiency(point, lambda each: each.step),
        lambda curve, point: curve.efficiency(point, lambda each: each.predicted_step),
        lambda *_: 1.0,
    ),
    Quantity(
        "exposed",
        "communication that is not hidden",
        "s per step that a rank waits for messages",
        lambda _, point: point.exposed_s,
        lambda _, point: point.predicted.get("exposed_s"),
    ),
    Quantity(
        "memory",
        "memory",
        "MiB of a rank, planned buffers",
        lambda _, point: point.memory / 2**20 if point.memory else None,
        lambda _, point: point.predicted["memory_bytes"] / 2**20,
    ),
    Quantity(
        "micro",
        "micro-batch",
        "sequences",
        lambda _, point: point.micro if point.step else None,
        lambda *_: None,
    ),
    Quantity(
        "cost",
        "cost",
        "seconds of a node per million tokens",
        lambda _, point: point.cost(point.step),
        lambda _, point: point.cost(point.predicted_step),
        lambda _, value, __: value,
    ),
)


def draw(study: Study, quantity: Quantity):
    if not any(curve.values(lambda point, c=curve: quantity.measured(c, point))[0] for curve in study.curves):
        why = "no point has a trace of level comm" if quantity.name == "exposed" else "no point is done"
        raise Nothing(f"{quantity.title}: {why}")
    style, scalings = styles(study.strategies), study.scalings
    figure, panels = plt.subplots(
        1, len(scalings), squeeze=False, sharey=True, figsize=(3.6 + 4.2 * len(scalings), 4.2)
    )
    lines: dict = {}
    for axes, scaling in zip(panels.flat, scalings, strict=True):
        draw_panel(axes, study.of(scaling), quantity, style, lines)
        finish(axes, study.of(scaling), quantity, scaling)
    finish_values(panels, quantity)
    last = [name for name in (PREDICTED, IDEAL) if name in lines]
    lines = {name: lines[name] for name in (*(each for each in lines if each not in last), *last)}
    panels[0, 0].set_ylabel(quantity.unit + (" (log scale)" if quantity.logarithmic else ""))
    legend(panels, lines, "strategy")
    return figure


def draw_panel(axes, curves: list[Curve], quantity: Quantity, style: dict, lines: dict) -> None:
    known = [(curve, *curve.values(lambda point, c=curve: quantity.measured(c, point))) for curve in curves]
    for curve, ranks, values in known:
        look = style[curve.strategy]
        alike = [other.strategy for other, its_ranks, its in known if its_ranks == ranks and same(its, values)]
        place, count = alike.index(curve.strategy), len(alike)
        if ranks:
            (line,) = axes.plot(ranks, values, color=look["color"], marker=look["marker"], ls=dashes(place, count),
                                ms=5.5 + 3 * (count - 1 - place), zorder=3 + place)  # fmt: skip
            lines.setdefault(curve.strategy, line)
        hollow = curve.values(lambda point, c=curve: quantity.predicted(c, point))
        if hollow[0]:
            axes.plot(*hollow, color=look["color"], marker=look["marker"], mfc="none", mew=1.4,
                      ms=11 + 3 * place, ls="", zorder=2)  # fmt: skip
            hollow_line = axes.plot([], [], color=FAINT, marker="o", mfc="none", ms=9, ls="")[0]
            lines.setdefault(PREDICTED, hollow_line)
        if quantity.ideal and ranks:
            first = next(point for point in curve.points if point.ranks == ranks[0])
            reached = [point for point in curve.points if point.ranks >= first.ranks]
            ideal = [quantity.ideal(first, values[0], point) for point in reached]
            axes.plot([point.ranks for point in reached], ideal, color=look["color"], ls=":", lw=1, alpha=0.6, zorder=1)
            lines.setdefault(IDEAL, axes.plot([], [], color=FAINT, ls=":", lw=1)[0])


def same(values: list[float], others: list[float]) -> bool:
    return len(values) == len(others) and np.allclose(values, others, rtol=ALIKE, atol=0)


def finish(axes, curves: list[Curve], quantity: Quantity, scaling: str) -> None:
    ranks = sorted({point.ranks for curve in curves for point in curve.points})
    axes.set(title=f"{quantity.title}, {scaling} scaling", xlabel="ranks (log scale)", xscale="log")
    axes.set_xticks(ranks, [plain(each) for each in ranks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ranks[0] / 1.3, ranks[-1] * 1.3)


def finish_values(panels: np.ndarray, quantity: Quantity) -> None:
    """Finishes the axis that all panels share, when all of them are drawn: limits that are set hold for all of them."""
    shared = panels[0, 0]
    if quantity.logarithmic:
        shared.set_yscale("log")
    else:
        shared.set_ylim(bottom=0, top=1.06 * shared.get_ylim()[1])
    low, high = shared.get_ylim()
    for axes in panels.flat:
        axes.yaxis.set_major_formatter(PLAIN)
        if quantity.logarithmic:
            axes.yaxis.set_minor_formatter(PLAIN if high < 10 * low else NullFormatter())
        axes.tick_params(labelleft=True)
