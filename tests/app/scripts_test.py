# SPDX-License-Identifier: Apache-2.0
"""The batch scripts of jobscripts/, with stand-ins for srun, mpiexec and the commands of batch systems, which write down how
they were called."""

import contextlib
import os
import re
import shutil
import signal
import subprocess

from program import SMALL, SOURCE, Program, main

HYDRA, OPEN_MPI = "HYDRA build details:", "mpiexec (OpenRTE) 4.1.4"
PALS, INTEL = "Usage: mpiexec [--ppn PPN] [--cpu-bind BIND]", "Intel(R) MPI Library for Linux* OS, Version 2021.9"
SUMMARY = """{
 "version": "1",
 "verdict": {
  "ended": "done",
  "exit_code": %d,
  "steps_made": 3,
  "text": "OK: exit_code: 9"
 },
 "options": {
  "fault.kind": "none"
 }
}
"""
# It lives until a signal comes, as a run that then ends with 75; ENDS_WITH: it ends at once.
LAUNCHER = """
echo "threads: $OMP_NUM_THREADS, SLURM_GPUS: ${SLURM_GPUS:-none}" >>"$CALLS"
[ -z "$ENDS_WITH" ] || exit $ENDS_WITH
trap 'echo got USR1 >>"$CALLS"; exit 75' USR1
trap 'echo got USR2 >>"$CALLS"; exit 75' USR2
trap 'echo got TERM >>"$CALLS"; exit 75' TERM
echo running >>"$CALLS"
while :; do /bin/sleep 0.02; done
"""

# What `qstat -f` shows of a job, with a long line broken in two.
RECORD = """Job Id: 17.server
    Account_Name = nobody
    project = coral
    Resource_List.filesystems = home:eagle
    Resource_List.mem = 8gb
    Resource_List.ncpus = 32
    Resource_List.nodect = 2
    Resource_List.place = scatter
    Resource_List.select = 2:ncpus=2
\t:mpiprocs=2:fpga=1
    Resource_List.fpga = 2
    Variable_List = PBS_O_HOME=/home/me,SHOAL_COMM_WAIT=sleep,NCCL_IB_HCA=mlx5_0,
\tmlx5_1,FI_PROVIDER=cxi,GONE=1
"""

# A job with GPUs: its script, and what the batch system tells of it.
WITH_GPUS = {
    "slurm_gpu": ("slurm", {"SLURM_GPUS_ON_NODE": 2, "SLURM_JOB_GPUS": "0,1"}),
    "pbs_gpu": ("pbs", {"NGPUS": 4}),
}


def stand_in_for_mpiexec(does):
    return f'case $1 in --version) echo "$VERSION"; exit;; --help) exit;; esac\n{does}'


