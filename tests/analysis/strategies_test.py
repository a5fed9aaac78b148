#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""analysis/strategies.py on runs whose every duration and loss is known, and on real runs on two nodes of two ranks."""

import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import make_run
import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "app"))
from scripts import script  # isort: skip
from program import SMALL, Program, main
from shoal.read.bad_input import BadInput
from shoal.read.run import Run
from shoal.read.run_options import name_of
from shoal.times.breakdown import step_parts
from shoal.times.costs import link_rate_of, measure
from shoal.times.traffic import operations

TOKENS = 1024  # of a step of make_run
PICTURES = tuple(f"{name}.{ending}" for name in ("loss_by_time", "step_time_by_rate") for ending in ("png", "svg"))
SLOWMO = {"sync.kind": "slowmo", "sync.localsgd_frequency": "3", "sync.slowmo_frequency": "6"}


def strategies(*arguments):
    return script("strategies.py", *arguments)


class Names(unittest.TestCase):
    def test_of_every_kind(self):
        cases = (
            ({"zero.stage": "1", "zero.hpz_size": "off"}, "stage 1"),
            ({"zero.stage": "3", "zero.hpz_size": "node", "zero.qwz": "8", "zero.qgz": "4"}, "stage 3 hpZ qwZ8 qgZ4"),
            ({"zero.stage": "3", "zero.hpz_size": "2"}, "stage 3 hpZ"),
            ({"zero.stage": "3", "zero.hpz_size": "4"}, "stage 3 hpZ/4"),
            ({"zero.stage": "0", "comm.collectives": "native"}, "stage 0 native"),
            ({"sync.kind": "localsgd", "sync.localsgd_frequency": "3"}, "LocalSGD/3"),
            (SLOWMO, "SlowMo/6 over LocalSGD/3"),
            ({**SLOWMO, "sync.localsgd_frequency": "6", "sync.average_dtype": "bf16"}, "SlowMo/6 bf16"),
            ({**SLOWMO, "sync.localsgd_frequency": "6", "sync.average_overlap": "true"}, "SlowMo/6 late"),
            ({**SLOWMO, "sync.localsgd_frequency": "6", "sync.warmup_steps": "4"}, "SlowMo/6 after 4"),
            ({**SLOWMO, "sync.slowmo_base": "sgp"}, "SlowMo/6 over SGP"),
            ({"sync.kind": "sgp"}, "SGP"),
            ({"sync.kind": "sgp", "sync.sgp_overlap": "true"}, "SGP overlapped"),
            ({"sync.kind": "diloco", "sync.slowmo_frequency": "48"}, "DiLoCo/48"),
        )
        for options, expected in cases:
            self.assertEqual(name_of(options, 2), expected)

    def test_link_rates_of_paths(self):
        for path, expected in (("/a/link_0.05/stage3", 0.05), ("/link_1/b_link_0.5_seed_2", 0.5), ("/a/link_10", 10),
                               ("/blink_3/x", None), ("/a/link_fast", None), ("/a/link_0.1x", None)):  # fmt: skip
            self.assertEqual(link_rate_of(path, None), expected, path)
        self.assertEqual(link_rate_of("/a/b", 0.25), 0.25)


