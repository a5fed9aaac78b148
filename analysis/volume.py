# SPDX-License-Identifier: Apache-2.0
"""What the ranks sent against what their stage of ZeRO has to send (Rajbhandari et al. 2020, section 7), in bytes.

With N parameters on D ranks, M micro-batches in a step make A = M / D turns on each rank, in q rounds (M = q 2^k, q odd). A
reduce-scatter and an all-gather of N elements each cost a rank (D - 1) / D N of them; an all-reduce is one of both.

    stage 0    reduce-scatter of the gradients, N a round; all-gather of their sum, N
    stage 1    reduce-scatter of the gradients, N a round; all-gather of the parameters, N
    stage 2    reduce-scatter of the gradients, N a turn: A N; all-gather of the parameters, N
    stage 3    reduce-scatter of the gradients, A N; all-gather of the parameters for forward and backward, at most 2 A N:
               a unit that stays from one to the other is gathered once, one whose activations are computed again in
               between may be gathered once more
    stage 3 with hpZ (Wang et al. 2023, "ZeRO++", section 3.2): of these gathers the first after an update goes over all
               ranks, N; the others over the G neighbours that keep a second partition, (G - 1) / G of them

Shards are whole pieces of 256 elements, so a rank may send a little more or less; the mean over the ranks is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from needed import packages

packages("numpy", "h5py")

import numpy as np

from breakdown import settled_steps
from shoal_trace import Trace
from traffic import gathered_units, within_steps

NONE = Fraction(0)
SIZES = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True)
class Work:
    """What theory needs to know of a run."""

    stage: int
    native: bool  # the MPI library's own collectives
    ranks: int
    turns: int
    rounds: int
    parameter_size: int  # bytes of an element
    gradient_size: int
    elements: int  # N
    gathered: int  # of them, those of units that are gathered for each use
    kept: bool  # a unit stays from forward to backward
    neighbours: int  # G of hpZ; 0: off

    @staticmethod
    def of(trace: Trace) -> Work | None:
        """None where the trace does not tell: one without /unit_elements, or of one rank. None of quantized messages, nor of
        nodes that train apart."""
        options = trace.options
        quantized = any(options.get(name, "off") != "off" for name in ("zero.qwz", "zero.qgz"))
        if quantized or options.get("sync.kind", "every_step") != "every_step":
            return None
        try:
            micro_batches = int(options["batch.global"]) // int(options["batch.micro"])
            stage, native = int(options["zero.stage"]), options.get("comm.collectives") == "native"
            parameter_size, gradient_size = SIZES[options["train.dtype"]], SIZES[options["comm.reduce_dtype"]]
        except (KeyError, ValueError):
            return None
        ranks = trace.world_size
        if ranks < 2 or not len(trace.unit_elements) or micro_batches % ranks:
            return None
        power_of_two = ranks & (ranks - 1) == 0 and not native
        return Work(
            stage=stage,
            native=native,
            ranks=ranks,
            turns=micro_batches // ranks,
            rounds=micro_batches // (micro_batches & -micro_batches) if power_of_two else 1,
            parameter_size=parameter_size,
            gradient_size=gradient_size,
            elements=int(trace.unit_elements.sum()),
            gathered=int(trace.unit_elements[gathered_units(trace)].sum()),
            kept=options.get("zero.reshard_after_forward") == "false",
            neighbours=neighbours(trace),
        )

    def sent(self, elements: int, ranks: int | None = None) -> Fraction:
        """Of a reduce-scatter or an all-gather of so many elements, by one rank."""
        ranks = ranks or self.ranks
        return Fraction(elements * (ranks - 1), ranks)


@dataclass
class Volume:
    """One operation on one state; bytes that a rank sends in a step, the mean over ranks and settled steps."""

    operation: str
    state: str
    formula: str  # in elements, before the (D - 1) / D
    measured: Fraction
    theory: Fraction
    held: Fraction  # what units that stayed from forward to backward saved
    again: Fraction  # what units took that were gathered once more, to compute activations again
    least: Fraction  # of a rank
    most: Fraction

    @property
    def difference(self) -> Fraction:
        return self.measured - (self.theory - self.held + self.again)


def volumes(trace: Trace) -> list[Volume]:
    """Empty where the trace has no theory."""
    work = Work.of(trace)
    if work is None:
        return []
    events = within_steps(trace, "collective")
    events = events[events["unit"] >= 0]
    gathers = events["name"] == index_of(trace, "all_gather")
    for_use = gathers & np.isin(events["unit"], gathered_units(trace))
    rows = []

    def row(
        operation: str, state: str, formula: str, elements: int, size: int, chosen, held=NONE, again=NONE, ranks=None
    ) -> None:
        of_ranks = [sent_per_step(trace, events[chosen & (events["rank"] == rank)]) for rank in range(work.ranks)]
        mean = sum(of_ranks, Fraction(0)) / work.ranks
        theory = work.sent(elements, ranks) * size
        rows.append(Volume(operation, state, formula, mean, theory, held, again, min(of_ranks), max(of_ranks)))

    every_turn = work.stage >= 2
    count, times = (work.turns, "A N") if every_turn else (work.rounds, "N" if work.rounds == 1 else f"{work.rounds} N")
    whole = work.stage == 0 and work.native and work.gradient_size == 4
    if whole:  # the library leaves the whole sum on every rank
        chosen = events["name"] == index_of(trace, "all_reduce")
        row("all_reduce", "gradients", f"2 {times}", 2 * count * work.elements, work.gradient_size, chosen)
        return rows
    chosen = events["name"] == index_of(trace, "reduce_scatter")
    row("reduce_scatter", "gradients", times, count * work.elements, work.gradient_size, chosen)
    if work.stage == 0:
        row("all_gather", "gradients", "N", work.elements, work.gradient_size, gathers)
        return rows
    published = work.elements - work.gathered
    if published:
        formula = "N" if not work.gathered else "N of whole units"
        row("all_gather", "parameters", formula, published, work.parameter_size, gathers & ~for_use)
    if work.gathered:
        uses = work.turns * (1 if work.kept else 2)
        formula = ("A N" if work.kept else "2 A N") + (" of the others" if published else "")
        if not work.neighbours:
            held, again = departures(trace, work, events[for_use], uses)
            row("all_gather", "parameters", formula, uses * work.gathered, work.parameter_size, for_use, held, again)
            return rows
        near = for_use & (events["group"] == group_index(trace, "neighbours"))
        far = for_use & ~near
        held, again = departures(trace, work, events[far], 1)
        row("all_gather", "parameters", "N after an update", work.gathered, work.parameter_size, far, held, again)
        held, again = departures(trace, work, events[near], uses - 1, work.neighbours)
        row("all_gather", "parameters", f"{formula} - N, among {work.neighbours}", (uses - 1) * work.gathered,
            work.parameter_size, near, held, again, work.neighbours)  # fmt: skip
    return rows


def neighbours(trace: Trace) -> int:
    """Ranks that share hpZ's second partition; 0 where there is none."""
    size = trace.options.get("zero.hpz_size", "off")
    if trace.options.get("zero.stage") != "3" or size == "off":
        return 0
    count = trace.world_size // trace.nodes if size == "node" else int(size)
    return count if count < trace.world_size else 0


def departures(
    trace: Trace, work: Work, gathers: np.ndarray, uses: int, ranks: int | None = None
) -> tuple[Fraction, Fraction]:
    """Bytes that one rank did not send in a step, and those it sent besides, by how often each unit was gathered."""
    held, again = NONE, NONE
    for unit in gathered_units(trace):
        times = Fraction(int((gathers["unit"] == unit).sum()), work.ranks * len(settled_steps(trace)))
        once = work.sent(int(trace.unit_elements[unit]), ranks) * work.parameter_size
        held += max(uses - times, NONE) * once
        again += max(times - uses, NONE) * once
    return held, again


def sent_per_step(trace: Trace, events: np.ndarray) -> Fraction:
    return Fraction(int(events["bytes"].sum()), len(settled_steps(trace)))


def group_index(trace: Trace, name: str) -> int:
    """A group's place in the trace's table; -1, which no collective has, where there is none."""
    found = np.flatnonzero(trace.groups == name)
    return int(found[0]) if len(found) else -1


def index_of(trace: Trace, name: str) -> int:
    """A name's place in the trace's table; -1, which no event has, where nothing is called so."""
    found = np.flatnonzero(trace.names == name)
    return int(found[0]) if len(found) else -1
