#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts in analysis/ on a run whose every duration and byte is known (make_run.py)."""

import dataclasses
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import h5py
import make_run
import numpy as np

from scripts import ANALYSIS, script  # isort: skip

import report
from shoal.draw import report_tables
from shoal.read.bad_input import BadInput
from shoal.read.run import Run
from shoal.read.trace import Trace
from shoal.times import breakdown, traffic


def add_flush(file, first, count, dropped=0, rank=0):
    flushes = file["flushes"][()]
    more = np.array([(1, rank, first, count, dropped)], dtype=flushes.dtype)
    del file["flushes"]
    file["flushes"] = np.concatenate([flushes, more])


class Analysis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = Path(tempfile.mkdtemp(prefix="shoal-analysis-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.run_dir = make_run.make_run(cls.directory / "whole", level="kernels", machine=make_run.PEAK)

    def copy(self, name):
        return Path(shutil.copytree(self.run_dir, self.directory / name))


class Reading(Analysis):
    def test_trace_is_read_with_its_tables(self):
        trace = Trace.read(self.run_dir)
        self.assertEqual((trace.world_size, trace.level, trace.complete, trace.dropped), (4, "kernels", True, 0))
        self.assertEqual(trace.hosts, ["node1", "node1", "node2", "node2"])
        self.assertEqual(len(trace.of_kind("step", rank=2)), 12)
        self.assertEqual(
            {trace.names[n] for n in trace.of_kind("phase")["name"]},
            {*make_run.PHASES, "recompute", "release", "evaluate"},
        )

    def test_events_are_in_order_of_rank_and_begin(self):
        events = Trace.read(self.run_dir).events
        keys = list(zip(events["rank"], events["begin_ns"], -events["duration_ns"], strict=True))
        self.assertEqual(keys, sorted(keys))

    def test_dropped_events_of_all_flushes_are_counted(self):
        copy = self.copy("dropped")
        with h5py.File(copy / "trace.h5", "r+") as file:
            rows = file["flushes"][()]
            rows["dropped"] = [0, 3, 0, 4]
            file["flushes"][...] = rows
            add_flush(file, len(file["events"]), 0, 5)  # of rank 0, which has dropped no events before
            add_flush(file, len(file["events"]), 0, 2)
        self.assertEqual(Trace.read(copy).dropped, 14)
        self.assertIn("events lost", script("report.py", copy).stdout)

    def test_rows_that_no_flush_covers_are_no_events(self):
        copy = self.copy("killed")
        with h5py.File(copy / "trace.h5", "r+") as file:
            file["events"].resize(len(file["events"]) + 50, axis=0)  # space that was made and not filled
        self.assertEqual(Trace.read(copy).events.tolist(), Trace.read(self.run_dir).events.tolist())

    def test_another_format_version_is_refused(self):
        copy = self.copy("version")
        with h5py.File(copy / "trace.h5", "r+") as file:
            file.attrs["format_version"] = 4
        with self.assertRaisesRegex(BadInput, "format_version = 4; these scripts read versions 1 to 3"):
            Trace.read(copy)

    def test_a_trace_of_an_older_program_is_read(self):
        older = make_run.make_run(self.directory / "older", level="kernels", version=1, machine=make_run.PEAK)
        trace, newer = Trace.read(older), Trace.read(self.run_dir)
        self.assertEqual((trace.queues, trace.device_queues, trace.untimed), (["host"], [], 0))
        for field in newer.events.dtype.names:
            self.assertEqual(trace.events[field].tolist(), newer.events[field].tolist(), field)
        self.assertEqual(breakdown.kernel_times(trace), breakdown.kernel_times(newer))
        uncompressed = make_run.make_run(
            self.directory / "uncompressed", level="kernels", version=2, machine=make_run.PEAK
        )
        self.assertEqual(Trace.read(uncompressed).events.tolist(), newer.events.tolist())
        for run in (older, self.run_dir):
            result = script("report.py", run)
            self.assertEqual(result.returncode, 0, result.stderr)
            for of_a_device in ("device idle", "queue of the device", "of the device's work"):
                self.assertNotIn(of_a_device, result.stdout)
        pages = [(run / "report/report.html").read_text() for run in (older, self.run_dir)]
        self.assertEqual(pages[0].replace("older", "whole"), pages[1])

    def test_a_queue_beyond_the_table_is_refused(self):
        copy = self.copy("queues")
        for queue in (1, -1):
            with h5py.File(copy / "trace.h5", "r+") as file:
                rows = file["events"][()]
                rows["queue"][5] = queue
                file["events"][...] = rows
            with self.assertRaisesRegex(BadInput, "refers to queues beyond the 1 that there are"):
                Trace.read(copy)

    def test_names_out_of_the_table_are_refused(self):
        copy = self.copy("names")
        with h5py.File(copy / "trace.h5", "r+") as file:
            rows = file["events"][()]
            rows["name"][5] = 1000
            file["events"][...] = rows
        with self.assertRaisesRegex(BadInput, "refers to names beyond"):
            Trace.read(copy)

    def test_a_line_being_written_is_left_out_and_a_damaged_one_refused(self):
        copy = self.copy("lines")
        (copy / "summary.json").unlink()
        metrics = copy / "metrics.jsonl"
        whole = metrics.read_text()
        metrics.write_text(whole + '{"step": 13, "lo')
        self.assertEqual(Run.read(copy).losses[0].tolist(), list(range(1, 13)))
        metrics.write_text('{"step": 1,\n' + whole)
        with self.assertRaisesRegex(BadInput, "metrics.jsonl:1: not a step's metrics"):
            Run.read(copy)


class Breakdown(Analysis):
    def test_parts_add_up_to_the_step_on_every_rank(self):
        trace = Trace.read(self.run_dir)
        _, seconds = breakdown.step_parts(trace)
        for rank in range(trace.world_size):
            steps = trace.of_kind("step", rank=rank)
            self.assertAlmostEqual(seconds[:, rank].sum(), steps["duration_ns"][1:].mean() / 1e9, places=12)

    def test_parts_are_what_was_recorded(self):
        parts, seconds = breakdown.step_parts(Trace.read(self.run_dir))
        self.assertEqual(parts, [part for part in breakdown.PARTS if part != "synchronise"])
        found = dict(zip(parts, seconds, strict=True))
        self.assertAlmostEqual(found["forward"][3], 9e-3 + 3 * 0.5e-3)
        self.assertAlmostEqual(found["wait"][0], make_run.WAIT_NS / 1e9)
        self.assertAlmostEqual(found["reduce"][0], 1.5e-3 - make_run.WAIT_NS / 1e9)  # without the wait inside it
        within = make_run.RECOMPUTE_NS + make_run.RELEASE_NS
        self.assertAlmostEqual(found["recompute"][2], make_run.RECOMPUTE_NS / 1e9)
        self.assertAlmostEqual(found["backward"][2], 19e-3 - within / 1e9)
        self.assertAlmostEqual(found["rest"][1], make_run.GAP_NS / 1e9)

    def test_phases_between_steps_are_kept_apart(self):
        self.assertEqual(
            breakdown.phases_between_steps(Trace.read(self.run_dir)),
            {"evaluate": (2, 2 * make_run.EVALUATION_NS / 1e9)},
        )

    def test_operations(self):
        reduce, gather = traffic.operations(Trace.read(self.run_dir))
        self.assertEqual((reduce.name, reduce.group, reduce.calls_per_step), ("reduce_scatter", "all", 3))
        self.assertEqual(reduce.bytes_per_step, 3 * make_run.BUCKET_BYTES)
        self.assertAlmostEqual(reduce.bandwidth, make_run.BUCKET_BYTES / 8e-3)
        self.assertAlmostEqual(reduce.exposed_per_step, make_run.WAIT_NS / 1e9)
        self.assertEqual((gather.name, gather.group, gather.exposed_per_step), ("all_gather", "node", 0))

    def test_units(self):
        trace = Trace.read(self.run_dir)
        of_unit = {op.name: op for op in traffic.unit_operations(trace) if op.unit == 1}
        self.assertEqual(set(of_unit), {"reduce_scatter", "release"})
        reduce = of_unit["reduce_scatter"]
        self.assertEqual((reduce.calls_per_step, reduce.bytes_per_step), (1, make_run.BUCKET_BYTES))
        self.assertAlmostEqual(reduce.open_per_step, 8e-3)
        self.assertAlmostEqual(reduce.exposed_per_step, make_run.WAIT_NS / 1e9)
        self.assertAlmostEqual(reduce.hidden, 1 - make_run.WAIT_NS / 8e6)
        longer = dataclasses.replace(reduce, exposed_per_step=9e-3)  # the wait ended after the last byte
        self.assertEqual((longer.exposed_in_flight, longer.hidden), (reduce.open_per_step, 0))
        self.assertEqual(of_unit["release"].bytes_per_step, make_run.BUCKET_BYTES)

    def test_a_mean_over_nodes_is_waited_for_message_by_message(self):
        """The wait has the name of the whole operation. The messages that the operation consists of lie within the
        wait, and it computes between them."""
        copy = self.copy("composed")
        with h5py.File(copy / "trace.h5", "r+") as file:
            rows, names = file["events"][()], [name.decode() for name in file["names"][()]]
            waits = rows["kind"] == make_run.KINDS.index("wait")
            parts = np.repeat(rows[waits], 2)
            parts["kind"], parts["unit"], parts["group"], parts["bytes"] = (
                make_run.KINDS.index("collective"),
                -1,
                1,
                1000,
            )
            parts["name"][::2], parts["name"][1::2] = names.index("reduce_scatter"), names.index("all_gather")
            parts["begin_ns"][1::2] += 500_000
            parts["duration_ns"][::2], parts["duration_ns"][1::2] = 400_000, make_run.WAIT_NS - 500_000
            del file["names"]
            file.create_dataset("names", data=[*names, "average"], dtype=h5py.string_dtype())
            rows["name"][waits], rows["group"][waits], rows["unit"][waits] = len(names), -1, -1
            file["events"].resize(len(rows) + len(parts), axis=0)
            file["events"][...] = np.concatenate([rows, parts])
            for rank in range(make_run.RANKS):  # the waits are in the order of their ranks
                [own] = np.nonzero(parts["rank"] == rank)
                add_flush(file, len(rows) + own[0], len(own), rank=rank)
        trace = Trace.read(copy)
        found = {(op.name, op.group): op for op in traffic.operations(trace)}
        self.assertAlmostEqual(found["reduce_scatter", "node"].exposed_per_step, 0.4e-3)
        self.assertAlmostEqual(found["all_gather", "node"].exposed_per_step, make_run.WAIT_NS / 1e9 - 0.5e-3)
        self.assertAlmostEqual(found["average", ""].exposed_per_step, 0.1e-3)
        self.assertEqual(found["reduce_scatter", "all"].exposed_per_step, 0)
        parts, seconds = breakdown.step_parts(trace)
        together = sum(op.exposed_per_step for op in found.values())
        self.assertAlmostEqual(together, seconds[parts.index("wait")].mean(), places=12)
        page = [row[0] for row in report_tables.operation_rows(trace)]
        self.assertIn("average", page)

    def test_kernels(self):
        times = breakdown.kernel_times(Trace.read(self.run_dir))
        matmul, _, layernorm = times.kernels
        self.assertEqual([k.name for k in times.kernels], ["matmul", "gelu", "layernorm"])
        self.assertAlmostEqual(matmul.seconds_per_step, 2 * 1.9e-3, msg="without those of evaluations")
        self.assertAlmostEqual(matmul.calls_per_step, 2)
        self.assertEqual((layernorm.bytes_per_call, matmul.bytes_per_call), (2e6, 0))

    def test_shares_of_kernels_waits_and_the_rest_are_the_step(self):
        trace = Trace.read(self.run_dir)
        times = breakdown.kernel_times(trace)
        self.assertLess(sum(k.share for k in times.kernels), 1)
        self.assertAlmostEqual(times.waited, make_run.WAIT_NS / 1e9)
        self.assertAlmostEqual(sum(k.seconds_per_step for k in times.kernels) + times.waited + times.other, times.step)
        *rows, step = report_tables.kernel_rows(trace)
        shares = [float(row[3].removesuffix(" %")) for row in rows]
        self.assertEqual([row[0] for row in rows][-2:], ["waiting for messages", "other"])
        self.assertAlmostEqual(sum(shares), 100, delta=0.3)
        self.assertEqual(step[3], "100.0 %")

    def test_memory_is_by_name_and_rank(self):
        seconds, values = breakdown.memory(Trace.read(self.run_dir))["taken"][3]
        self.assertEqual((len(seconds), int(values.max())), (12, 150 << 20))


class Report(Analysis):
    FIGURES = ("curves", "step_times", "step_parts", "communication", "waiting", "critical_path", "units", "memory")

    def test_whole_run(self):
        command = [sys.executable, "-B", "-W", "error::RuntimeWarning", ANALYSIS / "report.py"]
        result = subprocess.run([*command, self.run_dir, "-o", self.directory / "whole-report"], capture_output=True, text=True,
                                timeout=120)  # fmt: skip
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        page = (self.directory / "whole-report" / "report.html").read_text()
        for figure in self.FIGURES:
            png = (self.directory / "whole-report" / f"{figure}.png").read_bytes()
            self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n", figure)
        self.assertEqual(page.count("data:image/png;base64,"), len(self.FIGURES))
        self.assertNotRegex(page, r"(?:src|href)\s*=\s*\"(?!data:)", "the page must load nothing")
        self.assertIn('<span class="verdict well">OK</span>', page)
        for expected in ("reduce_scatter", "layernorm", "2.0000 nats per token", "0123456789abcdef", "evaluate"):
            self.assertIn(expected, page)
        absent = [line for line in result.stdout.splitlines() if "not shown" in line]
        self.assertEqual(absent, ["  not shown: roofline: no kernel whose operations and bytes are known"])
        self.assertTrue(result.stdout.splitlines()[-1].endswith("whole-report/report.html"))

    def test_what_is_missing_is_named(self):
        for missing, expected in (("trace.h5", "step_parts: no trace"), ("summary.json", "files: missing: summary.json"),
                                  ("metrics.jsonl", "files: missing: metrics.jsonl"),
                                  ("metrics.jsonl", "curves: no gradient norm: metrics.jsonl has none")):  # fmt: skip
            with self.subTest(missing):
                copy = self.copy(f"without-{expected}")
                (copy / missing).unlink()
                result = script("report.py", copy)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn(expected, result.stdout)

    def test_levels_record_less(self):
        steps = make_run.make_run(self.directory / "steps", level="steps")
        result = script("report.py", steps)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("not shown: communication: no messages in the trace: trace.level = steps", result.stdout)
        self.assertIn("not shown: kernels", result.stdout)

    def test_a_trace_alone(self):
        result = script("report.py", self.run_dir / "trace.h5", "-o", self.directory / "alone")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.directory / "alone" / "step_parts.png").exists())

    def test_a_loss_that_was_nan(self):
        copy = self.copy("nan")
        summary = json.loads((copy / "summary.json").read_text())
        summary["losses"][-1][1] = None
        (copy / "summary.json").write_text(json.dumps(summary))
        result = script("report.py", copy)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_the_verdict_is_the_programs_own(self):
        def said(**verdict):
            return {
                "ended": "done",
                "exit_code": 0,
                "steps_made": 12,
                "updates_skipped": 0,
                "ok": True,
                "text": "OK",
                **verdict,
            }

        skipped = said(updates_skipped=3, text="OK, 3 of 12 updates skipped (loss scale overflow)")
        early = said(ended="stopped early", exit_code=75, ok=False, text="STOPPED EARLY at step 12 of 40 (requeue)")
        whole = json.loads((self.run_dir / "summary.json").read_text())
        older = {key: value for key, value in whole.items() if key != "verdict"}
        stale = {**whole, "losses": whole["losses"][:8], "verdict": early}
        run = Run.read(self.run_dir)
        for summary, expected in ((whole, ("well", "OK")), ({**whole, "verdict": skipped}, ("well", skipped["text"])),
                                  ({**whole, "verdict": early}, ("bad", early["text"])),
                                  (older, ("unknown", "unknown (written by an older program)"))):  # fmt: skip
            run.summary = summary
            self.assertEqual(report.verdict(run), expected)
        run.summary = stale
        how, words = report.verdict(run)
        self.assertEqual(how, "bad")
        self.assertIn("resumed after step 8", words)


