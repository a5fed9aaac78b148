#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares simulated steps of strategies.cfg with measured ones, on virtual nodes with slow links.

Called by simulation_bench.sh, which starts four nodes. Each grid's network and speed are measured once, by `shoal bench
comm` at the first of the rates; no training run goes into a prediction. A simulated step is the difference between a
replay of two periods and one of one period, so that what only the beginning of a run waits for is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "tests" / "cluster")]
from strategies_bench import DECK, GRIDS, STRATEGIES, Cluster, Failed, step_seconds
from verdicts import Line, conclude, print_lines

PERIODS = {"localsgd": 3, "slowmo": 48, "slowmo_bf16": 48, "slowmo_late": 48, "sgp": 2}  # steps; others: 1


def measure_network(cluster: Cluster, arguments, grid: str) -> Path:
    network = arguments.output / f"network_{grid}.json"
    network.unlink(missing_ok=True)
    cluster.links(arguments.rates[0])
    sizes = ("--max", "4MiB", "--factor", "16", "--repetitions", "3", "--row-seconds", "2")
    cluster.shoal_on(grid, "bench", "comm", "--groups", "node,across", *sizes, "--output", str(network))
    return network


def replay_seconds(
    cluster: Cluster, out: Path, network: Path, grid: str, rate: float, options: dict, steps: int
) -> float:
    """Simulated seconds of this many steps."""
    nodes, each = GRIDS[grid]
    command = [cluster.shoal, "plan", str(DECK), *(f"--{k}={v}" for k, v in options.items()), "--network", str(network)]
    command += ["--ranks", str(nodes * each), "--nodes", str(nodes), "--link-rate", str(rate)]
    command += ["--trace-out", str(out), "--output.overwrite", "--steps", str(steps)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([out / "replay.sh"], capture_output=True, text=True, timeout=300)
    found = re.findall(r"Simulation time ([0-9.]+)", done.stdout)
    if done.returncode != 0 or not found:
        raise Failed(f"{out}/replay.sh: exit status {done.returncode}\n{done.stdout[-2000:]}")
    return float(found[-1])


def simulate(cluster: Cluster, arguments, network: Path, grid: str, rate: float, name: str) -> float:
    options, steps = STRATEGIES[name].options_on(grid), PERIODS.get(name, 1)
    times = [
        replay_seconds(
            cluster,
            arguments.output / f"replay_{grid}_{rate:g}_{name}_{periods}",
            network,
            grid,
            rate,
            options,
            periods * steps,
        )
        for periods in (1, 2)
    ]
    return (times[1] - times[0]) / steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", default=os.environ.get("SHOAL", "build/shoal"))
    parser.add_argument("--rates", type=lambda text: [float(rate) for rate in text.split(",")], default=[0.05, 0.1],
                        help="link rates in Gbit/s (0.05,0.1)")  # fmt: skip
    parser.add_argument(
        "--grids", type=lambda text: text.split(","), default=list(GRIDS), help="some of 4x1,2x2 (both)"
    )
    parser.add_argument("--strategies", type=lambda text: text.split(","),
                        default=["stage1", "stage3", "zeropp", "localsgd"], help="some of " + ",".join(STRATEGIES))  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of every run (3)")
    parser.add_argument("--nice", type=int, default=0, help="niceness of the ranks, if other work uses the cores")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench-simulation")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is missed")
    arguments = parser.parse_args()
    cluster = Cluster(arguments.shoal, arguments.nice)
    arguments.output.mkdir(parents=True, exist_ok=True)
    lines, rows = [], []
    try:
        for grid in arguments.grids:
            network = measure_network(cluster, arguments, grid)
            for rate in arguments.rates:
                cluster.links(rate)
                for name in arguments.strategies:
                    strategy, simulated = STRATEGIES[name], simulate(cluster, arguments, network, grid, rate, name)
                    out = arguments.output / "runs" / grid / f"link_{rate:g}" / name
                    steps = [
                        step_seconds(
                            cluster.train(out / f"seed_{seed}", grid, strategy.options_on(grid), strategy.steps, seed)
                        )
                        for seed in range(1, arguments.rounds + 1)
                    ]
                    measured = statistics.median(steps)
                    print(f"# {grid}, {rate:g} Gbit/s, {name}: simulated {simulated:.3f} s a step, measured "
                          f"{measured:.3f} s ({min(steps):.3f} to {max(steps):.3f})", flush=True)  # fmt: skip
                    lines.append(Line(f"{grid}, {rate:g} Gbit/s: {strategy.label_on(grid)}, simulated / measured",
                                      simulated / measured, at_least=0.85, at_most=1.15))  # fmt: skip
                    rows.append({"grid": grid, "link_gbit": rate, "strategy": strategy.label_on(grid),
                                 "simulated_s": simulated, "measured_s": steps})  # fmt: skip
    except Failed as failure:
        print(f"FAILED: {failure}")
        return 1
    (arguments.output / "simulation.json").write_text(json.dumps({"rows": rows}, indent=1))
    print_lines(lines)
    return 1 if conclude(lines) and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