class Scripts(Program):
    def setUp(self):
        super().setUp()
        self.calls = self.dir / "calls"
        self.calls.touch()
        for name, script in (
            ("srun", LAUNCHER),
            ("mpiexec", stand_in_for_mpiexec(LAUNCHER)),
            ("scontrol", '[[ $* != "show hostnames"* ]] || printf "node%d\\n" 1 2 3'),
            ("sleep", "exec /bin/sleep 0.02"),
            ("qsub", '[[ " $* " != *" -l ${REFUSED:-none}="* ]]'),
            ("qstat", f'cat {self.dir / "record"}\n[[ -z $NGPUS ]] || echo "    Resource_List.ngpus = $NGPUS"'),
        ):
            file = self.dir / "bin" / name
            file.parent.mkdir(exist_ok=True)
            shown = 'case $1 in --version|--help|0.5) ;; *) echo "$(basename "$0") $*" >>"$CALLS" ;; esac\n'
            file.write_text("#!/bin/bash\n" + shown + script)
            file.chmod(0o755)
        (self.dir / "record").write_text(RECORD)
        (self.dir / "nodes").write_text("a\na\nb\nb\n")
        (self.dir / "sweep").write_text("--optimizer.lr=1e-3\n--optimizer.lr=3e-3 --train.seed=5")

    def start(self, script, *options, **variables):
        """Starts a script of jobscripts/ as its batch system does, slurm_gpu and pbs_gpu in a job with GPUs. The others have
        variables of GPUs, too: inherited ones, from a job with GPUs by which they were submitted."""
        script, told = WITH_GPUS.get(script, (script, {}))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "SLURM_", "PBS_"))}
        env = {
            **kept, "PATH": f"{self.dir / 'bin'}:{os.environ['PATH']}", "CALLS": self.calls, "SHOAL": "/programs/shoal",
            "SHOAL_DECK": "/decks/a.cfg", "SLURM_SUBMIT_DIR": self.dir, "SLURM_JOB_ID": 17, "SLURM_CPUS_PER_TASK": 6,
            "SLURM_JOB_NODELIST": "node[1-3]", "SLURMD_NODENAME": "node1", "SLURM_TASKS_PER_NODE": "2(x2),1",
            "SLURM_GPUS": 4, "CUDA_VISIBLE_DEVICES": "0,1",
            "PBS_O_WORKDIR": self.dir, "PBS_JOBID": "17.server", "PBS_NODEFILE": self.dir / "nodes", "PBS_O_QUEUE": "workq",
            "OMP_NUM_THREADS": 3, "VERSION": HYDRA, "ENDS_WITH": "0", **told, **variables,
        }  # fmt: skip
        process = subprocess.Popen(
            ["bash", SOURCE / "jobscripts" / f"{script}.sh" if isinstance(script, str) else script, *options], env={k: str(v) for k, v in env.items()},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.addCleanup(self.end_session, process)
        return process

    def stand_in(self, name, does):
        file = self.dir / "bin" / name
        file.write_text(f'#!/bin/bash\necho "{name} $*" >>"$CALLS"\n{does}\n')
        file.chmod(0o755)

    @staticmethod
    def end_session(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def called(self, script, *options, code=0, **variables):
        """Runs a script to its end. Returns the calls that it made, a line for each; `said` is what it printed."""
        process = self.start(script, *options, **variables)
        self.said, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, code, self.said)
        calls = self.calls.read_text()
        self.calls.write_text("")
        return calls

    def signalled(self, script, *how):
        """Sends signals to a script while its run is under way. Returns the calls that it made."""
        process = self.start(script, ENDS_WITH="")
        self.wait_for(lambda: "running" in self.calls.read_text(), process)
        for each in how:
            process.send_signal(each)
        said, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 75, said)
        calls = self.calls.read_text()
        self.calls.write_text("")
        return calls

    def test_slurm(self):
        for script, more in (("slurm", ""), ("slurm_gpu", " --gpu-bind=none")):
            calls = self.called(script, "--batch.global=64")
            self.assertIn(f"srun --overlap --mpi=pmi2 --cpus-per-task=6 --cpu-bind=cores{more} --kill-on-bad-exit=1 /programs/shoal "
                          "train /decks/a.cfg ", calls)  # fmt: skip
            self.assertIn(f" --output.dir={self.dir}/runs/17 ", calls)
            self.assertIn(" --batch.global=64\n", calls)
            self.assertNotIn("scontrol", calls)
            self.assertEqual(" --train.device=cuda " in calls, script == "slurm_gpu")
            self.assertIn("\nscontrol requeue 17\n", self.called(script, ENDS_WITH=75, code=75))
            self.assertNotIn("scontrol", self.called(script, ENDS_WITH=1, code=1))
            # The task of an array that started last has the array's own number, which means all tasks.
            array = {"SLURM_ARRAY_JOB_ID": 17, "SLURM_ARRAY_TASK_ID": 2}
            self.assertIn("\nscontrol requeue 17_2\n", self.called(script, ENDS_WITH=75, code=75, **array))
            array["SLURM_ARRAY_JOB_ID"] = 16
            self.assertIn("\nscontrol requeue 17\n", self.called(script, ENDS_WITH=75, code=75, **array))

    def test_slurm_goes_on_after_a_rank_has_died(self):
        """FAILS runs are killed, the first MAKES of them after a checkpoint. The watch runs until the script kills it."""
        self.stand_in(
            "srun",
            """
            [[ $* != *"bash -c"* ]] || exec /bin/sleep 60
            [[ $* != *" true" ]] || exit "$NODE_IS_LOST"
            n=$(grep -c " train " "$CALLS")
            [[ $n -le $FAILS ]] || exit 0
            [[ $n -gt $MAKES ]] || { mkdir -p runs/17/checkpoints && touch "runs/17/checkpoints/step_0000000$n.h5"; }
            exit 137""",
        )
        self.stand_in("squeue", "echo $STEPS")
        self.stand_in("scancel", "")
        for script in ("slurm", "slurm_gpu"):
            for fails, makes, lost, code, runs, steps in (
                (2, 2, 0, 0, 3, "17.0 17.batch 17.extern 17.1"),
                (2, 2, 0, 0, 3, ""),
                (9, 1, 0, 137, 4, "17.0 17.batch 17.extern 17.1"),
                (9, 0, 0, 137, 1, "17.0"),
                (9, 9, 1, 75, 1, "17.0"),
            ):
                shutil.rmtree(self.dir / "runs", ignore_errors=True)
                calls = self.called(
                    script, FAILS=fails, MAKES=makes, NODE_IS_LOST=lost, STEPS=steps, code=code, SLURM_JOB_NUM_NODES=3
                )
                self.assertEqual(calls.count(" train "), runs, calls)
                self.assertEqual(calls.count("--checkpoint.resume=latest"), runs - 1)
                self.assertEqual(calls.count(" --train.device=cuda "), runs if script == "slurm_gpu" else 0)
                self.assertEqual("\nscontrol requeue 17\n" in calls, code == 75)
                if makes > 0:
                    self.assertIn("--nodes=3 --ntasks=3 true\n", calls)
                ended = set(re.findall(r"^scancel --signal=KILL (.*)$", calls, re.M))
                goes_on = makes > 0 and code != 75  # a requeued job's steps are ended by SLURM
                self.assertEqual(ended, {"17.0", "17.1"}.intersection(steps.split()) if goes_on else set(), calls)

    def test_attempts_without_a_new_checkpoint_are_counted_over_jobs(self):
        """Every run fails, and then no node answers: after the third job in a row that made no checkpoint nothing follows."""
        checkpoints = self.dir / "runs" / "17" / "checkpoints"
        checkpoints.mkdir(parents=True)
        fails = """
            [[ $* == *" train "* ]] || exit 1
            [ -z "$MAKES" ] || touch "runs/17/checkpoints/step_0000000$MAKES.h5"
            exit 9"""
        self.stand_in("srun", fails)
        self.stand_in("mpiexec", stand_in_for_mpiexec(fails))
        self.stand_in("qsub", 'echo "attempts: $SHOAL_ATTEMPTS" >>"$CALLS"')
        for script, follows in (
            ("slurm", "scontrol requeue"),
            ("slurm_gpu", "scontrol requeue"),
            ("pbs", "qsub"),
            ("pbs_gpu", "qsub"),
        ):
            (checkpoints / "step_00000001.h5").touch()
            attempts = 0
            for makes, code in (("", 75), ("", 75), (2, 75), ("", 75), ("", 75), ("", 9)):
                calls = self.called(script, MAKES=makes, code=code, SHOAL_ATTEMPTS=attempts)
                self.assertEqual(follows in calls, code == 75, calls)
                if found := re.search(r"attempts: (\d+)", calls):
                    attempts = found.group(1)
            shutil.rmtree(checkpoints)
            checkpoints.mkdir()

    def test_the_warning_may_come_between_two_runs(self):
        """A rank has died, and while the steps that are left of its run are ended, the job is told to stop."""
        (self.dir / "runs" / "17" / "checkpoints").mkdir(parents=True)
        self.stand_in("srun", f"""
            [[ $* == *" train "* ]] || exit 0
            n=$(grep -c " train " "$CALLS")
            [[ $n -gt 1 ]] || {{ touch runs/17/checkpoints/step_00000001.h5; exit 9; }}
            {LAUNCHER}""")  # fmt: skip
        self.stand_in("squeue", f"while [[ ! -e {self.dir / 'told'} ]]; do /bin/sleep 0.02; done")
        for script in ("slurm", "slurm_gpu"):
            self.calls.write_text("")
            process = self.start(script, ENDS_WITH="")
            self.wait_for(lambda: "squeue" in self.calls.read_text(), process)
            process.send_signal(signal.SIGUSR1)
            (self.dir / "told").touch()
            said, _ = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 75, said)
            self.assertIn("\nscontrol requeue 17\n", self.calls.read_text())
            (self.dir / "told").unlink()

    def test_the_last_slurm_node_watches_the_first(self):
        """The node of the script has died: the script is gone, and nothing answers from there."""
        (self.dir / "bin" / "srun").write_text(f"""#!/bin/bash
            [[ $* != *"bash -c"* ]] || {{ echo "watch on $*" >>"$CALLS"; exec "${{@: -7}}"; }}
            echo "srun $*" >>"$CALLS"
            [[ $* != *"--nodelist=node1 true" ]] || exit "$NODE_IS_LOST"
            {LAUNCHER}""")
        for script in ("slurm", "slurm_gpu"):
            for lost in (0, 1):
                out = self.dir / "runs" / "17"
                shutil.rmtree(out, ignore_errors=True)
                out.mkdir(parents=True)
                self.calls.write_text("")
                process = self.start(script, ENDS_WITH="", NODE_IS_LOST=lost, SLURM_JOB_NUM_NODES=3, SHOAL_ANSWER=7)
                self.wait_for(lambda: all(w in self.calls.read_text() for w in ("running", "watch on")), process)
                self.assertRegex(self.calls.read_text(), r"watch on .*--nodes=1 --ntasks=1 --nodelist=node3 bash -c")
                process.kill()
                self.assertNotIn("node1 true\n", self.calls.read_text(), "nobody is asked while the run goes on")
                (out / "aborted.txt").touch()
                wanted = (
                    "\nscontrol requeue 17\n"
                    if lost
                    else "srun --overlap --mpi=none --nodes=1 --ntasks=1 --nodelist=node1 true\n"
                )
                self.wait_for(lambda wanted=wanted: wanted in self.calls.read_text(), None)
                self.assertEqual("\nscontrol requeue 17\n" in self.calls.read_text(), bool(lost))
                self.end_session(process)
                process.communicate(timeout=30)

    def test_the_watch_of_slurm_ends_with_the_script(self):
        """On SIGTERM srun waits for a node without power."""
        (self.dir / "bin" / "srun").write_text(f"""#!/bin/bash
            [[ $* != *"bash -c"* ]] || {{
              trap "" TERM
              echo $$ >"$WATCH"
              while :; do /bin/sleep 0.02; done
            }}
            until [[ -s $WATCH ]]; do /bin/sleep 0.02; done
            {LAUNCHER}""")
        for script in ("slurm", "slurm_gpu"):
            watch = self.dir / f"watch_{script}"
            process = self.start(script, ENDS_WITH=0, SLURM_JOB_NUM_NODES=3, WATCH=watch)
            said, _ = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 0, said)
            self.assertNotIn("Killed", said)
            number = watch.read_text().strip()
            self.wait_for(lambda number=number: not os.path.exists(f"/proc/{number}"), None)

    def test_a_job_with_gpus_trains_on_them(self):
        """With the program of build-cuda, on all cores of a rank, with one thread."""
        for build in ("build", "build-cuda"):
            (self.dir / build).mkdir()
            (self.dir / build / "shoal").touch(mode=0o755)
        on_gpus = f" {self.dir}/build-cuda/shoal train /decks/a.cfg --train.device=cuda --output.dir="
        on_processors = f" {self.dir}/build/shoal train /decks/a.cfg --output.dir="
        for script, gpus, more in (
            ("slurm", False, {}),
            ("slurm", False, {"SLURM_GPUS_ON_NODE": 0}),
            ("slurm", True, {"SLURM_GPUS_ON_NODE": 2}),
            ("slurm", True, {"SLURM_JOB_GPUS": "0,1"}),
            ("slurm", True, {"SHOAL_GPUS": "yes"}),
            ("slurm_gpu", False, {"SHOAL_GPUS": "no"}),
            ("pbs", False, {}),
            ("pbs", False, {"NGPUS": 0}),
            ("pbs", True, {"NGPUS": 4}),
            ("pbs", True, {"SHOAL_GPUS": "yes"}),
            ("pbs_gpu", False, {"SHOAL_GPUS": "no"}),
        ):
            calls = self.called(script, SHOAL="", **more)
            self.assertIn(on_gpus if gpus else on_processors, calls)
            threads = 1 if gpus else 6 if script.startswith("slurm") else 3
            self.assertIn(f"threads: {threads}, ", calls)
            if script.startswith("slurm"):  # by which srun would ask for GPUs
                self.assertIn(f"SLURM_GPUS: {4 if gpus else 'none'}\n", calls)
            self.assertEqual(self.said, "")
        for script in ("slurm", "slurm_gpu", "pbs", "pbs_gpu"):
            self.assertNotIn(" train ", self.called(script, SHOAL_GPUS=2, code=2))
            self.assertIn("SHOAL_GPUS = 2; allowed: yes, no", self.said)
        for build in ("build", "build-cuda"):
            (self.dir / build / "shoal").unlink()
        for script in ("slurm", "slurm_gpu", "pbs", "pbs_gpu"):
            self.called(script, SHOAL="", code=2)
            self.assertIn(f"no build{'-cuda' if 'gpu' in script else ''}/shoal, and no shoal in PATH", self.said)

    def test_gpus_without_ranks_are_named(self):
        self.called("slurm_gpu", SLURM_GPUS_ON_NODE=8)
        self.assertIn("a node has 2 ranks and 8 GPUs; --ntasks-per-node=8 uses each GPU", self.said)
        self.called("pbs_gpu", NGPUS=8)
        self.assertIn("4 ranks and 8 GPUs; mpiprocs = ngpus uses each GPU", self.said)

    def test_cores_of_a_rank_under_pbs(self):
        """On GPUs its part of ncpus, or as many as there are threads where qstat does not tell."""

        def cores(script, **more):
            return re.search(r"-bind-to core:(\d+) ", self.called(script, **more)).group(1)

        self.assertEqual(cores("pbs"), "3")
        self.assertEqual(cores("pbs_gpu"), "8")
        self.assertEqual(cores("pbs_gpu", SHOAL_CORES=5), "5")
        (self.dir / "record").write_text("    Resource_List.ncpus = 2\n")
        self.assertEqual(cores("pbs_gpu"), "1")
        self.stand_in("qstat", "exit 1")
        for gpus, more in ((True, {}), (False, {"CUDA_VISIBLE_DEVICES": ""}), (False, {"SHOAL_GPUS": "no"})):
            calls = self.called("pbs", **more)
            self.assertIn("-bind-to core:3 ", calls)
            self.assertEqual(" --train.device=cuda " in calls, gpus)

    def test_the_verdict_of_a_run_counts_more_than_the_status_of_its_launcher(self):
        """SAYS: what the run writes as its exit code, into a new file or into none."""
        out = self.dir / "runs" / "17"
        does = """
            [[ $* != *" true" ]] || exit 0
            [[ -z $SAYS ]] || { printf "$SUMMARY" "$SAYS" >runs/17/new && mv runs/17/new runs/17/summary.json; }
            [[ $SAYS != "" || $KEEPS == yes ]] || rm -f runs/17/summary.json
            exit $ENDS_WITH"""
        self.stand_in("srun", does)
        self.stand_in("mpiexec", stand_in_for_mpiexec(does))
        self.stand_in("squeue", "")
        for script, follows in (("slurm", "\nscontrol requeue 17\n"), ("pbs", "\nqsub ")):
            (out / "checkpoints").mkdir(parents=True)
            (out / "checkpoints" / "step_00000001.h5").touch()
            for ends_with, says, code, runs in (
                (0, 75, 75, 1),
                (143, 75, 75, 1),
                (9, 0, 0, 1),
                (0, 1, 1, 3),
                (9, "", 9, 3),  # the summary of an earlier run is there, or is gone
                (75, "", 75, 1),
                (2, "", 2, 1),
                (0, "", 0, 1),
            ):
                for keeps in ("yes",) if says != "" else ("yes", "no"):
                    (out / "summary.json").write_text(SUMMARY % 75)
                    calls = self.called(script, ENDS_WITH=ends_with, SAYS=says, KEEPS=keeps, SUMMARY=SUMMARY, code=code)
                    self.assertEqual(calls.count(" train "), runs, calls)
                    self.assertEqual(follows in calls, code == 75, calls)
            shutil.rmtree(out)

    def test_a_job_that_has_run_before_resumes(self):
        (self.dir / "runs" / "17").mkdir(parents=True)
        for script in ("slurm", "slurm_gpu", "pbs", "pbs_gpu"):
            self.assertNotIn("resume", self.called(script))
        (self.dir / "runs" / "17" / "run.json").touch()
        for script in ("slurm", "slurm_gpu", "pbs", "pbs_gpu"):
            self.assertIn(" --checkpoint.resume=latest", self.called(script))

    def test_signals_are_passed_on(self):
        for script in ("slurm", "slurm_gpu"):
            for how in (signal.SIGUSR1, signal.SIGUSR2):
                calls = self.signalled(script, how)
                self.assertIn(f"got {how.name[3:]}\nscontrol requeue 17\n", calls)
            # scancel also signals the ranks; here only the shell and, to end it, srun by its own warning.
            calls = self.signalled(script, signal.SIGTERM, signal.SIGUSR1)
            self.assertNotIn("scontrol", calls)
        for script in ("pbs", "pbs_gpu"):
            for how in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
                calls = self.signalled(script, how)
                self.assertRegex(calls, r"got USR1\n(qstat.*\n)*qsub ")
            self.assertNotIn("qsub", self.signalled(script, signal.SIGTERM))

    def test_a_pbs_job_submits_the_next_one(self):
        """With all that it was submitted with, but for what follows from the chunks, and what the site does not let it ask for."""
        given = {
            "SHOAL_COMM_WAIT": "sleep",
            "NCCL_IB_HCA": "mlx5_0,mlx5_1",
            "FI_PROVIDER": "cxi",
            "NCCL_DEBUG": "the node's",
        }
        asked = "-q workq -l place=scatter -l select=2:ncpus=2:mpiprocs=2:fpga=1 -A nobody -P coral -v "
        for script in ("pbs", "pbs_gpu"):
            call = re.search(r"qsub .*", self.called(script, ENDS_WITH=75, code=75, **given)).group()
            self.assertIn("qsub -l filesystems=home:eagle " + asked, call)
            self.assertEqual(set(re.search(r"-v (\S+)", call).group(1).split(",")),
                             {"SHOAL", "SHOAL_DECK", "SHOAL_OUT", "SHOAL_TASK", "SHOAL_ATTEMPTS", "SHOAL_COMM_WAIT",
                              "NCCL_IB_HCA", "FI_PROVIDER"})  # fmt: skip
            self.assertTrue(call.endswith(f"jobscripts/{script.removesuffix('_gpu')}.sh"), call)
            calls = self.called(script, ENDS_WITH=75, code=75, REFUSED="filesystems")
            self.assertIn("\nqsub " + asked, calls)
            for more in ({"SHOAL_CHAIN": "no", "ENDS_WITH": 75, "code": 75}, {}, {"ENDS_WITH": 1, "code": 1}):
                self.assertNotIn("qsub", self.called(script, **more))
        (self.dir / "record").write_text("    project = _pbs_project_default\n")
        self.assertRegex(self.called("pbs", ENDS_WITH=75, code=75), r"qsub -q workq -v SHOAL,\S+ /")
        self.stand_in("qstat", "exit 1")
        self.assertRegex(self.called("pbs", ENDS_WITH=75, code=75), r"qsub -q workq -v SHOAL,\S+ /")

    def test_launchers_are_told_apart(self):
        wanted = {
            HYDRA: f"-f {self.dir}/nodes -n 4 -bind-to core:%d ",
            OPEN_MPI: f"--hostfile {self.dir}/nodes -n 4 --map-by ppr:2:node:PE=%d --bind-to core -x OMP_NUM_THREADS ",
            PALS: "-n 4 --ppn 2 --depth %d --cpu-bind depth ",
            INTEL: f"-f {self.dir}/nodes -n 4 ",
        }
        for script, cores in (("pbs", 3), ("pbs_gpu", 8)):
            for version, words in wanted.items():
                calls = self.called(script, VERSION=version)
                self.assertIn("mpiexec " + words.replace("%d", str(cores)) + "/programs/shoal train ", calls)
        (self.dir / "nodes").write_text("a\na\nb\n")
        for script in ("pbs", "pbs_gpu"):
            for version, code in ((HYDRA, 0), (OPEN_MPI, 2), (PALS, 2), (INTEL, 0)):
                self.assertEqual(" train " in self.called(script, VERSION=version, code=code), code == 0)
        self.assertIn("-bind-to numa ", self.called("pbs", SHOAL_BIND="numa"))
        self.assertIn("--cpu-bind=ldoms ", self.called("slurm", SHOAL_BIND="ldoms"))

    def test_pbs_asks_for_the_time_that_is_left(self):
        self.assertIn(" --train.stop_after=auto", self.called("pbs"))
        own = self.called("pbs", SHOAL_OPTIONS="--train.stop_after=00:10:00 --train.seed=5")
        self.assertIn(" --train.stop_after=00:10:00 --train.seed=5\n", own)
        self.assertNotIn("auto", own)
        (self.dir / "bin" / "qstat").unlink()
        self.assertNotIn("stop_after", self.called("pbs"))

    def test_an_array_sweeps(self):
        slurm = {"SLURM_ARRAY_JOB_ID": 9, "SLURM_ARRAY_TASK_ID": 2}
        for script, task in (
            ("slurm", slurm),
            ("slurm_gpu", slurm),
            ("pbs", {"PBS_ARRAY_INDEX": 2, "PBS_JOBID": "9[2].s"}),
        ):
            calls = self.called(script, SHOAL_SWEEP=self.dir / "sweep", **task)
            self.assertIn(f" --output.dir={self.dir}/runs/9/2 ", calls)
            self.assertIn(" --optimizer.lr=3e-3 --train.seed=5\n", calls)
        calls = self.called(
            "pbs", SHOAL_SWEEP=self.dir / "sweep", SHOAL_OUT="/o", PBS_ARRAY_INDEX=1, ENDS_WITH=75, code=75
        )
        self.assertIn(" --output.dir=/o/1 ", calls)  # the next job gets SHOAL_OUT=/o and SHOAL_TASK=1
        self.assertIn("SHOAL_TASK", calls)
        self.called("slurm", SHOAL_SWEEP=self.dir / "sweep", SLURM_ARRAY_JOB_ID=9, SLURM_ARRAY_TASK_ID=3, code=2)
        self.called("slurm", SHOAL_SWEEP=self.dir / "sweep", code=1)
        # A job that a task of array 9 has submitted has the variables of the task, too.
        for of, out in ((17, "17"), (9, "9/2")):
            self.stand_in("squeue", f"echo {of}; echo {of}")
            self.assertIn(f" --output.dir={self.dir}/runs/{out} ", self.called("slurm", **slurm))

    def test_options_of_the_job_take_the_place_of_those_it_was_written_with(self):
        deck, file = self.deck(SMALL), self.dir / "job.sh"
        (self.dir / "sweep").write_text("--optimizer.lr=0.5 --zero.stage=1\n")
        preset = ("--train.seed=9", "--optimizer.lr=1", "--model.vocab_size=9", "--data.source=my text.txt")
        for system in ("slurm", "pbs"):
            done = self.shoal("jobscript", deck, "--system", system, *preset, "--output", file, "--output.overwrite")
            self.assertEqual(done.returncode, 0, done.stderr)
            for given in ("--train.seed=6", "--train.seed 6"):
                options, variables = (given.split(), {}) if system == "slurm" else ((), {"SHOAL_OPTIONS": given})
                call = self.called(file, *options, SHOAL_SWEEP=self.dir / "sweep", SLURM_ARRAY_TASK_ID=1, PBS_ARRAY_INDEX=1,
                                   **variables)  # fmt: skip
                kept = "--model.vocab_size=9 --data.source=my text.txt\n"
                swept = "--optimizer.lr=0.5 --zero.stage=1"
                self.assertIn(f"{swept} {given} {kept}" if system == "slurm" else f"{given} {swept} {kept}", call)


if __name__ == "__main__":
    main()
