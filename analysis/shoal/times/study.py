# SPDX-License-Identifier: Apache-2.0
"""Reads study.json of `shoal study`, and groups its points into curves: one strategy under one scaling, by ranks. Under weak
scaling all points of a curve have the same batch per rank."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median

from shoal.read.bad_input import BadInput
from shoal.read.run import Run, read_json
from shoal.times.costs import exposed_seconds

FORMAT, FORMAT_VERSION = "shoal-study", 1


@dataclass(frozen=True)
class Point:
    """All repeats of one point of a study. Seconds and bytes are medians over them."""

    nodes: int
    ranks: int
    micro: int
    batch: int
    tokens: int
    repeats: int
    states: tuple[str, ...]  # of the repeats that are not done
    step_s: tuple[float, ...]  # of each repeat: the mean over its settled steps
    memory: float | None  # of a rank
    exposed_s: float | None  # per step, from traces
    predicted: dict

    @property
    def step(self) -> float | None:
        return median(self.step_s) if self.step_s else None

    @property
    def predicted_step(self) -> float | None:
        return self.predicted.get("step_s")

    def speed(self, step_s: float | None) -> float | None:
        return self.tokens / step_s if step_s else None

    def cost(self, step_s: float | None) -> float | None:
        """Seconds of a node for a million tokens."""
        return 1e6 * self.nodes * step_s / self.tokens if step_s else None


@dataclass(frozen=True)
class Curve:
    strategy: str  # and its batch per rank, if the study has another curve of this strategy and scaling
    scaling: str
    points: tuple[Point, ...]  # by ranks

    def values(self, of: Callable[[Point], float | None]) -> tuple[list[int], list[float]]:
        """The ranks and the values of the points that have one."""
        known = [(point.ranks, value) for point in self.points if (value := of(point)) is not None]
        return [ranks for ranks, _ in known], [value for _, value in known]

    def efficiency(self, point: Point, step: Callable[[Point], float | None]) -> float | None:
        """Tokens/s per rank, as a share of that on the fewest ranks."""
        first = self.points[0]
        base, here = first.speed(step(first)), point.speed(step(point))
        return here / point.ranks / (base / first.ranks) if base and here else None


@dataclass(frozen=True)
class Study:
    directory: Path
    content: dict
    curves: list[Curve]

    @property
    def strategies(self) -> list[str]:
        return list(dict.fromkeys(curve.strategy for curve in self.curves))

    @property
    def scalings(self) -> list[str]:
        return [name for name in ("strong", "weak") if any(curve.scaling == name for curve in self.curves)]

    def of(self, scaling: str) -> list[Curve]:
        return [curve for curve in self.curves if curve.scaling == scaling]


def read_study(directory: Path) -> Study:
    file = directory / "study.json"
    if not file.is_file():
        raise BadInput(f"{directory}: no study.json: not the directory of a `shoal study`")
    content = read_json(file)
    if content.get("format") != FORMAT or content.get("format_version") != FORMAT_VERSION:
        raise BadInput(f"{file}: no results of `shoal study` that this script reads (format_version {FORMAT_VERSION})")
    try:
        grows_with_micro = content.get("options", {}).get("batch.global") in ("auto", "0")
        curves = curves_of(directory, content["points"], grows_with_micro)
        content["study"]["system"], content["machine"]["device"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{file}: is damaged: {type(error).__name__}: {error}") from error
    if not curves:
        raise BadInput(f"{file}: has no points")
    return Study(directory, content, curves)


def curves_of(directory: Path, points: list[dict], grows_with_micro: bool) -> list[Curve]:
    """The fewest ranks of a study decide the batch per rank of weak scaling. If fewer ranks were added to it later, it has
    points with two batches per rank, which are two curves.
    With batch.global = auto a curve's batch per rank is its micro-batch, which may differ along the curve."""
    repeats: dict[tuple, list[dict]] = {}
    for point in points:
        for scaling in point["scalings"]:
            key = (str(point["strategy"]), str(scaling), int(point["ranks"]), int(point["nodes"]), int(point["global"]))
            repeats.setdefault(key, []).append(point)
    curves: dict[tuple, list[Point]] = {}
    for key, same in repeats.items():
        _, scaling, ranks, _, batch = key
        per_rank = Fraction(batch, ranks) if scaling == "weak" and not grows_with_micro else None
        curves.setdefault((*key[:2], per_rank), []).append(point_of(directory, key, same))
    alike = Counter(key[:2] for key in curves)
    return [
        Curve(
            strategy if alike[strategy, scaling] == 1 else f"{strategy} ({float(per_rank):g} sequences per rank)",
            scaling,
            tuple(sorted(of, key=lambda point: (point.ranks, point.nodes))),
        )
        for (strategy, scaling, per_rank), of in curves.items()
    ]


def point_of(directory: Path, key: tuple, repeats: list[dict]) -> Point:
    _, _, ranks, nodes, batch = key
    done = [point for point in repeats if point["measured"] is not None]
    exposed = [seconds for point in done if (seconds := exposed_of(directory, point)) is not None]
    steps = tuple(positive(point["measured"]["step_s"]["mean"]) for point in done)
    return Point(
        nodes=nodes,
        ranks=ranks,
        micro=int(repeats[0]["micro"]),
        batch=batch,
        tokens=int(positive(repeats[0]["tokens_per_step"])),
        repeats=len(repeats),
        states=tuple(str(point["state"]) for point in repeats if point["measured"] is None),
        step_s=steps,
        memory=max((positive(point["measured"]["memory_bytes"]) for point in done), default=None),
        exposed_s=median(exposed) if exposed else None,
        predicted=dict(repeats[0]["predicted"]),
    )


def positive(value) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{value} instead of a number above 0")
    return value


def exposed_of(directory: Path, point: dict) -> float | None:
    """Seconds per step that a rank waited for messages; None if there is no trace from which to tell."""
    path = directory / Path(str(point["name"])).name
    try:
        return exposed_seconds(Run.read(path)) if path.is_dir() else None
    except BadInput:
        return None
