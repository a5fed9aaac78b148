# SPDX-License-Identifier: Apache-2.0
"""The figures of strategies.py. A strategy has the same colour and the same marker everywhere."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.ticker import NullFormatter, NullLocator

from shoal.draw.curves import smoothed, window
from shoal.draw.figures import Nothing
from shoal.draw.styles import MARKERS, PLAIN, line_colours, plain, plt
from shoal.times.costs import Cell, Row, strategies_of
from shoal.times.predictions import Prediction

MOST_LINEAR = 5  # if one run lasts more than this many times as long as another, the time axis is logarithmic


def styles(strategies: Iterable[str]) -> dict[str, dict]:
    strategies = list(strategies)
    return {
        strategy: {"color": colour, "marker": MARKERS[i % len(MARKERS)]}
        for i, (strategy, colour) in enumerate(zip(strategies, line_colours(len(strategies)), strict=True))
    }


def legend(panels: np.ndarray, lines: dict, title: str) -> None:
    """Draws one legend for all panels, to their right."""
    panels[0, -1].legend(lines.values(), lines.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9, title=title,
                         title_fontsize=9, alignment="left")  # fmt: skip


def seeds_text(rows: list[Row], mark: str) -> str:
    """Explains how several runs of a strategy are drawn, if there are any."""
    counts = sorted({len(row.runs) for row in rows})
    if counts[-1] == 1:
        return "one run each"
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{runs} seeds: median,\n{mark} from least to most"


def loss_by_time(rows: list[Row]):
    """A panel for each cell. For several runs: their median, and a band from the least to the greatest loss."""
    topologies = list(dict.fromkeys(row.cell.topology for row in rows))
    links = sorted({row.cell.link_gbit for row in rows}, key=lambda link: (link is not None, link))
    style = styles(strategies_of(rows))
    figure, panels = plt.subplots(len(topologies), len(links), squeeze=False, sharey=True,
                                  figsize=(3.4 + 4.4 * len(links), 0.8 + 3.2 * len(topologies)))  # fmt: skip
    lines: dict = {}
    over = window([len(common_steps(row)) for row in rows])
    logarithmic = any(spread(row.cell, rows) > MOST_LINEAR for row in rows)
    for axes in panels.flat:
        axes.set_axis_off()
    for row in rows:
        axes = panels[topologies.index(row.cell.topology), links.index(row.cell.link_gbit)]
        axes.set_axis_on()
        scale = " (log scale)" if logarithmic else ""
        axes.set(title=row.cell.title, xlabel=f"s of training, without evaluations and checkpoints{scale}")
        axes.tick_params(labelleft=True)
        lines.setdefault(
            row.strategy, draw_losses(axes, row, style[row.strategy], list(style).index(row.strategy), over)
        )
        if logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(PLAIN)
    for axes in panels[:, 0]:
        axes.set_ylabel("training loss, nats per token" + (f" (running mean of {over} steps)" if over > 1 else ""))
    legend(panels, lines, seeds_text(rows, "band"))
    return figure


def spread(cell: Cell, rows: list[Row]) -> float:
    """The duration of a cell's longest run, divided by that of its shortest."""
    durations = [run.seconds[-1] for row in rows if row.cell == cell for run in row.runs]
    return max(durations) / min(durations)


def common_steps(row: Row) -> np.ndarray:
    steps = row.runs[0].losses[0]
    for run in row.runs[1:]:
        steps = np.intersect1d(steps, run.losses[0])
    return steps


def common_losses(row: Row, over: int) -> tuple[np.ndarray, np.ndarray]:
    """For the steps that all runs have: seconds until the step's end, the median over runs; and losses, [runs,
    steps]."""
    steps = common_steps(row)
    chosen = [np.isin(run.losses[0], steps) for run in row.runs]
    seconds = np.array([run.seconds[these] for run, these in zip(row.runs, chosen, strict=True)])
    losses = np.array([smoothed(run.losses[1][these], over) for run, these in zip(row.runs, chosen, strict=True)])
    return np.median(seconds, axis=0), losses


