# SPDX-License-Identifier: Apache-2.0
"""What was sent within steps and how long ranks waited for it: by operation, and by unit. Pure functions on numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from needed import packages

packages("numpy", "h5py")

import numpy as np

from breakdown import settled_steps
from shoal_trace import Trace


def gathered_units(trace: Trace) -> np.ndarray:
    """The units that are gathered for each use: those of stage 3 that do not stay whole (zero.persist_below)."""
    if trace.options.get("zero.stage") != "3":
        return np.array([], dtype=int)
    small = trace.unit_elements < int(trace.options.get("zero.persist_below", "0"))
    return np.flatnonzero(~small) if len(small) else np.arange(len(trace.units))


def within_steps(trace: Trace, *kinds: str) -> np.ndarray:
    """The events of these kinds that belong to the settled steps.

    Evaluation and checkpoints between two steps communicate too, and are left out. But a step's parameters are published
    until the next one needs them: of that counts all from the end of the step before to the end of the last, as many times
    as there are steps.
    """
    steps = settled_steps(trace)
    gathered = gathered_units(trace)
    found = [trace.events[:0]]
    for rank in range(trace.world_size):
        events = trace.of_kind("step", *kinds, rank=rank)
        is_step = events["kind"] == trace.kinds.index("step")
        all_steps = events[is_step]
        bounds = all_steps[np.isin(all_steps["step"], steps)]
        if not len(bounds):
            continue
        before = all_steps[all_steps["begin_ns"] < bounds["begin_ns"][0]][-1:]
        begin = int(before["begin_ns"][0] + before["duration_ns"][0]) if len(before) else int(bounds["begin_ns"][0])
        end = int(bounds["begin_ns"][-1] + bounds["duration_ns"][-1])
        # Step 0 is the time before the first step, when the clock has not been set.
        settled = (events["step"] > 0) & (events["begin_ns"] >= begin) & (events["begin_ns"] < end)
        published = (events["unit"] >= 0) & ~np.isin(events["unit"], gathered)
        found.append(events[settled & (published | begun_in(events, bounds)) & ~is_step])
    return np.concatenate(found)


def begun_in(events: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Which of one rank's events begin within one of these steps."""
    before = np.searchsorted(steps["begin_ns"], events["begin_ns"], side="right") - 1
    ends = steps["begin_ns"] + steps["duration_ns"]
    return (before >= 0) & (events["begin_ns"] < ends[np.maximum(before, 0)])


def attributed_waits(trace: Trace) -> np.ndarray:
    """The waits within the settled steps, each with the name, group and unit of the operation that it was for.

    A wait for an operation that is made of others (the mean of the parameters over nodes, or a gather of codes) bears that
    one's name: its time goes to the parts that were open meanwhile, one after another, and what is left, where it computed
    between its messages, stays its own.
    """
    waits = within_steps(trace, "wait")
    calls = trace.of_kind("collective")
    known = keys_of(calls)
    composed = np.array(
        [pair not in known for pair in zip(waits["name"].tolist(), waits["group"].tolist(), strict=True)], bool
    )
    pieces = [waits[~composed]]
    for rank in np.unique(waits["rank"][composed]):
        of_rank = calls[calls["rank"] == rank]
        pieces += [shared_out(wait, of_rank) for wait in waits[composed & (waits["rank"] == rank)]]
    return np.concatenate(pieces)


def shared_out(wait: np.void, calls: np.ndarray) -> np.ndarray:
    """A wait cut into pieces by the operations of its rank that were open meanwhile, first those that were begun first: of
    its own name, or if there are none those that are of no unit, and so of all the parameters."""
    begin, end = int(wait["begin_ns"]), int(wait["begin_ns"]) + int(wait["duration_ns"])
    calls = calls[(calls["begin_ns"] < end) & (calls["begin_ns"] + calls["duration_ns"] > begin)]
    own = calls[calls["name"] == wait["name"]]
    pieces = []
    left = int(wait["duration_ns"])
    for call in own if len(own) else calls[calls["unit"] < 0]:
        until = min(int(call["begin_ns"]) + int(call["duration_ns"]), end)
        duration = until - max(begin, int(call["begin_ns"]))
        if duration <= 0:
            continue
        piece = wait.copy()
        for field in ("name", "group", "unit"):
            piece[field] = call[field]
        piece["begin_ns"], piece["duration_ns"] = max(begin, int(call["begin_ns"])), duration
        pieces.append(piece)
        begin, left = until, left - duration
    if left > 0:
        rest = wait.copy()
        rest["duration_ns"] = left
        pieces.append(rest)
    return np.array(pieces, dtype=calls.dtype)


