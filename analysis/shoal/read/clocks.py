# SPDX-License-Identifier: Apache-2.0
"""How far the clocks of a run's nodes have drifted apart, and times without that drift.

Before each flush of its trace, every rank records counters clock/barrier right after barriers: the same moment on all ranks,
but for the way of a message. The difference between two nodes at a flush is that between the medians over their ranks and
readings. Between two flushes it is taken as linear. Ranks of one node read one clock, so their times stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shoal.read.grouping import alike, places
from shoal.read.trace import Trace

COUNTER = "clock/barrier"


@dataclass
class Clocks:
    hosts: list[str]  # that of rank 0 first
    of_rank: np.ndarray  # index into hosts, by rank
    seconds: np.ndarray  # [flushes]: by rank 0's clock
    times_ns: np.ndarray  # [flushes, hosts]: the moment of each flush by the clock of each host
    spread_ns: np.ndarray  # [hosts]: median distance of a reading from times_ns, how sure these are

    @property
    def offsets_ns(self) -> np.ndarray:
        """[flushes, hosts]: how far each clock is ahead of that of rank 0's host."""
        return self.times_ns - self.times_ns[:, :1]

    def drift_ppm(self, host: int) -> float:
        """Microseconds that a clock gains in a second, a straight line through all flushes; NaN with fewer than two."""
        if len(self.seconds) < 2 or np.ptp(self.seconds) <= 0:
            return float("nan")
        return float(np.polyfit(self.seconds, self.offsets_ns[:, host] / 1e3, 1)[0])


def clocks_of(trace: Trace) -> Clocks | None:
    """None if the trace has no readings (of one rank, or written by an older program), or not of all hosts."""
    number = np.flatnonzero(trace.names == COUNTER)
    marks = trace.of_kind("counter")
    marks = marks[np.isin(marks["name"], number)]
    if not len(marks) or len(trace.hosts) != trace.world_size:
        return None
    hosts = list(dict.fromkeys(trace.hosts))
    index_of = {host: index for index, host in enumerate(hosts)}
    of_rank = np.array([index_of[host] for host in trace.hosts])
    flushes = np.unique(marks["bytes"])
    host_of_mark, flush_of_mark = of_rank[marks["rank"]], np.searchsorted(flushes, marks["bytes"])
    # The readings of a flush follow one another: only those of the same place among their rank's are of one moment.
    place = places(np.lexsort((flush_of_mark, marks["rank"])), (marks["rank"], flush_of_mark))
    readings = [[[] for _ in hosts] for _ in flushes]
    distances = [[] for _ in hosts]
    for chosen in alike((host_of_mark, flush_of_mark, place)):
        host, begins = host_of_mark[chosen[0]], marks["begin_ns"][chosen]
        reading = np.median(begins)
        readings[flush_of_mark[chosen[0]]][host].append(reading)
        distances[host].append(np.abs(begins - reading))
    if not all(all(of_hosts) for of_hosts in readings):
        return None
    times = np.array([[np.mean(of_host) for of_host in of_hosts] for of_hosts in readings])
    spread = np.array([np.median(np.concatenate(of_host)) for of_host in distances])
    return Clocks(hosts, of_rank, times[:, 0] / 1e9, times, spread)


def aligned(trace: Trace) -> Trace:
    """The trace with all times by the clock of rank 0's host; `clocks` tells how far the others were ahead."""
    clocks = clocks_of(trace)
    if clocks is None or len(clocks.hosts) < 2:
        return replace(trace, clocks=clocks)
    events = trace.events.copy()
    for rank in range(trace.world_size):
        host = clocks.of_rank[rank]
        if host == 0:
            continue
        first, end = trace.begins_of_ranks[rank : rank + 2]
        begins = events["begin_ns"][first:end].copy()
        # Begins and ends are moved alike, so that what lay within an event stays within it.
        ends = _without_drift(begins + events["duration_ns"][first:end], clocks, host)
        begins = _without_drift(begins, clocks, host)
        events["begin_ns"][first:end], events["duration_ns"][first:end] = begins, ends - begins
    return replace(trace, events=events, clocks=clocks)


def _without_drift(times: np.ndarray, clocks: Clocks, host: int) -> np.ndarray:
    ahead = np.interp(times, clocks.times_ns[:, host], clocks.offsets_ns[:, host])
    return times - np.rint(ahead).astype(np.int64)