class Perfetto(Analysis):
    def events(self, name):
        output = self.directory / name
        result = script("perfetto.py", self.run_dir, "-o", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        opened = gzip.open(output, "rt") if output.suffix == ".gz" else output.open()
        with opened as file:
            return json.load(file)["traceEvents"]

    def test_every_event_is_there_and_well_formed(self):
        events = self.events("trace.json")
        trace = Trace.read(self.run_dir)
        self.assertEqual(sum(e["ph"] in "XC" for e in events), len(trace.events))
        self.assertEqual(self.events("trace.json.gz"), events)
        for event in events:
            self.assertIn(event["ph"], "XCM")
            self.assertLessEqual({"name", "pid", "args"}, set(event))
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
        names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {f"rank {r} on node{r // 2 + 1}" for r in range(4)})

    def test_events_of_a_thread_nest(self):
        threads = {}
        for event in self.events("nest.json"):
            if event["ph"] == "X":
                threads.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["dur"]))
        self.assertGreaterEqual(
            sum(tid >= 10 for _, tid in threads), 8, "overlapping operations take two threads a rank"
        )
        for events in threads.values():
            ends = []
            for begin, negative in sorted(events):
                while ends and ends[-1] <= begin + 1e-6:
                    ends.pop()
                self.assertTrue(not ends or begin - negative <= ends[-1] + 1e-6, "an event ends after the one it is in")
                ends.append(begin - negative)