class Aggregation(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-strategies-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def run_of(self, name, seconds, losses=None, level="off", **options):
        """Writes a run with these seconds for each step. Option names have "__" instead of the dot."""
        options = {key.replace("__", "."): str(value) for key, value in options.items()}
        options = {"zero.stage": "3", "comm.ranks_per_node": "2", "train.seed": "1", **options}
        path = make_run.make_run(self.directory / name, level, len(seconds), options)
        summary = json.loads((path / "summary.json").read_text())
        losses = losses or [4 - 0.1 * step for step in range(len(seconds))]
        summary["losses"] = [[step, loss] for step, loss in enumerate(losses, 1)]
        summary["val_losses"] = [[len(losses), losses[-1] + 1]]
        summary["comm_bytes_per_step"] = {
            "reduce_scatter": {"intra": 2**20, "inter": 2**21},
            "all_gather": {"intra": 2**20, "inter": 0},
        }
        (path / "summary.json").write_text(json.dumps(summary))
        rows = [
            {"step": i, "loss": loss, "step_s": s} for i, (s, loss) in enumerate(zip(seconds, losses, strict=True), 1)
        ]
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def result(self, *arguments):
        done = strategies(*arguments, "-o", self.directory / "out")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        written = json.loads((self.directory / "out" / "strategies.json").read_text())
        return done.stdout, {(row["strategy"], row["ranks_per_node"], row["link_gbit"]): row for row in written["rows"]}

    def test_means_are_over_the_steps_that_the_summary_names(self):
        run = self.run_of("named", [1.0] * 2 + [2.0] * 6 + [1.0] * 6)
        self.assertEqual(Run.read(run).settled_steps.tolist(), list(range(2, 15)))
        make_run.change_summary(run, settled={"steps": [[3, 8], [10, 14]]})
        self.assertEqual(Run.read(run).settled_steps.tolist(), [*range(3, 9), *range(10, 15)])
        self.assertAlmostEqual(measure(run, None).step_seconds, (6 * 2 + 5) / 11)

    def test_a_run_whose_summary_names_no_settled_steps_is_refused(self):
        run = self.run_of("older", [1.0] * 6)
        make_run.change_summary(run, settled=None)
        self.assertEqual(Run.read(run).settled_steps.tolist(), [2, 3, 4, 5, 6])
        with self.assertRaisesRegex(BadInput, r"no settled steps in summary.json \(of an older version\)"):
            measure(run, None)
        done = script("compare.py", run, run, "-o", self.directory / "compare.png")
        self.assertIn(
            "no settled steps in summary.json (of an older version): means are over all steps but", done.stdout
        )
        change = {"losses": [[1, 2.0], [2, 2.0]], "settled": {"steps": [[1, 2]]}}
        make_run.change_summary(run, **change)
        self.assertIn("(it is that of an earlier part)", Run.read(run).unsettled)
        self.assertEqual(Run.read(run).settled_steps.tolist(), [2, 3, 4, 5, 6])

    def test_seeds_are_one_row_with_their_range(self):
        exact = [self.run_of(f"exact_{seed}", [9.0] + [seed] * 4, [3, 3, 3, 3, 2 + seed / 8], train__seed=seed)
                 for seed in (1, 2, 4)]  # fmt: skip
        coarse = [self.run_of(f"coarse_{seed}", [9.0] + [seed / 2] * 4, [3, 3, 3, 3, (3 + seed / 8) * 1.01 - 1],
                              train__seed=seed, zero__qwz=8) for seed in (1, 2, 4)]  # fmt: skip
        text, rows = self.result(*exact, *coarse)
        row, other = rows["stage 3", 2, None], rows["stage 3 qwZ8", 2, None]
        self.assertEqual(row["step_seconds"], {"median": 2, "min": 1, "max": 4}, "the first step left out")
        self.assertEqual(row["tokens_per_s"], {"median": TOKENS / 2, "min": TOKENS / 4, "max": TOKENS})
        self.assertEqual((row["seeds"], row["nodes"], row["ranks"]), (["1", "2", "4"], 2, 4))
        self.assertEqual(row["sent_bytes_per_step"], {"intra": 2**21, "inter": 2**21})
        self.assertEqual(row["loss"], {"median": 2.25, "min": 2.125, "max": 2.5})
        self.assertEqual(row["val_loss"]["median"], 3.25)
        self.assertIsNone(row["exposed_seconds"])
        # Compared by seed, every run is twice as fast and its validation loss 1 % higher. Over all seeds the ranges
        # would be wider.
        self.assertEqual(other["ratio"], {"median": 2, "min": 2, "max": 2})
        for value in other["loss_difference_percent"].values():
            self.assertAlmostEqual(value, 1)
        self.assertIn("2.2500 (2.1250..2.5000)", text)
        self.assertIn("# 2 nodes of 2 ranks\n", text)
        self.assertIn("not drawn: step_time_by_rate: no link rate is known", text)
        self.assertTrue((self.directory / "out" / "loss_by_time.svg").exists())
        self.assertFalse((self.directory / "out" / "step_time_by_rate.png").exists())

    def test_losses_are_compared_after_equal_tokens_alone(self):
        runs = [self.run_of("short", [1.0] * 3), self.run_of("long", [1.0] * 5, zero__stage=1)]
        row = self.result(*runs)[1]["stage 1", 2, None]
        self.assertEqual((row["ratio"]["median"], row["loss_difference_percent"], row["steps"]), (1, None, [5]))

    def test_synchronizations_count_as_often_as_they_happen(self):
        synchronizes = self.run_of(
            "synchronizes", [0.5, *[0.1, 0.1, 0.4] * 2], sync__kind="localsgd", sync__localsgd_frequency=3
        )
        text, rows = self.result(synchronizes)
        self.assertAlmostEqual(rows["LocalSGD/3", 2, None]["step_seconds"]["median"], 0.2)
        self.assertNotIn("whole periods", text)
        short = self.run_of("short", [0.1, 0.3], sync__kind="localsgd", sync__localsgd_frequency=3)
        self.assertIn("LocalSGD/3, 2 nodes of 2 ranks: fewer than 3 + 1 steps", self.result(short)[0])

    def test_cells_baseline_and_predictions(self):
        runs = [self.run_of(f"stage{stage}_{each}_link_{rate}", [1.0] + [stage / rate / each] * 3, zero__stage=stage,
                            comm__ranks_per_node=each) for each in (1, 2) for rate in (0.1, 0.5) for stage in (1, 3)]  # fmt: skip
        predictions = self.directory / "predictions.json"
        predicted = [("stage 1", 4, 1, 0.1, 11.0), ("stage 3", 2, 2, 0.5, 2.4), ("stage 2", 2, 2, 0.5, 1.0)]
        names = ("strategy", "nodes", "ranks_per_node", "link_gbit", "step_seconds")
        predictions.write_text(json.dumps({"rows": [dict(zip(names, row, strict=True)) for row in predicted]}))
        text, rows = self.result(*runs, "--baseline", "stage 1", "--predictions", predictions)
        self.assertEqual(len(rows), 8)
        self.assertAlmostEqual(rows["stage 3", 1, 0.1]["ratio"]["median"], 1 / 3)
        self.assertAlmostEqual(rows["stage 1", 1, 0.1]["prediction_error_percent"], 10)
        self.assertAlmostEqual(rows["stage 3", 2, 0.5]["prediction_error_percent"], -20)
        self.assertIsNone(rows["stage 3", 2, 0.1]["predicted_seconds"])
        titles = [line for line in text.splitlines() if line.startswith("# ") and ", links of" in line]
        self.assertEqual(titles, [f"# {nodes}, links of {rate} Gbit/s" for nodes in ("4 nodes of 1 rank", "2 nodes of 2 ranks")
                                  for rate in (0.1, 0.5)])  # fmt: skip
        self.assertIn("# predicted, not measured: stage 2 on 2x2 at 0.5 Gbit/s", text)
        for name in PICTURES:
            picture = (self.directory / "out" / name).read_bytes()
            self.assertTrue(picture.startswith((b"\x89PNG\r\n", b"<?xml")), name)
        drawn = (self.directory / "out" / "step_time_by_rate.svg").read_text()
        self.assertIn("hollow: predicted", drawn)

    def test_other_options_make_other_rows_and_placement_does_not(self):
        runs = [self.run_of("a", [1.0] * 3), self.run_of("b", [1.0] * 3, comm__overlap="false"),
                self.run_of("c", [1.0] * 3, comm__wait="sleep", train__seed=2)]  # fmt: skip
        _, rows = self.result(*runs)
        self.assertEqual([name for name, *_ in rows], ["stage 3 [comm.overlap=unset]", "stage 3 [comm.overlap=false]"])
        self.assertEqual(rows["stage 3 [comm.overlap=unset]", 2, None]["seeds"], ["1", "2"])

    def test_exposed_communication_is_the_traces(self):
        run = self.run_of("traced", [1.0] * 12, level="comm")
        _, rows = self.result(run)
        row = rows["stage 3", 2, None]
        self.assertAlmostEqual(row["exposed_seconds"]["median"], make_run.WAIT_NS / 1e9)
        phases = sum(make_run.PHASES.values()) * 1e-6 + make_run.GAP_NS / 1e9
        self.assertAlmostEqual(row["step_seconds"]["median"], phases + 0.5e-3 * 1.5, msg="the mean over ranks 0 to 3")

    def test_bytes_of_a_resumed_run_are_said_to_be_of_its_last_part(self):
        whole, resumed = self.run_of("whole", [1.0] * 6), self.run_of("resumed", [1.0] * 6, train__seed=2)
        summary = json.loads((resumed / "summary.json").read_text())
        (resumed / "summary.json").write_text(json.dumps({**summary, "losses": summary["losses"][4:]}))
        said = [line for line in self.result(whole, resumed)[0].splitlines() if "was resumed" in line]
        self.assertEqual(said, [f"# {resumed} was resumed; its bytes per step are those of the last part"])

    def test_waiting_is_of_the_same_steps_as_the_time_of_a_step(self):
        """The first part ends in the warm-up and waits longer."""
        warm = {"sync.kind": "localsgd", "sync.localsgd_frequency": "2", "sync.warmup_steps": "8"}
        run = self.run_of(
            "warm", [1.0] * 6 + [0.5] * 6, **{key.replace(".", "__"): value for key, value in warm.items()}
        )
        with mock.patch.object(make_run, "WAIT_NS", make_run.WAIT_NS + 200_000):
            make_run.write_trace(run / "trace.h5", warm, "comm", 6)
        make_run.write_trace(run / "trace_from_6.h5", warm, "comm", 12, first=7, hour=4)
        make_run.change_summary(run, settled={"steps": [[9, 12]]})
        self.assertEqual(Run.read(run).settled_steps.tolist(), [9, 10, 11, 12])
        self.assertAlmostEqual(measure(run, None).exposed_seconds, make_run.WAIT_NS / 1e9)

    def test_bytes_and_memory_are_not_those_of_a_start_that_had_no_steps_left(self):
        run, whole = self.run_of("run", [1.0] * 3), self.run_of("whole", [1.0] * 3, zero__stage=1)
        summary = json.loads((run / "summary.json").read_text())
        summary["verdict"]["steps_made"] = 0
        (run / "summary.json").write_text(json.dumps({**summary, "losses": [], "comm_bytes_per_step": {}}))
        text, rows = self.result(run, whole)
        self.assertEqual(rows["stage 3", 2, None]["sent_bytes_per_step"], {"intra": None, "inter": None})
        self.assertEqual(rows["stage 1", 2, None]["sent_bytes_per_step"], {"intra": 2**21, "inter": 2**21})
        self.assertRegex(text, r"\nstage 3 +1 +3 +1 +- +- +- +- +1,024 ")
        done = script("compare.py", run, whole, "-o", self.directory / "compare.png")
        self.assertRegex(done.stdout, r"\nrun +4 .* 1\.000 +- +- ")
        self.assertRegex(done.stdout, r"\nwhole +4 .* 1\.000 +203 MiB +4 MiB ")
        self.assertNotIn("peak memory", script("report.py", run).stdout)

    def test_a_loss_that_was_nan_and_bad_input(self):
        run = self.run_of("nan", [1.0] * 3, [3, 2, float("nan")])
        _, rows = self.result(run)
        self.assertIsNone(rows["stage 3", 2, None]["loss"]["median"])
        (self.directory / "empty").mkdir()
        going = self.run_of("going", [1.0] * 3)
        (going / "summary.json").unlink()
        done = strategies(run, self.directory / "empty", going, self.directory / "absent", run)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        for expected in (
            "empty: holds no run",
            "going: no summary.json",
            "absent: no such directory",
            "nan: given twice",
        ):
            self.assertIn(expected, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 4)
        wrong = self.directory / "wrong.json"
        for content, expected in (("{}", 'no list "rows"'), ('{"rows": [{"strategy": "stage 3"}]}', "row 1: not a prediction"),
                                  ('{"rows": [{"strategy": "stage 3", "nodes": 2, "ranks_per_node": 2, "link_gbit": 0, '
                                   '"step_seconds": 1}]}', "row 1: link_gbit = 0")):  # fmt: skip
            wrong.write_text(content)
            done = strategies(run, "--predictions", wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(expected, done.stderr)
        done = strategies(run, "--baseline", "stage 9")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--baseline stage 9: no run has this strategy; there are: stage 3", done.stderr)


class Real(Program):
    def test_two_strategies_on_two_nodes(self):
        deck = self.deck(SMALL, trace={"level": "comm"}, train={"steps": 7, "seed": 3})
        nodes = "--comm.ranks_per_node=2"
        kinds = {"exact": ("--zero.stage=3",), "apart": ("--sync.kind=localsgd", "--sync.localsgd_frequency=3")}
        paths = []
        for kind, options in kinds.items():
            for seed in (1, 2):
                paths.append(self.dir / f"{kind}_link_1_seed_{seed}")
                self.train(deck, nodes, *options, f"--train.seed={seed}", ranks=4, out=paths[-1].name)
        done = strategies(*paths, "-o", self.dir / "out")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        exact, apart = json.loads((self.dir / "out" / "strategies.json").read_text())["rows"]
        for row, name in ((exact, "stage 3"), (apart, "LocalSGD/3")):
            self.assertEqual((row["strategy"], row["nodes"], row["ranks_per_node"], row["link_gbit"]), (name, 2, 2, 1))
            self.assertEqual(row["seeds"], ["1", "2"])
            self.assertLess(row["exposed_seconds"]["median"], row["step_seconds"]["median"])
            self.assertGreater(row["exposed_seconds"]["min"], 0)
        self.assertEqual(exact["ratio"], {"median": 1, "min": 1, "max": 1})
        self.assertLess(apart["sent_bytes_per_step"]["inter"], exact["sent_bytes_per_step"]["inter"])
        trace = Run.read(paths[2]).trace
        parts, seconds = step_parts(trace)
        waited = {(op.name, op.group): op.exposed_per_step for op in operations(trace)}
        self.assertGreater(
            waited["reduce_scatter", "across"], 0, "the mean over nodes is waited for message by message"
        )
        self.assertAlmostEqual(sum(waited.values()), seconds[parts.index("wait")].mean(), places=9)
        lasts = [json.loads((path / "summary.json").read_text())["final_loss"] for path in paths[2:]]
        self.assertEqual((apart["loss"]["min"], apart["loss"]["max"]), (min(lasts), max(lasts)))

    def test_a_resumed_run_names_the_settled_steps_of_all_its_parts(self):
        deck = self.deck(SMALL, checkpoint={"every": 4})
        out = self.dir / "out"
        for resume, steps in (("none", 4), ("latest", 8), ("latest", 12), ("latest", 12)):  # the last one has none left
            self.train(deck, f"--checkpoint.resume={resume}", f"--train.steps={steps}", out="out")
        self.assertEqual(json.loads((out / "summary.json").read_text())["losses"], [])
        settled = json.loads((out / "summary.json").read_text())["settled"]
        self.assertEqual((settled["steps"], settled["period"]), ([[2, 4], [6, 8], [10, 12]], 1))
        steps, seconds = Run.read(out).series("step_s")
        chosen = np.isin(steps, [2, 3, 4, 6, 7, 8, 10, 11, 12])
        self.assertAlmostEqual(settled["step_s"]["mean"], seconds[chosen].mean(), places=12)
        self.assertEqual(Run.read(out).settled_steps.tolist(), steps[chosen].tolist())


if __name__ == "__main__":
    main()
