# SPDX-License-Identifier: Apache-2.0
"""The forward and backward passes of a pipeline's stages, what they idle, and which passes hand over to which. Pure functions on
numpy arrays.

The layers are divided into parts, numbered from 0 in the order of the model; part k is on stage k % P, where P is the number of
stages. The events `forward` and `backward` name the first unit of their part and the micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.read.trace import Trace
from shoal.times import breakdown

GROUP = "pipeline"


def pipelines(trace: Trace) -> np.ndarray:
    """The ranks of all pipelines: [pipelines, stages]. Without rows if the layers are not divided."""
    none = np.zeros((0, 0), np.int64)
    if int(trace.options.get("pipeline.size", "1")) < 2 or GROUP not in trace.groups.tolist():
        return none
    group = trace.groups.tolist().index(GROUP)
    if group >= len(trace.group_parts):
        return none
    of_rank = trace.group_parts[group]
    found = [np.flatnonzero(of_rank == each) for each in np.unique(of_rank)]
    return np.array(found) if len({len(ranks) for ranks in found}) == 1 else none


@dataclass
class Passes:
    """Forward and backward passes within steps, one row each, in the order of ranks and times."""

    events: np.ndarray
    ranks: np.ndarray  # [pipelines, stages]
    forward: np.ndarray  # bool
    part: np.ndarray  # of the model
    first_units: np.ndarray  # of all parts

    @property
    def stages(self) -> int:
        return self.ranks.shape[1]

    @property
    def parts_of_stage(self) -> int:
        return -(-len(self.first_units) // self.stages)

    @property
    def micro_batches(self) -> int:
        """Of a pipeline in a step."""
        return len(np.unique(self.events["micro"][self.events["rank"] == self.ranks[0, 0]]))

    @property
    def end_ns(self) -> np.ndarray:
        return self.events["begin_ns"] + self.events["duration_ns"]

    @property
    def ideal_idle(self) -> float:
        """The idle share of a stage if all parts took the same time, and messages no time (include/shoal/pipeline/schedule.hpp)."""
        return (self.stages - 1) / (self.parts_of_stage * self.micro_batches + self.stages - 1)

    def stage_of(self, ranks: np.ndarray) -> np.ndarray:
        return self.places()[1][ranks]

    def pipeline_of(self, ranks: np.ndarray) -> np.ndarray:
        return self.places()[0][ranks]

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each rank: its pipeline and its stage."""
        places = np.zeros((2, self.ranks.size), np.int64)
        places[:, self.ranks.ravel()] = np.indices(self.ranks.shape).reshape(2, -1)
        return places[0], places[1]

    def of(self, pipeline: int, step: int) -> Passes:
        chosen = (self.pipeline_of(self.events["rank"]) == pipeline) & (self.events["step"] == step)
        return Passes(self.events[chosen], self.ranks, self.forward[chosen], self.part[chosen], self.first_units)

    def units_of(self, part: int, units: int) -> range:
        """Of `units` units of the model, those of this part."""
        ends = [*self.first_units[1:].tolist(), units]
        return range(int(self.first_units[part]), ends[part])

    def sources(self) -> np.ndarray:
        """Of each pass the index of the one whose result it needs from another stage; -1 if there is none."""
        return self._with(self.part + np.where(self.forward, -1, 1), self.forward)

    def skip_sources(self) -> np.ndarray:
        """The same for a skip connection (include/shoal/pipeline/border.hpp): the last part's forward pass needs that of the
        first one, and the first part's backward pass the last one's forward pass."""
        last = len(self.first_units) - 1
        reads = np.where(self.forward, self.part == last, self.part == 0) & (last > 0)
        return np.where(reads, self._with(np.where(self.forward, 0, last), np.ones_like(self.forward)), -1)

    def _with(self, part: np.ndarray, forward: np.ndarray) -> np.ndarray:
        """Of each pass the index of the pass of another part or direction for its micro-batch; -1 if there is none."""
        if not len(self.events):
            return np.zeros(0, np.int64)
        all_keys = self._keys(self.part, self.forward)
        order = np.argsort(all_keys, kind="stable")
        keys, wanted = all_keys[order], self._keys(part, forward)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, order[at], -1)

    def _keys(self, part: np.ndarray, forward: np.ndarray) -> np.ndarray:
        """A number for each pass of these parts and directions, different for different passes."""
        columns = (
            (self.pipeline_of(self.events["rank"]), len(self.ranks)),
            (forward, 2),
            (part + 1, len(self.first_units) + 2),
        )
        key = np.zeros(len(part), np.int64)
        for column, most in (
            *columns,
            *((self.events[name], int(self.events[name].max()) + 1) for name in ("step", "micro")),
        ):
            key = key * most + column
        return key


