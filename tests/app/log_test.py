# SPDX-License-Identifier: Apache-2.0
"""log.txt in output.dir has what the terminal had, and no fault of it ends a run. In a terminal the last line shows the
progress."""

import errno
import json
import os
import pty
import re
import shutil
import subprocess

from program import BINARY, MPIEXEC, SMALL, SOURCE, Program, main, preloaded

FAILING_CALLS = os.environ.get("SHOAL_FAILING_CALLS", str(SOURCE / "build/tests/support/libshoal_failing_calls.so"))
TINY = {
    **SMALL,
    "model": {**SMALL["model"], "n_layer": 1, "n_embd": 16, "block_size": 16},
    "train": {"steps": 4, "seed": 3, "log_every": 1},
}
FIRST = r"# log of a run of shoal, \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n"


class Log(Program):
    def setUp(self):
        super().setUp()
        self.cfg = self.deck(TINY)
        self.log = self.dir / "out" / "log.txt"

    def run_to(self, *options, ranks=1, code=0, env=None, mpiexec=()):
        done = self.shoal("train", self.cfg, "--output.dir=out", *options, ranks=ranks, env=env, mpiexec=mpiexec)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_has_what_was_printed(self):
        """Also before the place of the log was known, and if the last line is redrawn; a resumed run appends."""
        config = self.dir / "ds.json"  # of which a key has no effect, which is a note
        config.write_text(json.dumps({"csv_monitor": {"enabled": True, "output_path": "x"}}))
        options = (f"--deepspeed={config}", "--checkpoint.every=2")
        first = self.run_to(*options, ranks=2, env={"SHOAL_PROGRESS": "redraw"})
        self.assertIn("has no effect here", first.stdout)
        self.assertRegex(first.stdout, r"# OK: 4 of 4 steps, .*\n$")
        self.assertRegex(self.log.read_text(), FIRST)
        self.assertEqual(self.log.read_text().split("\n", 1)[1], first.stdout)

        with self.log.open("a") as killed:
            killed.write("an incomplete li")
        again = self.run_to(*options, "--checkpoint.resume=latest", "--train.steps=6")
        before, resumed, after = re.split(r"(# resumed, .*Z\n)", self.log.read_text())
        self.assertEqual(before.split("\n", 1)[1], first.stdout + "an incomplete li\n")
        self.assertEqual(after, again.stdout)
        self.assertEqual(len(list(self.log.parent.glob("log*"))), 1, resumed)

    def test_progress_that_is_redrawn_is_not_in_it(self):
        command = [BINARY, "train", self.cfg, "--output.dir=out", "--train.log_every=3"]
        done = subprocess.run(command, cwd=self.dir, env=self.environment(1, {"SHOAL_PROGRESS": "redraw"}),
                              capture_output=True, timeout=60, check=True)  # fmt: skip
        self.assertRegex(done.stdout, rb"\r +2 ")
        stays = re.sub(rb"[^\n]*\r", b"", done.stdout)  # without what was drawn over
        self.assertEqual(self.log.read_bytes().split(b"\n", 1)[1], stays)

    def test_has_the_errors_of_all_ranks(self):
        done = self.run_to("--checkpoint.resume=absent.h5", code=2)
        self.assertIn("absent.h5", done.stderr)
        self.assertIn(done.stderr, self.log.read_text())
        kill = ("--fault.kind=kill@2:1", "--train.steps=1000000", "--train.log_every=1000")
        done = self.shoal("train", self.cfg, "--output.dir=out", *kill, ranks=2)  # the first run has made no step
        self.assertNotIn(done.returncode, (0, 75))
        text = self.log.read_text()
        self.assertRegex(text, r"\n# begun again, .*Z\n")
        self.assertIn("# fault: rank 1 ", text)
        for line in done.stderr.splitlines():
            if line.startswith("shoal: "):
                self.assertIn(line + "\n", text)
        self.run_to("--output.overwrite")
        self.assertNotIn("# fault", self.log.read_text())

    def test_another_programs_file_stays(self):
        """It may be what tee is about to write to."""
        for content in ("", "# shoal 0.1.0\n", "years of work"):
            shutil.rmtree(self.log.parent, ignore_errors=True)
            self.log.parent.mkdir()
            self.log.write_text(content)
            for more in ((), ("--output.overwrite",), ("--checkpoint.resume=latest",)):
                done = self.run_to(*more)
                self.assertEqual(self.log.read_text(), content)
                self.assertEqual(done.stderr.count("out/log.txt: is not a log of shoal"), 1, done.stderr)

    def test_a_full_disk_is_said_once(self):
        fails = {**preloaded(FAILING_CALLS), "SHOAL_FAIL_BELOW": str(self.log), "SHOAL_FAIL_LASTS": "1"}
        fails |= {"SHOAL_FAIL_CALL": "write", "SHOAL_FAIL_ERRNO": str(errno.ENOSPC)}
        for at in ("1", "3"):
            done = self.run_to("--output.overwrite", env={**fails, "SHOAL_FAIL_AT": at})
            self.assertRegex(
                done.stderr, r"^shoal: warning: out/log\.txt.*: No space left on device.*; the run goes on"
            )
            self.assertEqual(done.stderr.count("warning"), 1, done.stderr)
            self.assertIn("# OK: 4 of 4 steps", done.stdout)

    def test_in_a_terminal_the_last_line_is_redrawn(self):
        """Also under mpiexec, which is the one that prints to it."""
        for launcher in ((), (MPIEXEC, "-n", "2")):
            terminal, other_end = pty.openpty()
            options = ("--output.dir=out", "--output.overwrite", "--train.log_every=100")
            command = [*launcher, BINARY, "train", self.cfg, *options]
            run = subprocess.Popen(command, stdin=other_end, stdout=other_end, stderr=other_end, cwd=self.dir,
                                   env=self.environment(2), start_new_session=True)  # fmt: skip
            os.close(other_end)
            said = b""
            while part := self.read(terminal):
                said += part
            os.close(terminal)
            self.assertEqual(run.wait(timeout=60), 0, said)
            self.assertRegex(said, rb"\r +2 .*\r +3 ", launcher)

    @staticmethod
    def read(terminal):
        try:
            return os.read(terminal, 65536)
        except OSError:  # all processes have closed their ends
            return b""


if __name__ == "__main__":
    main()
