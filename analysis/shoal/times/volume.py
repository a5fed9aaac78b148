# SPDX-License-Identifier: Apache-2.0
"""Compares the bytes that the ranks sent with the bytes that their ZeRO stage has to send (Rajbhandari et al. 2020, section 7).

A model has N parameters; a step has M micro-batches on D ranks, so A = M / D micro-batches per rank. Their gradients are summed
in q accumulation rounds (M = q 2^k, q odd). In a reduce-scatter or an all-gather of N elements a rank sends N (D - 1) / D
elements. An all-reduce is a reduce-scatter and an all-gather.

    stage 0    reduce-scatter of gradients: N per round. All-gather of their sum: N.
    stage 1    reduce-scatter of gradients: N per round. All-gather of parameters: N.
    stage 2    reduce-scatter of gradients: N per micro-batch, so A N. All-gather of parameters: N.
    stage 3    reduce-scatter of gradients: A N. All-gather of parameters, for forward and for backward: at most 2 A N. A unit
               that is kept from forward to backward is gathered once; one whose activations are recomputed in backward may be
               gathered once more.
    stage 3 with hpZ (Wang et al. 2023, "ZeRO++", section 3.2): the first of these all-gathers after an update runs over all
               ranks: N. The others run over the G consecutive ranks that keep a second partition, and send (G - 1) / G.

Shards are cut at multiples of 256 elements, so a rank may send a little more or less. The mean over the ranks is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.read.trace import Trace, rank_begins
from shoal.times.breakdown import settled_steps
from shoal.times.in_steps import gathered_units, publishes_in_background, within_steps
from shoal.times.zero_work import Work

NONE = Fraction(0)


@dataclass
class Volume:
    """One operation on one state: bytes that a rank sends per step, the mean over ranks and settled steps."""

    operation: str
    state: str
    formula: str  # elements, without the factor (D - 1) / D
    measured: Fraction
    theory: Fraction
    saved: Fraction  # not sent, because units were kept from forward to backward, or because updates were skipped
    extra: Fraction  # sent in addition, because units were gathered once more for recomputation
    least: Fraction  # sent by the rank that sent least
    most: Fraction  # sent by the rank that sent most

    @property
    def difference(self) -> Fraction:
        return self.measured - (self.theory - self.saved + self.extra)


def volumes(trace: Trace) -> list[Volume]:
    """Returns no rows if there is no theory for the run."""
    work = Work.of(trace)
    if work is None:
        return []
    events = within_steps(trace, "collective")
    events = events[events["unit"] >= 0]
    gathers = events["name"] == index_of(trace, "all_gather")
    for_use = gathers & np.isin(events["unit"], gathered_units(trace))
    rows = []

    def row(
        operation: str, state: str, formula: str, elements: int, size: int, chosen, saved=NONE, extra=NONE, ranks=None
    ) -> None:
        counted = events[chosen]
        of_ranks = [sent_per_step(trace, part) for part in np.split(counted, rank_begins(counted, work.ranks)[1:-1])]
        mean = sum(of_ranks, Fraction(0)) / work.ranks
        theory = work.sent(elements, ranks) * size
        rows.append(Volume(operation, state, formula, mean, theory, saved, extra, min(of_ranks), max(of_ranks)))

    every_micro_step = work.stage >= 2
    per_round = "N" if work.rounds == 1 else f"{work.rounds} N"
    count, times = (work.micro_steps, "A N") if every_micro_step else (work.rounds, per_round)
    whole = work.stage == 0 and work.native and work.gradient_size == 4
    if whole:  # the MPI library's all-reduce gives every rank the whole sum
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
        skipped = Fraction(skipped_updates(trace), len(settled_steps(trace)))
        saved = skipped * work.sent(published) * work.parameter_size
        row("all_gather", "parameters", formula, published, work.parameter_size, gathers & ~for_use, saved)
    if work.gathered:
        uses = work.micro_steps * (1 if work.kept else 2)
        formula = ("A N" if work.kept else "2 A N") + (" of the others" if published else "")
        if not work.hpz_ranks:
            saved, extra = saved_and_extra(trace, work, events[for_use], uses)
            row("all_gather", "parameters", formula, uses * work.gathered, work.parameter_size, for_use, saved, extra)
            return rows
        near = for_use & (events["group"] == group_index(trace, "neighbours"))
        far = for_use & ~near
        saved, extra = saved_and_extra(trace, work, events[far], 1)
        row("all_gather", "parameters", "N after an update", work.gathered, work.parameter_size, far, saved, extra)
        saved, extra = saved_and_extra(trace, work, events[near], uses - 1, work.hpz_ranks)
        row("all_gather", "parameters", f"{formula} - N, among {work.hpz_ranks}", (uses - 1) * work.gathered,
            work.parameter_size, near, saved, extra, work.hpz_ranks)  # fmt: skip
    return rows


def skipped_updates(trace: Trace) -> int:
    """How many of the updates whose all-gathers belong to the settled steps were skipped, because the scaled gradients
    overflowed in fp16. Such an update leaves the parameters as they are, so that no all-gather follows it.

    A step without a phase `optimizer` has skipped its update. All-gathers do not tell, since one may be missing by mistake.
    """
    updated = trace.of_kind("phase")
    updated = updated["step"][updated["name"] == index_of(trace, "optimizer")]
    updates = settled_steps(trace) - (1 if publishes_in_background(trace) else 0)
    return len(np.setdiff1d(np.intersect1d(updates, trace.steps), updated))


def saved_and_extra(
    trace: Trace, work: Work, gathers: np.ndarray, uses: int, ranks: int | None = None
) -> tuple[Fraction, Fraction]:
    """Bytes per step and rank that were saved because a unit was gathered less often than `uses` times, and bytes that
    were sent in addition because a unit was gathered more often."""
    saved, extra = NONE, NONE
    for unit in gathered_units(trace):
        times = Fraction(int((gathers["unit"] == unit).sum()), work.ranks * len(settled_steps(trace)))
        once = work.sent(int(trace.unit_elements[unit]), ranks) * work.parameter_size
        saved += max(uses - times, NONE) * once
        extra += max(times - uses, NONE) * once
    return saved, extra


def sent_per_step(trace: Trace, events: np.ndarray) -> Fraction:
    return Fraction(int(events["bytes"].sum()), len(settled_steps(trace)))


def group_index(trace: Trace, name: str) -> int:
    """Returns the group's index in the trace's table, or -1, which no collective has."""
    found = np.flatnonzero(trace.groups == name)
    return int(found[0]) if len(found) else -1


def index_of(trace: Trace, name: str) -> int:
    """Returns the name's index in the trace's table, or -1, which no event has."""
    found = np.flatnonzero(trace.names == name)
    return int(found[0]) if len(found) else -1
