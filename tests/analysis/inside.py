# SPDX-License-Identifier: Apache-2.0
"""Whether a figure shows all that is drawn into it: what lies beyond the limits of its axes is cut off without a word."""

import numpy as np

TOLERANCE = 1.0  # pixels


def points(artist):
    """The points of a line, bar, band or mark, in pixels."""
    if hasattr(artist, "get_offsets") and len(artist.get_paths()) <= 1 < len(artist.get_offsets()):
        return artist.get_offset_transform().transform(artist.get_offsets())
    if hasattr(artist, "get_paths"):
        vertices = [artist.get_transform().transform(path.vertices) for path in artist.get_paths()]
        return np.concatenate(vertices) if vertices else np.zeros((0, 2))
    if hasattr(artist, "get_xydata"):
        finite = np.isfinite(artist.get_xydata()).all(axis=1)
        return artist.get_transform().transform(artist.get_xydata()[finite])
    return artist.get_transform().transform(artist.get_path().vertices)


def outside(figure):
    """What of the figure is not shown whole, a sentence each."""
    figure.canvas.draw()
    found = []
    for axes in figure.axes:
        box = axes.bbox
        low, high = np.array([box.x0, box.y0]) - TOLERANCE, np.array([box.x1, box.y1]) + TOLERANCE
        for artist in (*axes.lines, *axes.patches, *axes.collections):
            places = points(artist)
            beyond = ~((places >= low) & (places <= high)).all(axis=1)
            if beyond.any():
                title = axes.get_title(loc="left") or axes.get_title() or axes.get_ylabel()
                found.append(
                    f"{title}: {artist.get_label()}: {beyond.sum()} of {len(places)} points are outside of the axes"
                )
    return found
