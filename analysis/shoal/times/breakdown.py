# SPDX-License-Identifier: Apache-2.0
"""Where time and memory went, computed from a trace for report.py. Pure functions on numpy arrays."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from shoal.read.grouping import alike
from shoal.read.run_parts import without_first
from shoal.read.trace import Trace

COMPUTE = 1  # the queue of the device that computes, by Event.queue

# The parts of a step, in the order in which figures and tables show them.
PARTS = (
    "data", "forward", "recompute", "backward", "release", "reduce", "losses", "clip", "optimizer", "publish", "synchronise", "wait",
    "rest",
)  # fmt: skip


def exclusive_ns(events: np.ndarray) -> np.ndarray:
    """Each event's duration without the events inside it. The events are those of one rank, properly nested, in Trace's
    order.

    The exclusive times of a step and of everything in it therefore add up to exactly the step's duration.
    """
    own = events["duration_ns"].astype(np.int64).copy()
    ends = events["begin_ns"] + events["duration_ns"]
    open_events: list[int] = []
    for i, begin in enumerate(events["begin_ns"]):
        while open_events and ends[open_events[-1]] <= begin:
            open_events.pop()
        if open_events:
            outer = open_events[-1]
            own[outer] -= min(ends[i], ends[outer]) - begin
        open_events.append(i)
    return own


def settled_steps(trace: Trace) -> np.ndarray:
    """The steps that averages are taken over."""
    steps = np.unique(trace.of_kind("step")["step"])
    named = steps[np.isin(steps, trace.settled)]
    return named if len(named) else without_first(steps)


def step_parts(trace: Trace, steps: np.ndarray | None = None) -> tuple[list[str], np.ndarray]:
    """Mean seconds per step, by part and rank: the names of the parts, and an array [parts, ranks]. The mean is over `steps`, or
    over the settled steps of the trace.

    A part is a phase without the waits inside it. `wait` is the time that the rank waited for messages; `rest` is the
    time of the step outside all phases.
    """
    steps = settled_steps(trace) if steps is None else steps
    seconds: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(trace.world_size))
    for rank in range(trace.world_size):
        events = trace.of_kind("step", "phase", "wait", rank=rank)
        events = events[np.isin(events["step"], steps) & inside_steps(events, trace.kinds.index("step"))]
        own = exclusive_ns(events) / 1e9 / max(len(steps), 1)
        for kind in np.unique(events["kind"]):
            chosen = events["kind"] == kind
            if trace.kinds[kind] == "phase":
                for name in np.unique(events["name"][chosen]):
                    seconds[trace.names[name]][rank] += own[chosen & (events["name"] == name)].sum()
            else:
                seconds["wait" if trace.kinds[kind] == "wait" else "rest"][rank] += own[chosen].sum()
    known = [part for part in PARTS if part in seconds]
    other = sorted(set(seconds) - set(PARTS))
    order = [part for part in known if part not in ("wait", "rest")] + other
    order += [part for part in ("wait", "rest") if part in seconds]
    return order, np.array([seconds[part] for part in order]).reshape(len(order), trace.world_size)


def inside_steps(events: np.ndarray, step_kind: int) -> np.ndarray:
    """A mask of one rank's events: True for those inside a step. Evaluations and checkpoints happen between steps."""
    steps = events[events["kind"] == step_kind]
    if not len(steps):
        return np.zeros(len(events), dtype=bool)
    before = np.searchsorted(steps["begin_ns"], events["begin_ns"], side="right") - 1
    ends = steps["begin_ns"] + steps["duration_ns"]
    return (before >= 0) & (events["begin_ns"] + events["duration_ns"] <= ends[np.maximum(before, 0)])


