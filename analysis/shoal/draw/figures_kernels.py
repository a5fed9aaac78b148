# SPDX-License-Identifier: Apache-2.0
"""The roofline picture of report.py: how close kernels come to the peak of a rank, by operations per byte."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

from shoal.draw.figures import Nothing
from shoal.draw.styles import FAINT, PLAIN, line_colours, plain, plt, rate_text
from shoal.read.run_parts import span
from shoal.read.trace import Trace
from shoal.times import breakdown, kernel_work

MARKERS = "osD^vPX*<>hp"


def roofline(trace: Trace):
    kernels = breakdown.kernel_times(trace).kernels
    placed, _ = kernel_work.points(trace, kernels)
    if not placed:
        raise Nothing("no kernel whose operations and bytes are known" if kernels else "no kernel events")
    figure, axes = plt.subplots(figsize=(8.4, 4.4))
    names = sorted({_base(point.name) for point in placed})
    colours = dict(zip(names, line_colours(len(names)), strict=True))
    for point in sorted(placed, key=lambda each: (_base(each.name), each.name)):
        axes.plot(point.intensity, point.flops_per_s / 1e9, ls="", marker=_marker(point.name), color=colours[_base(point.name)],
                  ms=5 + 14 * np.sqrt(point.share), mec="white", mew=0.6,
                  label=f"{point.name}: {plain(point.flops_per_s / 1e9)} GFLOP/s")  # fmt: skip
    xs = np.array([point.intensity for point in placed])
    ys = np.array([point.flops_per_s / 1e9 for point in placed])
    left, right = xs.min() / 3, xs.max() * 3
    top, bandwidth = kernel_work.peak(trace), kernel_work.greatest_bandwidth(trace, kernels)
    highest = max(ys.max(), (top or 0) / 1e9) * 3
    line = np.geomspace(left, right, 200)
    if bandwidth:
        roof = np.minimum(line * bandwidth / 1e9, top / 1e9 if top else np.inf)
        shown = roof <= highest
        axes.plot(line[shown], roof[shown], color=FAINT, lw=1.2, ls=(0, (4, 3)),
                  label=f"most data moved by a kernel: {rate_text(bandwidth)}")  # fmt: skip
    if top:
        axes.axhline(top / 1e9, color=FAINT, lw=1.2, label=f"measured peak of a rank: {plain(top / 1e9)} GFLOP/s")
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(ys.min() / 3, highest),
             title=f"Kernels and the peak, mean of steps {span(breakdown.settled_steps(trace))}",
             xlabel="operations per byte (log scale)", ylabel="GFLOP/s of a rank (log scale)")  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(PLAIN)
        axis.set_minor_locator(NullLocator())
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=7.5, markerscale=0.7)
    return figure


def _base(name: str) -> str:
    return next((name.removesuffix(end) for end in ("_dx", "_dw", "_backward") if name.endswith(end)), name)


def _marker(name: str) -> str:
    return next((MARKERS[i] for i, end in enumerate(("_dx", "_dw", "_backward"), 1) if name.endswith(end)), MARKERS[0])
