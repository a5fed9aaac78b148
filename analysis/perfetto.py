#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a trace to the Chrome trace format, for https://ui.perfetto.dev or chrome://tracing.

usage: perfetto.py TRACE [-o out.json | out.json.gz]

TRACE is a trace file or a run's directory. The traces of a resumed run are placed behind one another, with the time that a
restart took between them. Each rank is shown as a process. Its phases, waits, kernels, file accesses
and messages are threads of this process; messages that overlap are on different threads. So is each queue of the device
that has events. Counters stay counters. In a pipeline forward and backward passes have the number of their micro-batch in their
names (and the first unit of their part among their arguments), and in settled steps an arrow leads from each pass to the one of
another stage that needs its result.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path

from shoal.program import packages, run_main

packages("numpy", "h5py")

import numpy as np

from shoal.read.bad_input import BadInput
from shoal.read.clocks import aligned
from shoal.read.run_parts import read_parts
from shoal.read.trace import Trace
from shoal.times import pipeline
from shoal.times.restarts import Segment, segments

# Threads of a rank, from top to bottom: number, name, kinds of event.
THREADS = (
    (1, "steps and phases", ("step", "phase")),
    (2, "waiting for communication", ("wait",)),
    (3, "kernels", ("kernel",)),
    (4, "files", ("io",)),
)
RESTARTS = 6  # thread
DEVICE = 5  # where the queues of a device stand
FIRST_QUEUE = 1_000_000  # thread of queue 0, beyond the threads for messages
COMMUNICATION = 10  # first thread for messages; one for each message that is in flight at the same time


def lanes(events: np.ndarray) -> np.ndarray:
    """Assigns each event the lowest lane that is free, in the order of their start, so that events on a lane do not
    overlap."""
    free_from: list[int] = []
    chosen = np.zeros(len(events), dtype=int)
    ends = events["begin_ns"] + events["duration_ns"]
    for i, begin in enumerate(events["begin_ns"]):
        lane = next((lane for lane, end in enumerate(free_from) if end <= begin), len(free_from))
        if lane == len(free_from):
            free_from.append(0)
        free_from[lane] = ends[i]
        chosen[i] = lane
    return chosen


def metadata(kind: str, rank: int, thread: int, value: str | int) -> dict:
    key = "sort_index" if kind.endswith("sort_index") else "name"
    return {"ph": "M", "name": kind, "pid": rank, "tid": thread, "args": {key: value}}


def slice_of(trace: Trace, event, thread: int, zero: float = 0.0, *, pipelined: bool = False) -> dict:
    """A "complete" event of the format; its times are microseconds, counted from the first part's time 0, which was `zero`
    microseconds before the trace's own."""
    arguments = {"step": int(event["step"])}
    if 0 <= event["unit"] < len(trace.units):
        arguments["unit"] = trace.units[event["unit"]]
    if event["micro"] >= 0:
        arguments["micro-batch"] = int(event["micro"])
    if group := trace.group_name(event["group"]):
        arguments["group"] = group
    if event["bytes"]:
        arguments["bytes"] = int(event["bytes"])
    kind, name = trace.kinds[event["kind"]], trace.names[event["name"]]
    if kind == "step":
        name = f"{name} {event['step']}"
    elif kind == "phase" and pipelined:
        name = pass_name(trace, event)
    return {
        "ph": "X",
        "name": name,
        "cat": kind,
        "pid": int(event["rank"]),
        "tid": thread,
        "ts": zero + int(event["begin_ns"]) / 1e3,
        "dur": int(event["duration_ns"]) / 1e3,
        "args": arguments,
    }


def pass_name(trace: Trace, event) -> str:
    """The name of a phase: of a pipeline's pass with the number of its micro-batch."""
    name = trace.names[event["name"]]
    return f"{name} {event['micro']}" if name in ("forward", "backward") and event["micro"] >= 0 else name


def handovers(trace: Trace, zero: float) -> Iterator[dict]:
    """Arrows between the passes of a pipeline's stages."""
    found = pipeline.passes(trace)
    if found is None:
        return
    kinds = [("", found.sources())]
    if trace.options.get("model.direct") == "true":
        kinds.append(("skip ", found.skip_sources()))
    for (kind, sources), target in product(kinds, range(len(found.events))):
        source = int(sources[target])
        if source < 0:
            continue
        end, begin = int(found.end_ns[source]), int(found.events["begin_ns"][target])
        name = kind + ("activations" if found.forward[target] else "gradients")
        arrow = {"name": name, "cat": "pipeline", "tid": THREADS[0][0], "id": f"{trace.path.stem} {kind}{target}"}
        # Just before the end, so that the arrow belongs to this pass.
        yield {**arrow, "ph": "s", "pid": int(found.events["rank"][source]), "ts": zero + (end - 1) / 1e3}
        yield {**arrow, "ph": "f", "bp": "e", "pid": int(found.events["rank"][target]), "ts": zero + begin / 1e3}


