# SPDX-License-Identifier: Apache-2.0
"""Bytes sent within steps, and the time that ranks waited for them: by operation and by unit. Pure functions on numpy
arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shoal.read.trace import Trace
from shoal.times import pipeline
from shoal.times.breakdown import settled_steps
from shoal.times.in_steps import within_steps


def attributed_waits(trace: Trace) -> np.ndarray:
    """The waits within the settled steps, each with the name, group and unit of the operation that the rank waited for.

    Some operations consist of others: the average of parameters over nodes, or an all-gather of quantized parameters. A
    wait for such an operation has its name. Its time is divided among the messages that were in flight during the wait;
    the remainder, in which the operation computed between its messages, keeps the operation's own name. A wait for a message
    between the stages of a pipeline is one for its group.
    """
    waits = within_steps(trace, "wait")
    borders = pipeline.is_border(trace, waits)
    if borders.any():
        waits["group"][borders] = trace.groups.tolist().index(pipeline.GROUP)
    calls = trace.of_kind("collective")
    known = keys_of(calls)
    composed = np.array(
        [pair not in known for pair in zip(waits["name"].tolist(), waits["group"].tolist(), strict=True)], bool
    )
    composed &= ~borders
    pieces = [waits[~composed]]
    names = trace.names.tolist()
    carriers = {names.index(a): names.index(b) for a, b in CARRIED_BY.items() if a in names and b in names}
    for rank in np.unique(waits["rank"][composed]):
        of_rank = trace.of_kind("collective", rank=int(rank))
        for wait in waits[composed & (waits["rank"] == rank)]:
            pieces.append(divided(wait, of_rank, carriers.get(int(wait["name"]), -1)))
    return np.concatenate(pieces)


# A wait has the name of the operation that its caller waits for. SGP sends through an exchange of messages.
CARRIED_BY = {"send": "exchange"}


def divided(wait: np.void, calls: np.ndarray, carrier: int = -1) -> np.ndarray:
    """Divides a wait among the operations of its rank that were in flight during it, in the order of their start. These
    are the operations with the name of the wait or of its carrier or, if there are none, those that belong to no unit (they
    concern all parameters)."""
    begin, end = int(wait["begin_ns"]), int(wait["begin_ns"]) + int(wait["duration_ns"])
    calls = calls[(calls["begin_ns"] < end) & (calls["begin_ns"] + calls["duration_ns"] > begin)]
    own = calls[(calls["name"] == wait["name"]) | (calls["name"] == carrier)]
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


def rank_steps(trace: Trace) -> int:
    """Settled steps times ranks. Sums over all events are divided by it to get the mean per rank and step."""
    return max(len(settled_steps(trace)), 1) * trace.world_size


@dataclass
class Operation:
    """One kind of collective on one group of ranks; means over ranks and settled steps."""

    name: str
    group: str
    calls_per_step: float  # 0: the computation of a composed operation between its messages
    bytes_per_step: float  # sent by one rank
    seconds: float  # per call, from its start to its last byte
    exposed_per_step: float  # seconds that a rank waited for it, as in UnitOperation

    @property
    def bandwidth(self) -> float:
        """Bytes per second that a rank sends while such an operation is in flight."""
        busy = self.calls_per_step * self.seconds
        return self.bytes_per_step / busy if busy > 0 else 0.0


def operations(trace: Trace) -> list[Operation]:
    """All operations, those that send most first. Their waiting times add up to the waiting time of a step."""
    calls, waits = within_steps(trace, "collective"), attributed_waits(trace)
    found = []
    for name, group in sorted(keys_of(calls) | keys_of(waits)):
        these = calls[(calls["name"] == name) & (calls["group"] == group)]
        waited = waits[(waits["name"] == name) & (waits["group"] == group)]
        found.append(
            Operation(
                name=trace.names[name],
                group=trace.group_name(group),
                calls_per_step=len(these) / rank_steps(trace),
                bytes_per_step=float(these["bytes"].sum(dtype=np.float64)) / rank_steps(trace),
                seconds=float(these["duration_ns"].mean()) / 1e9 if len(these) else 0.0,
                exposed_per_step=float(waited["duration_ns"].sum()) / 1e9 / rank_steps(trace),
            )
        )
    return sorted(found, key=lambda operation: -operation.bytes_per_step)


def keys_of(events: np.ndarray) -> set[tuple[int, int]]:
    return set(zip(events["name"].tolist(), events["group"].tolist(), strict=True))


@dataclass
class UnitOperation:
    """One operation on one unit: gather, reduce or release; means over ranks and settled steps."""

    unit: int
    name: str
    calls_per_step: float
    bytes_per_step: float  # sent by one rank; freed, in a release
    open_per_step: float  # seconds in flight: from the start to the last byte; of a release, its duration
    # Seconds that ranks waited for it. A wait begins while the operation is in flight, and ends after the last byte: as much
    # later as the rank's processor was elsewhere. So the sum may be larger than open_per_step.
    exposed_per_step: float

    @property
    def exposed_in_flight(self) -> float:
        """The part of the seconds in flight that the rank waited."""
        return min(self.exposed_per_step, self.open_per_step)

    @property
    def hidden(self) -> float:
        """The fraction of the time in flight that computation hid."""
        return 1 - self.exposed_in_flight / self.open_per_step if self.open_per_step > 0 else 1.0


def unit_operations(trace: Trace) -> list[UnitOperation]:
    """All operations on units, by unit, then by time in flight. A message of several units counts for its last one."""
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
                calls_per_step=len(these) / rank_steps(trace),
                bytes_per_step=float(these["bytes"].sum(dtype=np.float64)) / rank_steps(trace),
                open_per_step=durations[name] / 1e9 / rank_steps(trace),
                exposed_per_step=exposed / 1e9 / rank_steps(trace),
            )
