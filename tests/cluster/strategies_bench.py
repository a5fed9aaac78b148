#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs strategies.cfg with every strategy on virtual nodes with slow links, in turn, and compares their step times.

Called by strategies_bench.sh, which starts four nodes. A ratio is of runs of the same round; its median over rounds is
compared with the target. The table and the pictures are those of analysis/strategies.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "analysis")]
from shoal.read.run import Run
from verdicts import Line, conclude, print_lines

DECK = ROOT / "tests" / "cluster" / "strategies.cfg"
GRIDS = {"4x1": (4, 1), "2x2": (2, 2)}  # nodes x ranks per node
# Binds each rank to one core, as job scripts do. All virtual nodes have the same cores, and without this two ranks of a node may
# share one core while the other is idle. The cores are counted here: nproc would answer 1, as OMP_NUM_THREADS says.
CORES = " ".join(map(str, sorted(os.sched_getaffinity(0))))
BOUND_TO_CORE = [
    "bash",
    "-c",
    f'cores=({CORES}); exec taskset --cpu-list "${{cores[PMI_RANK % ${{#cores[@]}}]}}" "$@"',
    "bound",
]
PERIOD = 48  # steps between SlowMo's outer updates
STAGE_3 = {"zero.stage": 3}
ALL_THREE = {**STAGE_3, "zero.hpz_size": "node", "zero.qwz": 8, "zero.qgz": 4}
SLOWMO = {"sync.kind": "slowmo", "sync.localsgd_frequency": PERIOD, "sync.slowmo_frequency": PERIOD,
          "sync.slowmo_momentum": 0.2}  # fmt: skip
