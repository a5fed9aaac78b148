# SPDX-License-Identifier: Apache-2.0
"""A rank stalls, in each phase of a run and in each way: it is stopped or killed, it gets stuck in MPI or in a system call on a
file, or it is slow. Each run must end within comm.timeout and what an inquiry takes, with one report that names the rank, and
a slow rank must not be reported. A line for each says what was reported, and after how many seconds.

Ranks that are `apart` are in name spaces of process numbers of their own, as on machines of their own: they cannot read each
other's memory, so that all they know of each other is what they ask.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from hangs import LONGEST_AFTER_TIMEOUT, assert_reported_in_time
from program import BINARY, MPIEXEC, QUICKSTART, SOURCE, Program, end, main, preloaded, sanitized, skip

FAILING_CALLS = os.environ.get("SHOAL_FAILING_CALLS", str(SOURCE / "build/tests/support/libshoal_failing_calls.so"))
STUCK_MESSAGES = os.environ.get("SHOAL_STUCK_MESSAGES", str(SOURCE / "build/tests/support/libshoal_stuck_messages.so"))
STALL_AT = os.environ.get("SHOAL_STALL_AT", str(SOURCE / "build/tests/support/shoal_stall_at"))

TIMEOUT = 10 if sanitized() else 4
BUSY = 5  # seconds that a busy machine may take to start and to end processes
# A slow rank is stopped for this part of the timeout again and again, for this many timeouts, and runs for some ms in between.
SLOW_PART, SLOW_TIMEOUTS, SLOW_SLICE = 0.1, 3, 0.01
# mpiexec would end the run when it sees that a rank was killed; so a shell, which lives on, is what it sees.
SHELL = '"$@"; code=$?; test $code -lt 128 || sleep 100; exit $code'
APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

STEP = ("phase=step", "step=3")
MOMENTS = {  # what the page of a rank shows (tests/support/stall_at.cpp)
    "data": ("phase=data",),
    "load": ("phase=load",),
    "forward": (*STEP, "unit=1", "waits=0"),
    "gather": (*STEP, "operation=all_gather", "waits=1"),
    "backward": (*STEP, "operation=reduce_scatter", "unit=1", "waits=0"),
    "reduce": (*STEP, "operation=reduce_scatter", "waits=1"),
    "update": (*STEP, "operation=all_reduce", "waits=0"),
    "checkpoint": ("phase=checkpoint",),
    "evaluate": ("phase=evaluate",),
    "bench": ("phase=bench",),
}


@dataclasses.dataclass(frozen=True)
class Stall:
    at: str  # a moment, or for system calls a file
    how: str  # stopped, killed, slow, MPI, or a system call that does not return
    ranks: int
    rank: int | None = 1  # that stalls; None: the file system of output.dir hangs, for all ranks
    apart: bool = False
    command: str = "train"
    options: tuple = ()
    phase: str = ""  # of a system call
    nth: int = 1  # of these calls

    def __str__(self):
        who = "all" if self.rank is None else f"rank {self.rank} of"
        return f"{self.command}, {self.at}: {who} {self.ranks} ranks{' apart' * self.apart}, {self.how}"


STAGE_3, STAGE_2 = ("--zero.stage=3",), ("--zero.stage=2",)
MANY_BUCKETS = ("--comm.bucket_mb=0.5",)
RESUMES = ("--checkpoint.resume=latest",)
STALLS = (
    Stall("data", "stopped", 2),
    Stall("data", "killed", 4),
    Stall("data", "MPI", 3, 2),
    Stall("load", "stopped", 2, options=RESUMES),
    Stall("checkpoints/step_00000004.h5", "read", 4, options=RESUMES, phase="load"),
    Stall("forward", "stopped", 4, 0),
    Stall("forward", "killed", 8, 5),
    Stall("forward", "slow", 2, apart=True),
    Stall("gather", "stopped", 4, 2, True, options=STAGE_3),
    Stall("gather", "MPI", 4, 3, options=STAGE_3),
    Stall("backward", "stopped", 8, 7, options=MANY_BUCKETS),
    Stall("reduce", "stopped", 2, options=STAGE_2),
    Stall("reduce", "killed", 3, 0, True, options=STAGE_2),
    Stall("reduce", "MPI", 4, 1, True, options=STAGE_2),
    Stall("update", "stopped", 3),
    Stall("update", "killed", 2, 0),
    Stall("update", "slow", 4),
    Stall("checkpoint", "stopped", 4, 3, True),
    Stall("checkpoint", "killed", 2),
    Stall("checkpoint", "slow", 4, 2),
    Stall("checkpoint", "MPI", 2),
    Stall("checkpoints", "write", 4, phase="checkpoint"),
    Stall("checkpoints", "fsync", 2, options=("--checkpoint.async=true",), phase="checkpoint"),
    Stall("checkpoints/step", "write", 4, None, phase="checkpoint"),
    Stall("evaluate", "stopped", 8, 4),
    Stall("evaluate", "slow", 3, 2, True),
    Stall("trace.h5", "fallocate", 2, 0, phase="step", nth=2),
    Stall("summary.json", "write", 2, 0, phase="exit"),
    Stall("evaluate", "MPI", 2, command="eval"),
    Stall("bench", "stopped", 3, 2, True, command="bench"),
)


class Lines(threading.Thread):
    """Reads a stream to its end and keeps each line with the time at which it came."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.lines = stream, []
        self.start()

    def run(self):
        for line in self.stream:
            self.lines.append((time.monotonic(), line))

    def text(self):
        self.join(60)
        return "".join(line for _, line in self.lines)


