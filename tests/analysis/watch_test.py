#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""watch.py follows a run, over a requeue, until its end; export_metrics.py writes what the run measured."""

import csv
import importlib.util
import io
import json
import shutil
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import make_run
import numpy as np

from scripts import script  # isort: skip

import report
import watch
from shoal.read.run import Run


class Watching(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-watch-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def made(self):
        path = make_run.make_run(self.directory / "run", "off")
        return path, (path / "metrics.jsonl").read_text().splitlines(), json.loads((path / "summary.json").read_text())

    def test_a_run_that_has_ended_is_drawn_once(self):
        path, _, _ = self.made()
        done = script("watch.py", path, "--png", self.directory / "watch.png")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"{path}: OK", done.stdout)
        self.assertIn("loss, nats per token: 2.3707 at step 12", done.stdout)
        self.assertNotRegex(done.stdout, r"\de[+-]\d", "no exponent")
        self.assertEqual((self.directory / "watch.png").read_bytes()[:4], b"\x89PNG")

    def test_a_run_is_followed_over_a_requeue_to_its_end(self):
        """The looks at the directory are the test's moments: before each one it changes the files, as the run does."""
        path, lines, summary = self.made()
        stopped = {**summary, "losses": summary["losses"][:6], "verdict": {"exit_code": 75, "text": "STOPPED EARLY"}}
        (path / "summary.json").unlink()
        metrics = path / "metrics.jsonl"
        metrics.write_text("")

        def moments():
            metrics.write_text("\n".join(lines[:3]) + "\n" + lines[3][:9])  # a line is being written
            yield
            metrics.write_text("\n".join(lines[:6]) + "\n")
            (path / "summary.json").write_text(json.dumps(stopped))  # to be requeued
            yield
            metrics.write_text("\n".join(lines[:6] + lines[4:9]) + "\n")  # steps 5 and 6 again
            yield
            metrics.write_text("\n".join(lines[:6] + lines[4:]) + "\n")
            (path / "summary.json").write_text(json.dumps(summary)[:100])  # half a file
            yield
            (path / "summary.json").write_text(json.dumps(summary))
            yield

        steps = moments()
        with mock.patch("watch.time.sleep", lambda _: next(steps)):
            done = script("watch.py", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        states = [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith(str(path))]
        self.assertEqual(states, ["no step yet", "step 3", "step 6", "step 9", "step 12", "OK"])

    def test_an_early_summary_does_not_end_a_run_that_went_on(self):
        path, _, summary = self.made()
        (path / "summary.json").write_text(json.dumps({**summary, "losses": summary["losses"][:8]}))
        self.assertIsNone(watch.ended(path, 12))
        self.assertEqual(watch.ended(path, 8), "OK")

    def test_a_start_that_had_no_steps_left_ends_it_and_not_a_later_one(self):
        path, _, summary = self.made()
        verdict = {**summary["verdict"], "steps_made": 0, "text": "OK: no steps were left to do"}
        idle = {**summary, "losses": [], "verdict": verdict, "resumed_from": {"file": "f", "run": "r", "step": 12}}
        (path / "summary.json").write_text(json.dumps(idle))
        self.assertEqual(watch.ended(path, 12), "OK: no steps were left to do")
        self.assertIsNone(watch.ended(path, 13), "resumed again, with more steps")
        run = Run.read(path)
        self.assertEqual(report.verdict(run), ("well", "OK: no steps were left to do"))
        run.metrics.append({**run.metrics[-1], "step": 13})
        self.assertEqual(report.verdict(run)[0], "bad")

    def test_it_really_waits(self):
        path, _, _ = self.made()
        summary = path / "summary.json"
        hidden = summary.rename(path / "hidden")
        timer = threading.Timer(0.3, lambda: hidden.rename(summary))
        timer.start()
        self.addCleanup(timer.join)
        self.assertEqual(script("watch.py", path, "--interval", "0.05").returncode, 0)

    def test_plots_show_every_value_and_leave_out_what_is_not_finite(self):
        lines = watch.plot(np.array([1, 2, 3]), np.array([1440.0, np.nan, 0.5]), 40)
        self.assertIn("1440 |*", lines[0])
        self.assertTrue(lines[7].startswith("       0.5 |") and lines[7].endswith("*"), lines[7])
        self.assertEqual(sum(line.count("*") for line in lines), 2)
        self.assertEqual(watch.plot(np.array([1]), np.array([np.nan]), 40), ["(no values yet)"])

    def test_bad_input(self):
        for arguments, told in (((self.directory / "none",), "no such directory"),
                                ((self.directory, "--interval", "0"), "must be above 0")):  # fmt: skip
            done = script("watch.py", *arguments)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))
            self.assertIn(told, done.stderr)

    def test_csv_has_every_step_once(self):
        path, lines, _ = self.made()
        again = json.loads(lines[4])
        again["loss"] = None
        (path / "metrics.jsonl").write_text("\n".join([*lines, json.dumps(again)]) + "\n")
        done = script("export_metrics.py", path, "--csv", self.directory / "run.csv")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = list(csv.DictReader(io.StringIO((self.directory / "run.csv").read_text())))
        self.assertEqual([row["step"] for row in rows], [str(step) for step in range(1, 13)])
        self.assertEqual((rows[4]["loss"], float(rows[3]["loss"])), ("", json.loads(lines[3])["loss"]))

    def test_tensorboard(self):
        path, _, _ = self.made()
        with mock.patch(
            "shoal.program.importlib.util.find_spec", lambda name: None if name == "tensorboardX" else True
        ):
            done = script("export_metrics.py", path, "--tensorboard", self.directory / "events")
        self.assertEqual(done.returncode, 2)
        self.assertIn("pip install tensorboardX", done.stderr)
        if importlib.util.find_spec("tensorboardX") is None:
            self.skipTest("SKIPPED: the rest needs tensorboardX (pip install tensorboardX)")
        for expected in (0, 2):
            done = script("export_metrics.py", path, "--tensorboard", self.directory / "events")
            self.assertEqual(done.returncode, expected, done.stderr)
        self.assertIn("holds events already", done.stderr)
        (events,) = (self.directory / "events").glob("events.out.tfevents.*")
        self.assertGreater(events.read_bytes().count(b"grad_norm"), 11)


if __name__ == "__main__":
    unittest.main()
