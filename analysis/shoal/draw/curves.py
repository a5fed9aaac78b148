# SPDX-License-Identifier: Apache-2.0
"""Lines over steps: smoothing, and detection of lines that would hide each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FEWEST_TO_SMOOTH = 80  # if the longest line has fewer values, none is smoothed
DISTINCT = 0.012  # fraction of a figure's height; lines that differ by less coincide
Series = tuple[np.ndarray, np.ndarray]  # steps, values


def window(counts: list[int]) -> int:
    """Length of the running mean, the same for all lines of a figure: about a fortieth of the longest line; 1: no
    smoothing."""
    longest = max(counts, default=0)
    return 2 * max(1, longest // 80) + 1 if longest >= FEWEST_TO_SMOOTH else 1


def smoothed(values: np.ndarray, over: int) -> np.ndarray:
    """A centred running mean over `over` values. Values that are not finite are left out; windows are shorter at the
    ends."""
    if over == 1:
        return values
    half = over // 2
    finite = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(finite)])
    low = np.maximum(np.arange(len(values)) - half, 0)
    high = np.minimum(np.arange(len(values)) + half + 1, len(values))
    taken = counts[high] - counts[low]
    return np.where(finite & (taken > 0), (sums[high] - sums[low]) / np.maximum(taken, 1), np.nan)


@dataclass
class Place:
    """The place of a line among those that coincide with it."""

    place: int = 0
    count: int = 1
    remark: str = ""  # for the legend: which line it coincides with


def places(lines: list[Series], labels: list[str]) -> list[Place]:
    """The places of lines on the same axes. Lines that coincide name the first of them."""
    finite = [values[np.isfinite(values)] for _, values in lines]
    height = max((v.max() for v in finite if len(v)), default=0.0) - min(
        (v.min() for v in finite if len(v)), default=0.0
    )
    firsts: list[int] = []
    group: list[int] = []
    remarks: list[str] = []
    for i, line in enumerate(lines):
        found = [
            (first, remark) for first in firsts if (remark := coincidence(lines[first], line, labels[first], height))
        ]
        # A line that is identical to one and close to another names the identical one.
        first, remark = min(found, key=lambda each: not each[1].startswith("identical"), default=(i, ""))
        if first == i:
            firsts.append(i)
        group.append(first)
        remarks.append(remark)
    return [Place(group[:i].count(first), group.count(first), remarks[i]) for i, first in enumerate(group)]


def coincidence(first: Series, other: Series, label: str, height: float) -> str:
    """Describes where two lines coincide; "" if both are visible."""
    steps, a, b = np.intersect1d(first[0], other[0], return_indices=True)
    if not len(steps):
        return ""
    x, y = first[1][a], other[1][b]
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return ""
    worst = float(np.nanmax(np.abs(x - y), initial=0.0)) if np.isfinite(x).any() else 0.0
    common = "" if len(steps) == len(first[0]) == len(other[0]) else f", steps {steps[0]} to {steps[-1]}"
    if worst == 0:
        return f"identical to {label}{common}"
    return f"within {worst:.1g} of {label}{common}" if worst < DISTINCT * height else ""
