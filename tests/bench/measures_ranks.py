# SPDX-License-Identifier: Apache-2.0
"""Two ranks with a core each: what communication costs, and what each ZeRO stage and the order of sums add to it."""

from __future__ import annotations

from bench_session import LEAST_STEPS, Bench, ratio_line, settled, there_and_back
from launch import finish
from verdicts import Line
from work import Work

# Targets: tokens/s of a stage, divided by those of stage 0.
STAGES = {1: 0.98, 2: 0.98, 3: 0.95}


def scaling(bench: Bench, work: Work) -> list[Line]:
    """Two ranks, compared with two runs of one rank at the same time: what communication costs."""
    if not bench.has_two_cores():
        return []
    options = (f"--train.steps={bench.steps}",)
    ratios = []
    for turn in range(bench.rounds):

        def together() -> float:
            return bench.train(bench.deck(work, 2), ranks=2).tokens_per_s

        def apart() -> float:
            outs = [bench.scratch / f"alone{i}" for i in (0, 1)]
            running = [
                bench.shoal.start(bench.deck(work), out, options, cpus=[bench.cpus[i]]) for i, out in enumerate(outs)
            ]
            logs = [finish(process, "shoal train, one of two", 900) for process in running]
            return sum(bench.shoal.result(out, log, 0).tokens_per_s for out, log in zip(outs, logs, strict=True))

        if turn % 2 == 0:
            two, alone = together(), apart()
        else:
            alone, two = apart(), together()
        ratios.append(two / alone)
    return [ratio_line(f"{work.name} two ranks / two that do not communicate", ratios, at_least=0.97)]


def stages(bench: Bench, work: Work, dtype: str) -> list[Line]:
    """Stages 1 to 3 compared with stage 0; in each round forwards and backwards."""
    if not bench.has_two_cores():
        return []
    deck = bench.deck(work, 2)

    # A step of W2 takes seconds, and little of it is outside products, so fewer steps are enough.
    steps = bench.steps if work.name == "W1" else max(LEAST_STEPS, bench.steps // 2)
    options = (f"--train.steps={steps}", f"--train.dtype={dtype}")

    def run(stage: int):
        return lambda: settled(bench.train(deck, *options, f"--zero.stage={stage}", ranks=2))

    turns = [there_and_back({str(stage): run(stage) for stage in (0, *STAGES)}) for _ in range(bench.rounds)]
    return [
        ratio_line(f"{work.name} {dtype} stage {stage} / stage 0", [turn["0"] / turn[str(stage)] for turn in turns],
                   note="tokens/s", at_least=least)
        for stage, least in STAGES.items()
    ]  # fmt: skip


def order_of_sums(bench: Bench, work: Work, stage: int) -> list[Line]:
    """The cost of comm.collectives=reproducible, compared with native."""
    if not bench.has_two_cores():
        return []
    deck = bench.deck(work, 2)

    def run(collectives: str):
        options = (f"--zero.stage={stage}", f"--comm.collectives={collectives}")
        return lambda: settled(bench.train(deck, *options, ranks=2))

    turns = [there_and_back({name: run(name) for name in ("reproducible", "native")}) for _ in range(bench.rounds)]
    costs = [turn["reproducible"] / turn["native"] - 1 for turn in turns]
    return [ratio_line(f"{work.name} stage {stage} reproducible sums cost", costs, "of step", at_most=0.03)]
