# SPDX-License-Identifier: Apache-2.0
"""Training on one core, compared with what the core's arithmetic units can do (peak_bench.cpp)."""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench_session import Bench, ratio_line, settled
from launch import RunFailed, finish, pinned
from verdicts import Line
from work import Work

# Target fractions by processor and number type. On other processors the fraction is printed without a target.
GOALS = {"Zen 4": {"fp32": 0.93, "bf16": 0.90}, "Zen 5": {"bf16": 0.80}}
WORKS_WITH_GOALS = ("W1", "W2")


def processor(info: str) -> str:
    """Returns Zen 4, Zen 5 or another, from /proc/cpuinfo. Zen 3 has the same family as Zen 4, but no AVX-512."""
    fields = dict(re.findall(r"^(vendor_id|cpu family|flags)\s*: (.*)$", info, re.MULTILINE))
    if fields.get("vendor_id") != "AuthenticAMD" or "avx512f" not in fields.get("flags", "").split():
        return "another"
    return {"25": "Zen 4", "26": "Zen 5"}.get(fields.get("cpu family", ""), "another")


def of_core(bench: Bench) -> dict[str, float]:
    """GFLOP/s by instruction and by number type."""
    program = bench.shoal.program.parent / "tests" / "bench" / "peak_bench"
    if not program.is_file():
        raise RunFailed(f"{program}: no such program (cmake --build BUILD --target peak_bench)")
    process = subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               preexec_fn=pinned(bench.cpus[:1]))  # fmt: skip
    return {name: float(value) for name, value in map(str.split, finish(process, "peak_bench", 60).splitlines())}


def loops(bench: Bench) -> list[Line]:
    found = [of_core(bench) for _ in range(bench.rounds)]
    return [Line(f"one core: {name}", statistics.median(peak[name] for peak in found), "GFLOP/s")
            for name in found[0]]  # fmt: skip


def share(bench: Bench, work: Work, dtype: str) -> Line:
    """Model FLOPs per second of settled steps on one core, as a fraction of the core's limit, measured in turn."""
    kind = processor(Path("/proc/cpuinfo").read_text())
    shares, reached, limits = [], [], []
    for _ in range(bench.rounds):
        limits.append(of_core(bench)[dtype])
        step = settled(bench.train(bench.deck(work), f"--train.dtype={dtype}"))
        reached.append(work.tokens_per_step * work.flops_per_token / step / 1e9)
        shares.append(reached[-1] / limits[-1])
    goal = GOALS.get(kind, {}).get(dtype) if work.name in WORKS_WITH_GOALS else None
    note = (
        f"{statistics.median(reached):.0f} of {statistics.median(limits):.0f} GFLOP/s; attention counted in full, "
        f"{statistics.median(shares) * causal_part(work):.3f} with its causal half"
    )
    return ratio_line(f"{work.name} {dtype} share of the core's limit", shares, unit="", note=note,
                      **({} if goal is None else {"at_least": goal}))  # fmt: skip


def causal_part(work: Work) -> float:
    """The fraction of the FLOPs (with attention in full) that a causal model needs: a token attends to (block + 1) / 2
    on average."""
    return (6 * work.product_weights + 6 * work.layers * work.width * (work.block + 1)) / work.flops_per_token


def shares(bench: Bench, works: Sequence[Work], dtypes: Sequence[str]) -> list[Line]:
    return [*loops(bench), *(share(bench, work, dtype) for work in works for dtype in dtypes)]
