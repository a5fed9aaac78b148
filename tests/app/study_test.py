# SPDX-License-Identifier: Apache-2.0
"""shoal study on this machine: what is done is not repeated, what failed is said, and a study that cannot run is refused
before the first run. analysis/scaling.py draws the results."""

import json
import os
import shutil
import subprocess
import sys
import unittest.mock

from networks import NETWORK
from program import SMALL, SOURCE, Program, main, trajectory

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable  # Debian's, which has h5py
STUDY = {"nodes": "1,2", "strategies": "stage 3", "scaling": "strong, weak"}  # 3 points: both curves share the first


class StudyProgram(Program):
    def study_deck(self, **study):
        more = {"train": {"steps": 2}, "output": {"dir": self.dir / "results"}, "trace": {"level": "comm"}}
        return self.deck({**SMALL, "study": {**STUDY, **study}}, **more)

    def study(self, *args, code=0):
        done = self.shoal("study", *args)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def results(self):
        return json.loads((self.dir / "results" / "study.json").read_text())

    def metrics(self, name):
        """The lines of all steps of a point's run."""
        return [json.loads(line) for line in (self.dir / "results" / name / "metrics.jsonl").read_text().splitlines()]

    def summary(self, name):
        return json.loads((self.dir / "results" / name / "summary.json").read_text())

    def set_seconds(self, name, seconds):
        """Another time of the settled steps of a point's run. The study reads it when it is started again."""
        summary = self.summary(name)
        summary["settled"]["step_s"] = dict.fromkeys(("median", "mean", "min", "max"), seconds)
        (self.dir / "results" / name / "summary.json").write_text(json.dumps(summary))

    def rows(self, said):
        """The rows of the table, as lists of words behind the name of the strategy."""
        return [line.split("  ", 1)[1].split() for line in said.splitlines() if line.startswith(" ")]

    def started(self, said):
        return [line.split()[2] for line in said.splitlines() if line.endswith(" ...")]


