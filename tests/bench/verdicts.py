# SPDX-License-Identifier: Apache-2.0
"""A measured value and its target, as a line that ends in MET or MISSED."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Line:
    name: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    required: bool = False  # what misses this target is no comparison, and so has failed

    def __post_init__(self):
        self.value = float(self.value)  # comparisons of numpy's numbers give a type that json cannot write

    @property
    def met(self) -> bool | None:
        """None if there is no target."""
        if self.at_least is None and self.at_most is None:
            return None
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    @property
    def verdict(self) -> str:
        return {True: "MET", False: "MISSED", None: ""}[self.met]

    @property
    def target(self) -> str:
        bounds = ((">=", self.at_least), ("<=", self.at_most))
        return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)

    def cells(self) -> tuple[str, ...]:
        value = f"{self.value:,.0f}" if abs(self.value) >= 1000 else f"{self.value:.3g}"
        return self.name, value, self.unit, self.target, self.verdict, self.note

    def as_json(self) -> dict:
        return {"name": self.name, "value": self.value, "unit": self.unit, "target": self.target, "met": self.met,
                "note": self.note}  # fmt: skip


def print_lines(lines: list[Line]) -> None:
    rows = [("# what", "value", "unit", "target", "verdict", "note"), *(line.cells() for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), row[1].rjust(widths[1])]
        cells += [cell.ljust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        print("  ".join(cells).rstrip(), flush=True)


def unmet(lines: list[Line]) -> list[str]:
    """The names of lines that are required and have missed their target."""
    return [line.name for line in lines if line.required and line.met is False]


def conclude(lines: list[Line], failed: Sequence[str] = ()) -> bool:
    """Prints how many targets were met, which were missed, and what failed. Returns True if any was missed."""
    missed = [line.name for line in lines if line.met is False]
    print(f"# {sum(line.met is True for line in lines)} met, {len(missed)} missed{listed(missed)}")
    if failed:
        print(f"# {len(failed)} failed{listed(failed)}")
    return bool(missed)


def listed(names: Sequence[str]) -> str:
    return ": " + ", ".join(names) if names else ""
