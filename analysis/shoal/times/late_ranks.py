# SPDX-License-Identifier: Apache-2.0
"""Why ranks wait: for a rank that enters an operation late, or for the transfer. Pure functions on numpy arrays.

The ranks of a group enter every operation in the same order, so the k-th operation of a name on a group in a step is the same
one on all of them. Until the last of them has entered, the others wait for that rank; what they wait afterwards is transfer.
In an exchange of two ranks (SGP) all ranks of the group count as partners, so that with more than two nodes the share of late
ranks is an upper bound. A stage of a pipeline waits for the pass of another stage that its own next pass needs: until that pass
has ended, its rank is late.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from shoal.read.grouping import numbers, places
from shoal.read.trace import Trace
from shoal.times import pipeline
from shoal.times.breakdown import settled_steps
from shoal.times.traffic import attributed_waits, rank_steps


def entries(trace: Trace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The calls of all operations in steps. Of each: when the last rank of its group entered, and which rank this was."""
    calls = trace.of_kind("collective")
    calls = calls[calls["step"] > 0]
    group, rank = calls["group"].astype(np.int64), calls["rank"].astype(np.int64)
    known = (group >= 0) & (group < len(trace.group_parts))
    part = np.zeros(len(calls), np.int64)
    part[known] = trace.group_parts[group[known], rank[known]]
    columns = (calls["name"], group, part, calls["step"])
    order = np.lexsort((calls["begin_ns"], rank, *columns[::-1]))
    place = places(order, (*columns, rank))
    instance = numbers((*columns, place))
    by_begin = np.lexsort((calls["begin_ns"], instance))
    last = (
        by_begin[np.append(np.flatnonzero(np.diff(instance[by_begin])), len(by_begin) - 1)] if len(calls) else by_begin
    )
    return calls, calls["begin_ns"][last][instance], rank[last][instance]


def nearest_calls(waits: np.ndarray, calls: np.ndarray) -> np.ndarray:
    """For each wait the call of the same rank, name and group that ends nearest to its end; -1 if there is none."""
    both = [np.concatenate([a, b]) for a, b in
            zip(_columns(calls), _columns(waits), strict=True)]  # fmt: skip
    is_call = np.arange(len(both[0])) < len(calls)
    order = np.lexsort((both[3], both[2], both[1], both[0]))
    index = np.where(is_call[order], order, -1)
    positions = np.arange(len(order))
    before = np.maximum.accumulate(np.where(index >= 0, positions, -1))
    after = len(order) - 1 - np.maximum.accumulate(np.where(index[::-1] >= 0, positions, -1))[::-1]
    best, distance = np.full(len(waits), -1), np.full(len(waits), np.iinfo(np.int64).max)
    places = positions[~is_call[order]]
    which = order[places] - len(calls)
    for candidate in (before[places], after[places]):
        exists = (candidate >= 0) & (candidate < len(order))
        call = np.where(exists, index[np.clip(candidate, 0, len(order) - 1)], -1)
        exists &= call >= 0
        same = exists.copy()
        for column in both[:3]:
            same[exists] &= column[call[exists]] == column[order[places]][exists]
        away = np.abs(both[3][np.maximum(call, 0)] - both[3][order[places]])
        better = same & (away < distance[which])
        best[which[better]], distance[which[better]] = call[better], away[better]
    return best


def _columns(events: np.ndarray) -> tuple[np.ndarray, ...]:
    ends = events["begin_ns"] + events["duration_ns"]
    return events["rank"], events["name"], events["group"], ends


@dataclass
class Waits:
    """The waits of the settled steps (traffic.attributed_waits)."""

    events: np.ndarray
    late_ns: np.ndarray  # of each, until the last rank had entered
    last_rank: np.ndarray  # that entered last; -1: the wait belongs to no recorded operation

    @property
    def transfer_ns(self) -> np.ndarray:
        return self.events["duration_ns"] - self.late_ns


def split_waits(trace: Trace) -> Waits:
    events = attributed_waits(trace)
    calls, entered, last = entries(trace)
    call = nearest_calls(events, calls)
    found = call >= 0
    late, ranks = np.zeros(len(events), np.int64), np.full(len(events), -1)
    late[found] = np.clip(entered[call[found]] - events["begin_ns"][found], 0, events["duration_ns"][found])
    ranks[found] = last[call[found]]
    borders = pipeline.is_border(trace, events)
    until, ranks[borders] = pipeline.needed(trace, events[borders])
    late[borders] = np.clip(until - events["begin_ns"][borders], 0, events["duration_ns"][borders])
    late[ranks == events["rank"]] = 0
    return Waits(events, late, ranks)


@dataclass
class Exposed:
    """One operation on one kind of group; seconds of a mean step, means over ranks."""

    name: str
    group: str
    late: float
    transfer: float
    computing: float  # between the messages of an operation that consists of others
    last_rank: int  # that the others waited for longest; -1 if for none
    last_share: float  # of `late`

    @property
    def seconds(self) -> float:
        return self.late + self.transfer + self.computing