class Study(StudyProgram):
    def test_what_is_done_is_not_repeated(self):
        deck = self.study_deck()
        listed = self.study(deck, "--dry-run")
        self.assertIn("3 points, of which 3 would be started; nothing was written", listed)
        self.assertFalse((self.dir / "results").exists())
        first = self.study(deck)
        names = [f"stage_3-n{n}x1-b1-g{g}-r1" for n, g in ((1, 8), (2, 8), (2, 16))]
        self.assertEqual(self.started(first), names)
        self.check_results(names)
        self.assertEqual(self.started(self.study(deck)), [])
        (self.dir / "results" / names[1] / "summary.json").unlink()
        self.assertEqual(self.started(self.study(deck)), [names[1]])
        self.assertTrue((self.dir / "results" / (names[1] + ".before-1")).is_dir())
        (self.dir / "results" / "study.json").unlink()
        self.assertEqual(self.started(self.study(deck)), [])  # the summaries say it all
        self.check_results(names)
        self.check_figures()
        self.refused("study", deck, "--optimizer.lr=0.5", contains=["study.json", "optimizer.lr = 0.001 there, 0.5"])
        self.refused("study", deck, "--study.micro=largest", contains=["study.micro = fixed there"])
        self.check_another_version(deck)

    def test_results_belong_to_the_point_not_to_its_name(self):
        """The strategies begin with the same 60 characters. An earlier rule numbered their names by the order of the list."""
        long = "stage 3 optimizer.beta1=0.9 optimizer.beta2=0.95 optimizer.epsilon=1e-8 optimizer.lr="
        deck = self.study_deck(nodes="1", strategies=f"{long}0.5, {long}0.25", scaling="strong")
        names = self.started(self.study(deck))
        first, second = self.results()["points"]
        reordered = f"--study.strategies={long}0.125, {long}0.25, {long}0.5"
        self.assertEqual([name in names for name in self.started(self.study(deck, reordered))], [False])
        earlier = {first["name"]: "long-n1x1-b1-g8-r1", second["name"]: "long_-n1x1-b1-g8-r1"}
        file = self.dir / "results" / "study.json"
        text = file.read_text()
        for name, before in earlier.items():
            (self.dir / "results" / name).rename(self.dir / "results" / before)
            text = text.replace(name, before)
        file.write_text(text)
        self.assertEqual(self.started(self.study(deck, reordered)), [])
        self.assertEqual([point["name"] for point in self.results()["points"]][1:], [*earlier.values()][::-1])
        for bad in ("", ".", "..", "../results", "/tmp", "a/"):
            file.write_text(text.replace(f'"{earlier[second["name"]]}"', f'"{bad}"'))
            self.refused(
                "study", deck, "--dry-run", contains=["study.json: point", f"{bad}: not the name of a directory"]
            )
        file.write_text(text.replace(earlier[first["name"]], "deck_zero.stage_2-n1x1-b1-g8-r1"))
        self.refused("study", deck, "--study.strategies=deck zero.stage=2", contains=["study.json: point deck_zero.stage_2-n1x1-b1-g8-r1 is of strategy stage 3 ", " there, and of deck zero.stage=2 in this study"])  # fmt: skip

    def test_results_of_other_ranks_are_refused(self):
        deck = self.study_deck(nodes="1,2", strategies="stage 0", scaling="strong")
        self.study(deck)
        summary = self.dir / "results" / "stage_0-n2x1-b1-g8-r1" / "summary.json"
        summary.write_text(summary.read_text().replace('"world_size": 2', '"world_size": 1'))
        self.refused(
            "study", deck, contains=[str(summary), "of 1 rank, and this point has 2; allowed: another output.dir"]
        )

    def check_results(self, names):
        results = self.results()
        self.assertEqual([point["name"] for point in results["points"]], names)
        self.assertEqual([point["scalings"] for point in results["points"]], [["strong", "weak"], ["strong"], ["weak"]])
        for point in results["points"]:
            summary = json.loads((self.dir / "results" / point["name"] / "summary.json").read_text())
            self.assertEqual(point["state"], "done")
            self.assertEqual(point["predicted"]["state_bytes"], point["measured"]["state_bytes"])
            mean = sum(line["step_s"] for line in self.metrics(point["name"])) / 2  # of two steps both count
            self.assertAlmostEqual(point["measured"]["step_s"]["mean"], mean, places=12)
            self.assertEqual(point["measured"]["final_loss"], summary["final_loss"])
            self.assertEqual(summary["world_size"], point["ranks"])
            cost = point["nodes"] * mean / (point["global"] * SMALL["model"]["block_size"])
            self.assertAlmostEqual(point["measured"]["node_seconds_per_token"], cost, places=12)
        for point in results["points"][1:]:  # the plan leaves out a few numbers for losses and norm
            for operation in ("reduce_scatter", "all_gather"):
                sent = point["measured"]["sent_bytes_per_step"][operation]["inter"]
                planned = point["predicted"]["sent_bytes_per_step"][operation]["inter"]
                self.assertGreater(planned, 0)
                self.assertAlmostEqual(sent / planned, 1, delta=0.02)

    def check_figures(self, rows=4, strategy="stage 3 "):
        packages = subprocess.run([PYTHON, "-c", "import h5py, matplotlib, numpy"], capture_output=True, timeout=60)
        if packages.returncode != 0:
            print(f"SKIPPED: analysis/scaling.py on real results: {PYTHON} lacks its packages")
            return
        script = [PYTHON, SOURCE / "analysis" / "scaling.py", self.dir / "results", "-o", self.dir / "report"]
        done = subprocess.run(script, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("all ranks ran on one machine", done.stdout)
        self.assertEqual(done.stdout.count(f"\n{strategy}"), rows)
        self.assertNotIn("sequences per rank)", done.stdout, "one curve of each strategy and scaling")
        page = (self.dir / "report" / "report.html").read_text()
        for name in ("speed", "efficiency", "exposed", "memory", "micro", "cost"):
            self.assertIn(f'<img alt="{name}"', page)

    def check_another_version(self, deck):
        for file in (self.dir / "results" / "study.json", *(self.dir / "results").glob("stage*r1/summary.json")):
            before = file.read_text()
            file.write_text(before.replace('"version": "', '"version": "0.0.', 1))
            self.refused("study", deck, contains=[file.name, "results of shoal 0.0.", "another output.dir"])
            file.write_text(before)

    def test_failed_points_are_said_and_wait_for_retry(self):
        deck = self.study_deck(nodes="2", strategies="stage 0 fault.kind=kill@1:1, stage 3", scaling="strong")
        said = self.study(deck, code=1)
        self.assertEqual(len(self.started(said)), 2)
        self.assertRegex(said, r"# stage_0_fault.kind_kill_1_1-\S+: failed: exit code \d+: ")
        self.assertEqual([point["state"] for point in self.results()["points"]], ["failed", "done"])
        again = self.study(deck, code=1)
        self.assertEqual(self.started(again), [])
        self.assertIn("--retry runs it again", again)
        self.assertEqual(len(self.started(self.study(deck, "--retry", code=1))), 1)

    def test_a_stopped_run_goes_on(self):
        deck = self.study_deck(nodes="1", scaling="strong")
        stopped = ("--train.stop_after=0.000001", "--train.steps=4")
        self.study(deck, *stopped, code=75)
        self.assertEqual(self.results()["points"][0]["state"], "interrupted")
        # A run that cannot go on has failed, although the one before it was stopped well: not what a script repeats.
        with unittest.mock.patch.dict(os.environ, SHOAL_MPIEXEC="false"):
            self.study(deck, "--train.steps=4", code=1)
        self.assertEqual(self.results()["points"][0]["state"], "failed")
        self.study(deck, *stopped, "--retry", code=75)
        self.study(deck, "--train.steps=4")
        self.assertIn("resumed from", (next((self.dir / "results" / "jobs").glob("*.log"))).read_text().lower())
        self.assertEqual(self.results()["points"][0]["state"], "done")

    def test_a_run_that_was_killed_after_its_last_step_is_done(self):
        """It was killed before it wrote its summary. The study resumes it, and finds no steps left to do."""
        deck = self.study_deck(nodes="1", scaling="strong")
        self.study(deck, "--checkpoint.every=1")
        (name,) = (point["name"] for point in self.results()["points"])
        summary = self.dir / "results" / name / "summary.json"
        before = self.results()["points"][0]["measured"]
        summary.unlink()
        (self.dir / "results" / "study.json").unlink()
        self.assertEqual(self.started(self.study(deck, "--checkpoint.every=1")), [name])
        self.assertEqual(json.loads(summary.read_text())["verdict"]["text"], "OK: no steps were left to do")
        (point,) = self.results()["points"]
        self.assertEqual((point["state"], point["problem"]), ("done", ""))
        for measured in ("step_s", "tokens_per_s", "final_loss", "steps"):
            self.assertEqual(point["measured"][measured], before[measured])
        (summary.parent / "metrics.jsonl").unlink()
        self.assertIn("metrics.jsonl has no steps", self.study(deck, "--checkpoint.every=1", code=1))

    def test_synchronizations_count_in_the_time_of_a_step(self):
        """Nodes that train locally synchronize in a few steps only, which a median leaves out."""
        sync = "sync.slowmo_frequency=3 sync.localsgd_frequency=3 sync.warmup_steps=2"
        deck = self.study_deck(nodes="2", strategies=f"slowmo {sync}", scaling="strong")
        self.study(deck, "--train.steps=9")
        (point,) = self.results()["points"]
        settled, measured = self.summary(point["name"])["settled"], point["measured"]
        # Steps 1 and 2 are the warm-up, 3 is part of a period; two periods of 3 steps are left.
        self.assertEqual((settled["steps"], settled["period"]), ([[4, 9]], 3))
        times = [line["step_s"] for line in self.metrics(point["name"])[3:]]
        self.assertAlmostEqual(measured["step_s"]["mean"], sum(times) / 6, places=12)
        self.assertEqual((measured["step_s"]["min"], measured["step_s"]["max"]), (min(times), max(times)))
        self.assertAlmostEqual(measured["tokens_per_s"], 8 * SMALL["model"]["block_size"] * 6 / sum(times), places=6)

    def test_a_summary_without_settled_steps_is_refused(self):
        deck = self.study_deck(nodes="1", strategies="stage 0", scaling="strong")
        self.study(deck)
        (name,) = (point["name"] for point in self.results()["points"])
        file, summary = self.dir / "results" / name / "summary.json", self.summary(name)
        del summary["settled"]
        file.write_text(json.dumps(summary))
        self.refused(
            "study", deck, contains=[f"{file}: names no settled steps", "remove it, and this point is run again"]
        )

    def test_efficiency_is_relative_to_the_first_point_of_a_curve(self):
        """Of two points with the fewest ranks it is the one on fewer nodes."""
        deck = self.study_deck(nodes="1,2", ranks_per_node="2,1", strategies="stage 0", scaling="strong")
        self.study(deck)
        for point, seconds in zip(self.results()["points"], (1, 0.5), strict=True):
            self.set_seconds(point["name"], seconds)
        rows = self.rows(self.study(deck))
        self.assertEqual([row[-2] for row in rows], ["1.000", "2.000"])

    def test_rates_belong_to_the_step_time_in_the_table(self):
        """The step time is the median of two repeats, whose rates have another median: 171 tokens/s on one node."""
        deck = self.study_deck(strategies="stage 0", scaling="strong", repeats=2)
        self.study(deck)
        for point, seconds in zip(self.results()["points"], (1, 3, 1, 1), strict=True):
            self.set_seconds(point["name"], seconds)
        rows = [[step, rate, efficiency, cost] for *_, step, _, rate, efficiency, cost in self.rows(self.study(deck))]
        self.assertEqual(rows, [["2.0000", "128", "1.000", "7812.50"], ["1.0000", "256", "1.000", "7812.50"]])

    def test_in_a_job_of_slurm(self):
        """The points have other ranks than the job has tasks; their runs start no tasks of the job."""
        deck = self.study_deck(nodes="1,2", scaling="strong")
        done = self.shoal("study", deck, env={"SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([point["state"] for point in self.results()["points"]], ["done", "done"])

    def test_pipelines(self):
        """Pipelines of two stages, on two ranks and with two data-parallel ranks on four, beside ZeRO: the same losses."""
        network = self.dir / "network.json"
        network.write_text(json.dumps(NETWORK))
        strategies = (
            "stage 0",
            "stage 0 pipeline.size=2",
            "stage 1 pipeline.size=2 pipeline.schedule=interleaved pipeline.parts=2",
        )
        deck = self.study_deck(nodes="2,4", strategies=", ".join(strategies), scaling="strong", network=network)
        options = ("--model.n_layer=4", "--model.tied_gradient=apart")
        cannot = ("--study.strategies=stage 0, stage 0 pipeline.size=4", "--study.system=slurm")
        self.refused("study", deck, *options, *cannot, contains=["stage 0 pipeline.size=4, strong scaling, 2 nodes x 1 rank", "pipeline.size = 4 does not divide"])  # fmt: skip
        self.assertFalse((self.dir / "results").exists())
        self.assertEqual(len(self.started(self.study(deck, *options))), 6)
        points = self.results()["points"]
        summaries = [
            json.loads((self.dir / "results" / point["name"] / "summary.json").read_text()) for point in points
        ]
        for point, summary in zip(points, summaries, strict=True):
            with self.subTest(point=point["name"]):
                self.assertEqual(trajectory(summary), trajectory(summaries[0]))
                self.assertEqual(point["predicted"]["state_bytes"], point["measured"]["state_bytes"])
                self.assertGreater(point["predicted"]["step_s"], 0)
                for operation in ("reduce_scatter", "all_gather", "send"):
                    sent = point["measured"]["sent_bytes_per_step"].get(operation, {"inter": 0})["inter"]
                    planned = point["predicted"]["sent_bytes_per_step"][operation]["inter"]
                    self.assertAlmostEqual(sent, planned, delta=0.02 * planned)  # without numbers for losses and norm
                borders = point["predicted"]["sent_bytes_per_step"]["send"]["inter"]
                self.assertEqual(borders > 0, "pipeline" in point["strategy"])
        self.assertEqual(self.started(self.study(deck, *options)), [])
        self.check_figures(rows=6, strategy="stage ")

    def test_the_largest_micro_batch(self):
        deck = self.study_deck(nodes="1,2,4", strategies="stage 0, stage 1", scaling="strong", micro="largest")
        more = (
            "--model.n_embd=64",
            "--model.n_layer=4",
            "--comm.collectives=native",
            "--comm.bucket_mb=0.1",
            "--batch.global=64",
        )
        said = self.study(deck, *more, "--memory.limit=0.005", "--dry-run")
        rows = [line.split() for line in said.splitlines() if line.startswith(" stage")]
        micro = {(row[1], int(row[3]) * int(row[5])): int(row[6]) for row in rows}
        self.assertGreater(micro["1", 4], micro["1", 1])  # ranks share the moments, which frees memory
        self.assertEqual(micro["0", 4], micro["0", 2])

    def test_without_a_global_batch_the_micro_batches_of_a_curve_differ(self):
        deck = self.study_deck(strategies="stage 1", scaling="weak", micro="largest")
        self.study(deck, "--batch.global=0", "--memory.limit=0.005")
        results = self.results()
        self.assertEqual(results["options"]["batch.global"], "auto")
        self.assertNotEqual(results["points"][0]["micro"], results["points"][1]["micro"])
        self.check_figures(rows=2, strategy="stage 1 ")

    def test_refusals(self):
        deck = self.study_deck()
        for options, contains in (
            (["--study.nodes", ""], ["deck.cfg: a study without points: study.nodes is empty"]),
            (["--study.nodes=1,x"], ["study.nodes = 1,x", "x is no number"]),
            (["--study.nodes=1,2,4", "--study.ranks_per_node=1,2"], ["study.nodes = 1,2,4 has 3 numbers", "in pairs"]),
            (["--study.nodes=1048576", "--study.ranks_per_node=1048576"], ["ranks; allowed: up to 16384"]),
            (["--study.nodes=2,2"], ["2 x 1 ranks twice"]),
            (["--study.nodes=3"], ["stage 3, strong scaling, 3 nodes x 1 rank", "deck.cfg:", "batch.global = 8", "nearest"]),
            (["--study.strategies=stage 4"], ["stage 4: no such strategy; did you mean stage"]),
            (["--study.strategies=stage 3 zero.stag=1"], ["zero.stag: unknown option; did you mean zero.stage?"]),
            (["--study.strategies=stage 3 zero.stage=4"], ["zero.stage = 4: no such stage"]),
            (["--study.strategies=stage 1 zero.qwz=8"], ["stage 1 zero.qwz=8, strong", "zero.qwz = 8 has no effect"]),
            (["--study.strategies=stage 3, stage 3"], ["stage 3 twice"]),
            (["--batch.global=0"], ["study.scaling = strong needs a batch.global"]),
            (["--study.time=60"], ["study.time = 60: not a wall time"]),
            (["--study.network=none.json"], ["none.json", "cannot be read"]),
            (["--study.network=."], ["study.network = .: not a regular file; `shoal bench comm"]),
            (["--checkpoint.resume=latest"], ["checkpoint.resume: the study sets it"]),
            (["--study.nodez=1"], ["study.nodez: unknown option; did you mean --study.nodes?"]),
        ):  # fmt: skip
            with self.subTest(options=options):
                self.refused("study", deck, *options, contains=contains)
        for points, options, contains in (  # a line for each point
            (3, ["--memory.limit=0.0001"], ["stage 3, strong scaling, 1 node x 1 rank", "the run needs", "cheapest"]),
            (3, ["--study.micro=largest", "--memory.limit=0.0001"], ["the run needs", "cheapest"]),
            (
                2,
                ["--study.scaling=weak", "--study.nodes=3,4"],
                ["batch.global = 8 of 3 ranks cannot be scaled to 4 ranks"],
            ),
        ):
            with self.subTest(options=options):
                self.refused("study", deck, *options, contains=contains, lines=points)
        self.assertFalse((self.dir / "results").exists())
        self.refused("study", self.study_deck(strategys="stage 3"), contains=["deck.cfg:", "study.strategys: unknown option; did you mean study.strategies?"])  # fmt: skip
        self.refused("train", deck, contains=["deck.cfg:", "[study]: unknown section"])

    def test_a_batch_system_that_refuses(self):
        """sbatch is not there, or refuses the job: the study ends with what sbatch said."""
        deck = self.study_deck(nodes="1", scaling="strong", system="slurm")
        programs = self.dir / "bin"
        programs.mkdir()
        sbatch = programs / "sbatch"
        sbatch.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: none' >&2\nexit 1\n")
        (programs / "squeue").write_text("#!/bin/sh\n")  # no job
        for program in programs.iterdir():
            program.chmod(0o755)
        env = {"PATH": f"{programs}:{os.environ['PATH']}"}
        self.refused("study", deck, code=1, contains=["sbatch", "invalid partition specified"], env=env)
        self.assertEqual(self.results()["points"][0]["state"], "waiting")
        listed = self.shoal("study", deck, "--dry-run", env=env).stdout
        self.assertRegex(listed, r"sbatch --parsable --job-name=stage_3-\S+ --output=\S+\.log \S+\.sh")
        script = next((self.dir / "results" / "jobs").glob("*.sh")).read_text()
        self.assertIn(f"\nout=${{SHOAL_OUT:-{self.dir / 'results' / 'stage_3-n1x1-b1-g8-r1'}}}\n", script)


# A batch system in a directory: `jobs` has the number and the name of every job that was submitted, `ended` the numbers of
# those that have left the queue. KILL kills the study that submits a job: before there is a job, or before the study knows it.
SUBMITS = """#!/bin/sh
dir=$(dirname "$0")
while [ $# -gt 0 ]; do
  case $1 in
    --job-name=*) name=${1#*=} ;;
    --output=*) log=${1#*=} ;;
    -N) name=$2 && shift ;;
    -o) log=$2 && shift ;;
  esac
  shift
done
[ "$KILL" = never ] && kill -KILL $PPID && exit
[ "$KILL" = late ] && kill -KILL $PPID && sleep 1
id=$(($(wc -l <"$dir/jobs") + 1))
echo "$id $name" >>"$dir/jobs"
[ "$KILL" = ended ] && echo "$id" >>"$dir/ended" && echo "shoal: a node was lost" >"$log"
case $KILL in after | ended) kill -KILL $PPID ;; esac
echo "$id"
"""
LISTS = """#!/bin/sh
dir=$(dirname "$0")
while read -r id name; do
  grep -qx "$id" "$dir/ended" && continue
  case $0 in
    *squeue) echo "$id $name" ;;
    *qselect) [ "$2" != "$name" ] || echo "$id" ;;
    *qstat) [ "$2" != "$id" ] || { echo "    job_state = R" && exit; } ;;
  esac
done <"$dir/jobs"
case $0 in *qstat) exit 35 ;; esac
"""


class Submissions(StudyProgram):
    """A study that is killed while it submits a job: the job is not submitted again."""

    def batch_system(self):
        system = self.dir / "batch"
        for earlier in (system, self.dir / "results"):
            shutil.rmtree(earlier, ignore_errors=True)
        system.mkdir()
        for name in ("sbatch", "squeue", "qsub", "qselect", "qstat"):
            (system / name).write_text(SUBMITS if name in ("sbatch", "qsub") else LISTS)
            (system / name).chmod(0o755)
        for name in ("jobs", "ended"):
            (system / name).write_text("")
        return system

    def submit(self, deck, system, kill="", code=0):
        """Without mpiexec, which would kill what the study has started, too."""
        env = {**self.environment(1), "PATH": f"{system}:{os.environ['PATH']}", "KILL": kill}
        command = [self.binary, "study", deck, "--wait=false", "--poll", "0.5"]
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, env=env, cwd=self.dir, timeout=100
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def jobs(self, system):
        return [line.split() for line in (system / "jobs").read_text().splitlines()]

    def points(self, field):
        return [point[field] for point in self.results()["points"]]

    def test_a_job_is_submitted_once(self):
        for launcher in ("slurm", "pbs"):
            for kill in ("after", "late", "never", "ended"):
                with self.subTest(launcher=launcher, kill=kill):
                    self.check(launcher, kill)

    def check(self, launcher, kill):
        deck, system = self.study_deck(nodes="1,2", scaling="strong", system=launcher), self.batch_system()
        self.submit(deck, system, kill, code=-9)
        self.assertEqual(self.points("state"), ["submitting", "waiting"])
        said = self.submit(deck, system, code=1 if kill == "ended" else 0)
        submitted = self.jobs(system)
        self.assertEqual(len(submitted), 2, submitted)
        self.assertEqual(len({name for _, name in submitted}), 2, submitted)
        if kill == "ended":
            self.assertIn("failed: its job left the queue without results: a node was lost", said)
            self.assertEqual(self.points("state"), ["failed", "queued"])
            return
        self.assertEqual(self.points("state"), ["queued", "queued"])
        self.assertEqual(self.points("job"), ["1", "2"])
        (self.dir / "results" / "study.json").unlink()
        self.submit(deck, system)
        self.assertEqual(self.points("job"), ["1", "2"], "the names of the jobs tell the points")
        self.assertEqual(self.jobs(system), submitted)

    def test_nothing_is_submitted_while_the_queue_is_not_known(self):
        for launcher, asks in (("slurm", "squeue"), ("pbs", "qselect")):
            with self.subTest(launcher=launcher):
                deck, system = self.study_deck(nodes="1", scaling="strong", system=launcher), self.batch_system()
                (system / asks).write_text("#!/bin/sh\necho Connection refused\nexit 1\n")
                self.refused("study", deck, code=1, contains=["does not answer", asks, "Connection refused"],
                             env={"PATH": f"{system}:{os.environ['PATH']}"})  # fmt: skip
                self.assertEqual(self.jobs(system), [])


if __name__ == "__main__":
    main()