class Device(unittest.TestCase):
    """A run whose kernels run on a device."""

    @classmethod
    def setUpClass(cls):
        cls.directory = Path(tempfile.mkdtemp(prefix="shoal-analysis-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.run_dir = make_run.make_run(cls.directory / "device", level="kernels", device=True)
        cls.trace = Trace.read(cls.run_dir)
        steps = cls.trace.of_kind("step")
        cls.step_s = float(steps["duration_ns"][steps["step"] > 1].mean()) / 1e9
        # The last kernel ends in the next step, except before an evaluation: the two of twelve steps, and the last one. Of the
        # eleven settled steps, the first one has the end of the kernel of step 1.
        cls.late_s = (11 * make_run.LATE_NS + 9 * (make_run.LATE_NS - make_run.BETWEEN_STEPS_NS)) / 11 / 1e9

    def test_kernels_are_timed_by_the_device(self):
        times = breakdown.kernel_times(self.trace)
        found = {kernel.name: kernel for kernel in times.kernels}
        self.assertEqual(set(found), {*(name for name, _, _ in make_run.SPANS), make_run.LATE_NAME, "all_gather"})
        for name, kind, microseconds in make_run.SPANS:
            self.assertAlmostEqual(found[name].seconds_per_step, microseconds / 1e6, msg=name)
            self.assertEqual((found[name].calls_per_step, found[name].queue), (1, "compute"), name)
            self.assertEqual(found[name].bytes_per_call, 4096 if kind == "device_copy" else 0)
        self.assertAlmostEqual(found[make_run.LATE_NAME].seconds_per_step, self.late_s)
        self.assertEqual(found["all_gather"].queue, "gather")
        self.assertAlmostEqual(times.step, self.step_s)
        computing = sum(kernel.seconds_per_step for kernel in times.kernels if kernel.queue == "compute")
        self.assertAlmostEqual(computing + times.other, times.step)

    def test_queues_and_their_idle_time(self):
        compute, gather = breakdown.device_queues(self.trace)
        self.assertEqual((compute.name, gather.name), ("compute", "gather"))
        self.assertAlmostEqual(compute.copies, 100e-6)
        self.assertAlmostEqual(compute.kernels, 15_000e-6 + self.late_s)
        self.assertAlmostEqual(gather.collectives, 2 * make_run.DEVICE_GATHER_NS / 1e9)
        self.assertEqual((gather.spans_per_step, compute.collectives, gather.kernels), (2, 0, 0))
        self.assertAlmostEqual(breakdown.compute_idle(self.trace), 1 - (15_100e-6 + self.late_s) / self.step_s)
        self.assertIsNone(breakdown.compute_idle(Trace.read(make_run.make_run(self.directory / "host", "kernels"))))

    def test_the_hosts_rows_are_as_without_a_device(self):
        host = Trace.read(make_run.make_run(self.directory / "comm", "comm"))
        self.assertEqual(traffic.operations(self.trace), traffic.operations(host))
        self.assertEqual(traffic.unit_operations(self.trace), traffic.unit_operations(host))
        parts, seconds = breakdown.step_parts(self.trace)
        same, expected = breakdown.step_parts(host)
        self.assertEqual(parts, same)
        self.assertEqual(seconds.tolist(), expected.tolist())

    def test_the_report_shows_both(self):
        result = script("report.py", self.run_dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        idle = 100 * breakdown.compute_idle(self.trace)
        self.assertRegex(result.stdout, rf"device idle +{idle:.1f} % of a settled step")
        page = (self.run_dir / "report/report.html").read_text()
        for text in (
            "queue of the device",
            "all_gather (queue gather)",
            "<td>idle</td>",
            "By the device's clock".replace("'", "&#x27;"),
        ):
            self.assertIn(text, page)

    def test_perfetto_has_a_track_for_each_queue(self):
        output = self.directory / "trace.json"
        self.assertEqual(script("perfetto.py", self.run_dir, "-o", output).returncode, 0)
        events = json.loads(output.read_text())["traceEvents"]
        tracks = {(e["pid"], e["args"]["name"]): e["tid"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(sum(e["ph"] in "XC" for e in events), len(self.trace.events))
        for rank in range(4):
            for name, queue in (("compute", 1), ("gather", 2)):
                shown = [
                    e["name"]
                    for e in events
                    if e["ph"] == "X" and (e["pid"], e["tid"]) == (rank, tracks[rank, f"device: {name}"])
                ]
                expected = self.trace.of_queue(queue, rank=rank)
                self.assertEqual(shown, [self.trace.names[event] for event in expected["name"]])
            self.assertNotIn((rank, "device: reduce"), tracks)

    def test_untimed_work_is_told(self):
        copy = Path(shutil.copytree(self.run_dir, self.directory / "untimed"))
        with h5py.File(copy / "trace.h5", "r+") as file:
            file.attrs["untimed_spans"] = 12
        self.assertRegex(script("report.py", copy).stdout, "not timed +12 pieces of the device's work")


class Compare(Analysis):
    def test_equal_runs_and_one_that_departs(self):
        other = self.copy("departs")
        summary = json.loads((other / "summary.json").read_text())
        summary["losses"][6][1] += 1e-15
        summary["options"]["zero.stage"] = "2"
        (other / "summary.json").write_text(json.dumps(summary))
        result = script("compare.py", self.run_dir, self.copy("same"), other, "-o", self.directory / "compare.png")
        self.assertEqual(result.returncode, 0, result.stderr)
        head, first, same, departed, *notes, output = result.stdout.splitlines()
        self.assertRegex(notes[0], "^# tokens/s: tokens of a step / mean time of the settled steps")
        self.assertTrue(head.endswith("zero.stage") and first.endswith("1") and departed.endswith("2"))
        self.assertIn("equal, bit for bit (12 steps)", same)
        self.assertIn("first difference at step 7", departed)
        self.assertTrue(Path(output).exists())

    def test_one_run_is_not_enough(self):
        result = script("compare.py", self.run_dir)
        self.assertEqual((result.returncode, result.stderr), (2, "compare.py: give two runs or more\n"))


if __name__ == "__main__":
    unittest.main()