def exposed(trace: Trace, waits: Waits) -> list[Exposed]:
    """All operations that ranks waited for, longest first. They add up to the waiting time of a step."""
    found = []
    shares = rank_steps(trace) * 1e9
    keys = waits.events["name"].astype(np.int64), waits.events["group"].astype(np.int64)
    for name, group in sorted(set(zip(keys[0].tolist(), keys[1].tolist(), strict=True))):
        chosen = (keys[0] == name) & (keys[1] == group)
        late = waits.late_ns[chosen]
        by_rank = np.bincount(waits.last_rank[chosen][late > 0], weights=late[late > 0], minlength=1)
        whole = float(late.sum())
        transfer = float(waits.transfer_ns[chosen & (waits.last_rank >= 0)].sum())
        computing = float(waits.transfer_ns[chosen & (waits.last_rank < 0)].sum())
        found.append(
            Exposed(trace.names[name], trace.group_name(group), whole / shares,
                    transfer / shares, computing / shares, int(by_rank.argmax()) if whole else -1,
                    float(by_rank.max()) / whole if whole else 0.0)
        )  # fmt: skip
    return sorted(found, key=lambda each: -each.seconds)


@dataclass
class Straggler:
    rank: int
    delay: float  # seconds of a mean step that the other ranks waited for this one, their mean
    share: float  # of all waiting for late ranks


def stragglers(trace: Trace, waits: Waits) -> list[Straggler]:
    """The ranks that others waited for, those first that made them wait longest."""
    chosen = waits.late_ns > 0
    by_rank = np.bincount(waits.last_rank[chosen], weights=waits.late_ns[chosen], minlength=trace.world_size)
    others = max(trace.world_size - 1, 1) * max(len(settled_steps(trace)), 1) * 1e9
    order = [int(rank) for rank in np.argsort(-by_rank, kind="stable") if by_rank[rank] > 0]
    return [Straggler(rank, by_rank[rank] / others, by_rank[rank] / by_rank.sum()) for rank in order]


@dataclass
class Path:
    """The critical path of the settled steps, backwards from the rank that ends a step last: where this rank waited for a late
    one, the path goes on there. Seconds of a mean step."""

    work: dict[tuple[int, str], float] = field(default_factory=lambda: defaultdict(float))  # by rank and phase
    transfer: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))  # by operation and group

    @property
    def seconds(self) -> float:
        return sum(self.work.values()) + sum(self.transfer.values())

    def of_ranks(self) -> dict[int, float]:
        """How much of the path each rank's own work is, the most first."""
        sums: dict[int, float] = defaultdict(float)
        for (rank, _), seconds in self.work.items():
            sums[rank] += seconds
        return dict(sorted(sums.items(), key=lambda each: -each[1]))


def critical_path(trace: Trace, waits: Waits) -> Path:
    numbers = settled_steps(trace)
    path = Path()
    all_steps = trace.of_kind("step")
    order = np.lexsort((waits.events["begin_ns"] + waits.events["duration_ns"], waits.events["rank"]))
    events, late, last = waits.events[order], waits.late_ns[order], waits.last_rank[order]
    ends = events["begin_ns"] + events["duration_ns"]
    bounds = np.searchsorted(events["rank"], np.arange(trace.world_size + 1))
    phases: dict[int, np.ndarray] = {}
    for number in numbers:
        steps = all_steps[all_steps["step"] == number]
        begins = dict(zip(steps["rank"].tolist(), steps["begin_ns"].tolist(), strict=True))
        slowest = int((steps["begin_ns"] + steps["duration_ns"]).argmax())
        rank, now = int(steps["rank"][slowest]), int(steps["begin_ns"][slowest] + steps["duration_ns"][slowest])
        while rank in begins and now > begins[rank]:
            first = bounds[rank]
            at = first + int(np.searchsorted(ends[first : bounds[rank + 1]], now, side="right")) - 1
            if at < first or events["begin_ns"][at] < begins[rank]:
                _add_work(path, trace, phases, rank, begins[rank], now, len(numbers))
                break
            _add_work(path, trace, phases, rank, int(ends[at]), now, len(numbers))
            begin = int(events["begin_ns"][at] + late[at])
            operation = trace.names[events["name"][at]], trace.group_name(events["group"][at])
            path.transfer[operation] += (int(ends[at]) - begin) / 1e9 / len(numbers)
            # A wait without duration would be found again.
            now = begin if begin < now else now - 1
            rank = int(last[at]) if late[at] > 0 else rank
    return path


def _add_work(path: Path, trace: Trace, phases: dict, rank: int, begin: int, end: int, steps: int) -> None:
    """Adds this time of a rank, divided among its outermost phases in steps."""
    if rank not in phases:
        of_rank = trace.of_kind("phase", rank=rank)
        phases[rank] = of_rank[of_rank["depth"] == 1]
    these = phases[rank]
    first = max(int(np.searchsorted(these["begin_ns"], begin, side="right")) - 1, 0)
    left = end - begin
    for phase in these[first : int(np.searchsorted(these["begin_ns"], end))]:
        inside = min(int(phase["begin_ns"] + phase["duration_ns"]), end) - max(int(phase["begin_ns"]), begin)
        if inside > 0:
            path.work[rank, trace.names[phase["name"]]] += inside / 1e9 / steps
            left -= inside
    if left > 0:
        path.work[rank, "rest"] += left / 1e9 / steps