def phases_between_steps(trace: Trace) -> dict[str, tuple[int, float]]:
    """Phases outside steps (evaluate, checkpoint): their number on rank 0, and their total seconds on the slowest
    rank."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0] * trace.world_size)
    counts: dict[str, int] = defaultdict(int)
    for rank in range(trace.world_size):
        events = trace.of_kind("step", "phase", rank=rank)
        outside = ~inside_steps(events, trace.kinds.index("step")) & (events["depth"] == 0)
        for event in events[outside & (events["kind"] == trace.kinds.index("phase"))]:
            name = trace.names[event["name"]]
            found[name][rank] += event["duration_ns"] / 1e9
            counts[name] += rank == 0
    return {name: (counts[name], max(seconds)) for name, seconds in sorted(found.items())}


@dataclass
class Kernel:
    """One kernel; means over ranks and settled steps. The time of a kernel inside another one counts only for the inner
    one."""

    name: str
    calls_per_step: float
    seconds_per_step: float
    share: float  # of the step
    bytes_per_call: float  # that it must move at least; 0 if the trace has no number
    queue: str = ""  # of the device; empty if the host ran it


@dataclass
class KernelTimes:
    """Seconds of a mean step: in kernels, waiting for messages outside kernels, and the rest."""

    kernels: list[Kernel]  # longest first; empty unless trace.level = kernels
    waited: float
    other: float  # on a device: the time that its compute queue was idle
    step: float
    on_device: bool = False


def kernel_times(trace: Trace) -> KernelTimes:
    """Kernels of the settled steps, without those of evaluations between steps. If a device ran them, by its clock: the
    host has only enqueued them."""
    if len(trace.of_kind("device_kernel")):
        return device_kernel_times(trace)
    steps = settled_steps(trace)
    shares = max(len(steps), 1) * trace.world_size
    step_kind, wait_kind = trace.kinds.index("step"), trace.kinds.index("wait")
    found, own = [trace.events[:0]], [np.zeros(0)]
    for rank in range(trace.world_size):
        events = trace.of_kind("step", "wait", "kernel", rank=rank)
        events = events[np.isin(events["step"], steps) & inside_steps(events, step_kind)]
        found.append(events)
        own.append(exclusive_ns(events) / 1e9 / shares)
    events, seconds = np.concatenate(found), np.concatenate(own)
    whole = float(events["duration_ns"][events["kind"] == step_kind].sum()) / 1e9 / shares
    is_kernel = ~np.isin(events["kind"], (step_kind, wait_kind))
    kernels = []
    for name in np.unique(events["name"][is_kernel]):
        chosen = is_kernel & (events["name"] == name)
        kernels.append(
            Kernel(
                name=trace.names[name],
                calls_per_step=int(chosen.sum()) / shares,
                seconds_per_step=float(seconds[chosen].sum()),
                share=float(seconds[chosen].sum()) / whole if whole > 0 else 0.0,
                bytes_per_call=float(events["bytes"][chosen].mean()),
            )
        )
    return KernelTimes(
        kernels=sorted(kernels, key=lambda kernel: -kernel.seconds_per_step),
        waited=float(seconds[events["kind"] == wait_kind].sum()),
        other=float(seconds[events["kind"] == step_kind].sum()),
        step=whole,
    )


def within(steps: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """How many nanoseconds of each span lie in these steps of the same rank. A device may do the end of a step while the host
    has begun the next one."""
    if not len(steps):
        return np.zeros(len(spans), np.int64)
    begins, lengths = steps["begin_ns"].astype(np.int64), steps["duration_ns"].astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(lengths)])

    def until(times: np.ndarray) -> np.ndarray:  # nanoseconds of all steps before these times
        last = np.searchsorted(begins, times, side="right") - 1
        inside = np.minimum(times - begins[np.maximum(last, 0)], lengths[np.maximum(last, 0)])
        return np.where(last < 0, 0, sums[np.maximum(last, 0)] + inside)

    return until(spans["begin_ns"] + spans["duration_ns"]) - until(spans["begin_ns"])


def device_spans(trace: Trace) -> tuple[np.ndarray, np.ndarray, float]:
    """What the device's queues did within the settled steps, each span's nanoseconds there, and the seconds of a mean step.
    Divided by traffic.rank_steps(), the nanoseconds are means over ranks and steps."""
    numbers, whole = settled_steps(trace), 0
    found, inside = [trace.events[:0]], [np.zeros(0, np.int64)]
    for rank in range(trace.world_size):
        steps = trace.of_kind("step", rank=rank)
        steps = steps[np.isin(steps["step"], numbers)]
        whole += int(steps["duration_ns"].sum())
        spans = trace.of_kind("device_kernel", "device_copy", "device_collective", rank=rank)
        nanoseconds = within(steps, spans)
        found.append(spans[nanoseconds > 0])
        inside.append(nanoseconds[nanoseconds > 0])
    mean = whole / 1e9 / (max(len(numbers), 1) * trace.world_size)
    return np.concatenate(found), np.concatenate(inside), mean


def device_kernel_times(trace: Trace) -> KernelTimes:
    """Kernels and copies of all queues. Those of the compute queue and its idle time add up to the step."""
    spans, inside, whole = device_spans(trace)
    shares = max(len(settled_steps(trace)), 1) * trace.world_size
    kernels = []
    for queue, name in sorted(set(zip(spans["queue"].tolist(), spans["name"].tolist(), strict=True))):
        chosen = (spans["queue"] == queue) & (spans["name"] == name)
        seconds = float(inside[chosen].sum()) / 1e9 / shares
        kernels.append(
            Kernel(
                name=trace.names[name],
                calls_per_step=int(chosen.sum()) / shares,
                seconds_per_step=seconds,
                share=seconds / whole if whole > 0 else 0.0,
                bytes_per_call=float(spans["bytes"][chosen].mean()),
                queue=trace.queues[queue],
            )
        )
    busy = float(inside[spans["queue"] == COMPUTE].sum()) / 1e9 / shares
    kernels.sort(key=lambda kernel: -kernel.seconds_per_step)
    return KernelTimes(kernels=kernels, waited=0.0, other=max(whole - busy, 0.0), step=whole, on_device=True)


@dataclass
class Queue:
    """What a queue of the device did in a mean settled step; seconds, means over ranks."""

    name: str
    spans_per_step: float
    kernels: float
    copies: float
    collectives: float  # with the time that they waited for other ranks
    step: float

    @property
    def busy(self) -> float:
        return self.kernels + self.copies + self.collectives

    @property
    def idle(self) -> float:
        """The fraction of the step in which the queue did nothing."""
        return max(0.0, 1 - self.busy / self.step) if self.step > 0 else 0.0


def device_queues(trace: Trace) -> list[Queue]:
    """The queues that did something in the settled steps. Kernels and copies are known at trace.level = kernels alone."""
    spans, inside, whole = device_spans(trace)
    shares = max(len(settled_steps(trace)), 1) * trace.world_size
    found = []
    for queue in np.unique(spans["queue"]):
        of_queue = spans["queue"] == queue
        kernels, copies, collectives = (
            float(inside[of_queue & (spans["kind"] == trace.kinds.index(kind))].sum()) / 1e9 / shares
            for kind in ("device_kernel", "device_copy", "device_collective")
        )
        found.append(Queue(trace.queues[queue], int(of_queue.sum()) / shares, kernels, copies, collectives, whole))
    return found


def compute_idle(trace: Trace) -> float | None:
    """The fraction of the settled steps in which the device's compute queue did nothing; None if the trace does not tell."""
    if trace.level != "kernels":
        return None
    return next((queue.idle for queue in device_queues(trace) if queue.name == trace.queues[COMPUTE]), None)


def memory(trace: Trace) -> dict[str, dict[int, tuple[np.ndarray, np.ndarray]]]:
    """The counters memory/NAME: NAME -> rank -> (seconds since the start of the run, bytes)."""
    counters = trace.of_kind("counter")
    found: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {}
    for index in np.unique(counters["name"]):
        name = trace.names[index]
        if not name.startswith("memory/"):
            continue
        these = counters[counters["name"] == index]
        of_ranks = {int(these["rank"][rows[0]]): these[rows] for rows in alike((these["rank"],))}
        found[name.removeprefix("memory/")] = {
            rank: (marks["begin_ns"] / 1e9, marks["bytes"].astype(np.int64)) for rank, marks in of_ranks.items()
        }
    return found
