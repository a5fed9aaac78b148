# SPDX-License-Identifier: Apache-2.0
"""Two ranks with a core each: layers divided between them, compared with batches divided between them."""

from __future__ import annotations

from bench_session import LEAST_STEPS, Bench, ratio_line, settled, there_and_back
from launch import Result
from measures_memory import STATES, against_plan
from verdicts import Line
from work import Work

STAGES, TURNS = 2, 8  # P, and micro-batches of a step, A
KEPT = 0.95  # target: of the speed that the idle time of a schedule leaves, v A / (v A + P - 1)
SCHEDULES = {"1f1b": ("1f1b", 1), "interleaved": ("interleaved", 2)}  # name: pipeline.schedule, pipeline.parts (v)


def pipelines(bench: Bench, work: Work) -> list[Line]:
    """Both sides make steps of the same tokens from the same micro-batches. W1's head is tied: a pipeline adds the two
    gradients of its weights once a step, since they are made on different ranks."""
    if not bench.has_two_cores():
        return []
    deck = bench.deck(work, STAGES)
    steps = max(LEAST_STEPS, bench.steps // 2)  # each has the work of four of other measures
    common = (f"--train.steps={steps}", f"--batch.global={TURNS * work.batch}")
    results: dict[str, Result] = {}

    def run(name: str, *options: str):
        def seconds() -> float:
            results[name] = bench.train(deck, *common, *options, ranks=STAGES)
            return settled(results[name])

        return seconds

    sides = {"stage 0": run("stage 0", "--zero.stage=0")}
    for name, (schedule, parts) in SCHEDULES.items():
        sides[name] = run(name, "--model.tied_gradient=apart", f"--pipeline.size={STAGES}",
                          f"--pipeline.schedule={schedule}", f"--pipeline.parts={parts}")  # fmt: skip
    turns = [there_and_back(sides) for _ in range(bench.rounds)]
    lines = []
    for name, (_, parts) in SCHEDULES.items():
        passes = parts * TURNS
        ratios = [turn["stage 0"] / turn[name] for turn in turns]
        lines.append(ratio_line(f"{work.name} pipeline of {STAGES}, {name} / stage 0", ratios, note="tokens/s",
                                at_least=KEPT * passes / (passes + STAGES - 1)))  # fmt: skip
        lines.append(against_plan(f"{work.name} pipeline of {STAGES}, {name}", results[name]))
    lines.append(Line(f"{work.name} states of the first of {STAGES} stages / of the whole model", states(results["1f1b"]) /
                      states(results["stage 0"]), "x", at_most=0.55))  # fmt: skip
    return lines


def states(result: Result) -> int:
    """Of rank 0, as summary.json has it."""
    taken = result.summary["state_bytes"]["taken"]
    return sum(taken[kind] for kind in STATES)