LATE = {**SLOWMO, "sync.average_dtype": "int8", "sync.average_overlap": "true", "sync.average_delay": PERIOD // 2}


@dataclass
class Strategy:
    label: str  # as in analysis/strategies.py; {nodes}, as in options, is the number of nodes
    options: dict
    steps: int  # including the first, which is not counted; whole periods if nodes synchronize only sometimes
    least: float | None = None  # target: tokens/s over those of stage 3, if links are the bottleneck
    waits: bool = False  # True if it waits after every PERIOD steps, for a synchronization, and for nothing else
    over_stage1: dict = field(default_factory=dict)  # by grid, the same over those of stage 1
    predicted: tuple[float, float] = (0.85, 1.15)  # target: the step time of `shoal plan` over the measured one

    def label_on(self, grid: str) -> str:
        return self.label.format(nodes=GRIDS[grid][0])

    def options_on(self, grid: str) -> dict:
        return {name: str(value).format(nodes=GRIDS[grid][0]) for name, value in self.options.items()}


STRATEGIES = {
    "stage1": Strategy("stage 1", {"zero.stage": 1}, 6),
    "stage3": Strategy("stage 3", STAGE_3, 5),
    "hpz": Strategy("stage 3 hpZ", {**STAGE_3, "zero.hpz_size": "node"}, 6),
    "zeropp": Strategy("stage 3 hpZ qwZ8 qgZ4", ALL_THREE, 9, least=2.5),
    # A stage on each node. Smaller micro-batches, so that the nodes compute at the same time. The head's weights are those of
    # the embedding, whose gradients two stages make.
    "pipeline": Strategy(
        "stage 1 pipeline {nodes}",
        {"zero.stage": 1, "pipeline.size": "{nodes}", "batch.micro": 2, "model.tied_gradient": "apart"},
        6,
        over_stage1={"2x2": 3},
        predicted=(0.9, 1.1),
    ),
    "sgp": Strategy("SGP", {"sync.kind": "sgp"}, 6),
    "localsgd": Strategy("LocalSGD/3", {"sync.kind": "localsgd", "sync.localsgd_frequency": 3}, 7),
    "slowmo": Strategy("SlowMo/48", SLOWMO, PERIOD + 1, least=6, waits=True),
    "slowmo_bf16": Strategy(
        "SlowMo/48 bf16", {**SLOWMO, "sync.average_dtype": "bf16"}, PERIOD + 1, least=6, waits=True
    ),
    # Half a period more, so that the end of the run, which waits for an average in flight, is not in the mean.
    "slowmo_late": Strategy("SlowMo/48 int8 late", LATE, 2 * PERIOD + PERIOD // 2 + 1, least=6),
}
APART = ({"sync.kind": "localsgd", "sync.localsgd_frequency": 10**6}, PERIOD + 1)  # never synchronize
BOUND = 0.90  # links are the bottleneck if communication is at least this fraction of stage 3's step


class Failed(Exception):
    pass


class Cluster:
    def __init__(self, shoal: str, nice: int):
        self.vcluster, self.shoal, self.nice = os.environ["VCLUSTER"], shoal, nice

    def links(self, gbit: float) -> None:
        subprocess.run([self.vcluster, "shape", str(gbit)], check=True, stdout=subprocess.DEVNULL)

    def shoal_on(self, grid: str, *arguments: str, timeout: int = 400) -> str:
        nodes, each = GRIDS[grid]
        names = ",".join(f"node{i + 1}" for i in range(nodes))
        command = [self.vcluster, "run", "-n", str(nodes * each), "--nodes", names, "--timeout", str(timeout), "--"]
        command += [*BOUND_TO_CORE, "nice", "-n", str(self.nice), self.shoal, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            end = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise Failed(f"{grid}: {' '.join(arguments)}: exit status {done.returncode}\n{end}")
        return done.stdout

    def train(self, out: Path, grid: str, options: dict, steps: int, seed: int) -> Path:
        given = {**options, "train.steps": steps, "train.seed": seed, "output.dir": out, "output.overwrite": "true"}
        self.shoal_on(grid, "train", str(DECK), *(f"--{k}={v}" for k, v in given.items()))
        return out


def step_seconds(out: Path) -> float:
    """Mean of all steps but the first."""
    return Run.read(out).mean_step_seconds


def synchronization_seconds(out: Path) -> float:
    """Mean duration of the synchronizations, on the slowest rank."""
    trace = Run.read(out).trace
    phases = trace.of_kind("phase")
    found = phases[phases["name"] == list(trace.names).index("synchronise")]
    return statistics.mean(max(found["duration_ns"][found["step"] == step]) / 1e9 for step in set(found["step"]))


def run_directory(arguments, grid: str, rate: float, name: str, seed: int) -> Path:
    return arguments.output / "runs" / grid / f"link_{rate:g}" / name / f"seed_{seed}"


def predict(cluster: Cluster, arguments) -> Path:
    """The prediction of `shoal plan` for each run, from collectives that were measured at the first rate only."""
    rows = []
    for grid in arguments.grids:
        nodes, each = GRIDS[grid]
        network = arguments.output / f"network_{grid}.json"
        network.unlink(missing_ok=True)
        cluster.links(arguments.rates[0])
        sizes = ("--max", "4MiB", "--factor", "16", "--repetitions", "3", "--row-seconds", "2")
        cluster.shoal_on(grid, "bench", "comm", "--groups", "node,across", *sizes, "--output", str(network))
        for rate in arguments.rates:
            for name in arguments.strategies:
                strategy, plan = STRATEGIES[name], arguments.output / "plan.json"
                plan.unlink(missing_ok=True)
                command = [
                    cluster.shoal,
                    "plan",
                    str(DECK),
                    *(f"--{k}={v}" for k, v in strategy.options_on(grid).items()),
                ]
                command += ["--network", str(network), "--ranks", str(nodes * each), "--nodes", str(nodes)]
                subprocess.run(
                    [*command, "--link-rate", str(rate), "--json", str(plan)], check=True, stdout=subprocess.DEVNULL
                )
                (asked,) = (row for row in json.loads(plan.read_text())["strategies"] if row["asked"])
                rows.append({"strategy": strategy.label_on(grid), "nodes": nodes, "ranks_per_node": each, "link_gbit": rate,
                             "step_seconds": asked["step_time"]["step_s"]})  # fmt: skip
    file = arguments.output / "predictions.json"
    file.write_text(json.dumps({"rows": rows}, indent=1))
    return file


def measure(cluster: Cluster, arguments) -> list[Path]:
    """Does all runs, round by round, so that strategies which are compared on the same links run one after another."""
    runs = []
    for seed in range(1, arguments.rounds + 1):
        for grid in arguments.grids:
            for rate in arguments.rates:
                cluster.links(rate)
                for name in arguments.strategies:
                    strategy = STRATEGIES[name]
                    out = run_directory(arguments, grid, rate, name, seed)
                    runs.append(
                        cluster.train(out, grid, strategy.options_on(grid), arguments.steps or strategy.steps, seed)
                    )
                    print(
                        f"# {grid}, {rate:g} Gbit/s, {name}, round {seed}: {step_seconds(out):.3f} s a step", flush=True
                    )
            options, steps = APART
            cluster.train(arguments.output / "apart" / grid / f"seed_{seed}", grid, options, steps, seed)
    return runs


def allowed(arguments, grid: str, rate: float, name: str, seed: int) -> float:
    """SlowMo's speed, divided by the most that its synchronizations allow: 1 / (1 + T_sync / (48 T_step))."""
    slowmo = run_directory(arguments, grid, rate, name, seed)
    alone = step_seconds(arguments.output / "apart" / grid / f"seed_{seed}")
    most = 1 / (1 + synchronization_seconds(slowmo) / (PERIOD * alone))
    return alone / step_seconds(slowmo) / most


def against_stage1(arguments, grid: str, rate: float, name: str, seed: int) -> float:
    """Tokens/s, since all steps have the same tokens."""
    stage1, other = (run_directory(arguments, grid, rate, each, seed) for each in ("stage1", name))
    return step_seconds(stage1) / step_seconds(other)


def verdicts_of(arguments, grid: str, rate: float, rows: dict[str, dict]) -> list[Line]:
    """rows: by strategy, of one grid and rate."""
    where, seeds = f"{grid}, {rate:g} Gbit/s", range(1, arguments.rounds + 1)
    exact = rows["stage 3"]
    share = exact["exposed_seconds"]["median"] / exact["step_seconds"]["median"]
    bound = share >= BOUND
    lines = [Line(f"{where}: communication in stage 3's step", share, "of step",
                  note="" if bound else "links are not the bottleneck: no targets for speed")]  # fmt: skip
    for name in arguments.strategies:
        strategy, label = STRATEGIES[name], STRATEGIES[name].label_on(grid)
        ratio, error = rows[label]["ratio"], rows[label]["prediction_error_percent"]
        if name != "stage3":
            lines.append(Line(f"{where}: {label} / stage 3", ratio["median"], "x tokens/s",
                              at_least=strategy.least if bound else None,
                              note=f"{len(seeds)} rounds, {ratio['min']:.2f} to {ratio['max']:.2f}"))  # fmt: skip
        least, most = strategy.predicted
        lines.append(Line(f"{where}: {label}, predicted / measured", 1 + error / 100, at_least=least, at_most=most))
        if strategy.over_stage1 and "stage1" in arguments.strategies:
            of = [against_stage1(arguments, grid, rate, name, seed) for seed in seeds]
            lines.append(Line(f"{where}: {label} / stage 1", statistics.median(of), "x tokens/s",
                              at_least=strategy.over_stage1.get(grid) if bound else None,
                              note=f"{len(seeds)} rounds, {min(of):.2f} to {max(of):.2f}"))  # fmt: skip
        if strategy.waits:
            of = [allowed(arguments, grid, rate, name, seed) for seed in seeds]
            lines.append(Line(f"{where}: {label} / what its synchronizations allow", statistics.median(of), "x tokens/s",
                              at_least=0.95, note=f"{len(seeds)} rounds, {min(of):.2f} to {max(of):.2f}"))  # fmt: skip
    return lines


def verdicts(arguments, rows: list[dict]) -> list[Line]:
    lines = []
    for grid in arguments.grids:
        for rate in arguments.rates:
            place = (*GRIDS[grid], rate)
            here = {row["strategy"]: row for row in rows
                    if (row["nodes"], row["ranks_per_node"], row["link_gbit"]) == place}  # fmt: skip
            lines += verdicts_of(arguments, grid, rate, here)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=os.environ.get("SHOAL", "build/shoal"))
    parser.add_argument("--rates", type=lambda text: [float(rate) for rate in text.split(",")], default=[0.05, 0.1, 0.3],
                        help="link rates in Gbit/s (0.05,0.1,0.3)")  # fmt: skip
    parser.add_argument(
        "--grids", type=lambda text: text.split(","), default=list(GRIDS), help="some of 4x1,2x2 (both)"
    )
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=list(STRATEGIES),
                        help="some of " + ",".join(STRATEGIES))  # fmt: skip
    parser.add_argument(
        "--steps", type=int, help="steps of every run, to compare losses (default: what a step time needs)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of everything (3)")
    parser.add_argument("--nice", type=int, default=0, help="niceness of the ranks, if other work uses the cores")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench-cluster")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is missed")
    arguments = parser.parse_args()
    if "stage3" not in arguments.strategies:
        parser.error("--strategies without stage3: there would be nothing to compare with")
    cluster = Cluster(arguments.shoal, arguments.nice)
    arguments.output.mkdir(parents=True, exist_ok=True)
    try:
        predictions = predict(cluster, arguments)
        runs = measure(cluster, arguments)
    except Failed as failure:
        print(f"FAILED: {failure}")
        return 1
    table = [sys.executable, "-B", str(ROOT / "analysis" / "strategies.py"), *map(str, runs)]
    table += ["--output", str(arguments.output / "strategies"), "--predictions", str(predictions)]
    subprocess.run(table, check=True)
    rows = json.loads((arguments.output / "strategies" / "strategies.json").read_text())["rows"]
    lines = verdicts(arguments, rows)
    print_lines(lines)
    return 1 if conclude(lines) and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
