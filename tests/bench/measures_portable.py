# SPDX-License-Identifier: Apache-2.0
"""Portable kernels (kernels/portable) compared with the tuned ones (kernels/cpu): kernel by kernel, and a whole training."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench_session import Bench, ratio_line, settled
from launch import RunFailed, Shoal, finish, pinned
from verdicts import Line
from work import Work

# Each is built on the tuned kernels (NAME), on portable ones launched by Kokkos (NAME_portable), and, if `make kokkos` has
# installed one with OpenMP, on portable ones launched by that (NAME_openmp).
PROGRAMS = ("kernels_bench", "elementwise_bench", "buffers_bench", "quantize_bench")
PAYS_BELOW = 0.97  # if the portable version is at least this fast, the tuned one is not worth keeping


def kernel_by_kernel(bench: Bench) -> list[Line]:
    """Speed of each portable kernel over that of the tuned one, by CPU time on one thread. The two are timed in turn,
    in processes of their own, so that they see the same state of the machine."""
    folder = bench.shoal.program.parent / "tests" / "bench"
    kind = "openmp" if (folder / f"{PROGRAMS[0]}_openmp").is_file() else "portable"
    lines, kokkos = [], ""
    for program in PROGRAMS:
        for name in names(bench, folder / program):
            found = compared(bench, folder / program, folder / f"{program}_{kind}", name)
            pairs = [(tuned.seconds, portable.seconds) for tuned, portable in found]
            note = "{:.3g} ms tuned, {:.3g} ms portable".format(*medians(pairs, 1e3))
            lines.append(ratio_line(name, ratios(pairs), note=note))
            kokkos = found[0][1].kokkos
    return in_groups(lines, kokkos)


def compared(bench: Bench, tuned: Path, portable: Path, name: str) -> list[tuple[Timed, Timed]]:
    return [
        in_turn(turn, lambda: timed(bench, tuned, name), lambda: timed(bench, portable, name))
        for turn in range(bench.rounds)
    ]


def in_turn(turn: int, tuned: Callable, portable: Callable) -> tuple:
    """Runs both, in every other round the portable one first. Returns what tuned and portable return."""
    if turn % 2 == 0:
        return tuned(), portable()
    second = portable()
    return tuned(), second


def ratios(pairs: list[tuple[float, float]]) -> list[float]:
    return [tuned / portable for tuned, portable in pairs]


def medians(pairs: list[tuple[float, float]], scale: float = 1) -> list[float]:
    return [scale * statistics.median(side) for side in zip(*pairs, strict=True)]


def in_groups(lines: list[Line], kokkos: str) -> list[Line]:
    """First the kernels whose tuned version does not pay, then the others; in each group the best portable ones first.
    A line with their number is ahead of each group."""
    ordered = sorted(lines, key=lambda line: -line.value)
    equal = [line for line in ordered if line.value >= PAYS_BELOW]
    slower = ordered[len(equal) :]
    launched = f"of {len(lines)}; portable / tuned speed, one thread, launched by Kokkos {kokkos}"
    return [
        Line(f"tuned version does not pay: {PAYS_BELOW} or more", len(equal), "kernels", note=launched),
        *equal,
        Line(f"tuned version pays: below {PAYS_BELOW}", len(slower), "kernels", note=launched),
        *slower,
    ]


def names(bench: Bench, program: Path) -> list[str]:
    """The benchmarks of a program. They contain no characters with a meaning in regular expressions."""
    return run(bench, program, "--benchmark_list_tests", errors=subprocess.DEVNULL).splitlines()


@dataclass
class Timed:
    seconds: float  # CPU time of a call
    kokkos: str  # its version and backend


def timed(bench: Bench, program: Path, name: str) -> Timed:
    file = bench.scratch / "kernel.json"
    bench.scratch.mkdir(parents=True, exist_ok=True)
    least = 0.001 if bench.small else 0.1  # seconds in which calls are repeated
    run(bench, program, f"--benchmark_filter=^{name}$", f"--benchmark_min_time={least}", f"--benchmark_out={file}",
        "--benchmark_out_format=json")  # fmt: skip
    try:
        found = json.loads(file.read_text())
        (row,) = found["benchmarks"]
        unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[row["time_unit"]]
        return Timed(row["cpu_time"] * unit, found["context"]["Kokkos"])
    except (ValueError, KeyError):
        raise RunFailed(f"{program} has no benchmark {name}: build it anew") from None


def run(bench: Bench, program: Path, *arguments: str, errors: int = subprocess.STDOUT) -> str:
    """Runs the program on one core and returns its output."""
    if not program.is_file():
        raise RunFailed(f"{program}: no such program (cmake --build BUILD --target {program.name})")
    process = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True,
                               env={**os.environ, "OMP_NUM_THREADS": "1"}, preexec_fn=pinned(bench.cpus[:1]))  # fmt: skip
    return finish(process, " ".join((program.name, *arguments)), 600)


def whole(bench: Bench, work: Work, dtype: str) -> list[Line]:
    """Speed of a training by shoal_portable over that by shoal, on one rank, measured in turn."""
    on_portable = replace(bench, shoal=Shoal(bench.shoal.program.with_name("shoal_portable"), bench.shoal.mpiexec))
    deck, option = bench.deck(work), f"--train.dtype={dtype}"
    pairs = [
        in_turn(turn, lambda: settled(bench.train(deck, option)), lambda: settled(on_portable.train(deck, option)))
        for turn in range(bench.rounds)
    ]
    note = "tokens/s; steps of {:.3g} s tuned, {:.3g} s portable".format(*medians(pairs))
    return [ratio_line(f"{work.name} {dtype} portable kernels / tuned ones", ratios(pairs), note=note, at_least=0.1)]
