#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures shoal on W1 (peers/README.md): time by part, products, ranks, stages, trace, memory, start, checkpoints.

usage: bench.py [--shoal build/shoal] [--only parts,stages,...] [--rounds 3] [--steps 12] [--long] [--json FILE] [--strict]

Every line has MET or MISSED where there is a target. What is compared is measured by turns in one run, and the ratio is the
median over turns. Ratios to PyTorch and others are bench_peers.py's. About half an hour; with --long, which measures the
stages and activation checkpointing on W2 too, about an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import interpreter  # noqa: F401  it may start another Python

# isort: split
import measures
from bench_session import Bench
from launch import OtherLoad, RunFailed, Shoal
from verdicts import print_lines
from work import find_text


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", type=Path, default=Path("build/shoal"))
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument(
        "--only", metavar="NAMES", default=",".join(measures.MEASURES), help="of " + ", ".join(measures.MEASURES)
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each comparison (3)")
    parser.add_argument("--steps", type=int, default=12, help="steps of a run (12)")
    parser.add_argument("--long", action="store_true", help="stages and activations on W2 too")
    parser.add_argument("--scratch", type=Path, help="default: bench beside the program")
    parser.add_argument("--text", help="tinyshakespeare; default: where peers/README.md says")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is missed")
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(",")
    if unknown := set(arguments.only) - set(measures.MEASURES):
        parser.error(f"--only {', '.join(sorted(unknown))}: allowed are {', '.join(measures.MEASURES)}")
    if arguments.steps < 6:
        parser.error(f"--steps {arguments.steps}: 6 at least, for quartiles without the first")
    return arguments


def main() -> None:
    arguments = parse()
    scratch = arguments.scratch or arguments.shoal.resolve().parent / "bench"
    text = find_text(arguments.text)
    if text is None:
        print("# tinyshakespeare not found (--text, SHOAL_TEXT): random tokens of the same shape instead")
    lines = []
    try:
        bench = Bench(Shoal(arguments.shoal, arguments.mpiexec), scratch.resolve(), text,
                               sorted(os.sched_getaffinity(0)), arguments.rounds, arguments.steps, arguments.long)  # fmt: skip
        for name in arguments.only:
            load = OtherLoad()
            found = measures.MEASURES[name](bench)
            print(f"# {name} (other jobs took {load.cores():.2f} cores meanwhile)")
            print_lines(found)
            lines += found
    except RunFailed as error:
        sys.exit(f"bench.py: {error}")
    if arguments.json:
        arguments.json.write_text(json.dumps([line.as_json() for line in lines], indent=1) + "\n")
    missed = [line.name for line in lines if line.met is False]
    print(
        f"# {sum(line.met is True for line in lines)} met, {len(missed)} missed"
        + (": " if missed else "")
        + ", ".join(missed)
    )
    sys.exit(1 if missed and arguments.strict else 0)


if __name__ == "__main__":
    main()
