# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM, SIGUSR1 and SIGUSR2: the run finishes its step, writes a checkpoint and ends with 75; a second
signal ends it at once. SHOAL_SIGNALS: how many signals to send at random moments."""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

from program import BINARY, MPIEXEC, SMALL, SOURCE, Program, main, preloaded, ranks_of

FAILING_CALLS = os.environ.get("SHOAL_FAILING_CALLS", str(SOURCE / "build/tests/support/libshoal_failing_calls.so"))
TINY = {
    **SMALL,
    "model": {**SMALL["model"], "n_layer": 1, "n_embd": 16, "block_size": 16},
    "train": {"steps": 1000000, "seed": 3, "eval_every": 0},
}
LONG_STEPS = ("--batch.global=65536", "--batch.micro=8")  # take a good part of a second each, or more
ENDLESS_STEPS = ("--batch.global=2097152", "--batch.micro=8", "--trace.level=off")  # no test waits for the end of one
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
RANDOM = int(os.environ.get("SHOAL_SIGNALS", "4"))
SEED = int(os.environ.get("SHOAL_SEED") or random.SystemRandom().randrange(10**6))
STOPPED = r"# stopped by (\S+) after step (\d+): checkpoint (\S+) complete; resume with --checkpoint.resume=latest"


class Run:
    """A run under mpiexec, and the processes of its ranks."""

    def __init__(self, test, *options, ranks=2, mpiexec=()):
        self.test, self.ranks = test, ranks
        self.out = test.dir / f"run-{len(list(test.dir.glob('run-*')))}"
        self.out.mkdir()
        self.reports = test.dir / f"reports-{self.out.name}"
        command = [MPIEXEC, *mpiexec, "-n", str(ranks), BINARY, "train", str(test.deck(TINY)), *options]
        self.launcher = subprocess.Popen(
            [*command, f"--output.dir={self.out}"],
            env=test.environment(
                ranks, {"ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:log_path={self.reports}"}
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group of its own, as a shell makes for each job
        )
        test.addCleanup(self.no_reports)  # called after the next one
        test.addCleanup(self.end)

    def no_reports(self):
        """AddressSanitizer writes to files here: the launcher kills all ranks when one has ended, and may lose what they
        have just printed; and a test that fails before ended() does not show it."""
        for report in sorted(self.test.dir.glob(f"{self.reports.name}.*")):
            self.test.fail(f"{report.name}:\n{report.read_text(errors='backslashreplace')}")

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.launcher.pid, signal.SIGKILL)
        for process in self.processes().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def processes(self):
        """The process number of each rank."""
        found = {}
        for number in ranks_of(self.out):
            with contextlib.suppress(OSError):
                rank = re.search(rb"\0PMI_RANK=(\d+)\0", pathlib.Path(f"/proc/{number}/environ").read_bytes())
                if rank:
                    found[int(rank.group(1))] = number
        return found

    def wait_for(self, what):
        self.test.wait_for(what, self.launcher)
        return self

    def in_step(self, step):
        """Waits until the step before this one is in the metrics; this step has begun by then."""
        metrics = self.out / "metrics.jsonl"
        return self.wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= step - 1)

    def recording(self):
        """Waits until every rank records signals: from the beginning of main(), long before MPI has started."""

        def recorded(number):
            caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{number}/status").read_text())
            return int(caught.group(1), 16) >> (signal.SIGUSR2 - 1) & 1

        def all_ranks():
            found = self.processes().values()
            with contextlib.suppress(OSError):
                return len(found) == self.ranks and all(map(recorded, found))

        return self.wait_for(all_ranks)

    def send(self, how, ranks=None):
        for rank, process in self.processes().items():
            if ranks is None or rank in ranks:
                os.kill(process, how)
        return self

    def ended(self):
        """Waits for the end. Returns (exit code, standard output, standard error)."""
        said, errors = self.launcher.communicate(timeout=60)
        return self.launcher.returncode, said, errors

    def stopped(self, how):
        """The run must end as stopped by this signal. Returns the step after which it stopped."""
        code, said, errors = self.ended()
        self.test.assertEqual(code, 75, said + errors)
        (line,) = re.findall(STOPPED, said)
        self.test.assertEqual(line[0], how.name)
        self.test.assertTrue((self.test.dir / line[2]).is_file(), line[2])
        self.test.assertIn(f"stopped by {how.name} after {line[1]} of 1000000 steps", said)
        return int(line[1])


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
                    run = Run(self).in_step(2).send(how, ranks)
                    step = run.stopped(how)
        self.check_resumed(run, step)

    def test_ctrl_c_and_signals_to_the_launcher(self):
        """A terminal sends Ctrl-C to the launcher and its proxies, which forward it; a batch system signals the
        launcher."""
        run = Run(self, "--checkpoint.async=true").in_step(2)
        os.killpg(run.launcher.pid, signal.SIGINT)
        run.stopped(signal.SIGINT)
        self.assertIn("events", self.shoal("info", run.out / "trace.h5").stdout)
        for ranks in (1, 2):  # with one rank, hydra's proxy would report every exit code as 0
            run = Run(self, ranks=ranks).in_step(2)
            how = signal.SIGTERM if ranks == 1 else signal.SIGUSR1
            run.launcher.send_signal(how)
            run.stopped(how)

    def test_a_second_signal_ends_at_once(self):
        """The second signal comes long before the end of the step; the first one had only been remembered."""
        run = Run(self, *ENDLESS_STEPS)
        run.wait_for(lambda: (run.out / "metrics.jsonl").exists()).send(signal.SIGTERM)
        time.sleep(1.2)
        self.assertIsNone(run.launcher.poll(), "a first signal ends nothing")
        begin = time.monotonic()
        run.send(signal.SIGUSR1, {1})
        code, said, errors = run.ended()
        self.assertLess(time.monotonic() - begin, 5)
        self.assertNotIn(code, (0, 75), said + errors)
        self.assertIn("shoal: a second signal: this rank ends at once", errors)
        self.assertEqual(list(run.out.glob("checkpoints/*")), [])

    def test_before_the_first_step(self):
        """SIGUSR1 waits while MPI starts, since MPICH then has a handler of its own for it."""
        for how in (signal.SIGUSR1, signal.SIGINT):
            run = Run(self).recording().send(how, {1})
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
                run = Run(self, *options).recording()
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
        run = Run(self, "--train.eval_every=1", mpiexec=logged).in_step(2).send(signal.SIGTERM)
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
        run = Run(self, *LONG_STEPS, "--train.steps=1")
        run.wait_for(lambda: (run.out / "metrics.jsonl").exists()).send(signal.SIGTERM)
        code, said, errors = run.ended()
        self.assertEqual(code, 0, said + errors)
        self.assertNotIn("stopped by", said)

    def test_nodes_that_train_locally_stop_where_they_synchronize(self):
        options = ("--sync.kind=localsgd", "--sync.localsgd_frequency=3", "--comm.ranks_per_node=2")
        run = Run(self, *options, ranks=4).in_step(4).send(signal.SIGUSR1, {3})
        step = run.stopped(signal.SIGUSR1)
        self.assertEqual(step % 3, 0)
        self.check_resumed(run, step, *options, ranks=4)

    def test_the_launchers_news_of_a_dead_rank_is_no_reason_to_requeue(self):
        """mpiexec -disable-auto-cleanup sends SIGUSR1 to the other ranks when one has died."""
        run = Run(self, "--comm.timeout=8", mpiexec=("-disable-auto-cleanup",)).in_step(2).send(signal.SIGKILL, {1})
        code, said, errors = run.ended()
        self.assertNotIn(code, (0, 75), said + errors)
        self.assertNotIn("stopped by", said)


if __name__ == "__main__":
    main()
