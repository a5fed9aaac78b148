# SPDX-License-Identifier: Apache-2.0
"""Reads a trace of shoal (format versions 1 to 3, described in include/shoal/io/trace_file.hpp) into numpy.

    from shoal.read.trace import Trace
    trace = Trace.read("out/trace.h5")           # or the run's directory
    waits = trace.of_kind("wait", rank=0)        # a structured array: begin_ns, duration_ns, bytes, name, step, ...
    print(trace.names[waits["name"][0]], waits["duration_ns"].sum() / 1e9, "s")

Times are nanoseconds since the barrier at the start of the run, which is time 0 on every rank. Events of kinds device_... are
what a queue of the device did; all others are the host's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np

from shoal.read.bad_input import DAMAGE, BadInput, one_line
from shoal.read.live import read_live
from shoal.read.printable import printable
from shoal.read.trace_checks import check, check_ranks, stored_rows, without_half, written

FORMAT_VERSIONS = (1, 2, 3)
MOST_RANKS = 1 << 20  # a trace that names more is refused as damaged
MOST_INFLATION = 1032  # bytes that one byte of a compressed trace can become (zlib)
EVENT_FIELDS = ("rank", "begin_ns", "duration_ns", "bytes", "name", "step", "unit", "kind", "group", "micro", "depth",
                "queue")  # fmt: skip


def text(value) -> str:
    """Converts an attribute to printable text: an HDF5 string (h5py returns bytes or str), a number, or an array of
    one."""
    value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    return printable(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def attributes(node) -> dict[str, str]:
    return {printable(key): text(value) for key, value in node.attrs.items()}


def strings(file: h5py.File, name: str) -> np.ndarray:
    return np.array([text(s) for s in file[name][()]], dtype=object) if name in file else np.array([], dtype=object)


@dataclass
class Trace:
    path: Path
    attributes: dict[str, str]
    options: dict[str, str]
    machine: dict[str, str]
    hosts: list[str]
    names: np.ndarray
    units: np.ndarray
    unit_elements: np.ndarray  # parameters of each unit; empty if the trace lacks them
    groups: np.ndarray
    kinds: list[str]
    queues: list[str]  # names by the events' queue: "host", then the device's queues; of older programs "host" alone
    events: np.ndarray  # sorted by rank, then begin_ns; an outer event comes before those inside it
    dropped: int  # number of events of all ranks that were lost, because memory was full between two flushes
    group_parts: np.ndarray  # [groups, ranks]: which group of its kind a rank belongs to; without rows if unknown
    clocks: object = None  # a clocks.Clocks, if the times are aligned by it
    changed: tuple[str, ...] = ()  # names of the options that differ from their defaults; empty if the trace lacks them
    settled: tuple | np.ndarray = ()  # the settled steps of its run; empty if no summary names them

    @property
    def world_size(self) -> int:
        return int(self.attributes["world_size"])

    @property
    def nodes(self) -> int:
        return int(self.attributes.get("nodes", 1))

    @property
    def level(self) -> str:
        return self.attributes.get("level", "")

    @property
    def complete(self) -> bool:
        return self.attributes.get("complete") == "1"

    @property
    def steps(self) -> np.ndarray:
        """The numbers of the recorded steps, in order."""
        return np.unique(self.of_kind("step")["step"])

    def before(self, step: int) -> Trace:
        """The trace without this step and all later ones."""
        return replace(self, events=self.events[self.events["step"] < step])

    def of_kind(self, *kinds: str, rank: int | None = None) -> np.ndarray:
        """The events of these kinds, of one rank or of all."""
        wanted = [self.kinds.index(kind) for kind in kinds if kind in self.kinds]
        events = self.of_rank(rank)
        return events[np.isin(events["kind"], wanted)]

    def of_rank(self, rank: int | None) -> np.ndarray:
        """The events of one rank; None: of all. A view, since the ranks lie one behind the other."""
        if rank is None:
            return self.events
        return self.events[self.begins_of_ranks[rank] : self.begins_of_ranks[rank + 1]]

    @cached_property
    def begins_of_ranks(self) -> np.ndarray:
        """rank_begins() of all events."""
        return rank_begins(self.events, self.world_size)

    def of_queue(self, queue: int, rank: int | None = None) -> np.ndarray:
        """What a queue of the device did, in its order."""
        events = self.of_rank(rank)
        return events[events["queue"] == queue]

    @property
    def device_queues(self) -> list[int]:
        """The queues that have events. There are none if the host computed."""
        return [int(queue) for queue in np.unique(self.events["queue"]) if queue > 0]

    @property
    def untimed(self) -> int:
        """How often work of a queue was not timed, on all ranks."""
        return int(self.attributes.get("untimed_spans", 0))

    @property
    def zero(self) -> float:
        """Time 0 of the events in seconds since 1970. Older programs wrote only the second in which the file was made."""
        if "zero_unix_ns" in self.attributes:
            return int(self.attributes["zero_unix_ns"]) / 1e9
        try:
            return datetime.fromisoformat(self.attributes.get("started", "")).timestamp()
        except ValueError:
            return 0.0

    @property
    def end_ns(self) -> int:
        """When the last event of all ranks ended."""
        return int((self.events["begin_ns"] + self.events["duration_ns"]).max(initial=0))

    def group_name(self, group: int) -> str:
        return self.groups[group] if 0 <= group < len(self.groups) else ""

    @staticmethod
    def read(path: str | Path) -> Trace:
        """Reads a trace file, or the only trace in a run's directory. The run may still be writing it."""
        path = Path(path)
        if path.is_dir():
            path = _only_trace(path)
        if not path.is_file():
            raise BadInput(f"{path}: no such trace")
        if path.stat().st_size == 0:
            raise BadInput(f"{path}: empty")
        try:
            return read_live(path, lambda: _read_once(path))
        except DAMAGE as error:
            raise BadInput(f"{path}: cannot be read: {one_line(error)}") from error


