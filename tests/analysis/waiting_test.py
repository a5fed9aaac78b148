#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Late ranks and transfers, the critical path, operations of kernels, clocks of nodes, parts of a resumed run, hundreds of
ranks: on runs whose every duration is known."""

import html
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import make_run
import numpy as np

from scripts import ANALYSIS, script  # isort: skip

from shoal.draw import report_tables, styles
from shoal.read import clocks
from shoal.read.run import Run
from shoal.read.trace import Trace
from shoal.times import breakdown, kernel_work, late_ranks, restarts
from shoal.times.breakdown import Kernel

MS = 1_000_000
NAMES = ["step", "forward", "all_gather", "exchange", "send", "average"]


def trace_of(rows, ranks, groups=("all",), parts=None, **more):
    """A trace in memory. rows: (rank, kind, name, begin, duration, step, group), in milliseconds."""
    events = np.zeros(len(rows), make_run.EVENT)
    for event, (rank, kind, name, begin, duration, step, group) in zip(events, rows, strict=True):
        event["rank"], event["kind"], event["name"] = rank, make_run.KINDS.index(kind), NAMES.index(name)
        event["begin_ns"], event["duration_ns"] = round(begin * MS), round(duration * MS)
        event["step"], event["group"], event["depth"] = step, group, 1 if kind == "phase" else 0
        event["unit"] = 0 if name == "exchange" else -1  # SGP exchanges unit by unit
    events = events[np.lexsort((-events["duration_ns"], events["begin_ns"], events["rank"]))]
    return Trace(
        path=Path("trace.h5"), attributes={"world_size": str(ranks), "level": "comm"}, options={}, machine={}, hosts=["n"] * ranks,
        names=np.array(NAMES, object), units=np.array([], object), unit_elements=np.array([], np.int64),
        groups=np.array(groups, object), kinds=list(make_run.KINDS), queues=["host"], events=events, dropped=0,
        group_parts=np.array(parts if parts is not None else [[0] * ranks] * len(groups)), **more,
    )  # fmt: skip


def gathers(entered, begun=0.0, end=20.0, step=1, wait="all_gather", call="all_gather", group=0, wait_group=0):
    """A step from 0 to 30 in which the ranks enter one operation at these times and leave it together."""
    rows = []
    for rank, at in enumerate(entered):
        rows += [(rank, "step", "step", begun, 30, step, -1), (rank, "phase", "forward", begun, at, step, -1),
                 (rank, "collective", call, begun + at, end - at, step, group),
                 (rank, "wait", wait, begun + at, end - at, step, wait_group)]  # fmt: skip
    return rows


class Waiting(unittest.TestCase):
    def test_the_last_rank_to_enter_makes_the_others_wait(self):
        trace = trace_of(gathers([5, 6, 15]), 3)
        waits = late_ranks.split_waits(trace)
        self.assertEqual(waits.late_ns.tolist(), [10 * MS, 9 * MS, 0])
        self.assertEqual(waits.transfer_ns.tolist(), [5 * MS] * 3)
        (op,) = late_ranks.exposed(trace, waits)
        self.assertEqual((op.name, op.group, op.last_rank, op.last_share), ("all_gather", "all", 2, 1.0))
        self.assertAlmostEqual(op.late, 19e-3 / 3)
        self.assertAlmostEqual(op.transfer, 5e-3)
        (straggler,) = late_ranks.stragglers(trace, waits)
        self.assertEqual(straggler.rank, 2)
        self.assertAlmostEqual(straggler.delay, 19e-3 / 2, msg="mean of the two others")

    def test_operations_are_told_apart_by_step_and_group(self):
        """The ranks of two groups enter their own operations; a rank that lost one event shifts no other step."""
        parts = [[0, 0, 1, 1]]
        rows = gathers([1, 4, 10, 12], step=1) + gathers([2, 1, 1, 7], begun=50, step=2)
        rows = [row for row in rows if not (row[0] == 0 and row[1] == "collective" and row[5] == 1)]
        trace = trace_of(rows, 4, groups=("node",), parts=parts)
        waits = late_ranks.split_waits(trace)
        found = {(int(e["rank"]), int(e["step"])): int(ns) for e, ns in zip(waits.events, waits.late_ns, strict=True)}
        self.assertEqual(found[2, 1], 2 * MS)
        self.assertEqual((found[1, 2], found[2, 2]), (1 * MS, 6 * MS))
        self.assertEqual(found[0, 2], 0)

    def test_an_exchange_is_what_a_wait_for_send_waits_for(self):
        """SGP: the wait has neither the name nor the group of the exchange."""
        trace = trace_of(gathers([5, 9], wait="send", call="exchange", wait_group=-1), 2, groups=("across",))
        (op,) = late_ranks.exposed(trace, late_ranks.split_waits(trace))
        self.assertEqual((op.name, op.group, op.last_rank), ("exchange", "across", 1))
        self.assertAlmostEqual(op.late, 2e-3)

    def test_an_average_is_split_by_the_operations_in_it(self):
        trace = trace_of(gathers([5, 9], wait="average", wait_group=-1), 2, groups=("across",))
        (op,) = late_ranks.exposed(trace, late_ranks.split_waits(trace))
        self.assertEqual((op.name, op.group, op.last_rank, op.computing), ("all_gather", "across", 1, 0))
        between = [(0, "wait", "average", 21, 2, 1, -1)]  # when no message is in flight
        trace = trace_of(gathers([5, 9], wait="average", wait_group=-1) + between, 2, groups=("across",))
        found = {op.name: op for op in late_ranks.exposed(trace, late_ranks.split_waits(trace))}
        self.assertAlmostEqual(found["average"].computing, 2e-3 / 2)
        self.assertEqual((found["average"].late, found["average"].transfer), (0, 0))

    def test_the_critical_path_goes_through_the_late_rank(self):
        trace = trace_of(gathers([5, 6, 15]), 3)
        path = late_ranks.critical_path(trace, late_ranks.split_waits(trace))
        self.assertAlmostEqual(path.seconds, 30e-3)
        self.assertAlmostEqual(path.work[2, "forward"], 15e-3)
        self.assertAlmostEqual(path.transfer["all_gather", "all"], 5e-3)
        self.assertEqual(sum(seconds for (rank, _), seconds in path.work.items() if rank == 1), 0)
        told = report_tables.path_text(trace, path)
        self.assertIn("50 % of it is work of rank 2 (most: forward), 17 % transfer (most: all_gather, all ranks)", told)


class Kernels(unittest.TestCase):
    MODEL = kernel_work.Model(
        width=64, inner=256, layers=2, vocabulary=100, tokens=16, rows=32, micro_steps=3, size=2, own=1000
    )

    def test_operations_of_products(self):
        """With their bytes the rows follow from these: as well for a head that is cut into pieces."""
        rows = 32
        for name, moved in (("qkv", 2 * (rows * 64 + 64 * 192 + rows * 192)), ("qkv_dx", 2 * (rows * 64 + 64 * 192 + rows * 192)),
                            ("qkv_dw", 2 * rows * (64 + 192) + 4 * 64 * 192)):  # fmt: skip
            work = kernel_work.work_of(Kernel(name, 6, 1.0, 0.5, moved), self.MODEL)
            self.assertAlmostEqual(work.flops, 2 * rows * 64 * 192, msg=name)
            self.assertEqual(work.bytes, moved)
        piece = kernel_work.work_of(Kernel("head", 12, 1.0, 0.5, 2 * (8 * 64 + 6400 + 800)), self.MODEL)
        self.assertAlmostEqual(piece.flops, 2 * 8 * 6400)
        device = kernel_work.work_of(Kernel("head", 12, 1.0, 0.5, 0), self.MODEL)
        self.assertAlmostEqual(device.flops, 2 * 8 * 6400, msg="12 calls for 3 micro-batches of 32 rows")

    def test_attention_and_others(self):
        work = kernel_work.work_of(Kernel("attention", 6, 1.0, 0.5, 0), self.MODEL)
        self.assertEqual(work.flops, 2 * 2 * 64 * 32 * 17 / 2)
        self.assertEqual(
            kernel_work.work_of(Kernel("layernorm_backward", 6, 1.0, 0.5, 0), self.MODEL).bytes, 3 * 32 * 64 * 2
        )
        self.assertEqual(kernel_work.work_of(Kernel("unknown", 6, 1.0, 0.5, 7), self.MODEL), kernel_work.Work(0, 7))
        self.assertEqual(kernel_work.work_of(Kernel("qkv", 6, 1.0, 0.5, 9), None), kernel_work.Work(0, 9))


class Runs(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-waiting-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def test_clocks_are_aligned_and_their_drift_is_told(self):
        path = make_run.make_run(self.directory / "drift", drift_ppm=500.0)
        trace = Run.read(path).trace
        found = trace.clocks
        self.assertEqual(found.hosts, ["node1", "node2"])
        self.assertAlmostEqual(found.drift_ppm(1), 500, delta=1)
        self.assertAlmostEqual(found.offsets_ns[-1, 1], 500e-6 * 12 * 40 * MS, delta=200)
        self.assertEqual(found.spread_ns.tolist(), [50, 50], "ranks of a node are 100 ns apart")
        marks = trace.of_kind("counter")
        marks = marks[marks["name"] == trace.names.tolist().index(clocks.COUNTER)]
        for flush in np.unique(marks["bytes"]):
            moments = marks["begin_ns"][marks["bytes"] == flush]
            self.assertLess(np.ptp(moments), 31_000, "three readings, 10 us apart")
        plain = Run.read(make_run.make_run(self.directory / "plain")).trace
        for ours, theirs in zip(breakdown.step_parts(trace), breakdown.step_parts(plain), strict=True):
            self.assertTrue(np.allclose(ours, theirs, rtol=1e-3) if isinstance(ours, np.ndarray) else ours == theirs,
                            "what lay within a step stays within it")  # fmt: skip
        done = script("report.py", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = (path / "report/report.html").read_text()
        self.assertIn("<td>node2</td>", page)
        self.assertTrue((path / "report/clocks.png").exists())

    def resumed(self):
        """Steps 1 to 10, of which the second part repeats 9 and 10; it starts 60 s after the first."""
        path = make_run.make_run(self.directory / "resumed", "steps")
        zero = 1_800_000_000 * 1_000 * MS
        make_run.write_trace(path / "trace.h5", {}, "steps", 10, zero=zero)
        make_run.write_trace(path / "trace_from_8.h5", {}, "steps", 12, 9, 4, zero=zero + 60_000 * MS)
        return path

    def test_what_restarts_cost(self):
        run = Run.read(self.resumed())
        first, second = restarts.segments(run.begun)
        self.assertEqual((first.repeated.tolist(), second.repeated.tolist()), ([9, 10], []))
        self.assertAlmostEqual(second.restart_seconds, 60 + 1e-3 - first.trace.end_ns / 1e9, places=6)
        step = (sum(make_run.PHASES.values()) * 1000 + 3 * 500_000 + make_run.GAP_NS) / 1e9
        self.assertAlmostEqual(first.repeated_seconds, 2 * step, places=9, msg="of the slowest rank")
        whole = restarts.lost([first, second])
        self.assertEqual(whole.repeated_steps, 2)
        self.assertAlmostEqual(whole.whole_seconds, 60 + second.trace.end_ns / 1e9)

    def test_a_start_without_steps_costs_nothing_of_its_own(self):
        """It comes 30 s after the first part. A part with steps follows it, and then none."""
        path = self.resumed()
        with_it = restarts.lost(restarts.segments(Run.read(path).begun))
        zero = 1_800_000_000 * 1_000 * MS
        make_run.write_trace(path / "trace_from_8_2.h5", {}, "steps", 8, 9, 3, zero=zero + 30_000 * MS)
        found = restarts.segments(Run.read(path).begun)
        self.assertEqual([part.trace.steps.tolist() for part in found], [[*range(1, 11)], [], [*range(9, 13)]])
        self.assertEqual(restarts.lost(found), with_it, "one restart, from the end of the first part")
        self.assertEqual(found[1].restart_seconds, 0)
        (path / "trace_from_8.h5").unlink()
        found = restarts.segments(Run.read(path).begun)
        whole = restarts.lost(found)
        self.assertEqual((whole.share, whole.whole_seconds), (0, found[0].end), "the run had ended")

    def test_report_and_perfetto_have_all_parts(self):
        path = self.resumed()
        done = script("report.py", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(
            done.stdout, r"lost to restarts +[\d.]+ s between parts, [\d.]+ ms for 2 steps made again: 9\d\.\d %"
        )
        self.assertTrue((path / "report/parts.png").exists())
        done = script("perfetto.py", path, "-o", path / "all.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = json.loads((path / "all.json").read_text())["traceEvents"]
        steps = [event for event in events if event.get("cat") == "step" and event["pid"] == 0]
        self.assertEqual([event["name"] for event in steps], [f"step {n}" for n in (*range(1, 11), *range(9, 13))])
        self.assertGreater(steps[10]["ts"] - steps[9]["ts"], 50e6, "a minute between the parts, us")
        lost = [event for event in events if event["name"] == "restart"]
        self.assertEqual(len(lost), make_run.RANKS)

    def test_a_trace_cut_off_in_the_middle_is_one_line(self):
        path = make_run.make_run(self.directory / "cut")
        whole = (path / "trace.h5").read_bytes()
        (path / "trace.h5").write_bytes(whole[: len(whole) // 2])
        for name in ("report.py", "perfetto.py"):
            done = script(name, path / "trace.h5")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn("trace.h5: cannot be read", done.stderr)
        done = script("report.py", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""), "the rest of the run is shown")
        self.assertIn("not shown: traces:", done.stdout)

    def test_names_from_decks_are_escaped(self):
        evil = '<script>alert("1")</script>&'
        path = make_run.make_run(self.directory / "a<b>&c", options={"data.source": evil})
        self.assertEqual(script("report.py", path).returncode, 0)
        page = (path / "report/report.html").read_text()
        self.assertNotIn("<script", page)
        self.assertIn(html.escape(evil), page)
        self.assertEqual(page.count("a&lt;b&gt;&amp;c"), 2, "title and heading")
        self.assertNotIn("a<b>", page)
        other = make_run.make_run(self.directory / r"$x_{$ \frac", "off")
        done = script("compare.py", path, other, "-o", self.directory / "compare.png")
        self.assertEqual((done.returncode, done.stderr), (0, ""), "no name is read as a formula")

    def test_500_ranks(self):
        """Within 2 GB; the time is bounded loosely, since other programs may use the machine."""
        path = make_run.make_run(self.directory / "many", world=500, nodes=250, steps=20)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-B", ANALYSIS / "report.py", path], capture_output=True, text=True, timeout=240
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(after.ru_maxrss, 2e6, "KiB")
        self.assertLess(after.ru_utime - before.ru_utime, 60, "s of a processor")
        page = (path / "report/report.html").read_text()
        self.assertIn("<th>5 % of ranks below</th><th>median</th><th>95 % below</th>", page)
        self.assertNotIn("<td>rank 17</td>", page, "no row per rank")
        self.assertLess(styles.plt.imread(path / "report/step_parts.png").shape[0], 1000, "no bar per rank")
        print(f"report of 500 ranks: {after.ru_utime - before.ru_utime:.1f} s, {after.ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    unittest.main()
