# SPDX-License-Identifier: Apache-2.0
"""How figures look: colours, dashes, numbers on axes. Cool colours are computation, warm ones communication. A part of
a step has the same colour in every figure, and no two lines of a figure have the same colour."""

from __future__ import annotations

import colorsys

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from shoal.draw.number_text import plain

PART_COLOURS = {
    "data": "#9db4c0",
    "forward": "#5b8fc7",
    "recompute": "#a9c4e4",
    "backward": "#2b5c9e",
    "optimizer": "#3b9c83",
    "clip": "#8ccfb8",
    "release": "#c9ccd1",
    "reduce": "#f2b138",
    "publish": "#f6d27a",
    "losses": "#e8884a",
    "synchronise": "#a97155",
    "wait": "#d1495b",
    "rest": "#dcdfe4",
}
LATE, TRANSFER = "#a32a3b", "#eba3ad"  # the two parts of `wait`: for a late rank, for the transfer
# The parts of a pipeline's stage, from the first to the last: two families of cool colours that begin with those of one part.
FORWARD_PARTS, BACKWARD_PARTS = (PART_COLOURS["forward"], "#8fdbe0"), (PART_COLOURS["backward"], "#45207a")
RESTART, REPEATED = "#4b5563", "#7a5195"  # between the parts of a resumed run; steps that were made once more
# Operations between ranks.
OPERATION_COLOURS = {
    "all_gather": PART_COLOURS["publish"],
    "reduce_scatter": PART_COLOURS["reduce"],
    "all_reduce": PART_COLOURS["losses"],
    "exchange": PART_COLOURS["synchronise"],
    "send": PART_COLOURS["synchronise"],
}
OTHER_COLOURS = ("#8e6bb0", "#b59ccd", "#5f8a3c", "#c9a58f")
LINE_COLOURS = (
    "#2b5c9e", "#e0803a", "#3b9c83", "#d1495b", "#8e6bb0", "#8a5a3c", "#5cb3e6", "#e3a6c4", "#7a9a01", "#6b7280", "#c7a008",
    "#12324f",
)  # fmt: skip
MARKERS = "osD^vPX*<>hp"
INK, FAINT = "#222831", "#6b7280"
DASH = 5.0  # points; for lines that coincide

plt.rcParams.update(
    {
        "figure.figsize": (8.4, 3.8),
        "figure.dpi": 110,
        "savefig.dpi": 160,
        "figure.constrained_layout.use": True,
        "text.parse_math": False,  # names of runs and nodes are text, also with dollar signs
        "font.size": 10,
        "font.family": "DejaVu Sans",
        "axes.titlesize": 11.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.labelcolor": FAINT,
        "axes.edgecolor": "#b8bec7",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.formatter.limits": (-6, 12),
        "axes.formatter.useoffset": False,
        "grid.color": "#e8ebef",
        "text.color": INK,
        "xtick.color": FAINT,
        "ytick.color": FAINT,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
    }
)


def line_colours(count: int) -> list[str]:
    """`count` different colours."""
    more = count - len(LINE_COLOURS)
    hues = (colorsys.hls_to_rgb((0.07 + i / more) % 1, (0.32, 0.55, 0.72)[i % 3], 0.62) for i in range(max(more, 0)))
    return [*LINE_COLOURS, *map(matplotlib.colors.to_hex, hues)][:count]


def part_shades(family: tuple[str, str], count: int) -> list[str]:
    """`count` colours from the first of a family to its last."""
    ends = np.array([matplotlib.colors.to_rgb(colour) for colour in family])
    shares = np.linspace(0, 1, max(count, 2))[:count, None]
    return [matplotlib.colors.to_hex(colour) for colour in ends[0] + shares * (ends[1] - ends[0])]


def operation_colour(name: str) -> str:
    return OPERATION_COLOURS.get(name, OTHER_COLOURS[sum(name.encode()) % len(OTHER_COLOURS)])


def dashes(place: int, count: int):
    """The line style of one of `count` lines that coincide: the first is solid; the others are dashed, with offsets
    that leave each of them visible."""
    return "-" if place == 0 else ((place - 1) * DASH, (DASH, (count - 1) * DASH))


PLAIN = FuncFormatter(lambda value, _: np.format_float_positional(float(f"{value:.6g}"), trim="-"))


def scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    """A value with three significant digits, in the largest unit in which these are at least 1."""
    factor, unit = next((each for each in units if abs(value) >= 0.9995 * each[0]), units[-1])
    return f"{plain(value / factor)} {unit}"


def bytes_text(value: float) -> str:
    return scaled(value, ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")))


def rate_text(value: float) -> str:
    return scaled(value, ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")))


def seconds_text(value: float) -> str:
    return scaled(value, ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")))


def time_unit(largest: float) -> tuple[float, str]:
    return (1.0, "s") if largest >= 2 else (1e3, "ms") if largest >= 2e-3 else (1e6, "µs")


def whole_numbers(axis) -> None:
    axis.set_major_locator(MaxNLocator(integer=True))
