# SPDX-License-Identifier: Apache-2.0
"""Shared by all measures of bench.py: the works as files, runs of the program, and comparisons in turn."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launch import Result, Shoal
from verdicts import Line

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench" / "peers"), str(ROOT / "analysis")]
import export_work
from work import WORKS, Work

LEAST_STEPS = 6  # per run, for quartiles without the first step


@dataclass
class Bench:
    shoal: Shoal
    scratch: Path
    text: Path | None
    cpus: Sequence[int]
    rounds: int
    steps: int
    small: bool = False  # only W1
    decks: dict[tuple[str, int], Path] = field(default_factory=dict)

    def deck(self, work: Work, ranks: int = 1) -> Path:
        """Returns the deck of the work; writes its files on first use."""
        key = (work.name, ranks)
        if key not in self.decks:
            directory = self.scratch / f"{work.name}-{ranks}"
            self.decks[key] = export_work.export(work, directory, seed=1, steps=self.steps, ranks=ranks, text=self.text)
        return self.decks[key]

    def train(self, deck: Path, *options: str, ranks: int = 1) -> Result:
        if not any(option.startswith("--train.steps=") for option in options):
            options = (f"--train.steps={self.steps}", *options)
        return self.shoal.train(deck, self.scratch / "run", options, cpus=self.cpus[:ranks], ranks=ranks)

    def works(self, *names: str) -> list[Work]:
        return [WORKS[name] for name in names if name == "W1" or not self.small]

    def has_two_cores(self) -> bool:
        if len(self.cpus) >= 2:
            return True
        print("SKIPPED: two ranks need two cores")
        return False


def quick(seconds: Sequence[float]) -> float:
    """The lower quartile, which other jobs on the machine influence least."""
    return statistics.quantiles(seconds, n=4)[0]


def settled(result: Result) -> float:
    """Seconds of a step, without the first one, which touches its memory for the first time."""
    return quick(result.step_seconds[1:])


def there_and_back(sides: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Runs each side once, then again in reverse order, and takes the mean of both, so that a drift of the machine's
    speed cancels."""
    names = list(sides)
    first = {name: sides[name]() for name in names}
    second = {name: sides[name]() for name in reversed(names)}
    return {name: (first[name] + second[name]) / 2 for name in names}


def ratio_line(name: str, ratios: Sequence[float], unit: str = "x", note: str = "", **target: float) -> Line:
    """The median over rounds, and their range."""
    spread = f"{len(ratios)} rounds, {min(ratios):.3f} to {max(ratios):.3f}"
    return Line(name, statistics.median(ratios), unit, note="; ".join(filter(None, (spread, note))), **target)
