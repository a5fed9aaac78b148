#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the scripts tell of pipelines: on invented runs whose every duration is known, by the objects of the figures."""

import itertools
import json
import shutil
import tempfile
import unittest
from pathlib import Path

import h5py
import make_run
import numpy as np
from inside import outside
from make_pipeline import AFTER, BACKWARD, FORWARD, make_pipeline

from scripts import script  # isort: skip

from matplotlib.colors import to_rgb
from shoal.draw import figures, figures_pipeline, report_pipeline, styles
from shoal.read import run_options
from shoal.read.trace import Trace
from shoal.times import breakdown, kernel_work, late_ranks, pipeline, traffic, volume

MS = 1_000_000


class Pipelines(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-pipeline-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.addCleanup(styles.plt.close, "all")

    def trace(self, *arguments, **more):
        return Trace.read(make_pipeline(self.directory / "run", *arguments, **more))


def bars(axes, label):
    """(left, width, bottom) of all bars with the colour of this label."""
    (colour,) = {tuple(bar.get_facecolor()[0]) for bar in axes.collections if bar.get_label() == label}
    found = [bar for bar in axes.collections if tuple(bar.get_facecolor()[0]) == colour]
    corners = [path.get_extents() for bar in found for path in bar.get_paths()]
    return [(corner.x0, corner.width, corner.y0) for corner in corners]


class Computed(Pipelines):
    def test_stages_idle_as_the_schedule_says(self):
        """Parts take the same time and messages no time, so the idle share is the ideal one."""
        for stages, turns, parts in ((3, 8, 1), (2, 4, 2), (4, 2, 1)):
            found = pipeline.passes(self.trace(stages, turns, parts=parts))
            ideal = (stages - 1) / (parts * turns + stages - 1)
            self.assertEqual((found.stages, found.parts_of_stage, found.micro_batches), (stages, parts, turns))
            self.assertAlmostEqual(found.ideal_idle, ideal)
            mean_factor = (3 + 2 + 1 + 5) / 4
            for stage in pipeline.stages(found):
                self.assertAlmostEqual(stage.idle, ideal)
                self.assertAlmostEqual(stage.forward, parts * FORWARD / 1e9 * mean_factor)
                self.assertAlmostEqual(stage.backward, parts * BACKWARD / 1e9 * mean_factor)

    def test_a_step_of_median_time_is_typical(self):
        self.assertEqual(pipeline.typical_step(self.trace(2, 2)), 3)

    def test_parts_of_a_step_add_up(self):
        trace = self.trace(3, 4)
        parts, seconds = breakdown.step_parts(trace)
        steps = trace.of_kind("step")
        whole = steps["duration_ns"][np.isin(steps["step"], (2, 3, 4, 5))].sum() / 1e9 / 4 / 3
        np.testing.assert_allclose(seconds.sum(axis=0), whole)
        self.assertGreater(seconds[parts.index("wait")].min(), 0)

    def test_a_stage_waits_for_the_pass_that_it_needs(self):
        trace = self.trace(2, 1, transfer=1 * MS, slower=(1,))
        waits = late_ranks.split_waits(trace)
        found = [(int(e["rank"]), int(e["duration_ns"]), int(ns), int(last))
                 for e, ns, last in zip(waits.events, waits.late_ns, waits.last_rank, strict=True)]  # fmt: skip
        self.assertEqual(
            found, [(0, FORWARD + BACKWARD + 2 * MS, FORWARD + BACKWARD + 1 * MS, 1), (1, FORWARD + 1 * MS, FORWARD, 0)]
        )
        (op,) = late_ranks.exposed(trace, waits)
        self.assertEqual((op.name, op.group, op.computing), ("receive", "pipeline", 0))
        self.assertAlmostEqual(op.transfer, 1e-3)
        self.assertAlmostEqual(op.seconds, sum(waits.events["duration_ns"]) / 2e9)

    def test_the_critical_path_goes_there_and_back(self):
        trace = self.trace(2, 1, transfer=1 * MS, slower=(1,))
        path = late_ranks.critical_path(trace, late_ranks.split_waits(trace))
        self.assertAlmostEqual(path.seconds, (2 * (FORWARD + BACKWARD) + 2 * MS + AFTER) / 1e9)
        self.assertAlmostEqual(path.transfer["receive", "pipeline"], 2e-3)
        for rank in (0, 1):
            self.assertAlmostEqual(path.work[rank, "forward"], FORWARD / 1e9)
            self.assertAlmostEqual(path.work[rank, "backward"], BACKWARD / 1e9)

    def test_a_wait_within_a_phase_is_not_for_a_stage(self):
        """SGP's waits have the same names."""
        trace = self.trace(2, 2)
        waits = trace.of_kind("wait")
        self.assertTrue(pipeline.is_border(trace, waits).all())
        waits["depth"] = 2
        self.assertFalse(pipeline.is_border(trace, waits).any())

    def test_theory_of_bytes_is_left_out(self):
        trace = self.trace(2, 4)
        self.assertEqual(volume.volumes(trace), [])
        sent = {op.name: op.bytes_per_step for op in traffic.operations(trace) if op.group == "pipeline"}
        self.assertEqual(sent["receive"], 0)

    def test_a_rank_has_a_part_of_the_products(self):
        """Where the trace has no bytes, the rows of a product follow from its calls."""
        trace = self.trace(3, 8)
        trace.options.update({"model.n_embd": "64", "model.n_layer": "6", "model.n_inner": "auto", "model.vocab_size": "100",
                              "batch.micro": "4"})  # fmt: skip
        model = kernel_work.Model.of(trace)
        qkv = kernel_work.work_of(breakdown.Kernel("qkv", 6 / 3 * 8 * 2, 1.0, 0.5, 0), model)
        self.assertAlmostEqual(qkv.flops, 2 * 2 * 64 * 64 * 3 * 64, msg="2 sequences of 64 tokens in each of two calls")

    def test_the_name_of_the_strategy(self):
        for given, expected in (({"size": 1}, "stage 0"), ({"size": 2}, "stage 0 pipeline 2"),
                                ({"size": 4, "schedule": "interleaved", "parts": 2}, "stage 0 pipeline 4 interleaved x 2")):  # fmt: skip
            options = {f"pipeline.{key}": str(value) for key, value in given.items()}
            self.assertEqual(run_options.name_of(options, 2), expected)


class Drawn(Pipelines):
    def test_a_row_for_each_stage(self):
        figure = figures_pipeline.stages(self.trace(3, 4, data=2, transfer=1 * MS))
        (axes,) = figure.axes
        self.assertRegex(
            axes.get_title(loc="left"),
            r"^Pipeline of 3 stages, step 3 \(of median time\): idle 4\d\.\d %, ideal 33\.3 %",
        )
        forward, backward = bars(axes, "forward"), bars(axes, "backward")
        self.assertEqual((len(forward), len(backward)), (12, 12), "of the first pipeline alone")
        np.testing.assert_allclose([width for _, width, _ in forward], 2 * FORWARD / MS)
        np.testing.assert_allclose([width for _, width, _ in backward], 2 * BACKWARD / MS)
        self.assertEqual(sorted({round(bottom + 0.43) for _, _, bottom in forward}), [0, 1, 2])
        self.assertAlmostEqual(
            min(left for left, _, bottom in forward if round(bottom + 0.43) == 1), 2 * (FORWARD / MS + 1)
        )
        self.assertEqual(len(bars(axes, "recompute")), 3)
        numbers = sorted(text.get_text() for text in axes.texts)
        self.assertEqual(numbers, sorted("0123" * 6))

    def test_waits_lie_in_gaps(self):
        (axes,) = figures_pipeline.stages(self.trace(3, 4, transfer=1 * MS)).axes
        passes = bars(axes, "forward") + bars(axes, "backward")
        waits = bars(axes, "waiting for another stage")
        self.assertGreater(len(waits), 4)
        for left, width, bottom in waits:
            row = round(bottom)
            self.assertFalse([each for each in passes if round(each[2] + 0.43) == row and each[0] + 1e-6 < left + width
                              and each[0] + each[1] - 1e-6 > left])  # fmt: skip

    def test_a_wait_that_goes_on_ends_where_the_picture_does(self):
        trace = self.trace(3, 4, transfer=1 * MS)
        trace.events["duration_ns"][trace.events["kind"] == trace.kinds.index("wait")] = 1000 * MS
        self.assertEqual(outside(figures_pipeline.stages(trace)), [])

    def test_parts_have_colours_of_their_own(self):
        (axes,) = figures_pipeline.stages(self.trace(2, 4, parts=3)).axes
        labels = [f"{name}, part {part}" for name in ("forward", "backward") for part in range(3)]
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        self.assertEqual([label for label in labels if label not in handles], [])
        colours = [to_rgb(styles.PART_COLOURS["recompute"]), to_rgb(styles.PART_COLOURS["wait"])]
        colours += [tuple(handles[label].get_facecolor()[0][:3]) for label in labels]
        for i, one in enumerate(colours):
            for other in colours[:i]:
                self.assertGreater(np.abs(np.subtract(one, other)).max(), 0.08, "told apart by eye")
        for label, name in (("forward, part 0", "forward"), ("backward, part 0", "backward")):
            self.assertTrue(np.allclose(handles[label].get_facecolor()[0][:3], to_rgb(styles.PART_COLOURS[name])))

    def test_many_stages_and_micro_batches(self):
        trace = self.trace(16, 128, slower=(1, 1))
        figure = figures_pipeline.stages(trace)
        (axes,) = figure.axes
        self.assertEqual(len(bars(axes, "forward")), 16 * 128)
        self.assertEqual(len(axes.texts), 0, "no numbers")
        self.assertLess(figure.get_size_inches()[1], 8)
        figure.canvas.draw()
        names = [tick.get_window_extent() for tick in axes.get_yticklabels() if tick.get_text()]
        self.assertFalse([1 for a, b in itertools.pairwise(names) if a.overlaps(b)])

    def test_without_a_pipeline_there_is_nothing(self):
        run = make_run.make_run(self.directory / "plain")
        self.assertIsNone(pipeline.passes(Trace.read(run)))
        with self.assertRaises(figures.Nothing):
            figures_pipeline.stages(Trace.read(run))
        done = script("report.py", run)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("ipeline", (run / "report/report.html").read_text())
        self.assertFalse((run / "report/pipeline.png").exists())
        self.assertNotIn("not shown: pipeline", done.stdout)


class Told(Pipelines):
    def test_the_report_has_a_row_for_each_stage(self):
        path = make_pipeline(self.directory / "run", 2, 4, parts=2, data=2)
        trace = Trace.read(path)
        rows = report_pipeline.stage_rows(trace, pipeline.passes(trace))
        mean = (3 + 2 + 1 + 5) / 4
        for row, expected in zip(rows, (("0", "0, 1", "unit 0, unit 2"), ("1", "2, 3", "unit 1, unit 3")), strict=True):
            self.assertEqual(row[:3], expected)
            self.assertEqual(row[3:6], (f"{2 * 2 * mean:g} ms", f"{2 * 4 * mean:g} ms", f"{100 / 9:.1f} %"))
        self.assertEqual([row[6:] for row in rows], [("100 MiB", "200 MiB"), ("98 MiB", "198 MiB")])
        done = script("report.py", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = (path / "report/report.html").read_text()
        self.assertIn("<h2>Pipeline</h2>", page)
        self.assertIn(
            "ideal 11.1 %: (P - 1) / (v A + P - 1) with P = 2 stages, v = 2 parts of a stage and A = 4 micro-batches",
            page,
        )
        self.assertTrue((path / "report/pipeline.png").exists())

    def test_perfetto_has_arrows_between_stages(self):
        path = make_pipeline(self.directory / "run", 3, 4, slower=(1, 1))
        done = script("perfetto.py", path, "-o", path / "all.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = json.loads((path / "all.json").read_text())["traceEvents"]
        names = {event["name"] for event in events if event.get("cat") == "phase"}
        self.assertLessEqual({"forward 0", "backward 3", "optimizer"}, names)
        starts = {event["id"]: event for event in events if event["ph"] == "s"}
        ends = {event["id"]: event for event in events if event["ph"] == "f"}
        self.assertEqual(len(starts), 2 * 2 * 4 * 2, "borders x directions x micro-batches x steps")
        self.assertEqual(starts.keys(), ends.keys())
        for key, start in starts.items():
            direction = 1 if start["name"] == "activations" else -1
            self.assertEqual(ends[key]["pid"] - start["pid"], direction)
            self.assertGreaterEqual(ends[key]["ts"], start["ts"])

    def test_perfetto_has_the_arrows_of_a_skip_connection(self):
        """From the first stage to the last one, and back."""
        path = make_pipeline(self.directory / "run", 3, 4, slower=(1, 1))
        with h5py.File(path / "trace.h5", "r+") as file:
            file["options"].attrs["model.direct"] = "true"
        done = script("perfetto.py", path, "-o", path / "all.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = json.loads((path / "all.json").read_text())["traceEvents"]
        for name, first, last in (("skip activations", 0, 2), ("skip gradients", 2, 0)):
            starts = {event["id"]: event for event in events if event["ph"] == "s" and event["name"] == name}
            ends = {event["id"]: event for event in events if event["ph"] == "f" and event["name"] == name}
            self.assertEqual(len(starts), 4 * 2, "micro-batches x steps")
            self.assertEqual(starts.keys(), ends.keys())
            for key, start in starts.items():
                self.assertEqual((start["pid"], ends[key]["pid"]), (first, last))
                self.assertGreaterEqual(ends[key]["ts"], start["ts"])

    def test_a_size_that_is_no_number_is_one_line(self):
        path = make_pipeline(self.directory / "run", 2, 2)
        with h5py.File(path / "trace.h5", "r+") as file:
            file["options"].attrs["pipeline.size"] = "many"
        done = script("report.py", path / "trace.h5")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
