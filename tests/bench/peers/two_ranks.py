# SPDX-License-Identifier: Apache-2.0
"""Compares every ZeRO stage of shoal with DDP, FSDP2, DeepSpeed and FairScale on two ranks, in turn."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from environment import importable, peer_environment
from launch import RunFailed, Shoal, pinned
from losses import losses_line
from verdicts import Line
from work import WORKS

HERE = Path(__file__).resolve().parent
RANKS = 2
# Peers that keep parameters whole between forward and backward, as stages 0 to 2 do, and peers that do not.
WHOLE = ("ddp", "oss", "fsdp2-zero2", "deepspeed-zero0", "deepspeed-zero1", "deepspeed-zero2")
SHARDED = ("fsdp2-zero3", "deepspeed-zero3")
NO_BF16 = ("oss",)
# Targets: shoal's tokens/s over the fastest peer's, at least; peak resident memory of a rank over the smallest peer's,
# at most.
SPEED = {("whole", "fp32"): 1.25, ("whole", "bf16"): 1.75, ("sharded", "fp32"): 1.35, ("sharded", "bf16"): 1.85}
MEMORY = 0.5


@dataclass
class Run:
    tokens_per_s: float
    peak_rss_bytes: int
    losses: list[float]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(command: Sequence, environment: dict[str, str], cpus: Sequence[int], logs: Path, timeout: float) -> str:
    """Starts a process per rank. Returns what rank 0 printed. If one fails, the others are killed."""
    logs.mkdir(parents=True, exist_ok=True)
    what, files = " ".join(str(part) for part in command[1:]), [logs / f"{rank}.log" for rank in range(RANKS)]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo",
              "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "LOCAL_SIZE": str(RANKS),
              "DS_ACCELERATOR": "cpu"}  # fmt: skip
    processes = []
    for rank in range(RANKS):
        with files[rank].open("w") as log:
            mine = {**environment, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=mine,
                                              preexec_fn=pinned([cpus[rank]])))  # fmt: skip
    begin = time.monotonic()
    while any(process.poll() is None for process in processes):
        failed = any(process.poll() not in (None, 0) for process in processes)
        if failed or time.monotonic() - begin > timeout:
            time.sleep(1)  # the others may print more
            for process in processes:
                process.kill()
                process.wait()
        time.sleep(0.05)
    if any(process.returncode != 0 for process in processes):
        said = next(file for file, process in zip(files, processes, strict=True) if process.returncode != 0).read_text()
        raise RunFailed(f"{what}: a rank failed\n" + "\n".join(said.splitlines()[-8:]))
    return files[0].read_text()


def peer_run(command: Sequence, environment: dict[str, str], cpus: Sequence[int], logs: Path) -> Run:
    """Runs a program whose rank 0 prints a JSON object."""
    said = run_ranks(command, environment, cpus, logs, 900)
    found = next((json.loads(line) for line in reversed(said.splitlines()) if line.startswith("{")), None)
    if found is None:
        raise RunFailed(f"{' '.join(str(part) for part in command[1:])} printed no figures")
    return Run(found["tokens_per_s"], int(found["peak_rss_bytes"]), found["losses"])


class Field:
    """Two ranks on W1 in one dtype: the available peers, and shoal's four stages."""

    micro_batches = RANKS  # of a step

    @staticmethod
    def steps_of(arguments) -> tuple[int, int]:
        """Steps before those that are timed, and these."""
        return arguments.warmup, arguments.steps

    def __init__(self, arguments, python: Path, shim: Path, directory: Path, dtype: str, cpus: Sequence[int]):
        self.arguments, self.python, self.shim, self.cpus = arguments, python, shim, cpus
        self.directory, self.dtype = directory, dtype
        self.steps = sum(self.steps_of(arguments))
        present = {module: importable(python, module) for module in ("deepspeed", "fairscale")}
        for module, there in present.items():
            if not there:
                print(f"SKIPPED: {module} is not installed in {python.parent.parent}")
        left_out = [peer for peer in (*WHOLE, *SHARDED) if peer.startswith("deepspeed") and not present["deepspeed"]]
        left_out += ["oss"] if not present["fairscale"] else []
        left_out += NO_BF16 if dtype == "bf16" else ()
        self.peers = [peer for peer in (*WHOLE, *SHARDED) if peer not in left_out]
        self.runs: dict[str, list[Run]] = {}

    def run_peer(self, peer: str) -> Run:
        command = [self.python, HERE / "peer_ranks.py", self.directory, "W1", self.dtype, peer, "--steps",
                   str(self.arguments.steps), "--warmup", str(self.arguments.warmup)]  # fmt: skip
        environment = peer_environment(self.python, self.shim)
        return peer_run(command, environment, self.cpus, self.directory / "logs" / peer)

    def run_stage(self, stage: int) -> Run:
        options = [f"--train.steps={self.steps}", f"--train.dtype={self.dtype}", f"--zero.stage={stage}"]
        program = Shoal(self.arguments.shoal, self.arguments.mpiexec)
        result = program.train(self.directory / "W1.cfg", self.directory / f"shoal-{stage}", options, cpus=self.cpus,
                               ranks=RANKS)  # fmt: skip
        seconds = statistics.median(result.step_seconds[self.arguments.warmup :])
        return Run(RANKS * WORKS["W1"].tokens_per_step / seconds, result.peak_rss_bytes,
                   [loss for _, loss in result.summary["losses"]])  # fmt: skip

    def run(self) -> None:
        for turn in range(self.arguments.rounds):
            sides = [f"stage {stage}" for stage in range(4)] + self.peers
            for side in sides if turn % 2 == 0 else reversed(sides):
                try:
                    run = self.run_stage(int(side[-1])) if side.startswith("stage") else self.run_peer(side)
                except RunFailed as error:
                    if side.startswith("stage"):
                        raise
                    print(f"SKIPPED: {side}: {error}")
                    self.peers.remove(side)
                    self.runs.pop(side, None)
                    continue
                self.runs.setdefault(side, []).append(run)

    def rate(self, side: str) -> float:
        return statistics.median(run.tokens_per_s for run in self.runs[side])

    def peak(self, side: str) -> int:
        return max(run.peak_rss_bytes for run in self.runs[side])

    def lines(self) -> list[Line]:
        name = f"W1 {self.dtype}, 2 ranks:"
        lines = [
            Line(f"{name} {side}", self.rate(side), "tokens/s", note=f"{self.peak(side) / 1e6:.0f} MB a rank")
            for side in (*self.peers, *(f"stage {stage}" for stage in range(4)))
        ]
        same = {
            side: losses_line(f"{name} {side}", self.dtype, self.runs[side][0].losses, self.runs["stage 0"][0].losses,
                              note="from stage 0")
            for side in (*self.peers, *(f"stage {stage}" for stage in range(1, 4)))
        }  # fmt: skip
        lines += same.values()
        for stage in range(4):
            kind, rivals = ("whole", WHOLE) if stage < 3 else ("sharded", SHARDED)
            rivals = [peer for peer in rivals if peer in self.peers and same[peer].met]
            if rivals:
                lines += self.against(f"stage {stage}", rivals, SPEED[kind, self.dtype], name)
        return lines

    def against(self, stage: str, rivals: Sequence[str], least: float, name: str) -> list[Line]:
        best, smallest = max(rivals, key=self.rate), min(rivals, key=self.peak)
        ratios = [
            own.tokens_per_s / other.tokens_per_s for own, other in zip(self.runs[stage], self.runs[best], strict=True)
        ]
        return [
            Line(f"{name} {stage} / {best}", statistics.median(ratios), "x", at_least=least,
                 note=f"the fastest of {len(rivals)}; rounds {min(ratios):.3f} to {max(ratios):.3f}"),
            Line(f"{name} {stage} peak memory / {smallest}'s", self.peak(stage) / self.peak(smallest), "x", at_most=MEMORY,
                 note="the smallest"),
        ]  # fmt: skip
