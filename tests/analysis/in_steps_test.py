#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which events belong to which step, on invented time lines of one rank."""

import sys
import unittest
from pathlib import Path

import make_run
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "analysis"))
from shoal.read.trace import Trace
from shoal.times import in_steps, late_ranks, traffic

NAMES = ("step", "forward", "publish", "evaluate", "all_gather", "reduce_scatter")
GROUPS = ("node", "across")
STEP, GAP = 100, 100  # nanoseconds; evaluations are in the gap after a step


def trace_of(rows, **options):
    """rows: (kind, name, begin, duration, step, unit, group, bytes)."""
    events = np.zeros(len(rows), make_run.EVENT)
    for event, (kind, name, begin, duration, step, unit, group, size) in zip(events, rows, strict=True):
        event["kind"], event["name"] = make_run.KINDS.index(kind), NAMES.index(name)
        event["begin_ns"], event["duration_ns"], event["step"] = begin, duration, step
        event["unit"], event["group"], event["bytes"] = unit, group, size
    return Trace(
        path=Path("trace.h5"), attributes={"world_size": "1", "level": "comm"}, options={"zero.stage": "1", **options},
        machine={}, hosts=["n"], names=np.array(NAMES, object), units=np.array(["block"], object),
        unit_elements=np.array([256], np.int64), groups=np.array(GROUPS, object), kinds=list(make_run.KINDS), queues=["host"],
        events=events[np.lexsort((-events["duration_ns"], events["begin_ns"]))], dropped=0,
        group_parts=np.zeros((2, 1), np.int32),
    )  # fmt: skip


def gather(begin, step, size, kind="collective"):
    return (kind, "all_gather", begin, 5, step, 0, 0, size)


def steps(count):
    """Steps 1, 2, ...: a forward pass, and the publishing after the update, in which two all-gathers of 10^step bytes start."""
    rows = []
    for step in range(1, count + 1):
        begin = step * (STEP + GAP)
        rows += [("step", "step", begin, STEP, step, -1, -1, 0), ("phase", "forward", begin, 40, step, -1, -1, 0),
                 ("phase", "publish", begin + 80, 10, step, -1, -1, 0),
                 gather(begin + 80, step, 10**step), gather(begin + 81, step, 10**step)]  # fmt: skip
    return rows


def forward_of(step):
    return step * (STEP + GAP)


def evaluation_after(step):
    return (step + 1) * (STEP + GAP) - GAP


def evaluation(step):
    return ("phase", "evaluate", evaluation_after(step), 80, step, -1, -1, 0)


def bytes_of(trace):
    return sorted(in_steps.within_steps(trace, "collective")["bytes"].tolist())


class InSteps(unittest.TestCase):
    def test_updated_parameters_belong_to_the_step_that_uses_them(self):
        """The third all-gather of an update begins when a forward pass needs it: of the next step, or of an evaluation."""
        rows = [*steps(3), gather(forward_of(2) + 3, 2, 10), gather(forward_of(3) + 3, 3, 100)]
        self.assertEqual(bytes_of(trace_of(rows)), [10, 10, 10, 100, 100, 100])
        rows = [*steps(3), *map(evaluation, (1, 2, 3)),
                *(gather(evaluation_after(step) + 3, step, 10**step) for step in (1, 2, 3))]  # fmt: skip
        self.assertEqual(bytes_of(trace_of(rows)), [10, 10, 10, 100, 100, 100])

    def test_an_evaluation_gathers_the_mean_over_nodes_for_itself(self):
        """It ends the all-gathers of the update, averages, and starts others: for the mean, and for the own parameters. The
        last of these begins in the next forward pass."""
        rows, for_itself = steps(3), 7
        for step in (1, 2):
            begin = evaluation_after(step)
            rows += [evaluation(step), gather(begin + 3, step, 10**step),
                     ("collective", "reduce_scatter", begin + 10, 5, step, -1, 1, for_itself)]  # fmt: skip
            rows += [gather(begin + at, step, for_itself) for at in (20, 21, 30, 60, 61)]
            rows += [gather(forward_of(step + 1) + 3, step + 1, for_itself)]
        self.assertEqual(bytes_of(trace_of(rows)), [10, 10, 10, 100, 100, 100])

    def test_what_the_first_step_uses_was_gathered_before_it(self):
        """The clocks were not aligned then. A trace of two steps has no other step to leave out."""
        rows = [
            *steps(2),
            gather(forward_of(2) + 90, 0, 1),
            gather(forward_of(1) + 3, 1, 1),
            gather(forward_of(2) + 3, 2, 10),
        ]
        self.assertEqual(bytes_of(trace_of(rows)), [1, 1, 10, 10, 10])
        self.assertEqual(bytes_of(trace_of([*steps(3), gather(forward_of(2) + 90, 0, 1)])), [10, 10, 100, 100])

    def test_gradients_belong_to_the_step_in_which_they_are_gathered(self):
        rows = [*steps(3), *map(evaluation, (1, 2)), gather(evaluation_after(2) + 3, 2, 7)]
        self.assertEqual(bytes_of(trace_of(rows, **{"zero.stage": "0"})), [100, 100, 1000, 1000])

    def test_waits_count_only_in_steps(self):
        """An evaluation waits for parameters that the next step needs, too. They count as sent, but the step has not waited."""
        between = [gather(evaluation_after(2) + 3, 2, 0, "wait"), gather(evaluation_after(3) + 3, 3, 0, "wait")]
        rows = [*steps(3), *map(evaluation, (1, 2, 3)), *between]
        trace = trace_of(rows)
        self.assertEqual([op.exposed_per_step for op in traffic.operations(trace)], [0])
        self.assertEqual([op.exposed_per_step for op in traffic.unit_operations(trace)], [0])
        self.assertEqual(late_ranks.exposed(trace, late_ranks.split_waits(trace)), [])
        trace = trace_of([*rows, gather(forward_of(3) + 3, 3, 0, "wait")])
        expected = 5e-9 / 2
        self.assertAlmostEqual(traffic.operations(trace)[0].exposed_per_step, expected, places=15)
        self.assertAlmostEqual(traffic.unit_operations(trace)[0].exposed_per_step, expected, places=15)
        self.assertAlmostEqual(late_ranks.exposed(trace, late_ranks.split_waits(trace))[0].seconds, expected, places=15)


if __name__ == "__main__":
    unittest.main()