class Stalls(Program):
    def arguments(self, stall, out, steps=40):
        timeout = f"--comm.timeout={TIMEOUT}"
        if stall.command == "bench":
            return ("bench", "comm", "--repetitions", "100000", timeout)
        if stall.command == "eval":
            return ("eval", self.before(stall.ranks, self.dir / "before"), timeout)
        deck = (
            QUICKSTART, f"--train.steps={steps}", f"--batch.global={8 * stall.ranks}", "--batch.micro=4", "--train.eval_every=4",
            "--train.eval_batches=1", "--checkpoint.every=4", "--trace.interval=2", f"--output.dir={out}",
        )  # fmt: skip
        return ("train", *deck, timeout, *stall.options)

    def before(self, ranks, out):
        """Makes a run. Returns its checkpoint of step 4."""
        done = self.shoal(*self.arguments(Stall("", "", ranks), out, steps=4), ranks=ranks)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return out / "checkpoints/step_00000004.h5"

    def library(self, stall, out, log):
        """The environment in which a call gets stuck."""
        if stall.how == "MPI":
            return {**preloaded(STUCK_MESSAGES), "SHOAL_STUCK_RANK": stall.rank, "SHOAL_STUCK_FROM": log}
        if not stall.phase:
            return {}
        return {
            **preloaded(FAILING_CALLS), "SHOAL_FAIL_BELOW": out / stall.at, "SHOAL_FAIL_CALL": stall.how,
            "SHOAL_FAIL_RANK": -1 if stall.rank is None else stall.rank, "SHOAL_FAIL_ERRNO": 0, "SHOAL_FAIL_AT": stall.nth,
            "SHOAL_FAIL_LOG": log, **({"SHOAL_FAIL_THEN": out} if stall.rank is None else {}),
        }  # fmt: skip

    def stall(self, stall):
        """Returns the launcher, which has ended, the time of the stall, where the rank was, and the lines of stderr."""
        out, log = self.dir / "out", self.dir / "log"
        if RESUMES[0] in stall.options:
            self.before(stall.ranks, out)
        arguments = [str(word) for word in self.arguments(stall, out)]
        set_ = [word for name, value in self.library(stall, out, log).items() for word in ("-genv", name, str(value))]
        launcher = subprocess.Popen(
            [MPIEXEC, *set_, "-n", str(stall.ranks), *(APART if stall.apart else ()), "sh", "-c", SHELL, "-", BINARY, *arguments],
            env=self.environment(stall.ranks), cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(end, launcher)
        self.said, errors = Lines(launcher.stdout), Lines(launcher.stderr)
        if stall.phase:
            self.wait_for(log.exists, launcher)
            begin, where = time.monotonic(), log.read_text().split()[2].removeprefix(f"{out}/")
        else:
            begin, where = self.at_moment(stall, arguments, log, launcher)
        if stall.how == "slow" and stall.apart:
            # It goes on. Its end is not looked at: over TCP, MPI_Finalize of MPICH 4.0 with UCX hangs now and then.
            self.wait_for(lambda: launcher.poll() is not None or (out / "summary.json").exists(), None)
            launcher.kill()  # its ranks end with it
        launcher.wait(timeout=120)
        return launcher, begin, where, errors

    def at_moment(self, stall, arguments, log, launcher):
        found = {}

        def started():
            found.update(rank_processes(arguments))
            return stall.rank in found

        self.wait_for(started, launcher)
        process = found[stall.rank]
        signals = {"stopped": signal.SIGSTOP, "killed": signal.SIGKILL, "slow": signal.SIGSTOP}
        where = self.moment(stall, process, signals.get(stall.how, 0))
        begin = time.monotonic()
        if stall.how == "MPI":
            log.touch()
            self.wait_for(lambda: not log.exists(), launcher)
        if stall.how == "slow":
            be_slow(process)
        return begin, where

    def moment(self, stall, process, how):
        """Waits for the moment and sends the signal, if it is not 0. Returns what the page showed."""
        enter = ()
        if stall.apart:  # only there the page can be found under the number that it names
            status = pathlib.Path(f"/proc/{process}/status").read_text()
            enter = ("nsenter", f"--target={process}", "--pid", "--mount")
            process = re.search(r"^NSpid:.*\s(\d+)$", status, re.MULTILINE)[1]
        words = [*enter, STALL_AT, str(process), str(int(how)), *MOMENTS[stall.at]]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, f"the moment did not come: {done.stdout} {done.stderr}")
        return done.stdout.strip()

    def check(self, stall):
        launcher, begin, where, errors = self.stall(stall)
        text = errors.text()
        reports = [(when, line) for when, line in errors.lines if line.startswith("shoal: ")]
        if stall.how == "slow":
            self.note(stall, where, time.monotonic() - begin, "not reported" if not reports else "REPORTED")
            self.assertEqual(reports, [])
            self.assertTrue((self.dir / "out/summary.json").exists(), self.said.text() + text)
            self.assertTrue(stall.apart or launcher.returncode == 0, self.said.text() + text)
            return
        self.assertNotIn(launcher.returncode, (0, 75), text)
        self.assertEqual(len(reports), 1, text)
        ((when, line),) = reports
        seconds = when - begin
        self.note(stall, where, seconds, line.strip())
        if stall.how == "killed" and not stall.apart:
            self.assertRegex(line, rf"rank {stall.rank} \(.*\) died without an error message")
            self.assertLess(seconds, BUSY)
            return
        rank = r"\d+" if stall.rank is None else stall.rank
        self.assertRegex(line, rf"no sign of life from rank {rank} \(|rank {rank} \(.*\) has shown no sign of life")
        assert_reported_in_time(self, line, TIMEOUT)
        self.assertLess(seconds, (1 + LONGEST_AFTER_TIMEOUT) * TIMEOUT + BUSY)
        self.assertRegex(text, self.row(stall, rank, where))

    def row(self, stall, rank, where):
        """What the table of the report says of the rank."""
        if stall.apart:
            return rf"\n  rank {rank} (does not answer|shows no sign of life)"
        state = {"stopped": r"is stopped \(state T\)", "MPI": "runs", "fsync": "sleeps"}
        words = state.get(stall.how, r"waits for a disk or a file system \(state D\)")
        phase = stall.phase or re.search(r"phase (\w+)", where)[1]
        words = (
            f"(, its process {words})?" if stall.how == "MPI" else f", its process {words}"
        )  # none if it reports itself
        if stall.rank is None:
            return r"\n  ranks? .* shows? no sign of life for "
        return rf"\n  rank {rank} shows no sign of life for \d+ s{words}, in phase {phase}"

    def note(self, stall, where, seconds, said):
        print(f"{stall} ({where}): {seconds:.1f} s: {said}", flush=True)