def chrome_events(trace: Trace, zero: float = 0.0) -> Iterator[dict]:
    pipelined = len(pipeline.pipelines(trace)) > 0
    for rank in range(trace.world_size):
        host = f" on {trace.hosts[rank]}" if rank < len(trace.hosts) else ""
        yield metadata("process_name", rank, 0, f"rank {rank}{host}")
        yield metadata("process_sort_index", rank, 0, rank)
        for thread, title, kinds in THREADS:
            events = trace.of_kind(*kinds, rank=rank)
            if not len(events):
                continue
            yield metadata("thread_name", rank, thread, title)
            yield metadata("thread_sort_index", rank, thread, thread)
            yield from (slice_of(trace, event, thread, zero, pipelined=pipelined) for event in events)
        for queue in trace.device_queues:
            thread = FIRST_QUEUE + queue
            yield metadata("thread_name", rank, thread, f"device: {trace.queues[queue]}")
            yield metadata("thread_sort_index", rank, thread, DEVICE)
            yield from (slice_of(trace, event, thread, zero) for event in trace.of_queue(queue, rank=rank))
        collectives = trace.of_kind("collective", rank=rank)
        chosen = lanes(collectives)
        for lane in range(chosen.max(initial=-1) + 1):
            thread = COMMUNICATION + lane
            yield metadata("thread_name", rank, thread, "communication" + (f" {lane + 1}" if lane else ""))
            yield metadata("thread_sort_index", rank, thread, thread)
        yield from (
            slice_of(trace, e, COMMUNICATION + int(lane), zero) for e, lane in zip(collectives, chosen, strict=True)
        )
        for event in trace.of_kind("counter", rank=rank):
            name = trace.names[event["name"]]
            yield {"ph": "C", "name": name, "pid": rank, "ts": zero + int(event["begin_ns"]) / 1e3,
                   "args": {"bytes" if name.startswith("memory/") else "value": int(event["bytes"])}}  # fmt: skip
    yield from handovers(trace, zero)


def restart(segment: Segment) -> Iterator[dict]:
    """The time from the end of the part before to the first step, on every rank."""
    for rank in range(segment.trace.world_size) if segment.restart_seconds else ():
        yield {"ph": "X", "name": "restart", "cat": "restart", "pid": rank, "tid": RESTARTS,
               "ts": (segment.first_step - segment.restart_seconds) * 1e6, "dur": segment.restart_seconds * 1e6,
               "args": {"part": segment.trace.path.name}}  # fmt: skip
        yield metadata("thread_name", rank, RESTARTS, "restarts")
        yield metadata("thread_sort_index", rank, RESTARTS, 0)


def export(traces: list[Trace], path: Path) -> int:
    """Writes the events of all parts of a run one by one, so that the text of a long trace is never in memory. Returns the
    number of events."""
    opened = gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w", encoding="utf-8")
    count = 0
    with opened as file:
        file.write('{"displayTimeUnit": "ms", "otherData": ')
        json.dump({**traces[-1].attributes, **traces[-1].machine}, file)
        file.write(', "traceEvents": [')
        for segment in segments(traces):
            for event in chain(restart(segment), chrome_events(segment.trace, segment.begin * 1e6)):
                file.write(",\n" if count else "\n")
                file.write(json.dumps(event))
                count += 1
        file.write("\n]}\n")
    return count


def traces_of(path: Path) -> list[Trace]:
    """All traces of a run's directory in the order of their start, or the one file."""
    if not path.is_dir():
        return [aligned(Trace.read(path))]
    parts = read_parts(path, "", "")
    if parts.begun:
        for note in parts.notes:
            print(f"not shown: {note}", file=sys.stderr)
        return parts.begun
    raise BadInput("; ".join(parts.notes) or f"{path}: holds no trace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE", help="a trace file, or a run's output directory")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: TRACE's name with .json.gz")
    arguments = parser.parse_args()
    traces = traces_of(Path(arguments.trace))
    output = arguments.output or traces[0].path.with_suffix(".json.gz")
    try:
        count = export(traces, output)
    except OSError as error:
        raise BadInput(f"{output}: cannot be written: {error.strerror}") from error
    most = max(trace.world_size for trace in traces)
    ranks = f"{most} rank{'' if most == 1 else 's'}"
    print(f"{output}: {count} events of {ranks}; open it in https://ui.perfetto.dev")


if __name__ == "__main__":
    run_main(main)
