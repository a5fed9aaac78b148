# SPDX-License-Identifier: Apache-2.0
"""`shoal jobscript`, which fills the batch scripts of jobscripts/ in for a deck."""

import re
import shutil
import subprocess

from program import BINARY, MPIEXEC, SMALL, Program, main, skip


class JobScript(Program):
    def written(self, *options):
        done = self.shoal("jobscript", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_is_asked_for(self):
        deck = self.deck(SMALL)
        more = ("--nodes", "2", "--ranks-per-node=2", "--cores-per-rank=3", "--time", "1-01:30:00")
        slurm = self.written("--system", "slurm", *more, deck, "--optimizer.lr=0.5", "--data.source=it's here.txt",
                             "--model.vocab_size=99")  # fmt: skip
        for line in (
            "nodes=2",
            "ntasks-per-node=2",
            "cpus-per-task=3",
            "time=25:30:00",
            "signal=B:USR1@120",
            "requeue",
        ):
            self.assertIn(f"\n#SBATCH --{line}\n", slurm)
        self.assertIn(f"\nprogram={BINARY} input={deck} gpus=no preset=(--model.vocab_size=99 '--data.source=it'\\''s here.txt' "
                      "--optimizer.lr=0.5)\n", slurm)  # fmt: skip
        pbs = self.written("--system=pbs", *more, deck)
        self.assertRegex(pbs, r"\n#PBS -l select=2:ncpus=6:mpiprocs=2:ompthreads=3:mem=\d+mb\n")
        self.assertIn("\n#PBS -l walltime=25:30:00\n", pbs)
        self.assertIn("\n#SBATCH --signal=B:USR1@15\n", self.written(deck, "--time=01:00"))
        if shutil.which("shellcheck") is None:
            skip("shellcheck is not installed")
        for script in (slurm, pbs):
            subprocess.run(["shellcheck", "-s", "bash", "-"], input=script, text=True, check=True, timeout=60)

    def test_memory_is_the_plans(self):
        """5 % more than the plan and 256 MiB, for each rank of a node."""
        deck = self.deck(SMALL, model={"n_embd": 512, "n_layer": 8})
        plan = self.dir / "plan.json"
        self.assertEqual(self.shoal("plan", deck, "--ranks", "4", "--json", plan, "--zero.stage=2").returncode, 0)
        text = self.shoal("train", deck, "--dry-run", "--ranks", "4", "--zero.stage=2").stdout
        total, unit = re.search(r"total +([0-9.]+) (MiB|GiB)", text).groups()
        mib = float(total) * (1024 if unit == "GiB" else 1)
        script = self.written(deck, "--nodes=2", "--ranks-per-node=2", "--zero.stage=2")
        asked = int(re.search(r"--mem=(\d+)M", script).group(1))
        self.assertAlmostEqual(asked, 2 * (1.05 * mib + 256), delta=0.01 * asked)

    def test_text_is_kept_by_every_rank(self):
        """A byte per token if the vocabulary allows it, otherwise four."""
        deck, data = self.deck(SMALL), self.dir / "text.txt"
        with data.open("wb") as file:
            file.truncate(1 << 30)

        def asked(*options):
            return int(re.search(r"--mem=(\d+)M", self.written(deck, "--ranks-per-node=2", *options)).group(1))

        for vocabulary, gib in ((256, 1), (257, 4)):
            options = (f"--model.vocab_size={vocabulary}",)
            more = asked(*options, f"--data.source={data}") - asked(*options)
            self.assertIn(more, range(2 * gib * 1024 - 1, 2 * gib * 1024 + 2))
        script = self.written(deck, "--data.source=elsewhere.txt", "--model.vocab_size=256")
        self.assertIn("The text of data.source is not here, and not counted.\n", script)

    def test_it_runs(self):
        deck = self.deck(SMALL, train={"steps": 2})
        file = self.dir / "job.sh"
        self.written(deck, "--system=pbs", "--nodes=1", "--ranks-per-node=2", "--output", file, "--train.seed=9")
        (self.dir / "nodes").write_text("localhost\nlocalhost\n")
        env = {**self.environment(2), "PBS_O_WORKDIR": self.dir, "PBS_JOBID": "3.s", "PBS_NODEFILE": self.dir / "nodes",
               "SHOAL_MPIEXEC": MPIEXEC, "SHOAL_BIND": "none"}  # fmt: skip
        done = subprocess.run(["bash", file], env={k: str(v) for k, v in env.items()}, capture_output=True, text=True,
                              timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("# OK: 2 of 2 steps", done.stdout)
        self.assertIn("train.seed", done.stdout)
        self.assertTrue((self.dir / "runs" / "3" / "summary.json").is_file())

    def test_the_verdict_is_read_if_the_launcher_loses_the_exit_code(self):
        deck, file, launcher = self.deck(SMALL, train={"steps": 1000000}), self.dir / "job.sh", self.dir / "launcher"
        self.written(deck, "--system=pbs", "--ranks-per-node=2", "--output", file, "--train.stop_after=1")
        (self.dir / "nodes").write_text("localhost\nlocalhost\n")
        launcher.write_text(f'#!/bin/bash\n{MPIEXEC} "$@"\nexit 0\n')
        launcher.chmod(0o755)
        env = {**self.environment(2), "PBS_O_WORKDIR": self.dir, "PBS_JOBID": "3.s", "PBS_NODEFILE": self.dir / "nodes",
               "SHOAL_MPIEXEC": launcher, "SHOAL_BIND": "none", "SHOAL_CHAIN": "no"}  # fmt: skip
        done = subprocess.run(["bash", file], env={k: str(v) for k, v in env.items()}, capture_output=True, text=True,
                              timeout=60)  # fmt: skip
        self.assertIn("STOPPED EARLY", done.stdout)
        self.assertEqual(done.returncode, 75, done.stdout + done.stderr)

    def test_refusals(self):
        deck = self.deck(SMALL)
        self.refused("jobscript", deck, "--nodes=3", contains=["batch.global = 8", "3"])
        self.refused(
            "jobscript", deck, "--ranks-per-node=4", "--comm.ranks_per_node=3", contains=["comm.ranks_per_node"]
        )
        self.refused("jobscript", deck, "--nodes=0", contains=["nodes = 0"])
        self.refused("jobscript", deck, "--memory.limit=0.0001", contains=["the run needs", "cheapest"])
        self.refused("jobscript", deck, "--time=60", contains=["--time 60", "minutes to SLURM"])
        self.refused("jobscript", deck, "--time=00:00:00", contains=["not a wall time"])
        self.refused("jobscript", deck, "--system=lsf", contains=["system = lsf", "slurm, pbs"])
        self.refused("jobscript", deck, "--output.dir=out", contains=["output.dir", "SHOAL_OUT"])
        self.refused("jobscript", contains=["DECK"])
        self.refused("jobscript", self.dir / "none.cfg", contains=["none.cfg"])

    def test_threads_that_no_rank_has_are_refused(self):
        asked = ("jobscript", self.deck(SMALL), "--cores-per-rank=2")
        done = self.shoal(*asked, "--train.threads=2")
        if "the kernels of this program run on 1 thread" in done.stderr:
            skip("the kernels of this program run on one thread")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(*asked, "--train.threads=3", contains=["command line: train.threads = 3 is above --cores-per-rank = 2; allowed: auto, or from 1 to 2"])  # fmt: skip

    def test_only_its_own_scripts_are_replaced(self):
        deck, file = self.deck(SMALL), self.dir / "job.sh"
        file.write_text("#!/bin/bash\necho mine\n")
        self.refused("jobscript", deck, "--output", file, "--output.overwrite", contains=["job.sh", "not overwritten"])
        self.assertEqual(file.read_text(), "#!/bin/bash\necho mine\n")
        file.unlink()
        self.written(deck, "--output", file)
        first = file.read_text()
        self.refused("jobscript", deck, "--output", file, "--nodes=2", contains=["exists", "--output.overwrite"])
        self.assertEqual(file.read_text(), first)
        self.written(deck, "--output", file, "--nodes=2", "--output.overwrite")
        self.assertIn("--nodes=2\n", file.read_text())


if __name__ == "__main__":
    main()
