# SPDX-License-Identifier: Apache-2.0
"""Reads predicted step times: {"rows": [{"strategy", "nodes", "ranks_per_node", "link_gbit", "step_seconds"}, ...]}."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from shoal.read.bad_input import BadInput
from shoal.read.run import read_json
from shoal.times.costs import Row


@dataclass(frozen=True)
class Prediction:
    strategy: str
    nodes: int
    ranks_per_node: int
    link_gbit: float
    step_seconds: float

    @property
    def topology(self) -> tuple[int, int]:
        return self.nodes, self.ranks_per_node

    @property
    def title(self) -> str:
        return f"{self.strategy} on {self.nodes}x{self.ranks_per_node} at {self.link_gbit:g} Gbit/s"

    def of(self, row: Row) -> bool:
        cell = row.cell
        return (
            (row.strategy, cell.nodes, cell.ranks_per_node) == (self.strategy, self.nodes, self.ranks_per_node)
            and cell.link_gbit is not None
            and math.isclose(cell.link_gbit, self.link_gbit)
        )


def read_predictions(path: Path) -> list[Prediction]:
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    rows = read_json(path).get("rows")
    if not isinstance(rows, list):
        raise BadInput(f'{path}: no list "rows"')
    return [_prediction(path, number, row) for number, row in enumerate(rows, 1)]


def _prediction(path: Path, number: int, row) -> Prediction:
    try:
        read = Prediction(str(row["strategy"]), int(row["nodes"]), int(row["ranks_per_node"]), float(row["link_gbit"]),
                          float(row["step_seconds"]))  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path}: row {number}: not a prediction: {type(error).__name__}: {error}") from error
    if not (
        read.link_gbit > 0
        and math.isfinite(read.link_gbit)
        and read.step_seconds > 0
        and math.isfinite(read.step_seconds)
    ):
        raise BadInput(
            f"{path}: row {number}: link_gbit = {read.link_gbit:g}, step_seconds = {read.step_seconds:g}; allowed: above 0"
        )
    return read


def compare_with(predictions: list[Prediction], rows: list[Row]) -> list[Prediction]:
    """Stores each prediction in its row. Returns the predictions for strategies that were not measured."""
    strategies = {row.strategy for row in rows}
    for row in rows:
        for prediction in predictions:
            if prediction.of(row):
                row.predicted_seconds = prediction.step_seconds
    return [prediction for prediction in predictions if prediction.strategy not in strategies]