def rank_processes(arguments):
    """The process number of each rank of the run with these arguments."""
    wanted, found = [BINARY.encode(), *(word.encode() for word in arguments)], {}
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (directory / "cmdline").read_bytes().split(b"\0")[:-1] != wanted:
                continue
            rank = re.search(rb"\0PMI_RANK=(\d+)\0", (directory / "environ").read_bytes())
        except OSError:  # it has ended
            continue
        if rank:
            found[int(rank[1])] = int(directory.name)
    return found


def be_slow(process):
    until = time.monotonic() + SLOW_TIMEOUTS * TIMEOUT
    with contextlib.suppress(ProcessLookupError):  # the run has ended, which check() finds
        while time.monotonic() < until:
            time.sleep(SLOW_PART * TIMEOUT)
            os.kill(process, signal.SIGCONT)
            time.sleep(SLOW_SLICE)
            os.kill(process, signal.SIGSTOP)
        os.kill(process, signal.SIGCONT)


def test_of(stall):
    def test(self):
        if stall.apart and os.geteuid() != 0:
            skip(f"{stall}: only root makes name spaces of process numbers")
        self.check(stall)

    test.__doc__ = str(stall)
    return test


for number, row in enumerate(STALLS, 1):
    setattr(Stalls, f"test_{number:02}", test_of(row))

if __name__ == "__main__":
    main()
