# SPDX-License-Identifier: Apache-2.0
"""The parts of a run that was ended and resumed, placed behind one another in time, and what the restarts cost.

A restart costs the time from the last event of one part to the begin of the next part's first step (the queue of the batch
system, start and reading of the checkpoint), and the steps that are made once more because no checkpoint had them. A part
without steps (it had none left, or failed at its start) belongs to the restart, which lasts until the next part that has some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.read.trace import Trace


@dataclass
class Segment:
    trace: Trace  # with all its steps, also those that a later part repeated
    begin: float  # seconds since the first part's time 0: this part's time 0, ...
    first_step: float  # ... the begin of its first step (its end if it has none) ...
    end: float  # ... and its last event
    repeated: np.ndarray  # steps of it that a later part made once more
    repeated_seconds: float  # that these took here, each on its slowest rank
    # From the end of the last part that has steps to the first step; 0 in the first part, and in one without steps.
    restart_seconds: float

    @property
    def lost_seconds(self) -> float:
        return self.restart_seconds + self.repeated_seconds


def step_spans(trace: Trace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The steps in order; of each its begin on the first rank and its end on the last one, nanoseconds."""
    events = trace.of_kind("step")
    numbers, places = np.unique(events["step"], return_inverse=True)
    begins, ends = np.full(len(numbers), np.iinfo(np.int64).max), np.zeros(len(numbers), np.int64)
    np.minimum.at(begins, places, events["begin_ns"])
    np.maximum.at(ends, places, events["begin_ns"] + events["duration_ns"])
    return numbers, begins, ends


def with_steps(found: list[Segment]) -> list[Segment]:
    return [each for each in found if len(each.trace.steps)]


def segments(begun: list[Trace]) -> list[Segment]:
    """`begun`: all traces of the run in the order of their start."""
    found: list[Segment] = []
    for place, trace in enumerate(begun):
        numbers, begins, _ = step_spans(trace)
        later = [int(other.steps[0]) for other in begun[place + 1 :] if len(other.steps)]
        slowest = np.zeros(len(numbers))
        steps = trace.of_kind("step")
        np.maximum.at(slowest, np.searchsorted(numbers, steps["step"]), steps["duration_ns"] / 1e9)
        again = numbers >= min(later, default=np.iinfo(np.int64).max)
        zero = trace.zero - begun[0].zero
        end = zero + trace.end_ns / 1e9
        first = zero + int(begins[0]) / 1e9 if len(begins) else end
        before = with_steps(found) or found[:1]
        restart = max(first - before[-1].end, 0.0) if before and len(begins) else 0.0
        found.append(Segment(trace, zero, first, end, numbers[again], float(slowest[again].sum()), restart))
    return found


@dataclass
class Lost:
    """Seconds of the whole run, from the first part's time 0 to the last event of a part with steps."""

    restart_seconds: float
    repeated_steps: int
    repeated_seconds: float
    whole_seconds: float

    @property
    def share(self) -> float:
        lost = self.restart_seconds + self.repeated_seconds
        return lost / self.whole_seconds if self.whole_seconds > 0 else 0.0


def lost(found: list[Segment]) -> Lost:
    return Lost(
        restart_seconds=sum(each.restart_seconds for each in found),
        repeated_steps=sum(len(each.repeated) for each in found),
        repeated_seconds=sum(each.repeated_seconds for each in found),
        whole_seconds=max(each.end for each in with_steps(found) or found),
    )