def rank_begins(events: np.ndarray, ranks: int) -> np.ndarray:
    """The index of each rank's first event, and the number of all events. The events must be in the order of their ranks."""
    return np.searchsorted(np.ascontiguousarray(events["rank"], np.int64), np.arange(ranks + 1))


def _only_trace(directory: Path) -> Path:
    """The trace of a directory. A resumed run has several traces, and the caller must name one of them."""
    found = sorted(directory.glob("trace*.h5"))
    if len(found) > 1:
        raise BadInput(f"{directory}: the run was resumed and has {len(found)} traces; name one of "
                       f"{', '.join(path.name for path in found)}")  # fmt: skip
    return found[0] if found else directory / "trace.h5"


def _read_once(path: Path) -> Trace:
    if not h5py.is_hdf5(path):
        raise BadInput(f"{path}: not an HDF5 file")
    # swmr: the end of a file that is being written may lie elsewhere than its head says, and blocks that are read in the middle
    # of a write are read again.
    with h5py.File(path, "r", swmr=True) as file:
        return _read(path, file)


def _read(path: Path, file: h5py.File) -> Trace:
    top = attributes(file)
    version = top.get("format_version")
    if version not in map(str, FORMAT_VERSIONS):
        found = "has no format_version: not a trace" if version is None else f"format_version = {version}"
        raise BadInput(f"{path}: {found}; these scripts read versions {FORMAT_VERSIONS[0]} to {FORMAT_VERSIONS[-1]}")
    if "events" not in file or "world_size" not in top:
        raise BadInput(f"{path}: no /events or no world_size: not a trace")
    world_size = int(top["world_size"])
    if file["events"].nbytes > MOST_INFLATION * path.stat().st_size:
        raise BadInput(f"{path}: /events claims {file['events'].nbytes} bytes, more than the file can hold: damaged")
    # /flushes comes first: what it covers is in the file, whatever the run adds while the rest is read.
    flushes = file["flushes"][()] if "flushes" in file else None
    events, rows = file["events"][()], stored_rows(file["events"])
    if version == "1" and events.dtype.names and "queue" not in events.dtype.names:
        events = _with_host(events)
    absent = [field for field in EVENT_FIELDS if field not in (events.dtype.names or ())]
    if absent:
        raise BadInput(f"{path}: /events lacks {', '.join(absent)}")
    machine = file["machine"] if "machine" in file else None
    names, kinds = strings(file, "names"), list(strings(file, "kinds"))
    if flushes is not None:
        if top.get("complete") != "1":
            flushes = without_half(flushes, world_size, events[:rows], names)
        events = events[written(flushes, len(events))]
    queues = list(strings(file, "queues")) if version != "1" else ["host"]
    check(path, events, {"name": len(names), "kind": len(kinds), "queue": len(queues), "rank": world_size})
    if int(top.get("nodes", 1)) < 1 or not 1 <= world_size <= MOST_RANKS:
        raise BadInput(f"{path}: nodes = {top.get('nodes')}, world_size = {world_size}: not a trace")
    if flushes is not None:
        check_ranks(path, events, flushes)
    # Every flush records how many events its rank has dropped since the flush before it.
    dropped = int(flushes["dropped"].sum()) if flushes is not None else 0
    return Trace(
        path=path,
        attributes=top,
        options=attributes(file["options"]) if "options" in file else {},
        machine=attributes(machine) if machine is not None else {},
        hosts=list(strings(machine, "hosts")) if machine is not None else [],
        names=names,
        units=strings(file, "units"),
        unit_elements=file["unit_elements"][()].astype(np.int64) if "unit_elements" in file else np.array([], np.int64),
        groups=strings(file, "groups"),
        kinds=kinds,
        queues=queues,
        events=events[np.lexsort((events["depth"], -events["duration_ns"], events["begin_ns"], events["rank"]))],
        dropped=dropped,
        changed=tuple(strings(file, "changed")),
        group_parts=_group_parts(file, world_size),
    )


def _group_parts(file: h5py.File, world_size: int) -> np.ndarray:
    parts = file["group_parts"][()] if "group_parts" in file else np.zeros((0, world_size), np.int32)
    return parts if parts.ndim == 2 and parts.shape[1] == world_size else np.zeros((0, world_size), np.int32)


def _with_host(events: np.ndarray) -> np.ndarray:
    """Adds a field `queue` of zeros: in version 1 all events are the host's."""
    extended = np.zeros(events.shape, [*((name, events.dtype[name]) for name in events.dtype.names), ("queue", "i2")])
    for name in events.dtype.names:
        extended[name] = events[name]
    return extended
