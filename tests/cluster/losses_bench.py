#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validation losses of the strategies after the same number of tokens, over seeds, on the synthetic chain and on a
text.

Nodes are simulated by comm.ranks_per_node, because links do not change losses: 2 nodes x 2 ranks and 4 x 1. Exact
strategies have the same loss on both. A difference in per cent is relative to the exact run of the same seed; its mean
over seeds is compared with the target.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench")]
from strategies_bench import ALL_THREE, PERIOD, SLOWMO, STAGE_3
from verdicts import Line, conclude, print_lines

RANKS = 4
GRIDS = {"2x2": 2, "4x1": 1}  # ranks per node
LOCALSGD = {"sync.kind": "localsgd", "sync.localsgd_frequency": PERIOD}
STRATEGIES = {"zeropp": ALL_THREE, "localsgd": LOCALSGD, "slowmo": SLOWMO}
AT_MOST = {"zeropp": 0.5, "slowmo": 2, "slowmo_warm": 2}  # per cent above stage 3
# Runs that explain the higher loss of nodes of one rank on a text: with a warm-up, with so frequent means that nodes hardly
# differ, and with twice the learning rate of quickstart.cfg.
HARDLY_APART = {"sync.localsgd_frequency": 3}
TWICE = {"optimizer.lr": 2e-3}
EXPLAINING = {
    "text": {
        "slowmo_warm": {**SLOWMO, "sync.warmup_steps": 3 * PERIOD},
        "slowmo_3": {**SLOWMO, **HARDLY_APART},
        "slowmo_twice": {**SLOWMO, **TWICE},
        "slowmo_3_twice": {**SLOWMO, **HARDLY_APART, **TWICE},
        "stage3_twice": {**STAGE_3, **TWICE},
    }
}


class Losses:
    def __init__(self, arguments, corpus: str, given: dict):
        self.arguments, self.corpus, self.given = arguments, corpus, given

    def train(self, name: str, grid: str, options: dict, seed: int) -> dict:
        steps = self.arguments.steps
        out = self.arguments.output / "losses" / self.corpus / f"{name}_{grid}_seed_{seed}"
        given = {
            "train.steps": steps, "schedule.total_steps": steps, "train.eval_every": steps, "train.eval_batches": 8,
            "train.seed": seed, "train.dtype": "bf16", "comm.reduce_dtype": "bf16", "batch.micro": 8,
            "comm.ranks_per_node": GRIDS[grid], "checkpoint.last": "false", "trace.level": "steps",
            "output.dir": out, "output.overwrite": "true",
        }  # fmt: skip
        command = [self.arguments.mpiexec, "-n", str(RANKS), self.arguments.shoal, "train"]
        command += [str(ROOT / "inputs/quickstart.cfg")]
        command += [f"--{key}={value}" for key, value in {**given, **self.given, **options}.items()]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "SHOAL_COMM_WAIT": "sleep"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1200)
        if done.returncode != 0:
            sys.exit(f"FAILED: {' '.join(command)}\n{done.stderr}")
        summary = json.loads((out / "summary.json").read_text())
        loss = summary["val_losses"][-1][1]
        print(f"# {self.corpus}, {name}, {grid}, seed {seed}: validation loss {loss:.4f}", flush=True)
        return {"loss": loss, "checksum": summary["params_checksum"]}

    def lines(self) -> list[Line]:
        seeds = range(1, self.arguments.seeds + 1)
        exact = [self.train("stage3", "2x2", STAGE_3, seed) for seed in seeds]
        near = self.train("hpz", "2x2", {**STAGE_3, "zero.hpz_size": "node"}, 1)
        same = near["checksum"] == exact[0]["checksum"]
        bits = Line(f"{self.corpus}: hpZ has stage 3's parameters bit by bit", float(same), at_least=1)
        reference = [run["loss"] for run in exact]
        lines = [Line(f"{self.corpus}: validation loss of stage 3", statistics.mean(reference), "nats",
                      note=spread(reference)), bits]  # fmt: skip
        found = {(name, grid): [self.train(name, grid, options, seed)["loss"] for seed in seeds]
                 for name, options in STRATEGIES.items() for grid in GRIDS}  # fmt: skip

        def above(name: str, grid: str, losses: list[float]) -> Line:
            off = [100 * (loss / of - 1) for loss, of in zip(losses, reference, strict=True)]
            return Line(f"{self.corpus}: {name} {grid} above stage 3", statistics.mean(off), "%", at_most=AT_MOST.get(name),
                        note=f"{spread(off)} %")  # fmt: skip

        for (name, grid), losses in found.items():
            lines.append(above(name, grid, losses))
        for grid in GRIDS:
            gain = [
                100 * (1 - slow / local)
                for slow, local in zip(found["slowmo", grid], found["localsgd", grid], strict=True)
            ]
            lines.append(Line(f"{self.corpus}: SlowMo {grid} below LocalSGD", statistics.mean(gain), "%", at_least=0,
                              note=f"{spread(gain)} %"))  # fmt: skip
        for name, options in EXPLAINING.get(self.corpus, {}).items():
            losses = [self.train(name, "4x1", options, seed)["loss"] for seed in seeds]
            lines.append(above(name, "4x1", losses))
        for name in STRATEGIES:
            more = statistics.mean(found[name, "2x2"]) - statistics.mean(found[name, "4x1"])
            apart = max(found[name, "4x1"]) - min(found[name, "4x1"])
            lines.append(Line(f"{self.corpus}: {name} 2x2 above 4x1", more, "nats", at_most=apart,
                              note="target: the spread of the seeds"))  # fmt: skip
        return lines


def spread(values: list[float]) -> str:
    return f"{len(values)} seeds, {min(values):.4g} to {max(values):.4g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=os.environ.get("SHOAL_BINARY", str(ROOT / "build/shoal")))
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--corpora", nargs="+", choices=["chain", "text"], default=["chain", "text"])
    parser.add_argument("--text", type=Path, default=ROOT.parent / "shared" / "data" / "tinyshakespeare.txt")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench-cluster")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is missed")
    arguments = parser.parse_args()
    corpora = {"chain": {}}
    if arguments.text.is_file():
        text = {
            "data.source": arguments.text,
            "data.tokenizer": "chars",
            "model.vocab_size": "auto",
            "data.val_fraction": 0.1,
        }
        corpora["text"] = text
    else:
        print(f"SKIPPED: no text: {arguments.text} is missing")
    wanted = [corpus for corpus in arguments.corpora if corpus in corpora]
    lines = [line for corpus in wanted for line in Losses(arguments, corpus, corpora[corpus]).lines()]
    print_lines(lines)
    return 1 if conclude(lines) and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
