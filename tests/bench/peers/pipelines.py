# SPDX-License-Identifier: Apache-2.0
"""Compares shoal's pipelines with those of torch.distributed.pipelining on two ranks, in turn."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from environment import peer_environment
from launch import Shoal
from losses import losses_line
from two_ranks import RANKS, Run, peer_run
from verdicts import Line
from work import WORKS

HERE = Path(__file__).resolve().parent
LEAST = 1.3  # target: shoal's tokens/s over the peer's with the same schedule


@dataclass(frozen=True)
class Schedule:
    option: str  # pipeline.schedule
    peer: str  # as peer_pipeline.py calls it
    balance: str  # blocks of each part, for both programs


# With two parts per rank, W1's six blocks are cut so that ranks are equal, and so that the first and the last part, which
# begin and end a step, are the short ones. This is what pipeline.balance = auto chooses, too.
SCHEDULES = (
    Schedule("gpipe", "GPipe", "3,3"),
    Schedule("1f1b", "1F1B", "3,3"),
    Schedule("interleaved", "Interleaved1F1B", "1,2,2,1"),
)


class Pipelines:
    """W1 on two ranks in one dtype: both programs with each schedule."""

    micro_batches = 8  # of a step

    @staticmethod
    def steps_of(arguments) -> tuple[int, int]:
        """Steps before those that are timed, and these. A step has the work of four of Field, so fewer are enough."""
        return arguments.warmup, max(3, arguments.steps // 2)

    def __init__(self, arguments, python: Path, shim: Path, directory: Path, dtype: str, cpus: Sequence[int]):
        self.arguments, self.python, self.shim, self.cpus = arguments, python, shim, cpus
        self.directory, self.dtype = directory, dtype
        self.warmup, self.timed = self.steps_of(arguments)
        self.runs: dict[tuple[str, str], list[Run]] = {}  # by program and pipeline.schedule

    def run_peer(self, schedule: Schedule) -> Run:
        command = [self.python, HERE / "peer_pipeline.py", self.directory, "W1", self.dtype, schedule.peer, "--balance",
                   schedule.balance, "--turns", str(self.micro_batches), "--steps", str(self.timed), "--warmup",
                   str(self.warmup)]  # fmt: skip
        environment = peer_environment(self.python, self.shim)
        return peer_run(command, environment, self.cpus, self.directory / "logs" / schedule.peer)

    def run_shoal(self, schedule: Schedule) -> Run:
        parts = len(schedule.balance.split(",")) // RANKS
        options = [f"--train.steps={self.warmup + self.timed}", f"--train.dtype={self.dtype}",
                   "--model.tied_gradient=apart", f"--pipeline.size={RANKS}", f"--pipeline.schedule={schedule.option}",
                   f"--pipeline.parts={parts}", f"--pipeline.balance={schedule.balance}"]  # fmt: skip
        program = Shoal(self.arguments.shoal, self.arguments.mpiexec)
        out = self.directory / f"shoal-{schedule.option}"
        result = program.train(self.directory / "W1.cfg", out, options, cpus=self.cpus, ranks=RANKS)
        seconds = statistics.median(result.step_seconds[self.warmup :])
        return Run(self.micro_batches * WORKS["W1"].tokens_per_step / seconds, result.peak_rss_bytes,
                   [loss for _, loss in result.summary["losses"]])  # fmt: skip

    def run(self) -> None:
        sides = {"torch": self.run_peer, "shoal": self.run_shoal}
        for turn in range(self.arguments.rounds):
            for schedule in SCHEDULES:
                for side in sides if turn % 2 == 0 else reversed(sides):
                    self.runs.setdefault((side, schedule.option), []).append(sides[side](schedule))

    def rate(self, side: str, schedule: Schedule) -> float:
        return statistics.median(run.tokens_per_s for run in self.runs[side, schedule.option])

    def lines(self) -> list[Line]:
        name = f"W1 {self.dtype}, 2 stages:"
        lines = [
            Line(f"{name} {side} {schedule.option}", self.rate(side, schedule), "tokens/s",
                 note=f"{max(run.peak_rss_bytes for run in self.runs[side, schedule.option]) / 1e6:.0f} MB a rank")
            for side in ("torch", "shoal") for schedule in SCHEDULES
        ]  # fmt: skip
        for schedule in SCHEDULES:
            lines.append(self.ratio(f"{name} {schedule.option}, shoal / torch", schedule, schedule))
        fastest = {side: max(SCHEDULES, key=lambda schedule: self.rate(side, schedule)) for side in ("torch", "shoal")}
        what = f"{name} shoal's {fastest['shoal'].option} / torch's {fastest['torch'].option}"
        lines.append(self.ratio(f"{what}, the fastest of each", fastest["shoal"], fastest["torch"]))
        for schedule in SCHEDULES:
            shoal, torch = (self.runs[side, schedule.option][0].losses for side in ("shoal", "torch"))
            lines.append(losses_line(f"{name} {schedule.option}", self.dtype, shoal, torch))
        return lines

    def ratio(self, name: str, own: Schedule, other: Schedule) -> Line:
        pairs = zip(self.runs["shoal", own.option], self.runs["torch", other.option], strict=True)
        ratios = [shoal.tokens_per_s / torch.tokens_per_s for shoal, torch in pairs]
        return Line(
            name, statistics.median(ratios), "x", at_least=LEAST, note=f"rounds {min(ratios):.3f} to {max(ratios):.3f}"
        )
