# SPDX-License-Identifier: Apache-2.0
"""train.stop_after as a wall time and as `auto`: what the batch system says is left. Stand-ins answer for SLURM and PBS."""

import json
import os
import re
import time

from program import SMALL, Program, main

ENDLESS = {**SMALL, "train": {"steps": 1000000, "seed": 3, "log_every": 1000000, "eval_batches": 1}}
QSTAT = """Job Id: 17.server
    Job_Name = shoal
    resources_used.walltime = {used}
    stime = {stime}
    Variable_List = PBS_O_HOME=/home/u,PBS_O_WORKDIR=/home/u/a/very/long/path/that/is/broken,
\tPBS_O_QUEUE=workq
    Resource_List.select = 2:ncpus=2
    Resource_List.walltime = {walltime}
"""


class Clock(Program):
    def stand_in(self, name, script):
        """A program of this name in the PATH of the ranks; mpiexec itself must not take the test for a batch job."""
        path = self.dir / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def in_job(self, **variables):
        variables.setdefault("PATH", f"{self.dir / 'bin'}:{os.environ['PATH']}")
        return [word for name, value in variables.items() for word in ("-genv", name, str(value))]

    def stopped(self, *options, ranks=1, mpiexec=(), deck=None):
        """The run must stop by its clock. Returns (its log, the number of steps, the seconds that they took)."""
        out = self.dir / f"out-{len(list(self.dir.glob('out-*')))}"
        command = ("train", deck or self.deck(ENDLESS), f"--output.dir={out}", *options)
        done = self.shoal(*command, ranks=ranks, mpiexec=mpiexec)
        self.assertEqual(done.returncode, 75, done.stdout + done.stderr)
        steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertIn(f"# stopped by train.stop_after after step {len(steps)}: checkpoint ", done.stdout)
        self.assertTrue((out / "checkpoints" / f"step_{len(steps):08d}.h5").is_file())
        return done.stdout, len(steps), sum(step["step_s"] for step in steps)

    def test_forms_of_a_wall_time(self):
        for given, seconds in (
            ("90", "90"),
            ("1:30", "90"),
            ("01:02:03", "3723"),
            ("2-01:00:00", "176400"),
            ("auto", "auto"),
        ):
            printed = self.shoal("train", self.deck(SMALL), "--print-config", f"--train.stop_after={given}").stdout
            self.assertRegex(printed, rf"(?m)^stop_after +\= {seconds} ")
        for wrong in ("1:99", "1:2:3:4", "1-30", "01:02:03h", "-1:30"):
            self.refused("train", self.deck(SMALL), f"--train.stop_after={wrong}",
                         contains=["train.stop_after", wrong, "[D-]HH:MM:SS"])  # fmt: skip

    def test_auto_stops_before_the_job_ends(self):
        # 5 s are kept for the end. A start that takes as long as the rest, on a busy machine, leaves time for one step only.
        for left in (12, 24, 48):
            job = self.in_job(SHOAL_JOB_END_TIME=int(time.time()) + left)
            log, steps, seconds = self.stopped("--train.stop_after=auto", ranks=2, mpiexec=job)
            self.assertLess(seconds, left)
            if steps > 1:
                break
        self.assertGreater(steps, 1)
        self.assertIn(" are left of the job (SHOAL_JOB_END_TIME)", log)

    def test_nodes_that_never_synchronize_stop_too(self):
        """However rarely they are to write a line of the log."""
        self.stopped("--train.stop_after=0.5", "--sync.kind=sgp", "--comm.ranks_per_node=1", ranks=2)

    def test_auto_leaves_the_decks_limit_in_force(self):
        """Job scripts of PBS say auto on the command line: the earlier of both limits counts."""
        deck = self.deck({**ENDLESS, "train": {**ENDLESS["train"], "stop_after": "00:01:40"}})
        now = int(time.time())
        for end, given, said in (
            (now + 3600, "--train.stop_after=0.5", None),  # a limit on the command line alone counts
            (now + 12, "--train.stop_after=auto", "100 s, as the deck says"),
        ):
            job = self.in_job(SHOAL_JOB_END_TIME=end)
            log, _, seconds = self.stopped(given, mpiexec=job, deck=deck)
            self.assertLess(seconds, 12)
            self.assertEqual("as the deck says" in log, said is not None, log)
        deck = self.deck({**ENDLESS, "train": {**ENDLESS["train"], "stop_after": 0.5}})
        job = self.in_job(SHOAL_JOB_END_TIME=now + 3600)
        _, _, seconds = self.stopped("--train.stop_after=auto", mpiexec=job, deck=deck)
        self.assertLess(seconds, 10)

    def test_auto_asks_squeue(self):
        self.stand_in("squeue", '[ "$*" = "-h -j 17 -o %L" ] && echo "      0:08"')
        log, _, seconds = self.stopped("--train.stop_after=auto", mpiexec=self.in_job(SLURM_JOB_ID=17))
        self.assertIn("00:00:08 are left of the job (squeue -h -j 17 -o %L)", log)
        self.assertLess(seconds, 8)
        # The number of an array means all tasks. The last case is a job that was submitted from a task of array 9.
        for array, asked in ((None, "17"), (17, "17_3"), (9, "17")):
            job = {} if array is None else {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": 3}
            self.stand_in("squeue", f'[ "$*" = "-h -j {asked} -o %L" ] && echo UNLIMITED')
            done = self.shoal("train", self.deck(SMALL), "--train.stop_after=auto", f"--output.dir={self.dir / f'of-{array}'}",
                              mpiexec=self.in_job(SLURM_JOB_ID=17, **job))  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("the job has no time limit", done.stdout)

    def test_auto_asks_qstat(self):
        """PBS updates what is used only now and then; the time since the start of the job is newer."""
        now = int(time.time())
        began = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(now - 3600))
        answer = self.dir / "answer"
        answer.write_text(QSTAT.format(used="00:10:00", stime=began, walltime="01:00:09"))
        self.stand_in("qstat", f'[ "$*" = "-f 17.server" ] && cat {answer}')
        log, _, seconds = self.stopped("--train.stop_after=auto", mpiexec=self.in_job(PBS_JOBID="17.server"))
        (left,) = map(int, re.findall(r"00:00:(\d\d) are left of the job \(qstat -f 17.server\)", log))
        self.assertIn(9 - left, range(int(time.time()) + 1 - now), "what the program took until it asked")
        self.assertLess(seconds, 9)

    def test_auto_without_an_answer_is_an_error(self):
        def refused(*contains, **variables):
            command = [self.binary, "train", str(self.deck(SMALL)), "--train.stop_after=auto"]
            command.append("--comm.timeout=2")  # rank 0 waits longer for the batch system, and is not taken for dead
            done = self.shoal(*command[1:], ranks=2, mpiexec=self.in_job(**variables))
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            said = [line for line in done.stderr.splitlines() if line.startswith("shoal: ")]
            self.assertEqual(len(said), 1, done.stderr)
            for part in ("command line: train.stop_after = auto: ", *contains):
                self.assertIn(part, said[0])

        refused("there is no batch job")
        refused("SHOAL_JOB_END_TIME = soon", SHOAL_JOB_END_TIME="soon")
        refused("`qstat -f 17`: no such program", PBS_JOBID=17, PATH="/nowhere")
        self.stand_in("squeue", "echo slurm_load_jobs error >&2; exit 1")
        refused("`squeue -h -j 17 -o %L`: ended with exit code 1", SLURM_JOB_ID=17)
        self.stand_in("squeue", "echo INVALID")
        refused('answered "INVALID"', SLURM_JOB_ID=17)
        self.stand_in("squeue", "exec sleep 100")
        refused("no answer within 10 s", SLURM_JOB_ID=17)

    def test_a_time_shorter_than_a_step(self):
        log, steps, _ = self.stopped("--train.stop_after=0.0001", ranks=2)
        self.assertEqual(steps, 1)
        self.assertIn("# warning: train.stop_after = 0.0001 s left time for one step only", log)
        late = self.in_job(SHOAL_JOB_END_TIME=int(time.time()) - 5)
        log, steps, _ = self.stopped("--train.stop_after=auto", mpiexec=late)
        self.assertEqual(steps, 1)
        self.assertIn("# warning: train.stop_after = auto left time for one step only", log)


if __name__ == "__main__":
    main()
