# SPDX-License-Identifier: Apache-2.0
"""Reads a trace of shoal (format version 1, described in include/shoal/io/trace_file.hpp) into numpy.

    from shoal_trace import Trace
    trace = Trace.read("out/trace.h5")           # or the run's directory
    waits = trace.of_kind("wait", rank=0)        # a structured array: begin_ns, duration_ns, bytes, name, step, ...
    print(trace.names[waits["name"][0]], waits["duration_ns"].sum() / 1e9, "s")

Times are nanoseconds since the barrier at the start of the run, the same zero on every rank.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

FORMAT_VERSION = 1
EVENT_FIELDS = ("rank", "begin_ns", "duration_ns", "bytes", "name", "step", "unit", "kind", "group", "micro", "depth")


class BadInput(Exception):
    """The user's input is at fault: one line that says what and where."""


def text(value) -> str:
    """An HDF5 string, which h5py hands out as bytes or str, or any other attribute, also an array of one, as text."""
    value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def attributes(node) -> dict[str, str]:
    return {key: text(value) for key, value in node.attrs.items()}


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
    unit_elements: np.ndarray  # parameters of each unit; empty where the trace does not tell
    groups: np.ndarray
    kinds: list[str]
    events: np.ndarray  # in order of rank, then begin_ns, then outermost first
    dropped: int  # events that did not fit into the ranks' memory between two flushes

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

    def of_kind(self, *kinds: str, rank: int | None = None) -> np.ndarray:
        """The events of these kinds, of one rank or of all."""
        wanted = [self.kinds.index(kind) for kind in kinds if kind in self.kinds]
        chosen = np.isin(self.events["kind"], wanted)
        if rank is not None:
            chosen &= self.events["rank"] == rank
        return self.events[chosen]

    def group_name(self, group: int) -> str:
        return self.groups[group] if 0 <= group < len(self.groups) else ""

    @staticmethod
    def read(path: str | Path) -> Trace:
        """Reads a trace file, or trace.h5 of a run's directory."""
        path = Path(path)
        if path.is_dir():
            path = path / "trace.h5"
        if not path.is_file():
            raise BadInput(f"{path}: no such trace")
        if not h5py.is_hdf5(path):
            raise BadInput(f"{path}: not an HDF5 file")
        try:
            with h5py.File(path, "r") as file:
                return _read(path, file)
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error}") from error


def _read(path: Path, file: h5py.File) -> Trace:
    top = attributes(file)
    version = top.get("format_version")
    if version != str(FORMAT_VERSION):
        found = "has no format_version: not a trace" if version is None else f"format_version = {version}"
        raise BadInput(f"{path}: {found}; these scripts read version {FORMAT_VERSION}")
    if "events" not in file or "world_size" not in top:
        raise BadInput(f"{path}: no /events or no world_size: not a trace")
    events = file["events"][()]
    absent = [field for field in EVENT_FIELDS if field not in (events.dtype.names or ())]
    if absent:
        raise BadInput(f"{path}: /events lacks {', '.join(absent)}")
    names = strings(file, "names")
    if len(events) and not 0 <= events["name"].min() <= events["name"].max() < len(names):
        raise BadInput(f"{path}: /events refers to names beyond the {len(names)} of /names")
    machine = file["machine"] if "machine" in file else None
    flushes = file["flushes"][()] if "flushes" in file else None
    # Every flush repeats how many events its rank has dropped since the start, so the largest counts.
    dropped = 0
    if flushes is not None and len(flushes):
        dropped = sum(int(flushes["dropped"][flushes["rank"] == rank].max()) for rank in np.unique(flushes["rank"]))
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
        kinds=list(strings(file, "kinds")),
        events=events[np.lexsort((events["depth"], -events["duration_ns"], events["begin_ns"], events["rank"]))],
        dropped=dropped,
    )


def run_main(main: Callable[[], None]) -> None:
    """Runs a script's main(); bad input becomes one line on stderr and exit status 2."""
    try:
        main()
    except BadInput as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # `report.py ... | head`
        sys.stderr.close()
