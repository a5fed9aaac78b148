#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures shoal on W1 (peers/README.md): time by part, the fraction of a core's limit, products, ranks, stages, pipelines,
trace, memory, start, checkpoints, and portable kernels over tuned ones.

usage: bench.py [--shoal build/shoal] [--only parts,stages,...] [--rounds 3] [--steps 12] [--quick] [--json FILE]
[--strict]

Every line that has a target ends in MET or MISSED. Whatever is compared is measured in turn in one run, and the ratio
is the median over rounds. bench_peers.py has the ratios to PyTorch and others. Takes an hour and a half; --quick shows in
minutes that everything runs. If a measure fails it is named, the others go on, and the exit status is 1.
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
from bench_session import LEAST_STEPS, Bench
from launch import OtherLoad, RunFailed, Shoal
from verdicts import Line, conclude, print_lines
from work import find_text


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", type=Path, default=Path("build/shoal"))
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument(
        "--only", metavar="NAMES", default=",".join(measures.MEASURES), help="some of " + ", ".join(measures.MEASURES)
    )
    parser.add_argument("--rounds", type=int, help="rounds of each comparison (3)")
    parser.add_argument("--steps", type=int, help="steps of a run (12)")
    parser.add_argument(
        "--quick", action="store_true", help=f"one round of {LEAST_STEPS} steps, W1 only: not for final figures"
    )
    parser.add_argument("--scratch", type=Path, help="default: bench beside the program")
    parser.add_argument("--text", help="tinyshakespeare (default: see peers/README.md)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is missed")
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(",")
    if unknown := set(arguments.only) - set(measures.MEASURES):
        parser.error(f"--only {', '.join(sorted(unknown))}: allowed are {', '.join(measures.MEASURES)}")
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.steps = arguments.steps or (LEAST_STEPS if arguments.quick else 12)
    if arguments.steps < LEAST_STEPS:
        parser.error(f"--steps {arguments.steps}: at least {LEAST_STEPS}, for quartiles without the first step")
    return arguments


def measure(bench: Bench, names: list[str]) -> tuple[list[Line], list[str]]:
    """Returns the lines of all measures, and the names of those that failed."""
    lines, failed = [], []
    for name in names:
        load = OtherLoad()
        try:
            found = measures.MEASURES[name](bench)
        except RunFailed as error:
            print(f"# {name} FAILED: {error}", flush=True)
            failed.append(name)
            continue
        print(f"# {name} ({load.describe()})")
        print_lines(found)
        lines += found
    return lines, failed


def main() -> None:
    arguments = parse()
    scratch = arguments.scratch or arguments.shoal.resolve().parent / "bench"
    text = find_text(arguments.text)
    if text is None:
        print("# tinyshakespeare not found (--text, SHOAL_TEXT): random tokens of the same shape instead")
    try:
        shoal = Shoal(arguments.shoal, arguments.mpiexec)
    except RunFailed as error:
        sys.exit(f"bench.py: {error}")
    cpus = sorted(os.sched_getaffinity(0))
    bench = Bench(shoal, scratch.resolve(), text, cpus, arguments.rounds, arguments.steps, arguments.quick)
    lines, failed = measure(bench, arguments.only)
    if arguments.json:
        arguments.json.write_text(json.dumps([line.as_json() for line in lines], indent=1) + "\n")
    sys.exit(1 if (conclude(lines, failed) and arguments.strict) or failed else 0)


if __name__ == "__main__":
    main()