def shares(trace: Trace) -> int:
    """Steps times ranks: what sums are divided by for the mean of a rank and step."""
    return max(len(settled_steps(trace)), 1) * trace.world_size


@dataclass
class Operation:
    """One kind of collective on one group of ranks; means over ranks and settled steps."""

    name: str
    group: str
    calls_per_step: float  # 0: what an operation made of others did between their messages
    bytes_per_step: float  # sent by one rank
    seconds: float  # of one call, from its start to its last byte
    exposed_per_step: float  # seconds a rank waited for it

    @property
    def bandwidth(self) -> float:
        """Bytes per second that a rank sends while such an operation is open."""
        busy = self.calls_per_step * self.seconds
        return self.bytes_per_step / busy if busy > 0 else 0.0


def operations(trace: Trace) -> list[Operation]:
    """By the bytes that they send. What a rank waited for them adds up to all that it waited in a step."""
    calls, waits = within_steps(trace, "collective"), attributed_waits(trace)
    found = []
    for name, group in sorted(keys_of(calls) | keys_of(waits)):
        these = calls[(calls["name"] == name) & (calls["group"] == group)]
        waited = waits[(waits["name"] == name) & (waits["group"] == group)]
        found.append(
            Operation(
                name=trace.names[name],
                group=trace.group_name(group),
                calls_per_step=len(these) / shares(trace),
                bytes_per_step=float(these["bytes"].sum(dtype=np.float64)) / shares(trace),
                seconds=float(these["duration_ns"].mean()) / 1e9 if len(these) else 0.0,
                exposed_per_step=float(waited["duration_ns"].sum()) / 1e9 / shares(trace),
            )
        )
    return sorted(found, key=lambda operation: -operation.bytes_per_step)


def keys_of(events: np.ndarray) -> set[tuple[int, int]]:
    return set(zip(events["name"].tolist(), events["group"].tolist(), strict=True))


@dataclass
class UnitOperation:
    """What one unit had gathered, reduced or released; means over ranks and settled steps."""

    unit: int
    name: str
    calls_per_step: float
    bytes_per_step: float  # sent by one rank; of a release: given up
    open_per_step: float  # seconds from the start to the last byte; of a release: that it took
    exposed_per_step: float  # seconds of them that the rank waited

    @property
    def hidden(self) -> float:
        """The share of the time that went on behind computation."""
        return max(0.0, 1 - self.exposed_per_step / self.open_per_step) if self.open_per_step > 0 else 1.0


def unit_operations(trace: Trace) -> list[UnitOperation]:
    """By unit, then by the time that its operations are open. A message for several units is its last one's."""
    return list(_unit_operations(trace))


def _unit_operations(trace: Trace) -> Iterator[UnitOperation]:
    events, waits = within_steps(trace, "collective", "phase"), attributed_waits(trace)
    released = np.flatnonzero(trace.names == "release")
    events = events[(events["kind"] == trace.kinds.index("collective")) | np.isin(events["name"], released)]
    for unit in range(len(trace.units)):
        of_unit = events[events["unit"] == unit]
        waited = waits[waits["unit"] == unit]
        names = np.unique(of_unit["name"])
        durations = {name: int(of_unit["duration_ns"][of_unit["name"] == name].sum()) for name in names}
        for name in sorted(names, key=lambda name: -durations[name]):
            these = of_unit[of_unit["name"] == name]
            exposed = int(waited["duration_ns"][waited["name"] == name].sum())
            yield UnitOperation(
                unit=unit,
                name=trace.names[name],
                calls_per_step=len(these) / shares(trace),
                bytes_per_step=float(these["bytes"].sum(dtype=np.float64)) / shares(trace),
                open_per_step=durations[name] / 1e9 / shares(trace),
                exposed_per_step=exposed / 1e9 / shares(trace),
            )
