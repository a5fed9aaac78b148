# SPDX-License-Identifier: Apache-2.0
"""Runs that tests send signals to."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess

from program import BINARY, LEAKS, MPIEXEC, ranks_of

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
STOPPED = r"# stopped by (\S+) after step (\d+): checkpoint (\S+) complete; resume with --checkpoint.resume=latest"
# A shell that lives on when Ctrl-C ends what it runs, and ends with the exit code of mpiexec.
PIPED = 'trap : INT; "$@" | {reader}; exit "${{PIPESTATUS[0]}}"'


class Run:
    """A run under mpiexec, and the processes of its ranks."""

    def __init__(self, test, deck, *options, ranks=2, mpiexec=(), piped=None, launcher=MPIEXEC):
        """piped: a command that reads the output, as in `mpiexec ... | tee`."""
        self.test, self.ranks = test, ranks
        self.out = test.dir / f"run-{len(list(test.dir.glob('run-*')))}"
        self.out.mkdir()
        self.reports = test.dir / f"reports-{self.out.name}"
        command = [launcher, *mpiexec, "-n", str(ranks), BINARY, "train", str(deck), *options]
        self.launcher = subprocess.Popen(
            [*(("bash", "-c", PIPED.format(reader=piped), "-") if piped else ()), *command, f"--output.dir={self.out}"],
            env=test.environment(
                ranks, {**LEAKS, "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:log_path={self.reports}"}
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=test.dir,  # where a reader may write
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
            wanted = sum(1 << (how - 1) for how in SIGNALS)
            return int(caught.group(1), 16) & wanted == wanted

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

    def taken(self, how, rank):
        """Waits until the rank has taken this signal, which is pending until its thread for signals has a processor."""
        status = pathlib.Path(f"/proc/{self.processes()[rank]}/status")

        def pending():
            sets = re.findall(r"(?:SigPnd|ShdPnd):\s*(\w+)", status.read_text())
            return any(int(signals, 16) >> (how - 1) & 1 for signals in sets)

        return self.wait_for(lambda: not pending())

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

    def left_whole(self, how):
        """What a run leaves that was stopped by this signal, even if nobody has read its output: one complete checkpoint, the
        end of its log, and no lock. Returns the step after which it stopped."""
        (line,) = re.findall(STOPPED, (self.out / "log.txt").read_text())
        self.test.assertEqual(line[0], how.name)
        self.test.assertEqual([str(path) for path in self.out.glob("checkpoints/step_*")], [line[2]])
        self.test.assertEqual(list(self.out.rglob("shoal.lock")), [])
        self.test.assertTrue((self.out / "summary.json").exists())
        return int(line[1])


if __name__ == "__main__":
    raise SystemExit("a module of the tests; run one of them")
