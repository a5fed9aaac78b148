# SPDX-License-Identifier: Apache-2.0
"""Faults that a run causes on purpose (fault.kind), and how it and the run after it take them."""

import json
import time

from hangs import assert_reported_in_time
from program import QUICKSTART, SMALL, Program, main, sanitized, trajectory

DECK = {**SMALL, "batch": {"micro": 1, "global": 4}, "zero": {"stage": 3}, "checkpoint": {"every": 2}}
TIMEOUT = 4 if sanitized() else 2


class Injected(Program):
    def run_with(self, fault, *more, deck=None, ranks=2, out="out"):
        return self.shoal(
            "train", *(deck or (self.deck(DECK),)), f"--output.dir={self.dir / out}", f"--comm.timeout={TIMEOUT}",
            f"--fault.kind={fault}", *more, ranks=ranks,
        )  # fmt: skip

    def reports(self, done):
        return [line for line in done.stderr.splitlines() if line.startswith("shoal: ")]

    def resumed(self, *more):
        """The run goes on from its latest checkpoint, with the same faults, as a requeued job does."""
        done = self.run_with(*more, "--checkpoint.resume=latest")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_a_killed_rank_and_a_corrupt_checkpoint(self):
        """The run after it takes the checkpoint before the corrupt one, causes no fault, and has the same results."""
        straight = self.train(self.deck(DECK), ranks=2)
        done = self.run_with("corrupt@4:0,kill@5:1")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(
            done.stdout, "#   FAULTS +corrupt in step 4 on rank 0; kill in step 5 on rank 1: caused on purpose"
        )
        self.assertIn("# fault: rank 0 has changed a byte of ", done.stdout)
        self.assertIn("# fault: rank 1 kills itself in step 5", done.stdout)
        damaged = self.shoal("info", "--verify", self.dir / "out/checkpoints/step_00000004.h5")
        self.assertEqual(damaged.returncode, 2, damaged.stdout)
        after = self.resumed("corrupt@4:0,kill@5:1")
        self.assertNotIn("# fault:", after.stdout)
        self.assertIn("step_00000002.h5", after.stdout)
        summary = json.loads((self.dir / "out/summary.json").read_text())
        self.assertEqual([step for step, _ in summary["losses"]], [3, 4, 5, 6])
        self.assertEqual(summary["params_checksum"], trajectory(straight)[2])

    def test_a_hanging_rank_is_reported_once_with_all_others(self):
        done = self.run_with("hang", "--fault.step=3", "--fault.rank=1", ranks=4)
        self.assertNotEqual(done.returncode, 0)
        (report,) = self.reports(done)
        self.assertRegex(report, r"rank 1 \(.*\) has shown no sign of life for \d+ s, in phase step")
        self.assertRegex(done.stderr, r"\n  rank 1 shows no sign of life .* step 3")
        self.assertRegex(
            done.stderr,
            r"\n  ranks 0, 2, 3 wait for all_gather of unit \w+(\.\d+)?, step 3 \(number \d+ of group all\)",
        )
        self.assertRegex(
            done.stderr, r"\n  of group all, ranks 0, 2, 3 have started \d+ collectives, rank 1 has started \d+\n"
        )
        assert_reported_in_time(self, report, TIMEOUT)

    def test_faults_in_a_users_run(self):
        """A rank hangs, a rank kills itself: the run after it has the bits of an undisturbed one."""
        deck = (QUICKSTART, "--train.steps=5", "--train.eval_every=0", "--data.val_fraction=0", "--checkpoint.every=2")
        straight = self.train(*deck, ranks=2)
        for fault in ("hang@4:1", "kill@4:0"):
            with self.subTest(fault=fault):
                done = self.run_with(fault, deck=deck, out=fault)
                self.assertNotIn(done.returncode, (0, 75))
                if fault.startswith("hang"):  # of a killed rank only mpiexec may tell
                    (report,) = self.reports(done)
                    self.assertRegex(report, r"rank 1 \(.*\) has shown no sign of life")
                after = self.run_with(fault, "--checkpoint.resume=latest", deck=deck, out=fault)
                self.assertEqual(after.returncode, 0, after.stderr)
                summary = json.loads((self.dir / fault / "summary.json").read_text())
                self.assertEqual(summary["losses"], straight["losses"][2:])
                self.assertEqual(summary["params_checksum"], straight["params_checksum"])

    def test_a_rank_that_ends_all_ranks_leaves_a_note_for_scripts(self):
        note = self.dir / "out/aborted.txt"
        self.assertNotEqual(self.run_with("hang@3:1").returncode, 0)
        self.assertRegex(note.read_text(), r"\AA rank has ended all ranks with exit code 1\..*\n\Z")
        self.resumed("hang@3:1")
        self.assertFalse(note.exists())
        other = "not a note of shoal's\n"
        note.write_text(other)
        again = self.run_with("slow@2:1", "--output.overwrite")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(note.read_text(), other)

    def test_a_slow_rank_is_not_called_dead(self):
        begin = time.monotonic()
        done = self.run_with("slow@2:1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.reports(done), [])
        self.assertGreater(time.monotonic() - begin, 3 * TIMEOUT)

    def test_a_failing_write_ends_all_ranks_with_its_message(self):
        for more in ((), ("--checkpoint.async=true",), ("--checkpoint.io=collective",)):
            with self.subTest(more=more):
                done = self.run_with("io_error@1:1", "--trace.level=off", *more, out=f"out{len(more) and more[0][-5:]}")
                self.assertEqual(done.returncode, 1, done.stdout)
                (line,) = self.reports(done)
                self.assertIn("step_00000002.h5", line)
                self.assertRegex(line, "rank 1: .*cannot be written: .*(Input/output error|I/O error)")

    def test_a_trace_that_cannot_be_written_is_left_out(self):
        done = self.run_with("io_error@1:1", "--trace.interval=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        (line,) = self.reports(done)
        self.assertRegex(line, "shoal: trace: .*Input/output error.*the run continues")


if __name__ == "__main__":
    main()
