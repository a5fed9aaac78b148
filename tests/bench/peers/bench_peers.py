#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares shoal with its peers on the same work, in turn. Prints the ratios and whether they meet their targets.

usage: bench_peers.py [--shoal build/shoal] [--only one_rank,two_ranks,pipelines] [--work W1,W2,W3] [--dtype fp32,bf16]
[--rounds 3] [--quick] [--strict]

One rank on one core: compared with torch on each work. Two ranks with a core each, on W1: every ZeRO stage compared
with torch's DDP and FSDP2, DeepSpeed and FairScale over gloo. Pipelines of two ranks, on W1: each schedule compared with
that of torch.distributed.pipelining over gloo. The first call makes a virtual environment with all of them (about 5 GB
from PyPI, because torch comes with CUDA's libraries; only torch unless two_ranks is measured). A ratio is the median over
rounds of shoal's tokens/s over the peer's in the same round, because the speed of the hardware changes between rounds. A
peer of two_ranks that is missing or fails is named and left out. A peer whose losses differ by more than rounding does other
work: the comparison has failed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import interpreter  # noqa: F401  it may start another Python

# isort: split
import export_work
from environment import environment_python, mkl_shim, needs
from launch import OtherLoad, RunFailed, Shoal
from one_rank import Pair
from pipelines import Pipelines
from two_ranks import RANKS, Field
from verdicts import Line, conclude, print_lines, unmet
from work import WORKS, find_text

ON_TWO_CORES = {"two_ranks": Field, "pipelines": Pipelines}
MEASURES = ("one_rank", *ON_TWO_CORES)


def chosen(text: str, allowed: tuple[str, ...]) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(allowed):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: allowed are {', '.join(allowed)}")
    return names


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", type=Path, default=Path("build/shoal"))
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--work", type=lambda s: chosen(s, tuple(WORKS)))
    parser.add_argument("--dtype", type=lambda s: chosen(s, ("fp32", "bf16")), default=["fp32", "bf16"])
    parser.add_argument("--only", type=lambda s: chosen(s, MEASURES), default=list(MEASURES),
                        help="some of " + ", ".join(MEASURES))  # fmt: skip
    parser.add_argument("--rounds", type=int, help="rounds of each comparison (3)")
    parser.add_argument("--steps", type=int, help="timed steps of a round (8)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them (2)")
    parser.add_argument("--quick", action="store_true", help="one round of 3 steps, W1 only: not for final figures")
    parser.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)), help="the core that one rank uses")
    parser.add_argument("--torch", default="2.15.0", help="version of torch")
    parser.add_argument("--python", type=Path, help="a Python with torch, numpy and h5py (default: that of --venv)")
    parser.add_argument("--venv", type=Path, help="default: peers-venv beside the program")
    parser.add_argument("--scratch", type=Path, help="default: bench-peers beside the program")
    parser.add_argument("--text", help="tinyshakespeare (default: see README.md)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is missed")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.steps = arguments.steps or (3 if arguments.quick else 8)
    arguments.work = arguments.work or (["W1"] if arguments.quick else list(WORKS))
    build = arguments.shoal.resolve().parent
    arguments.venv = arguments.venv or build / "peers-venv"
    arguments.scratch = (arguments.scratch or build / "bench-peers").resolve()
    return arguments


def one_rank(arguments: argparse.Namespace, python: Path, text: Path | None) -> list[Line]:
    lines = []
    for name in arguments.work:
        directory = arguments.scratch / name
        export_work.export(WORKS[name], directory, seed=1, steps=arguments.warmup + arguments.steps, ranks=1, text=text)
        for dtype in arguments.dtype:
            load = OtherLoad()
            pair = Pair(arguments, python, mkl_shim(arguments.scratch), name, dtype)
            pair.run()
            found = pair.lines()
            print(f"# {name} {dtype}, 1 rank ({load.describe()})")
            print_lines(found)
            lines += found
    return lines


def on_two_cores(arguments: argparse.Namespace, python: Path, text: Path | None, what: str) -> list[Line]:
    lines = []
    cpus = sorted(os.sched_getaffinity(0))[:RANKS]
    if len(cpus) < RANKS:
        print(f"SKIPPED: {what}: two ranks need two cores")
        return lines
    compared = ON_TWO_CORES[what]
    directory = arguments.scratch / f"W1-{what}"
    steps = sum(compared.steps_of(arguments))
    export_work.export(WORKS["W1"], directory, seed=1, steps=steps, ranks=compared.micro_batches, text=text)
    for dtype in arguments.dtype:
        load = OtherLoad()
        sides = compared(arguments, python, mkl_shim(arguments.scratch), directory, dtype, cpus)
        sides.run()
        print(f"# W1 {dtype}, {what} ({load.describe()})")
        found = sides.lines()
        print_lines(found)
        lines += found
    return lines


def measure(arguments: argparse.Namespace) -> list[Line]:
    Shoal(arguments.shoal)  # before torch is downloaded
    text = find_text(arguments.text)
    if text is None and any(WORKS[name].reads_text for name in arguments.work):
        print("# tinyshakespeare not found (--text, SHOAL_TEXT): random tokens instead; compare speeds, not losses")
    python = arguments.python or environment_python(arguments.venv, arguments.torch, "two_ranks" in arguments.only)
    needs(python, "torch", "numpy", "h5py")
    lines = []
    if "one_rank" in arguments.only:
        lines += one_rank(arguments, python, text)
    for what in ON_TWO_CORES:
        if what in arguments.only and "W1" in arguments.work:
            lines += on_two_cores(arguments, python, text, what)
    return lines


def main() -> None:
    arguments = parse()
    try:
        lines = measure(arguments)
    except RunFailed as error:
        sys.exit(f"bench_peers.py: {error}")
    if arguments.json:
        arguments.json.write_text(json.dumps([line.as_json() for line in lines], indent=1) + "\n")
    failed = unmet(lines)
    sys.exit(1 if (conclude(lines, failed) and arguments.strict) or failed else 0)


if __name__ == "__main__":
    main()