def draw_losses(axes, row: Row, style: dict, number: int, over: int):
    """Draws the losses. Each strategy has its marks at other steps, so that two lines that coincide are both
    visible."""
    seconds, losses = common_losses(row, over)
    every = max(1, len(seconds) // 8)
    (line,) = axes.plot(seconds, np.median(losses, axis=0), color=style["color"], marker=style["marker"], ms=4.5,
                        markevery=((every - 1 + number * max(1, every // 4)) % every, every))  # fmt: skip
    if len(row.runs) > 1:
        axes.fill_between(seconds, losses.min(axis=0), losses.max(axis=0), color=style["color"], alpha=0.2, lw=0)
    return line


def step_time_by_rate(rows: list[Row], predictions: list[Prediction]):
    """A panel for each topology. Measured values are filled, with bars from the least to the greatest; predicted ones
    are hollow."""
    strategies = strategies_of(rows)
    style = styles(strategies)
    rows = [row for row in rows if row.cell.link_gbit is not None]
    measured = {(row.cell.nodes, row.cell.ranks_per_node): row.cell.topology for row in rows}
    predictions = [p for p in predictions if p.strategy in strategies and p.topology in measured]
    rates = sorted({row.cell.link_gbit for row in rows} | {p.link_gbit for p in predictions})
    if len(rates) < 2:
        known = "no link rate is known" if not rates else f"the one link rate is {rates[0]:g} Gbit/s"
        raise Nothing(f"{known}; the figure needs two or more (put link_RATE into the runs' paths)")
    topologies = list(measured)
    figure, panels = plt.subplots(1, len(topologies), squeeze=False, sharey=True,
                                  figsize=(3.4 + 4.4 * len(topologies), 4.4))  # fmt: skip
    lines: dict = {}
    for axes, topology in zip(panels.flat, topologies, strict=True):
        for strategy in strategies:
            of_strategy = [row for row in rows if row.strategy == strategy and topology_of(row) == topology]
            if of_strategy:
                lines.setdefault(strategy, draw_step_times(axes, of_strategy, style[strategy]))
            points = [
                (p.link_gbit, p.step_seconds) for p in predictions if (p.strategy, p.topology) == (strategy, topology)
            ]
            if points:
                hollow = {**style[strategy], "mfc": "none", "mew": 1.5, "ms": 11, "ls": ""}
                axes.plot(*zip(*sorted(points), strict=True), **hollow)
        finish_rates(axes, measured[topology], rates)
    panels[0, 0].set_ylabel("s per step, mean of settled steps (log scale)")
    if predictions:
        lines["hollow: predicted"] = panels[0, 0].plot([], [], color="#6b7280", marker="o", mfc="none", ms=9, ls="")[0]
    legend(panels, lines, seeds_text(rows, "bar"))
    return figure


def topology_of(row: Row) -> tuple[int, int | None]:
    return row.cell.nodes, row.cell.ranks_per_node


def draw_step_times(axes, rows: list[Row], style: dict):
    rows = sorted(rows, key=lambda row: row.cell.link_gbit)
    spreads = [row.step_seconds for row in rows]
    middle = np.array([spread.median for spread in spreads])
    below, above = middle - [spread.least for spread in spreads], [spread.most for spread in spreads] - middle
    return axes.errorbar([row.cell.link_gbit for row in rows], middle, yerr=[below, above], **style, ms=5.5,
                         capsize=2.5, elinewidth=1)  # fmt: skip


def finish_rates(axes, title: str, rates: list[float]) -> None:
    """Sets logarithmic axes, with ticks at the measured rates."""
    axes.set(title=title, xlabel="link rate, Gbit/s (log scale)", xscale="log", yscale="log")
    axes.set_xticks(rates, [plain(rate) for rate in rates])
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    few = high < 10 * low  # then minor ticks need numbers, because there may be no power of ten
    axes.yaxis.set_major_formatter(PLAIN)
    axes.yaxis.set_minor_formatter(PLAIN if few else NullFormatter())
    axes.tick_params(labelleft=True)
