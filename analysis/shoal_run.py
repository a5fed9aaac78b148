# SPDX-License-Identifier: Apache-2.0
"""What one run left in its output directory: summary.json, metrics.jsonl and the trace, each of which may be absent.

A run that is still going has no summary.json; one with trace.level = off has no trace. What is absent is listed in
Run.missing, and what can be had from another source is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from run_options import settled
from shoal_trace import BadInput, Trace

Series = tuple[np.ndarray, np.ndarray]  # steps, values


@dataclass
class Run:
    path: Path
    summary: dict = field(default_factory=dict)
    metrics: list[dict] = field(default_factory=list)
    trace: Trace | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def options(self) -> dict[str, str]:
        """The options as text, from the summary, else from the trace."""
        if self.summary.get("options"):
            return {key: option_text(value) for key, value in self.summary["options"].items()}
        return self.trace.options if self.trace else {}

    @property
    def world_size(self) -> int | None:
        return self.summary.get("world_size") or (self.trace.world_size if self.trace else None)

    def series(self, name: str) -> Series:
        """A column of metrics.jsonl over the steps that have it."""
        rows = [(row["step"], row[name]) for row in self.metrics if row.get(name) is not None]
        return pairs(rows)

    @property
    def losses(self) -> Series:
        return self._longer("losses", "loss")

    @property
    def val_losses(self) -> Series:
        return self._longer("val_losses", "val_loss")

    def _longer(self, in_summary: str, in_metrics: str) -> Series:
        """After a resumption the summary has the last part's steps alone; the metrics have them all."""
        whole, part = self.series(in_metrics), pairs(self.summary.get(in_summary) or [])
        return whole if len(whole[0]) > len(part[0]) else part

    @property
    def entropy_rate(self) -> float | None:
        """The loss that no model can beat, in nats per token, where the data knows it."""
        rates = [source["entropy_rate"] for source in (self.summary, *self.metrics[:1]) if source.get("entropy_rate")]
        return float(rates[0]) if rates else None

    @property
    def tokens_per_step(self) -> float | None:
        try:
            batch, length = float(self.options["batch.global"]), float(self.options["model.block_size"])
        except (KeyError, ValueError):
            return None
        return batch * length if batch > 0 else None

    @property
    def step_seconds(self) -> Series:
        """How long each step took: on the slowest rank by the trace, else as the metrics have it."""
        if self.trace is not None and len(steps := self.trace.of_kind("step")):
            numbers = np.unique(steps["step"])
            slowest = np.zeros(len(numbers))
            np.maximum.at(slowest, np.searchsorted(numbers, steps["step"]), steps["duration_ns"] / 1e9)
            return numbers, slowest
        return self.series("step_s")

    @property
    def mean_step_seconds(self) -> float | None:
        """Over the settled steps: unlike a median it sees the meetings of nodes that train apart. By the trace the mean over
        ranks, which leave a meeting one after another; where it does not have all steps, rank 0's by the metrics."""
        if self.trace is not None and not self.trace.dropped and len(events := self.trace.of_kind("step")):
            chosen = np.isin(events["step"], settled(np.unique(events["step"]), self.options))
            return float(events["duration_ns"][chosen].mean()) / 1e9
        steps, seconds = self.series("step_s")
        return float(seconds[np.isin(steps, settled(steps, self.options))].mean()) if len(steps) else None

    @property
    def tokens_per_s(self) -> Series:
        steps, rates = self.series("tokens_per_s")
        if len(steps) or self.tokens_per_step is None:
            return steps, rates
        steps, seconds = self.step_seconds
        return steps, self.tokens_per_step / seconds

    @staticmethod
    def read(path: str | Path) -> Run:
        """Reads a run's directory, or a trace file alone."""
        path = Path(path)
        if path.is_file():
            return Run(path=path.parent, trace=Trace.read(path), missing=["summary.json", "metrics.jsonl"])
        if not path.is_dir():
            raise BadInput(f"{path}: no such directory")
        run = Run(path=path)
        if (path / "summary.json").is_file():
            run.summary = read_json(path / "summary.json")
        else:
            run.missing.append("summary.json")
        if (path / "metrics.jsonl").is_file():
            run.metrics = read_lines(path / "metrics.jsonl")
        else:
            run.missing.append("metrics.jsonl")
        if trace := newest_trace(path, run.options.get("trace.file", "")):
            run.trace = Trace.read(trace)
        else:
            run.missing.append("trace.h5")
        if len(run.missing) == 3:
            raise BadInput(f"{path}: holds no run: neither summary.json nor metrics.jsonl nor trace.h5")
        return run


def newest_trace(directory: Path, named: str) -> Path | None:
    """The file that trace.file names, else the directory's: of a resumed run, the part that was written last."""
    found = [Path(named)] if named else [*directory.glob("trace.h5"), *directory.glob("trace_from_*.h5")]
    return max((path for path in found if path.is_file()), key=lambda path: path.stat().st_mtime, default=None)


def pairs(rows) -> Series:
    """[[step, value], ...] as two arrays; values that are null (a loss that was not finite) become NaN."""
    steps = np.array([int(step) for step, _ in rows], dtype=int)
    return steps, np.array([np.nan if value is None else value for _, value in rows], dtype=float)


def option_text(value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_json(path: Path) -> dict:
    try:
        value = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{path}: not a JSON object")
    return value


def read_lines(path: Path) -> list[dict]:
    """JSON, a line a step. The last line may still be being written; any other must be whole."""
    rows = []
    lines = path.read_text(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if "step" not in row:
                raise ValueError("no step")
        except (ValueError, TypeError) as error:
            if number == len(lines):
                break
            raise BadInput(f"{path}:{number}: not a step's metrics: {error}") from error
        rows.append(row)
    return rows
