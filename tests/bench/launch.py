# SPDX-License-Identifier: Apache-2.0
"""Runs shoal (or another program) on chosen cores, and reads its results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TOLERATED_LOAD = 0.1  # cores


class RunFailed(Exception):
    """A program that was to be measured failed; the message has the end of its output."""


@dataclass
class Result:
    out: Path
    summary: dict
    log: str
    wall_seconds: float

    @property
    def tokens_per_s(self) -> float:
        return self.summary["tokens_per_s"]

    @property
    def peak_rss_bytes(self) -> int:
        return max(self.summary["peak_rss_bytes"])

    @property
    def step_seconds(self) -> list[float]:
        lines = (self.out / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["step_s"] for line in lines]


def pinned(cpus: Sequence[int]):
    """For Popen's preexec_fn: the child may use only these cores."""
    return lambda: os.sched_setaffinity(0, cpus)


def finish(process: subprocess.Popen, what: str, timeout: float) -> str:
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RunFailed(f"{what}: not done after {timeout:.0f} s") from None
    if process.returncode != 0:
        raise RunFailed(f"{what}: exit status {process.returncode}\n" + "\n".join(output.splitlines()[-15:]))
    return output


class Shoal:
    def __init__(self, program: Path, mpiexec: str = "mpiexec"):
        self.program, self.mpiexec = program.resolve(), mpiexec
        if not os.access(self.program, os.X_OK):
            raise RunFailed(f"{program}: no such program (build it first, or name it with --shoal)")

    def start(self, deck: Path, out: Path, options: Sequence[str] = (), *, cpus: Sequence[int], ranks: int = 1):
        """Starts a run with a core for each rank, if there are enough. Trace, evaluation and checkpoints are off unless
        the options ask for them."""
        shutil.rmtree(out, ignore_errors=True)
        shared = ranks > len(cpus)
        bind = ["-bind-to", "core"] if ranks > 1 and not shared else []
        command = [self.mpiexec, "-n", str(ranks), *bind, str(self.program), "train", str(deck), f"--output.dir={out}",
                   *options]  # fmt: skip
        if not any(option.startswith("--trace.level") for option in options):
            command.append("--trace.level=off")
        if not any(option.startswith("--checkpoint.") for option in options):
            command.append("--checkpoint.last=false")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "SHOAL_PROGRESS": "plain"}
        if shared:
            environment["SHOAL_COMM_WAIT"] = "sleep"  # a rank that spins would keep the others from the core
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                                preexec_fn=pinned(cpus))  # fmt: skip

    def train(self, deck: Path, out: Path, options: Sequence[str] = (), *, cpus: Sequence[int], ranks: int = 1,
              timeout: float = 900) -> Result:  # fmt: skip
        begin = time.monotonic()
        log = finish(self.start(deck, out, options, cpus=cpus, ranks=ranks), f"shoal train {deck.name}", timeout)
        return self.result(out, log, time.monotonic() - begin)

    @staticmethod
    def result(out: Path, log: str, wall_seconds: float) -> Result:
        return Result(out, json.loads((out / "summary.json").read_text()), log, wall_seconds)


class OtherLoad:
    """The number of cores that other jobs used during a measurement. If it is more than a little, do not trust the
    figures."""

    def __init__(self):
        self.busy, self.own, self.wall = self.sample()

    @staticmethod
    def sample() -> tuple[float, float, float]:
        fields = [int(value) for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"), own, time.monotonic()

    def cores(self) -> float:
        busy, own, wall = self.sample()
        return max(0.0, (busy - self.busy - (own - self.own)) / max(wall - self.wall, 1e-9))

    def describe(self) -> str:
        cores = self.cores()
        warning = ": NOISY, its verdicts mean little" if cores > TOLERATED_LOAD else ""
        return f"other jobs took {cores:.2f} cores meanwhile{warning}"
