# SPDX-License-Identifier: Apache-2.0
"""Which events belong to the settled steps. Pure functions on numpy arrays.

An event belongs to the step in which it begins. Events of evaluations and checkpoints, which lie between two steps, belong to
no step. There is one exception: all-gathers of updated parameters that go on while the model computes are spread over two
steps. After the update of step k a rank starts as many of them as may be in flight at a time. It starts the others as these
end, in the next forward pass, which is that of step k + 1 or of an evaluation before it. All of them belong to step k + 1,
which uses the parameters:

    step k    forward  backward  optimizer  publish: a b |  evaluate: c d e  |  step k + 1  forward: f g  backward ...

If nodes train locally, an evaluation replaces the parameters by their mean over the nodes, and restores them afterwards. For
that it gathers parameters itself, which belongs to no step, even if the last of these gathers begin in the next forward pass.
"""

from __future__ import annotations

import numpy as np

from shoal.read.trace import Trace
from shoal.times.breakdown import settled_steps

NO_STEP = -1


def gathered_units(trace: Trace) -> np.ndarray:
    """The units that are gathered for each use: at stage 3 all but those below zero.persist_below."""
    if trace.options.get("zero.stage") != "3":
        return np.array([], dtype=int)
    small = trace.unit_elements < int(trace.options.get("zero.persist_below", "0"))
    return np.flatnonzero(~small) if len(small) else np.arange(len(trace.units))


def within_steps(trace: Trace, *kinds: str) -> np.ndarray:
    """The events of these kinds that belong to the settled steps."""
    settled = settled_steps(trace)
    found = [trace.events[:0]]
    for rank in range(trace.world_size):
        events, steps = trace.of_kind(*kinds, rank=rank), trace.of_kind("step", rank=rank)
        # Events of step 0, before the first step, may lie anywhere: the clocks have not been aligned yet.
        chosen = begun_in(events, steps[np.isin(steps["step"], settled)]) & (events["step"] > 0)
        published = are_published(trace, events)
        if published.any():
            chosen[published] = np.isin(steps_using(trace, rank, events[published]), settled)
        found.append(events[chosen])
    return np.concatenate(found)


def begun_in(events: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """A mask of one rank's events: True for those that begin within one of these steps or phases, which do not overlap."""
    if not len(spans):
        return np.zeros(len(events), dtype=bool)
    before = np.searchsorted(spans["begin_ns"], events["begin_ns"], side="right") - 1
    ends = spans["begin_ns"] + spans["duration_ns"]
    return (before >= 0) & (events["begin_ns"] < ends[np.maximum(before, 0)])


def publishes_in_background(trace: Trace) -> bool:
    """True if updated parameters are gathered while the model computes. A rank waits for them within the step if it also
    gathers units for each use, or if the run measures what the overlap saves."""
    options = trace.options
    waits = len(gathered_units(trace)) > 0 or options.get("comm.overlap") == "false"
    return options.get("zero.stage", "0") != "0" and not waits


def are_published(trace: Trace, events: np.ndarray) -> np.ndarray:
    """A mask of events: True for the all-gathers of updated parameters that go on while the model computes."""
    if not publishes_in_background(trace):
        return np.zeros(len(events), dtype=bool)
    gathers = (events["kind"] == trace.kinds.index("collective")) & (events["unit"] >= 0)
    return gathers & np.isin(events["name"], np.flatnonzero(trace.names == "all_gather"))


def steps_using(trace: Trace, rank: int, gathers: np.ndarray) -> np.ndarray:
    """Returns, for each all-gather, the step that uses the gathered parameters, or NO_STEP if an evaluation gathered them for
    itself. gathers: all all-gathers of updated parameters on this rank."""
    steps = trace.of_kind("step", rank=rank)
    if not len(steps):
        return np.full(len(gathers), NO_STEP)
    using = np.full(len(gathers), int(steps["step"][0]))  # those before the first step, whose times mean nothing
    timed = gathers["step"] > 0
    these = gathers[timed]
    in_step = begun_in(these, steps)
    last_step = np.maximum(np.searchsorted(steps["begin_ns"], these["begin_ns"], side="right") - 1, 0)
    for_evaluation = made_for_evaluation(trace, rank, these)
    first = in_step & ~begun_in(these, phases(trace, rank, "forward"))
    known = np.where(first, steps["step"][last_step] + 1, NO_STEP)
    # All others continue what the last of these began.
    began = np.maximum.accumulate(np.where(first | for_evaluation, np.arange(len(these)), -1))
    using[timed] = np.where(began >= 0, known[began], using[timed])
    return using


def made_for_evaluation(trace: Trace, rank: int, gathers: np.ndarray) -> np.ndarray:
    """A mask of one rank's all-gathers: True for those that begin in an evaluation after it has averaged over nodes. Before,
    it waits for those of the last update, and starts the rest of them."""
    calls = trace.of_kind("collective", rank=rank)
    averages = calls[np.isin(calls["group"], np.flatnonzero(trace.groups == "across"))]
    evaluations = phases(trace, rank, "evaluate")
    if not len(averages) or not len(evaluations):
        return np.zeros(len(gathers), dtype=bool)
    average = np.searchsorted(averages["begin_ns"], gathers["begin_ns"], side="right") - 1
    evaluation = np.maximum(np.searchsorted(evaluations["begin_ns"], gathers["begin_ns"], side="right") - 1, 0)
    averaged = averages["begin_ns"][np.maximum(average, 0)] >= evaluations["begin_ns"][evaluation]
    return begun_in(gathers, evaluations) & (average >= 0) & averaged


def phases(trace: Trace, rank: int, name: str) -> np.ndarray:
    of_rank = trace.of_kind("phase", rank=rank)
    return of_rank[np.isin(of_rank["name"], np.flatnonzero(trace.names == name))]
