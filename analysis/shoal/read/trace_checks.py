# SPDX-License-Identifier: Apache-2.0
"""Which rows of a trace are events, and whether they are what the trace says. The file may be damaged, or be written at this
moment."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from shoal.read.bad_input import BadInput


def stored_rows(dataset: h5py.Dataset) -> int:
    """How many rows are in the file. A dataset that was extended a moment ago may lack its last chunks, which read as
    zeros."""
    rows = len(dataset)
    return min(rows, dataset.id.get_num_chunks() * dataset.chunks[0]) if dataset.chunks else rows


def without_half(flushes: np.ndarray, world_size: int, events: np.ndarray, names: np.ndarray) -> np.ndarray:
    """The flushes of a trace that may be in the middle of the last one, without it if a part of it is missing. Its rows, the
    events and their names reach the file one after another."""
    earlier, last = flushes[:-world_size], flushes[-world_size:]
    whole = np.array_equal(last["rank"], np.arange(world_size)) and (last["flush"] == len(earlier) // world_size).all()
    if whole and (last["first"] + last["count"] <= len(events)).all():
        used = np.unique(events["name"][written(last, len(events))])
        whole = not len(used) or (used[-1] < len(names) and all(names[used[used >= 0]]))
    return flushes if whole else earlier


def written(flushes: np.ndarray, rows: int) -> np.ndarray:
    """A mask of the rows of /events that are events. Others fill up chunks; or a killed run of an older program had
    extended the dataset before it wrote."""
    written = np.zeros(rows, dtype=bool)
    for first, count in zip(flushes["first"].tolist(), flushes["count"].tolist(), strict=True):
        written[first : first + count] = True
    return written


def check_ranks(path: Path, events: np.ndarray, flushes: np.ndarray) -> None:
    """Checks that the events are those that /flushes names. A chunk that is missing in the file reads as zeros: a step of unit 0.
    Steps belong to no unit, so their unit is -1."""
    in_order = flushes[np.argsort(flushes["first"], kind="stable")]
    counts = in_order["count"].astype(np.int64)
    fit = (counts <= len(events)).all() and counts.sum() == len(events)
    if not fit or not np.array_equal(events["rank"], np.repeat(in_order["rank"], counts)):
        raise BadInput(f"{path}: /events has not the rows of the ranks that /flushes says: damaged")
    zero = (events["kind"] == 0) & (events["unit"] == 0) & (events["duration_ns"] == 0)
    if zero.any():
        raise BadInput(f"{path}: /events has no data in the place of {np.count_nonzero(zero)} rows: damaged")


def check(path: Path, events: np.ndarray, lengths: dict[str, int]) -> None:
    """Checks that every index into a table is valid, and that no duration is negative."""
    if events.ndim != 1:
        raise BadInput(f"{path}: /events has {events.ndim} dimensions: not a trace")
    if not len(events):
        return
    for field, length in lengths.items():
        least, most = int(events[field].min()), int(events[field].max())
        if least < 0 or most >= length:
            wrong = least if least < 0 else most
            raise BadInput(f"{path}: /events refers to {field}s beyond the {length} that there are: {wrong}")
    if int(events["duration_ns"].min()) < 0:
        raise BadInput(f"{path}: /events has a duration below 0")
