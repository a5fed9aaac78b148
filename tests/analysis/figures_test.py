#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The contents of the figures: checked by the objects of the figures and, for lines that coincide, by their pixels. Also
runs that were resumed."""

import html
import itertools
import json
import shutil
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import make_run
import numpy as np
from inside import outside

from scripts import script  # isort: skip
import report
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from shoal.draw import (
    curves,
    figures,
    figures_curves,
    figures_kernels,
    figures_strategies,
    figures_traffic,
    labels,
    styles,
)
from shoal.read.bad_input import BadInput
from shoal.read.run import Run
from shoal.read.trace import Trace
from shoal.times import kernel_work
from shoal.times.breakdown import PARTS
from shoal.times.costs import measure, rows_of

OPTIONS = {"zero.stage": "1", "trace.level": "comm", "model.block_size": "64", "batch.global": "16", "train.seed": "1"}

TOKENS = 64 * 16  # of a step with these options


def drawn_texts(figure):
    """All visible texts of a figure."""
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


class Figures(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-figures-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.addCleanup(styles.plt.close, "all")

    def run_of(self, name, level="off", steps=12, losses=None, seconds=None, machine=None, **options):
        """Writes a run with these losses and this duration of a step."""
        options = {key.replace("__", "."): str(value) for key, value in options.items()}
        path = make_run.make_run(self.directory / name, level, steps, options, machine=machine)
        rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for i, row in enumerate(rows):
            row["loss"] = losses[i] if losses is not None else row["loss"]
            row["step_s"] = seconds if seconds else row["step_s"]
            row["tokens_per_s"] = TOKENS / row["step_s"]
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        summary = json.loads((path / "summary.json").read_text())
        summary["losses"] = [[row["step"], row["loss"]] for row in rows]
        (path / "summary.json").write_text(json.dumps(summary))
        return path


class Numbers(Figures):
    def test_are_plain(self):
        for value, expected in ((1000, "1000"), (999.7, "1000"), (1234.4, "1234"), (1.2345, "1.23"), (0.000012345, "0.0000123"),
                                (0, "0"), (3.0, "3"), (-12.34, "-12.3"), (2.5e6, "2500000")):  # fmt: skip
            self.assertEqual(styles.plain(value), expected)
        self.assertEqual(styles.seconds_text(1e4), "10000 s")
        self.assertEqual(styles.bytes_text(1023 * 2**20), "1023 MiB")
        self.assertEqual((styles.seconds_text(0.99999e-3), styles.seconds_text(0.9994e-3)), ("1 ms", "999 µs"))

    def test_on_axes_and_bars_have_no_exponents(self):
        rows = rows_of([measure(self.run_of(f"link_{rate}_{stage}", seconds=seconds * stage, zero__stage=stage), None)
                        for rate, seconds in ((0.001, 1200.0), (1000, 3.0), (25, 0.00002)) for stage in (1, 3)], "stage 3")  # fmt: skip
        figure = figures_strategies.step_time_by_rate(rows, [])
        texts = drawn_texts(figure)
        self.assertIn("1000", texts)
        self.assertIn("link rate, Gbit/s (log scale)", texts)
        self.assertTrue(any("(log scale)" in text and "s per step" in text for text in texts))
        long = self.run_of("long", level="steps", seconds=1.2)
        with unittest.mock.patch.dict(make_run.PHASES, {"backward": 1_200_000}):
            make_run.write_trace(long / "trace.h5", OPTIONS, "steps", 12)
        run = Run.read(long)
        texts += drawn_texts(figures.step_parts(run.trace)) + drawn_texts(figures.step_times(run))
        texts += drawn_texts(figures_strategies.loss_by_time(rows))
        self.assertIn("1200", texts, "a bar's number, ms")
        for text in texts:
            self.assertNotRegex(text, r"\de[+-]?\d|10\^|\\times", "no exponent")
            self.assertNotEqual(text, "None", "a curve without a name has no line in the legend")


class Texts(Figures):
    def test_titles_are_not_cut_off_beside_long_names(self):
        """The longest names of groups leave the least room for the bars and their titles."""
        trace = Run.read(self.run_of("long", level="comm")).trace
        trace.groups = np.array(sorted(labels.GROUPS, key=lambda group: -len(labels.GROUPS[group]))[:2], object)
        figure = figures_traffic.communication(trace)
        figure.canvas.draw()
        for text in figure.findobj(Text):
            if text.get_visible() and text.get_text():
                box = text.get_window_extent()
                inside = box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1
                self.assertTrue(inside, f"{text.get_text()}: {box} of {figure.bbox}")


class StepByStep(Figures):
    def run_with(self, **columns):
        """A run of 100 steps whose metrics have these columns, too."""
        path = self.run_of("curves", level="kernels", steps=100, machine=make_run.PEAK)
        rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for i, row in enumerate(rows):
            row.update({name: values[i] for name, values in columns.items()})
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Run.read(path)

    def test_all_curves_of_a_run_stand_above_each_other_on_one_axis(self):
        norms = [None if step == 50 else 1.0 + step % 7 for step in range(100)]
        run = self.run_with(grad_norm=norms, loss_scale=[2.0 ** (10 + step // 30) for step in range(100)],
                            gain=[1 + step / 100 for step in range(100)], lr=[1e-4 * step for step in range(100)])  # fmt: skip
        figure = figures_curves.curves(run)
        self.assertEqual(outside(figure), [])
        self.assertEqual([axes.get_ylabel() for axes in figure.axes],
                         ["loss, nats per token", "gradient norm", "learning rate", "loss scale (log)", "AdaScale's gain",
                          "tokens/s, all ranks", "MFU, % of the peak"])  # fmt: skip
        boxes = [axes.get_position() for axes in figure.axes]
        self.assertEqual(
            {(round(box.x0, 6), round(box.x1, 6)) for box in boxes}, {(round(boxes[0].x0, 6), round(boxes[0].x1, 6))}
        )
        self.assertTrue(all(above.y0 > below.y1 for above, below in itertools.pairwise(boxes)))
        self.assertEqual(len({axes.get_xlim() for axes in figure.axes}), 1)
        self.assertEqual([axes.get_xlabel() for axes in figure.axes], [""] * 6 + ["step"])
        legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        self.assertEqual(legend, ["training, running mean of 3 steps", "validation", "best possible: 2.0000"])
        self.assertIn("not finite", drawn_texts(figure))

    def test_a_run_has_the_panels_that_it_has_values_for(self):
        run = Run.read(self.run_of("few"))
        figure = figures_curves.curves(run)
        self.assertEqual([axes.get_ylabel() for axes in figure.axes],
                         ["loss, nats per token", "gradient norm", "learning rate", "tokens/s, all ranks"])  # fmt: skip
        absent = figures_curves.panels_of(run)[1]
        self.assertEqual(absent, ["no utilization: no trace with steps and the peak of its ranks"])


class Limits(Figures):
    def test_what_is_cut_off_is_found(self):
        figure, (left, right) = styles.plt.subplots(1, 2, sharey=True)
        left.plot([1, 2, 3], [1, 2, 3], label="low")
        left.axhline(2)
        left.set_ylim(0, 4)
        right.plot([1, 2, 3], [1, 5, np.nan], label="high")
        right.bar([1, 2], [4, 4.5], label="bars")
        right.set_title("cut", loc="left")
        self.assertEqual(outside(figure), ["cut: high: 1 of 2 points are outside of the axes",
                                           "cut: _nolegend_: 2 of 5 points are outside of the axes"])  # fmt: skip
        right.set_ylim(0, 6)
        self.assertEqual(outside(figure), [])

    def test_a_roof_ends_where_the_picture_does(self):
        """Without a measured peak the roof is a slope, which goes on beyond all kernels."""
        kernels = [kernel_work.Point("matmul", 1.0, 1e9, 0.5), kernel_work.Point("matmul_dx", 100.0, 2e9, 0.5)]
        trace = Trace.read(self.run_of("kernels", level="kernels"))
        known = {"points": lambda *_: (kernels, []), "greatest_bandwidth": lambda *_: 1e9}
        for peak in (None, 5e9):
            with unittest.mock.patch.multiple(kernel_work, peak=lambda _, value=peak: value, **known):
                figure = figures_kernels.roofline(trace)
            self.assertEqual(outside(figure), [])
            self.assertGreater(len(figure.axes[0].lines[2].get_xdata()), 50, "most of the roof is there")


class Lines(Figures):
    def test_no_two_have_one_colour(self):
        for count in (2, 12, 13, 30):
            self.assertEqual(len(set(styles.line_colours(count))), count)
        runs = [Run.read(self.run_of(f"run{i}", losses=[4 + i - 0.1 * s for s in range(12)])) for i in range(14)]
        left, right = figures.comparison(runs, [run.name for run in runs]).axes
        self.assertEqual(len({line.get_color() for line in left.lines}), 14)
        self.assertEqual(len({bar.get_facecolor() for bar in right.patches}), 14)
        style = figures_strategies.styles(f"strategy {i}" for i in range(14))
        self.assertEqual(len({each["color"] for each in style.values()}), 14)

    def seen(self, figure, colours):
        """Counts the pixels of each colour in the left axes."""
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255.0
        box = figure.axes[0].get_position()
        height, width = pixels.shape[:2]
        # Only below the legend, which contains every colour.
        inside = pixels[int((1 - box.y1) * height + 0.45 * box.height * height) : int((1 - box.y0) * height),
                        int(box.x0 * width) : int(box.x1 * width)]  # fmt: skip
        return [int((np.abs(inside - to_rgb(colour)).max(axis=2) < 0.02).sum()) for colour in colours]

    def test_runs_with_the_same_losses_are_all_seen_and_said_to_be(self):
        losses = [4 - 0.1 * step for step in range(12)]
        near = [loss + 1e-7 for loss in losses]
        short = losses[:9]
        paths = [self.run_of("first", losses=losses), self.run_of("same", losses=losses), self.run_of("near", losses=near),
                 self.run_of("short", losses=short, steps=9), self.run_of("other", losses=[1 + x for x in losses])]  # fmt: skip
        runs = [Run.read(path) for path in paths]
        for run in runs:
            run.summary["val_losses"] = []
            for row in run.metrics:
                row.pop("val_loss", None)
        figure = figures.comparison(runs, [run.name for run in runs])
        told = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        self.assertEqual(told, ["first", "same (identical to first)", "near (within 1e-07 of first)",
                                "short (identical to first, steps 1 to 9)", "other"])  # fmt: skip
        shown = [line for line in figure.axes[0].lines if len(line.get_xdata())]
        self.assertEqual([line.get_linestyle() for line in shown], ["-", "--", "--", "--", "-"])
        counts = self.seen(figure, styles.line_colours(4))
        self.assertGreater(min(counts), 100, f"pixels of each of the four on one line: {counts}")

    def test_a_running_mean_is_the_same_for_all_lines_and_goes_on_after_a_nan(self):
        values = np.arange(200.0)
        values[50] = np.nan
        smooth = curves.smoothed(values, curves.window([200]))
        self.assertTrue(np.isnan(smooth[50]) and np.isfinite(np.delete(smooth, 50)).all())
        self.assertEqual(smooth[100], 100)
        self.assertEqual(curves.window([79, 20]), 1)
        losses = [4 - 0.01 * step for step in range(100)]
        runs = [
            Run.read(self.run_of("long", losses=losses, steps=100)),
            Run.read(self.run_of("short", losses=losses[:50], steps=50)),
        ]
        axes = figures.comparison(runs, ["long", "short"]).axes[0]
        self.assertIn("running mean of 3 steps", axes.get_title(loc="left"))
        long, short = (line.get_ydata() for line in axes.lines if len(line.get_xdata()) >= 50)
        self.assertEqual(long[:49].tolist(), short[:49].tolist())


class Rates(Figures):
    def test_are_one_measure_whatever_the_strategies(self):
        """Rates are means of settled steps, although the summary has a median: one step in three takes nine times as
        long."""
        plain, apart = self.run_of("plain"), self.run_of("apart", sync__kind="localsgd", sync__localsgd_frequency=3)
        for path in (plain, apart):
            lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
            for line in lines:
                line["step_s"] = 0.9 if line["step"] % 3 == 0 else 0.1
            lines[0]["step_s"] = 50.0
            for line in lines:
                line["tokens_per_s"] = TOKENS / line["step_s"]
            (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        make_run.change_summary(apart, settled={"steps": [[4, 12]]})
        done = script("compare.py", plain, apart, "-o", self.directory / "compare.png")
        rows = [line.split() for line in done.stdout.splitlines()[:3]]
        relative = rows[0].index("relative") - 1  # "val loss" is one column of two words
        mean = (7 * 0.1 + 4 * 0.9) / 11
        self.assertAlmostEqual(float(rows[1][relative - 1].replace(",", "")), 1024 / mean, delta=1)
        self.assertAlmostEqual(float(rows[2][relative]), mean / ((0.1 + 0.1 + 0.9) / 3), delta=1e-3)
        texts = drawn_texts(figures.comparison([Run.read(plain), Run.read(apart)], ["plain", "apart"]))
        self.assertIn("tokens/s, mean of settled steps", texts)

    def test_several_seeds_have_bars_and_a_band_that_are_explained(self):
        runs = [self.run_of(f"{stage}_{seed}_link_{rate}", seconds=0.1 * seed / rate, train__seed=seed, zero__stage=stage,
                            losses=[4 - 0.1 * s + 0.01 * seed for s in range(12)])
                for seed in (1, 2, 3) for rate in (1, 2) for stage in (1, 3)]  # fmt: skip
        rows = rows_of([measure(path, None) for path in runs], "stage 3")
        loss, rate = figures_strategies.loss_by_time(rows), figures_strategies.step_time_by_rate(rows, [])
        self.assertTrue(loss.axes[0].collections, "a band")
        titles = [figure.axes[n].get_legend().get_title().get_text() for figure, n in ((loss, 1), (rate, 0))]
        self.assertEqual(
            titles, ["3 seeds: median,\nband from least to most", "3 seeds: median,\nbar from least to most"]
        )


class Resumed(Figures):
    """Twelve steps: killed after ten, resumed from eight, and again from eight on one node."""

    def setUp(self):
        super().setUp()
        self.path = self.run_of("resumed", level="kernels")
        (self.path / "trace.h5").unlink()
        for name, first, last, hour, nodes in (("trace.h5", 1, 10, 3, 2), ("trace_from_8.h5", 9, 9, 4, 2),
                                               ("trace_from_8_2.h5", 9, 12, 5, 1)):  # fmt: skip
            make_run.write_trace(self.path / name, OPTIONS, "kernels", last, first, hour, nodes)
        summary = json.loads((self.path / "summary.json").read_text())
        summary["losses"] = summary["losses"][8:]
        summary["settled"] = {"steps": [[2, 8], [10, 12]]}
        (self.path / "summary.json").write_text(json.dumps(summary))
        self.run = Run.read(self.path)

    def test_has_the_last_of_every_step(self):
        self.assertEqual([part.path.name for part in self.run.parts], ["trace.h5", "trace_from_8_2.h5"])
        self.assertEqual([part.steps.tolist() for part in self.run.parts], [list(range(1, 9)), list(range(9, 13))])
        self.assertEqual(self.run.notes, ["trace_from_8.h5: a later part repeated its steps 9"])
        self.assertEqual((self.run.starts, len(self.run.losses[0])), ([1, 9], 12))
        self.assertEqual(
            self.run.settled_steps.tolist(), [*range(2, 9), *range(10, 13)], "without the first of each part"
        )
        self.assertEqual(report.verdict(self.run), ("well", "OK"))

    def test_every_picture_says_what_it_covers(self):
        done = script("report.py", self.path, "-o", self.directory / "report")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = (self.directory / "report" / "report.html").read_text()
        time, first, last = (
            "Where a step's time goes",
            "steps 1 to 8 (trace.h5, 4 ranks on 2 nodes)",
            "steps 9 to 12 (trace_from_8_2.h5, 4 ranks)",
        )
        for heading in (f"{time}: {first}", f"{time}: {last}", f"Kernels: {last}"):
            self.assertIn(f"<h2>{html.escape(heading)}</h2>", page)
        for name in ("step_parts", "communication", "memory", "units"):
            for suffix in ("", "_from_8"):
                self.assertTrue((self.directory / "report" / f"{name}{suffix}.png").exists(), name + suffix)
        self.assertIn("steps 1 to 8: 4 ranks on 2 nodes; steps 9 to 12: 4 ranks", done.stdout)
        for part, steps in zip(self.run.parts, ("2 to 8", "10 to 12"), strict=True):
            texts = drawn_texts(figures.step_parts(part)) + drawn_texts(report.figures_traffic.communication(part))
            self.assertIn(f"Where a step's time goes, mean of steps {steps}", texts)
            self.assertIn(f"of a rank, mean of steps {steps}", texts)
        rates = drawn_texts(figures_curves.curves(self.run))
        self.assertIn("Steps 1 to 12", rates)
        self.assertIn("resumed", rates)
        self.assertTrue(any("mean of steps 2 to 8" in text for text in rates))
        self.assertTrue(any("mean of steps 10 to 12" in text for text in rates))
        self.assertIn("steps 10 to 12", drawn_texts(figures.step_times(self.run)))

    def test_parts_of_one_step_each_have_no_step_times(self):
        path = self.run_of("single", level="comm", steps=3)
        for step, name in enumerate(("trace.h5", "trace_from_1.h5", "trace_from_2.h5"), start=1):
            make_run.write_trace(path / name, OPTIONS, "comm", step, step, hour=2 + step)
        run = Run.read(path)
        self.assertEqual((run.starts, len(run.step_seconds[0])), ([1, 2, 3], 3))
        why = "step times: no part of the run has more than its first step, which does not count"
        with self.assertRaisesRegex(figures.Nothing, why):
            figures.step_times(run)
        done = script("report.py", path, "-o", self.directory / "single_report")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(why, (self.directory / "single_report" / "report.html").read_text())

    def test_a_trace_under_a_name_of_its_own_has_its_parts_beside_it(self):
        summary = json.loads((self.path / "summary.json").read_text())
        elsewhere = self.directory / "traces"
        elsewhere.mkdir()
        summary["options"].update({"trace.file": str(elsewhere / "mine.h5"), "output.dir": "out/mine"})
        (self.path / "summary.json").write_text(json.dumps(summary))
        for name, first, last, hour, output in (("mine.h5", 1, 8, 3, "mine"), ("mine_from_8.h5", 9, 12, 4, "mine"),
                                                ("mine_2.h5", 1, 12, 6, "other"), ("mine_too.h5", 1, 12, 6, "mine")):  # fmt: skip
            options = {**OPTIONS, "output.dir": f"out/{output}"}
            make_run.write_trace(elsewhere / name, options, "comm", last, first, hour)
        self.assertEqual([part.path.name for part in Run.read(self.path).parts], ["mine.h5", "mine_from_8.h5"])

    def test_other_scripts_name_the_parts(self):
        done = script("strategies.py", self.path)
        self.assertEqual(done.returncode, 2)
        self.assertIn(
            "resumed on other ranks (steps 1 to 8 (trace.h5, 4 ranks on 2 nodes), then steps 9 to 12", done.stderr
        )
        done = script("compare.py", self.path, self.path, "-o", self.directory / "compare.png")
        self.assertIn("its tokens/s are those of the last part", done.stdout)
        self.assertIn("was resumed; its peak RSS and sent/step are those of the last part.", done.stdout)
        with self.assertRaisesRegex(BadInput, "name one of trace.h5, trace_from_8.h5, trace_from_8_2.h5"):
            Trace.read(self.path)


class AnotherBatch(Figures):
    """Six steps of half the batch, then six of the whole batch."""

    def run_with(self, level):
        path = self.run_of(level, level, seconds=0.1)
        if level != "off":
            for name, first, last, batch in (("trace.h5", 1, 6, "8"), ("trace_from_6.h5", 7, 12, "16")):
                make_run.write_trace(
                    path / name, {**OPTIONS, "batch.global": batch}, level, last, first, hour=2 + first
                )
        rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for row in rows[:6]:
            row["tokens_per_s"] /= 2
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        summary = json.loads((path / "summary.json").read_text())
        summary["losses"] = summary["losses"][6:]
        summary["settled"] = {"steps": [[2, 6], [8, 12]]}
        (path / "summary.json").write_text(json.dumps(summary))
        return path

    def check(self, path):
        run = Run.read(path)
        (before, half), (after, whole) = run.rates_of_parts
        self.assertEqual((before.tolist(), after.tolist()), ([2, 3, 4, 5, 6], [8, 9, 10, 11, 12]))
        self.assertAlmostEqual(2 * half, whole)
        self.assertEqual(run.throughput, whole, "that of the last part")
        self.assertEqual(run.tokens_of(np.arange(1, 13)).tolist(), [TOKENS / 2] * 6 + [TOKENS] * 6)
        return run

    def test_each_part_has_the_tokens_of_its_own_batch(self):
        path = self.run_with("steps")
        drawn = drawn_texts(figures_curves.curves(self.check(path)))
        self.assertEqual(sum(": mean of steps" in text for text in drawn), 2)
        rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for row in rows:
            del row["tokens_per_s"]
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        run = self.check(path)  # by the options in the traces
        steps, rates = run.tokens_per_s
        self.assertEqual((rates * run.step_seconds[1]).round().tolist(), run.tokens_of(steps).tolist())

    def test_the_metrics_tell_it_without_traces(self):
        self.check(self.run_with("off"))

    def test_other_scripts_say_that_there_is_no_single_rate(self):
        path = self.run_with("off")
        how = "resumed with another batch (512, then 1,024 tokens per step)"
        done = script("compare.py", path, path, "-o", self.directory / "compare.png")
        self.assertIn(f"{how}; its tokens/s are those of the last part", done.stdout)
        said = "its peak RSS and sent/step are those of the last part"
        self.assertIn(said, done.stdout)
        whole = self.run_of("whole")
        done = script("compare.py", whole, whole, "-o", self.directory / "compare.png")
        self.assertNotIn(said, done.stdout)
        done = script("strategies.py", path)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{how}, so it has no single cost", done.stderr)


class Names(unittest.TestCase):
    def test_every_part_of_a_step_has_a_colour_of_its_own(self):
        colours = figures.part_colours([*PARTS, "something", "new"])
        self.assertEqual(len(set(colours)), len(PARTS) + 2)


if __name__ == "__main__":
    unittest.main()
