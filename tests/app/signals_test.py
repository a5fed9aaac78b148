# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2: the run finishes its step, writes a checkpoint and ends with 75; a second
signal ends it at once. SHOAL_SIGNALS: how many signals to send at random moments."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

from program import BINARY, MPIEXEC, SMALL, SOURCE, Program, end, main, preloaded, sanitized, skip
from seeds import seed
from signalled import SIGNALS, Run

FAILING_CALLS = os.environ.get("SHOAL_FAILING_CALLS", str(SOURCE / "build/tests/support/libshoal_failing_calls.so"))
TINY = {
    **SMALL,
    "model": {**SMALL["model"], "n_layer": 1, "n_embd": 16, "block_size": 16},
    "train": {"steps": 1000000, "seed": 3, "eval_every": 0},
}
LONG_STEPS = ("--batch.global=65536", "--batch.micro=8")  # take a good part of a second each, or more
ENDLESS_STEPS = ("--batch.global=2097152", "--batch.micro=8", "--trace.level=off")  # no test waits for the end of one
RANDOM = int(os.environ.get("SHOAL_SIGNALS", "4"))
SEED = seed(nightly="SHOAL_SIGNALS" in os.environ)


class Signals(Program):
    def straight(self, steps, *options, ranks=2):
        return self.train(self.deck(TINY), *options, f"--train.steps={steps}", ranks=ranks)

    def check_resumed(self, run, step, *options, ranks=2):
        """A run that resumes from the checkpoint of a run stopped after this step has the bits of an undisturbed
        run."""
        steps = step + 2
        again = self.train(
            self.deck(TINY),
            *options,
            "--checkpoint.resume=latest",
            f"--train.steps={steps}",
            ranks=ranks,
            out=run.out.name,
        )
        straight = self.straight(steps, *options, ranks=ranks)
        self.assertEqual(again["losses"], straight["losses"][step:])
        self.assertEqual(again["params_checksum"], straight["params_checksum"])

    def test_each_signal_to_one_rank_and_to_all(self):
        for how, one in zip(SIGNALS, (1, 0, 1, 0), strict=True):
            for ranks in ({one}, None):
                with self.subTest(how=how.name, ranks=ranks):
                    run = Run(self, self.deck(TINY)).in_step(2).send(how, ranks)
                    step = run.stopped(how)
        self.check_resumed(run, step)

    def test_ctrl_c_and_signals_to_the_launcher(self):
        """A terminal sends Ctrl-C to the launcher and its proxies, which forward it; a batch system signals the
        launcher."""
        run = Run(self, self.deck(TINY), "--checkpoint.async=true").in_step(2)
        os.killpg(run.launcher.pid, signal.SIGINT)
        run.stopped(signal.SIGINT)
        self.assertIn("events", self.shoal("info", run.out / "trace.h5").stdout)
        for ranks in (1, 2):  # with one rank, hydra's proxy would report every exit code as 0
            run = Run(self, self.deck(TINY), ranks=ranks).in_step(2)
            how = signal.SIGTERM if ranks == 1 else signal.SIGUSR1
            run.launcher.send_signal(how)
            run.stopped(how)

    def test_when_nobody_reads_the_output(self):
        """tee is killed, `head` has seen enough: the run ends with a checkpoint. A reader that is slow is waited for."""
        run = Run(self, self.deck(TINY), "--train.log_every=1", piped="tee").in_step(2)
        (tee,) = (int(p) for p in pathlib.Path(f"/proc/{run.launcher.pid}/task/{run.launcher.pid}/children").read_text().split()
                  if pathlib.Path(f"/proc/{p}/comm").read_text() == "tee\n")  # fmt: skip
        os.kill(tee, signal.SIGKILL)
        for stopped in (run, Run(self, self.deck(TINY), "--train.log_every=1", piped="head -n 3")):
            code, said, errors = stopped.ended()
            self.assertEqual(code, 75, said + errors)
            stopped.left_whole(signal.SIGPIPE)
        slow = Run(self, self.deck(TINY), "--train.steps=20", piped="(sleep 5; cat)")
        code, said, errors = slow.ended()
        self.assertEqual(code, 0, said + errors)
        self.assertIn("OK: 20 of 20 steps", said)

    def test_ctrl_c_ends_the_reader_too(self):
        """MPICH's launcher has several names."""
        for name in ("mpiexec", "mpirun"):
            launcher = pathlib.Path(shutil.which(MPIEXEC)).with_name(name)
            if not launcher.exists():
                skip(f"there is no {launcher}")
            run = Run(self, self.deck(TINY), "--train.log_every=1", piped="tee log", launcher=launcher).in_step(2)
            os.killpg(run.launcher.pid, signal.SIGINT)
            code, said, errors = run.ended()
            self.assertEqual(code, 75, said + errors)
            run.left_whole(signal.SIGINT)

    def test_when_the_launcher_dies(self):
        """Of hydra the proxy, which alone can end ranks: then those of one machine can still work together. If mpiexec dies, its
        proxies kill all ranks at once."""
        # It prints nothing meanwhile, since nobody would read it.
        run = Run(self, self.deck(TINY), "--train.log_every=1000000").in_step(2)
        status = pathlib.Path(f"/proc/{run.processes()[0]}/status").read_text()
        os.kill(int(re.search(r"PPid:\s*(\d+)", status)[1]), signal.SIGKILL)
        run.ended()
        self.wait_for(lambda: not run.processes(), None)
        step = run.left_whole(signal.SIGHUP)
        log = (run.out / "log.txt").read_text()
        self.assertRegex(log, "the launcher's process .*; the run ends as if it was stopped")
        self.check_resumed(run, step)

    def test_without_a_launcher(self):
        """A reader that goes, a terminal that goes; `nohup` lets a run go on."""
        for ahead, steps, code in ((), 1000000, 75), (("nohup",), 300, 0):
            run = self.dir / f"hung-up-{steps}"
            command = [BINARY, "train", str(self.deck(TINY)), f"--output.dir={run}", f"--train.steps={steps}"]
            done = subprocess.Popen([*ahead, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, env=self.environment(1))  # fmt: skip
            self.addCleanup(end, done)
            self.wait_for(lambda run=run: (run / "metrics.jsonl").exists(), done)
            done.send_signal(signal.SIGHUP)
            said, _ = done.communicate(timeout=60)
            self.assertEqual(done.returncode, code, said)
            self.assertEqual(b"stopped by SIGHUP" in said, code == 75, said)
        run = self.dir / "alone"
        command = [BINARY, "train", str(self.deck(TINY)), "--train.log_every=1", f"--output.dir={run}"]
        words = ["bash", "-c", 'set -o pipefail; "$@" | head -n 3', "-", *command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=self.environment(1))
        self.assertEqual(done.returncode, 75, done.stdout + done.stderr)
        self.assertEqual(len(list(run.glob("checkpoints/step_*.h5"))), 1)

    def test_a_crash_after_a_signal_is_no_success(self):
        """Hydra would take the exit code to be 0 once it has forwarded a signal."""
        if sanitized():
            skip("AddressSanitizer reports the crash, which is on purpose")
        for ranks, how in ((1, signal.SIGKILL), (2, signal.SIGSEGV)):
            with self.subTest(ranks=ranks, how=how.name):
                run = Run(self, self.deck(TINY), *ENDLESS_STEPS, ranks=ranks)
                run.wait_for(lambda out=run.out: (out / "metrics.jsonl").exists())
                run.launcher.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                code, said, errors = run.send(how, {ranks - 1}).ended()
                self.assertNotIn(code, (0, 75), said + errors)

    def test_a_second_signal_ends_at_once(self):
        """The second signal comes long before the end of the step; the first one had only been remembered."""
        run = Run(self, self.deck(TINY), *ENDLESS_STEPS)
        run.wait_for(lambda: (run.out / "metrics.jsonl").exists()).send(signal.SIGTERM).taken(signal.SIGTERM, 1)
        time.sleep(1.2)  # longer than deliveries of one signal may be apart
        self.assertIsNone(run.launcher.poll(), "a first signal ends nothing")
        run.send(signal.SIGUSR1, {1})
        code, said, errors = run.ended()
        self.assertNotIn(code, (0, 75), said + errors)
        self.assertEqual((run.out / "metrics.jsonl").read_text(), "", "the step has not ended")
        self.assertIn("shoal: a second signal: this rank ends at once", errors)
        self.assertEqual(list(run.out.glob("checkpoints/step_*")), [])

    def test_before_the_first_step(self):
        """SIGUSR1 waits while MPI starts, since MPICH then has a handler of its own for it. Before the first step a run asks how
        much time its job has left; it gets the answer when the signal was taken."""
        squeue, answers = self.dir / "bin" / "squeue", self.dir / "answers"
        squeue.parent.mkdir()
        squeue.write_text(f"#!/bin/sh\nwhile [ ! -e {answers} ]; do sleep 0.02; done\necho UNLIMITED\n")
        squeue.chmod(0o755)
        job = ("-genv", "SLURM_JOB_ID", "17", "-genv", "PATH", f"{squeue.parent}:{os.environ['PATH']}")
        for how in (signal.SIGUSR1, signal.SIGINT):
            answers.unlink(missing_ok=True)
            run = Run(self, self.deck(TINY), "--train.stop_after=auto", mpiexec=job)
            run.recording().send(how, {1}).taken(how, 1)
            answers.touch()
            code, said, errors = run.ended()
            self.assertEqual(code, 75, said + errors)
            self.assertIn(f"# {how.name} came before the first step: the run makes one step", said)
            self.assertIn(f"# stopped by {how.name} after step 1: checkpoint", said)
        self.check_resumed(run, 1)

    def test_at_random_moments(self):
        """In any phase: start, data, steps, evaluations, saves in the background, synchronizations of nodes."""
        choose = random.Random(SEED)
        print(f"SHOAL_SEED={SEED}")
        kinds = (
            ("--train.eval_every=1", "--checkpoint.async=true", "--checkpoint.every=1"),
            ("--checkpoint.every=2",),
            ("--sync.kind=localsgd", "--sync.localsgd_frequency=5", "--comm.ranks_per_node=1"),
        )
        for number in range(RANDOM):
            how, target, options = (
                choose.choice(SIGNALS),
                choose.choice(("0", "1", "all", "mpiexec")),
                choose.choice(kinds),
            )
            delay = choose.uniform(0, 2)
            with self.subTest(number=number, how=how.name, target=target, options=options, delay=delay):
                run = Run(self, self.deck(TINY), *options).recording()
                time.sleep(delay)
                if target == "mpiexec" and how != signal.SIGUSR2:  # hydra does not forward that one: it ends
                    run.launcher.send_signal(how)
                else:
                    run.send(how, {int(target)} if target.isdigit() else None)
                run.stopped(how)

    def test_the_checkpoint_comes_before_an_evaluation(self):
        """A batch system may not wait for a long one. The line of a step in metrics.jsonl has its validation loss."""
        log = self.dir / "calls"
        given = {**preloaded(FAILING_CALLS), "SHOAL_FAIL_BELOW": self.dir, "SHOAL_FAIL_LOG": log}
        logged = [word for name, value in given.items() for word in ("-genv", name, str(value))]
        run = Run(self, self.deck(TINY), "--train.eval_every=1", mpiexec=logged).in_step(2).send(signal.SIGTERM)
        step = run.stopped(signal.SIGTERM)
        calls = [line.split() for line in log.read_text().splitlines() if line.startswith("0 ")]
        saved = [i for i, (_, call, *rest) in enumerate(calls) if call == "rename" and "step_" in rest[0]]
        metrics = [(i, call) for i, (_, call, *rest) in enumerate(calls) if rest[0].endswith("metrics.jsonl")]
        lines = [i for i, call in metrics if call == "write"]
        self.assertEqual(len(saved), 1)
        self.assertEqual(len(lines), step + 1)
        self.assertLess(saved[0], lines[-1], "the line of the last step, now with its loss")
        self.assertLess(lines[-2], saved[0], "the lines of all steps in the checkpoint")
        self.assertTrue(any(lines[-2] < i < saved[0] for i, call in metrics if call == "fsync"), "on disk before it")
        found = [json.loads(line) for line in (run.out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in found], list(range(1, step + 1)))
        self.assertIn("val_loss", found[-1])

    def test_in_the_last_step_nothing_is_left_to_stop(self):
        run = Run(self, self.deck(TINY), *LONG_STEPS, "--train.steps=1")
        run.wait_for(lambda: (run.out / "metrics.jsonl").exists()).send(signal.SIGTERM)
        code, said, errors = run.ended()
        self.assertEqual(code, 0, said + errors)
        self.assertNotIn("stopped by", said)

    def test_nodes_that_train_locally_stop_where_they_synchronize(self):
        options = ("--sync.kind=localsgd", "--sync.localsgd_frequency=3", "--comm.ranks_per_node=2")
        run = Run(self, self.deck(TINY), *options, ranks=4).in_step(4).send(signal.SIGUSR1, {3})
        step = run.stopped(signal.SIGUSR1)
        self.assertEqual(step % 3, 0)
        self.check_resumed(run, step, *options, ranks=4)

    def test_the_launchers_news_of_a_dead_rank_is_no_reason_to_requeue(self):
        """mpiexec -disable-auto-cleanup sends SIGUSR1 to the other ranks when one has died."""
        run = (
            Run(self, self.deck(TINY), "--comm.timeout=8", mpiexec=("-disable-auto-cleanup",))
            .in_step(2)
            .send(signal.SIGKILL, {1})
        )
        code, said, errors = run.ended()
        self.assertNotIn(code, (0, 75), said + errors)
        self.assertNotIn("stopped by", said)


if __name__ == "__main__":
    main()
