# SPDX-License-Identifier: Apache-2.0
"""Compares shoal with torch on one core, in turn."""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path

from environment import peer_environment
from launch import Shoal, finish, pinned
from losses import losses_line
from verdicts import Line
from work import WORKS

HERE = Path(__file__).resolve().parent
# Targets: shoal's tokens/s over torch's. AdamW, which memory limits in both, is 9 % of W2's step.
SPEED = {("W1", "fp32"): 1.15, ("W2", "fp32"): 1.15, ("W3", "fp32"): 1.15,
         ("W1", "bf16"): 1.8, ("W2", "bf16"): 1.6, ("W3", "bf16"): 1.8}  # fmt: skip
# Targets: peak resident memory over torch's, at most.
MEMORY = {("W1", "fp32"): 0.5, ("W2", "fp32"): 0.75, ("W2", "bf16"): 0.75}


class Pair:
    """One work in one dtype: both programs, run in turn."""

    def __init__(self, arguments, python: Path, shim: Path, work: str, dtype: str):
        self.arguments, self.python, self.shim, self.work, self.dtype = arguments, python, shim, work, dtype
        self.directory = arguments.scratch / work
        self.steps = arguments.warmup + arguments.steps
        self.torch: list[dict] = []
        self.shoal: list = []

    def run_torch(self) -> None:
        command = [self.python, HERE / "peer.py", self.directory, self.work, self.dtype, "--steps",
                   str(self.arguments.steps), "--warmup", str(self.arguments.warmup)]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=peer_environment(self.python, self.shim), preexec_fn=pinned([self.arguments.cpu]))  # fmt: skip
        self.torch.append(json.loads(finish(process, f"peer.py {self.work} {self.dtype}", 3600).splitlines()[-1]))

    def run_shoal(self) -> None:
        deck = self.directory / f"{self.work}.cfg"
        options = [f"--train.steps={self.steps}", f"--train.dtype={self.dtype}"]
        program = Shoal(self.arguments.shoal, self.arguments.mpiexec)
        out = self.directory / f"shoal-{self.dtype}"
        self.shoal.append(program.train(deck, out, options, cpus=[self.arguments.cpu], timeout=3600))

    def run(self) -> None:
        for turn in range(self.arguments.rounds):
            order = (self.run_torch, self.run_shoal)
            for side in order if turn % 2 == 0 else reversed(order):
                side()

    def lines(self) -> list[Line]:
        key, name = (self.work, self.dtype), f"{self.work} {self.dtype}"
        rates = [(s.tokens_per_s, t["tokens_per_s"]) for s, t in zip(self.shoal, self.torch, strict=True)]
        ours, theirs = (statistics.median(side) for side in zip(*rates, strict=True))
        ratios = sorted(shoal / torch for shoal, torch in rates)
        rss = [max(r.peak_rss_bytes for r in self.shoal), max(r["peak_rss_bytes"] for r in self.torch)]
        lines = [
            Line(f"{name} torch", theirs, "tokens/s"),
            Line(f"{name} shoal", ours, "tokens/s"),
            Line(f"{name} shoal / torch", statistics.median(ratios), "x", at_least=SPEED[key],
                 note=f"rounds {ratios[0]:.3f} to {ratios[-1]:.3f}"),
            Line(f"{name} peak memory / torch's", rss[0] / rss[1], "x", at_most=MEMORY.get(key),
                 note=f"{rss[0] / 1e6:.0f} and {rss[1] / 1e6:.0f} MB"),
        ]  # fmt: skip
        if WORKS[self.work].rows == WORKS[self.work].vocabulary:
            shoal = [loss for _, loss in self.shoal[0].summary["losses"]]
            lines.append(losses_line(name, self.dtype, shoal, self.torch[0]["losses"]))
        return lines
