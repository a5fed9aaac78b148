#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shoal against PyTorch on the same work, one core each, by turns: prints the ratios and whether they meet their targets.

usage: bench_peers.py [--shoal build/shoal] [--work W1,W2,W3] [--dtype fp32,bf16] [--rounds 3] [--json FILE] [--strict]

The first call makes a virtual environment with torch (about 5 GB from PyPI, which brings CUDA's libraries along). A ratio is the
median over rounds of shoal's tokens/s over torch's of the same round; what the hardware does in between changes both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import interpreter  # noqa: F401  it may start another Python

# isort: split
import export_work
from launch import OtherLoad, RunFailed, Shoal, finish, pinned
from verdicts import Line, print_lines
from work import WORKS, find_text

# shoal's tokens/s over torch's, at least. AdamW, which is bound by memory in both, is 9 % of W2's step.
SPEED = {("W1", "fp32"): 1.15, ("W2", "fp32"): 1.15, ("W3", "fp32"): 1.15,
         ("W1", "bf16"): 1.8, ("W2", "bf16"): 1.6, ("W3", "bf16"): 1.8}  # fmt: skip
# Peak resident memory over torch's, at most.
MEMORY = {("W1", "fp32"): 0.5, ("W2", "fp32"): 0.75, ("W2", "bf16"): 0.75}


def environment_python(directory: Path, torch: str) -> Path:
    """The Python of a virtual environment that has torch; made on first use."""
    python = directory / "bin" / "python"
    ready = directory / f"torch-{torch}.ready"
    if not ready.exists():
        print(f"# making {directory} with torch {torch}", flush=True)
        try:
            venv.create(directory, with_pip=True, clear=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", f"torch=={torch}", "numpy", "h5py"], check=True)
        except subprocess.CalledProcessError as error:
            raise RunFailed(
                f"torch {torch} could not be installed in {directory}: {error} (Debian: python3-venv)"
            ) from error
        ready.touch()
    return python


def mkl_shim(directory: Path) -> Path:
    """MKL asks this function of its own whether the processor is Intel's; a preloaded one says yes (README.md)."""
    library = directory / "libmklintel.so"
    if not library.exists():
        source = b"int mkl_serv_intel_cpu_true(void) { return 1; }\n"
        compile_ = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(compile_, input=source, check=True)
    return library


class Pair:
    """One work in one dtype: both programs, run by turns."""

    def __init__(self, arguments, python: Path, shim: Path, work: str, dtype: str):
        self.arguments, self.python, self.shim, self.work, self.dtype = arguments, python, shim, work, dtype
        self.directory = arguments.scratch / work
        self.steps = arguments.warmup + arguments.steps
        self.torch: list[dict] = []
        self.shoal: list = []

    def run_torch(self) -> None:
        command = [self.python, HERE / "peer.py", self.directory, self.work, self.dtype, "--steps",
                   str(self.arguments.steps), "--warmup", str(self.arguments.warmup)]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LD_PRELOAD": str(self.shim)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                                   preexec_fn=pinned([self.arguments.cpu]))  # fmt: skip
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
        apart = max(
            abs(a - b) for (_, a), b in zip(self.shoal[0].summary["losses"], self.torch[0]["losses"], strict=True)
        )
        lines = [
            Line(f"{name} torch", theirs, "tokens/s"),
            Line(f"{name} shoal", ours, "tokens/s"),
            Line(f"{name} shoal / torch", statistics.median(ratios), "x", at_least=SPEED[key],
                 note=f"rounds {ratios[0]:.3f} to {ratios[-1]:.3f}"),
            Line(f"{name} peak memory / torch's", rss[0] / rss[1], "x", at_most=MEMORY.get(key),
                 note=f"{rss[0] / 1e6:.0f} and {rss[1] / 1e6:.0f} MB"),
        ]  # fmt: skip
        if WORKS[self.work].rows == WORKS[self.work].vocabulary:
            lines.append(Line(f"{name} largest difference of losses", apart, "nats"))
        return lines


def listed(text: str, allowed: tuple[str, ...]) -> list[str]:
    chosen = text.split(",")
    if unknown := set(chosen) - set(allowed):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: allowed are {', '.join(allowed)}")
    return chosen


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", type=Path, default=Path("build/shoal"))
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--work", type=lambda s: listed(s, tuple(WORKS)), default=list(WORKS))
    parser.add_argument("--dtype", type=lambda s: listed(s, ("fp32", "bf16")), default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="timed steps of a round (8)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them (2)")
    parser.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)), help="the core that both use")
    parser.add_argument("--torch", default="2.15.0", help="its version")
    parser.add_argument("--python", type=Path, help="a Python that has torch, numpy and h5py; default: --venv's")
    parser.add_argument("--venv", type=Path, help="default: peers-venv beside the program")
    parser.add_argument("--scratch", type=Path, help="default: bench-peers beside the program")
    parser.add_argument("--text", help="tinyshakespeare; default: where README.md says")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is missed")
    arguments = parser.parse_args()
    build = arguments.shoal.resolve().parent
    arguments.venv = arguments.venv or build / "peers-venv"
    arguments.scratch = (arguments.scratch or build / "bench-peers").resolve()
    return arguments


def measure(arguments: argparse.Namespace) -> list[Line]:
    Shoal(arguments.shoal)  # before torch is fetched
    text = find_text(arguments.text)
    if text is None and any(WORKS[name].reads_text for name in arguments.work):
        print("# tinyshakespeare not found (--text, SHOAL_TEXT): random tokens instead; compare speeds, not losses")
    python = arguments.python or environment_python(arguments.venv, arguments.torch)
    lines = []
    for name in arguments.work:
        directory = arguments.scratch / name
        export_work.export(WORKS[name], directory, seed=1, steps=arguments.warmup + arguments.steps, ranks=1, text=text)
        for dtype in arguments.dtype:
            load = OtherLoad()
            pair = Pair(arguments, python, mkl_shim(arguments.scratch), name, dtype)
            pair.run()
            found = pair.lines()
            found[2].note += f"; other jobs took {load.cores():.2f} cores"
            print_lines(found)
            lines += found
    return lines


def main() -> None:
    arguments = parse()
    try:
        lines = measure(arguments)
    except RunFailed as error:
        sys.exit(f"bench_peers.py: {error}")
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