def passes(trace: Trace) -> Passes | None:
    """The passes in the settled steps; None without a pipeline."""
    ranks = pipelines(trace)
    if not len(ranks):
        return None
    steps = breakdown.settled_steps(trace)
    names = trace.names.tolist()
    wanted = [names.index(name) for name in ("forward", "backward") if name in names]
    found = [trace.events[:0]]
    for rank in range(trace.world_size):
        events = trace.of_kind("step", "phase", rank=rank)
        chosen = np.isin(events["step"], steps) & breakdown.inside_steps(events, trace.kinds.index("step"))
        chosen &= np.isin(events["name"], wanted) & (events["kind"] == trace.kinds.index("phase"))
        found.append(events[chosen & (events["micro"] >= 0) & (events["unit"] >= 0)])
    events = np.concatenate(found)
    if not len(events):
        return None
    forward = events["name"] == (names.index("forward") if "forward" in names else -1)
    first_units = np.unique(events["unit"])
    return Passes(events, ranks, forward, np.searchsorted(first_units, events["unit"]), first_units)


def typical_step(trace: Trace) -> int:
    """The settled step of median time, by its slowest rank."""
    steps, events = breakdown.settled_steps(trace), trace.of_kind("step")
    events = events[np.isin(events["step"], steps)]
    longest = np.zeros(len(steps), np.int64)
    np.maximum.at(longest, np.searchsorted(steps, events["step"]), events["duration_ns"])
    return int(steps[np.argsort(longest, kind="stable")[(len(steps) - 1) // 2]])


@dataclass
class Stage:
    """Seconds are means over the settled steps and the pipelines."""

    forward: float  # of a micro-batch, all parts of the stage
    backward: float
    idle: float  # share of the time from the pipeline's first pass to its last one


def stages(found: Passes) -> list[Stage]:
    events, pipeline, stage = found.events, *found.places()
    keys = events["step"].astype(np.int64) * len(found.ranks) + pipeline[events["rank"]]
    steps, which = np.unique(keys, return_inverse=True)  # of each pipeline
    begins, ends = np.full(len(steps), np.iinfo(np.int64).max), np.zeros(len(steps), np.int64)
    np.minimum.at(begins, which, events["begin_ns"])
    np.maximum.at(ends, which, found.end_ns)
    whole = float((ends - begins).sum())
    micro_batches = len(begins) * found.micro_batches
    result = []
    for number in range(found.stages):
        here = stage[events["rank"]] == number
        forward, backward = (
            float(events["duration_ns"][here & chosen].sum()) for chosen in (found.forward, ~found.forward)
        )
        idle = max(0.0, 1 - (forward + backward) / whole) if whole else 0.0
        result.append(Stage(forward / 1e9 / micro_batches, backward / 1e9 / micro_batches, idle))
    return result


def is_border(trace: Trace, waits: np.ndarray) -> np.ndarray:
    """A mask of waits: those for messages between stages. A stage waits for them between its passes, so in no phase of a step."""
    if not len(pipelines(trace)):
        return np.zeros(len(waits), bool)
    names = [index for index, name in enumerate(trace.names.tolist()) if name in ("receive", "send")]
    return np.isin(waits["name"], names) & (waits["depth"] <= 1) & (waits["unit"] < 0)


def needed(trace: Trace, waits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of waits of kind is_border(): when the pass that a stage waits for ended, and on which rank. A wait for memory to be free
    again (`send`), or whose pass is not in the trace, has its own rank and time."""
    until, ranks = waits["begin_ns"].astype(np.int64), waits["rank"].astype(np.int64)
    found = passes(trace)
    if found is None or not len(waits):
        return until, ranks
    source, ends = found.sources(), found.end_ns
    bounds = np.searchsorted(found.events["rank"], np.arange(trace.world_size + 1))
    receives = np.isin(waits["name"], np.flatnonzero(trace.names == "receive"))
    for rank in np.unique(waits["rank"][receives]):
        chosen = np.flatnonzero(receives & (waits["rank"] == rank))
        first, last = bounds[rank], bounds[rank + 1]
        wait_ends = waits["begin_ns"][chosen] + waits["duration_ns"][chosen]
        following = first + np.searchsorted(found.events["begin_ns"][first:last], wait_ends)
        known = following < last
        known[known] = source[following[known]] >= 0
        of = source[following[known]]
        until[chosen[known]], ranks[chosen[known]] = ends[of], found.events["rank"][of]
    return until, ranks
