# SPDX-License-Identifier: Apache-2.0
"""Reads the output directory of a run: summary.json, metrics.jsonl and traces, each of which may be absent.

A run that is still going has no summary.json. A run with trace.level = off has no trace. A run that was resumed has one
trace per part, and the summary.json of the last part. Run.missing lists the absent files; values that another file has
are read from there.

All rates that these scripts show are computed in one way: the tokens of a step, divided by the mean time of the settled
steps, which summary.json names. The time in which nodes synchronize is included. A run that was resumed on other ranks or with
another batch has a rate for each part. (tokens_per_s in summary.json is that of the median step.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from shoal.read.bad_input import BadInput
from shoal.read.clocks import aligned
from shoal.read.printable import printable_values
from shoal.read.run_parts import in_order, read_parts, title, without_first
from shoal.read.trace import Trace

Series = tuple[np.ndarray, np.ndarray]  # steps, values


@dataclass
class Run:
    path: Path
    summary: dict = field(default_factory=dict)
    record: dict = field(default_factory=dict)  # run.json: what the last start of the run wrote about itself
    metrics: list[dict] = field(default_factory=list)
    parts: list[Trace] = field(default_factory=list)  # in the order of their steps
    begun: list[Trace] = field(default_factory=list)  # all traces, in the order of their start
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # traces that are not among the parts, and why

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def trace(self) -> Trace | None:
        """The trace of the last part, which may be the only one."""
        return self.parts[-1] if self.parts else None

    @property
    def newest(self) -> Trace | None:
        """The trace that was started last."""
        return self.begun[-1] if self.begun else None

    @property
    def options(self) -> dict[str, str]:
        """The options as text, from the summary or, without one, from the trace or run.json."""
        if self.summary.get("options"):
            return {key: option_text(value) for key, value in self.summary["options"].items()}
        if self.trace:
            return self.trace.options
        return {key: option_text(value) for key, value in self.record.get("options", {}).items()}

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the options that differ from their defaults, as far as known."""
        return self.trace.changed if self.trace and self.trace.changed else tuple(self.record.get("changed", ()))

    @property
    def world_size(self) -> int | None:
        in_files = self.summary.get("world_size") or self.record.get("world_size")
        return self.trace.world_size if self.trace else in_files

    @property
    def nodes(self) -> int:
        """1 if unknown."""
        return self.trace.nodes if self.trace else int(self.record.get("nodes", 1))

    def about(self, name: str) -> str:
        """What the last part says of itself: version, data, parameters, device, threads, started; empty if unknown."""
        if self.trace:
            found = self.trace.attributes.get(name) or self.trace.machine.get(name)
            if found:
                return found
        return str(self.record.get(name, self.summary.get(name, "")))

    def series(self, name: str) -> Series:
        """A column of metrics.jsonl, for the steps that have it."""
        rows = [(row["step"], row[name]) for row in self.metrics if name in row]
        return pairs(rows)

    @property
    def losses(self) -> Series:
        return self._longer("losses", "loss")

    @property
    def val_losses(self) -> Series:
        return self._longer("val_losses", "val_loss")

    def _longer(self, in_summary: str, in_metrics: str) -> Series:
        """Returns the series with more steps. The summary has only the steps of the last part, the metrics have all
        steps."""
        whole, part = self.series(in_metrics), pairs(self.summary.get(in_summary) or [])
        return whole if len(whole[0]) > len(part[0]) else part

    @property
    def entropy_rate(self) -> float | None:
        """The best possible loss in nats per token, if the data has a known one."""
        rates = [source["entropy_rate"] for source in (self.summary, *self.metrics[:1]) if source.get("entropy_rate")]
        return float(rates[0]) if rates else None

    def tokens_of(self, steps: np.ndarray) -> np.ndarray:
        """The tokens of each of these steps, NaN if unknown: by the metrics, or else by the options of the part that made the
        step, since a resumed run may have another batch than before."""
        tokens = np.full(len(steps), tokens_per_step(self.options))
        for part in self.parts:
            if len(part.steps):
                tokens[steps >= part.steps[0]] = tokens_per_step({**self.options, **part.options})
        rows = [row for row in self.metrics if row.get("tokens_per_s") and row.get("step_s")]
        measured = {row["step"]: float(round(row["tokens_per_s"] * row["step_s"])) for row in rows}
        return np.array([measured.get(step, by_options) for step, by_options in zip(steps, tokens, strict=True)])

    @property
    def starts(self) -> list[int]:
        """The first step of every part, as far as known."""
        starts = {int(part.steps[0]) for part in self.parts if len(part.steps)}
        return sorted(starts | {int(step) for step, _ in self.summary.get("losses", [])[:1]})

    @property
    def step_seconds(self) -> Series:
        """Seconds of each step. The traces give those of the slowest rank. If they lack steps, the metrics give those of
        rank 0."""
        by_metrics = self.series("step_s")
        found = [slowest_of(part) for part in self.parts]
        steps, seconds = (np.concatenate(columns) for columns in zip(*found, strict=True)) if found else by_metrics
        return (steps, seconds) if len(steps) >= len(by_metrics[0]) else by_metrics

    @property
    def summary_is_of_last_part(self) -> bool:
        """True if the run was resumed and its summary, the source of memory and bytes, has fewer steps than its other files."""
        first = [step for step, _ in self.summary.get("losses", [])[:1]]
        steps = self.step_seconds[0]
        return bool(first) and len(steps) > 0 and bool(steps[0] < first[0])

    @property
    def settled_steps(self) -> np.ndarray:
        """The steps that means are taken over: those that the summary names, or else all but the first of each part."""
        steps = self.step_seconds[0]
        named = steps[np.isin(steps, self.named_as_settled)]
        pieces = np.split(steps, np.searchsorted(steps, self.starts))
        return named if len(named) else np.concatenate([without_first(piece) for piece in pieces])

    @property
    def named_as_settled(self) -> np.ndarray:
        """The settled steps that the summary names; empty if it does not, or if the run has gone on since."""
        ranges = (self.summary.get("settled") or {}).get("steps") or []
        steps = self.step_seconds[0]
        last = last_step(self.summary)
        goes_on = last is not None and len(steps) > 0 and int(steps[-1]) > last
        found = [np.arange(int(first), int(last) + 1) for first, last in ranges]
        return np.concatenate(found) if found and not goes_on else np.array([], int)

    @property
    def period(self) -> int:
        """Number of steps after which the pattern of synchronizations repeats, by the summary; 1 if every step is the same."""
        return int((self.summary.get("settled") or {}).get("period", 1))

    @property
    def unsettled(self) -> str:
        """Why means are over other steps than the settled ones; "" if they are not."""
        if len(self.named_as_settled) or not len(self.step_seconds[0]):
            return ""
        if not self.summary:
            why = "there is none"
        else:
            why = "it is that of an earlier part" if self.summary.get("settled") else "of an older version"
        return f"no settled steps in summary.json ({why}): means are over all steps but the first of each part"

    @property
    def mean_step_seconds(self) -> float | None:
        """Mean over the settled steps. Unlike a median it includes the synchronizations of nodes that train locally.
        From the traces it is also the mean over ranks, which do not leave a synchronization at the same time; if the
        traces lack steps, it is that of rank 0, from the metrics."""
        return self._mean_seconds(self.settled_steps)

    def _mean_seconds(self, chosen: np.ndarray) -> float | None:
        means = [seconds[np.isin(steps, chosen)] for steps, seconds in map(mean_of, self.parts)]
        if sum(map(len, means)) == len(chosen) > 0 and not any(part.dropped for part in self.parts):
            return float(np.concatenate(means).mean())
        steps, seconds = self.series("step_s")
        seconds = seconds[np.isin(steps, chosen)]
        return float(seconds.mean()) if len(seconds) else None

    @property
    def moved(self) -> str:
        """Why the parts of the run have no rate in common: how it was resumed, on other ranks or nodes or with another batch;
        "" if they have one."""
        if len({(part.world_size, part.nodes) for part in self.parts}) > 1:
            return f"on other ranks ({', then '.join(map(title, self.parts))})"
        tokens = self.tokens_of(self.step_seconds[0])
        different = dict.fromkeys(tokens[np.isfinite(tokens)])
        batches = ", then ".join(f"{batch:,.0f}" for batch in different)
        return f"with another batch ({batches} tokens per step)" if len(different) > 1 else ""

    @property
    def throughput(self) -> float | None:
        """Tokens/s of all ranks together. If the parts of the run have no rate in common, that of the last part."""
        if self.moved and self.rates_of_parts:
            return self.rates_of_parts[-1][1]
        return self._rate(self.settled_steps)

    def _rate(self, steps: np.ndarray) -> float | None:
        seconds = self._mean_seconds(steps)
        tokens = float(self.tokens_of(steps).mean()) if seconds else np.nan
        return tokens / seconds if tokens > 0 else None

    @property
    def rates_of_parts(self) -> list[tuple[np.ndarray, float]]:
        """For every part: its settled steps and its tokens/s, computed as `throughput`."""
        found = []
        for steps in np.split(self.settled_steps, np.searchsorted(self.settled_steps, self.starts)):
            if rate := self._rate(steps):
                found.append((steps, rate))
        return found

    @property
    def tokens_per_s(self) -> Series:
        steps, rates = self.series("tokens_per_s")
        if len(steps):
            return steps, rates
        steps, seconds = self.step_seconds
        tokens = self.tokens_of(steps)
        known = np.isfinite(tokens)
        return steps[known], tokens[known] / seconds[known]

    @property
    def utilization(self) -> Series:
        """The model's operations per second by step, as a share of the measured peak of all ranks of its part."""
        steps, rates = self.tokens_per_s
        shares = np.full(len(steps), np.nan)
        for part in self.parts:
            try:
                peak = float(part.machine["peak GFLOP/s per rank"]) * 1e9 * part.world_size
                flops = float(part.machine["FLOP per token"])
            except (KeyError, ValueError):
                continue
            if peak > 0 and len(part.steps):
                chosen = steps >= part.steps[0]
                shares[chosen] = rates[chosen] * flops / peak
        known = np.isfinite(shares)
        return steps[known], shares[known]

    @staticmethod
    def read(path: str | Path) -> Run:
        """Reads a run's directory, or a single trace file."""
        path = Path(path)
        if path.is_file():
            alone = in_order([aligned(Trace.read(path))])
            return Run(path.parent, parts=alone.traces, begun=alone.begun, missing=["summary.json", "metrics.jsonl"])
        if not path.is_dir():
            raise BadInput(f"{path}: no such directory or trace")
        run = Run(path=path)
        if (path / "summary.json").is_file():
            run.summary = figures_of_steps(read_json(path / "summary.json"))
        else:
            run.missing.append("summary.json")
        if (path / "run.json").is_file():
            run.record = read_json(path / "run.json")
        if (path / "metrics.jsonl").is_file():
            run.metrics = read_lines(path / "metrics.jsonl")
        else:
            run.missing.append("metrics.jsonl")
        options = run.options
        parts = read_parts(path, options.get("trace.file", ""), options.get("output.dir", ""))
        run.parts, run.begun, run.notes = parts.traces, parts.begun, parts.notes
        if not run.parts:
            run.missing.append("trace.h5")
        settled = run.named_as_settled
        run.parts = [replace(part, settled=settled) for part in run.parts]
        if len(run.missing) == 3:
            raise BadInput(
                "; ".join(run.notes) or f"{path}: holds no run: neither summary.json nor metrics.jsonl nor trace.h5"
            )
        return run


def last_step(summary: dict) -> int | None:
    """The last step that the summary knows of. If no steps were left to do, it is the step of the checkpoint."""
    resumed = summary.get("resumed_from") or {}
    return max((int(step) for step, _ in summary.get("losses", [])), default=resumed.get("step"))


def figures_of_steps(summary: dict) -> dict:
    """Returns the summary without memory and bytes if it is of a start that had no steps left: they are not those of the steps."""
    verdict = summary.get("verdict")
    if not isinstance(verdict, dict) or verdict.get("steps_made") != 0:
        return summary
    return {key: value for key, value in summary.items() if key not in ("peak_rss_bytes", "comm_bytes_per_step")}


def tokens_per_step(options: dict[str, str]) -> float:
    """NaN if the options do not tell."""
    try:
        batch, length = float(options["batch.global"]), float(options["model.block_size"])
    except (KeyError, ValueError):
        return np.nan
    return batch * length if batch > 0 else np.nan


def slowest_of(trace: Trace) -> Series:
    """Seconds of each step on the rank that took longest."""
    events = trace.of_kind("step")
    numbers = np.unique(events["step"])
    slowest = np.zeros(len(numbers))
    np.maximum.at(slowest, np.searchsorted(numbers, events["step"]), events["duration_ns"] / 1e9)
    return numbers, slowest


def mean_of(trace: Trace) -> Series:
    """Seconds of each step, the mean over ranks."""
    events = trace.of_kind("step")
    numbers, places, counts = np.unique(events["step"], return_inverse=True, return_counts=True)
    return numbers, np.bincount(places, weights=events["duration_ns"] / 1e9, minlength=len(numbers)) / counts


def pairs(rows) -> Series:
    """[[step, value], ...] as two arrays; values that are null (a loss that was not finite) become NaN."""
    steps = np.array([int(step) for step, _ in rows], dtype=int)
    return steps, np.array([np.nan if value is None else value for _, value in rows], dtype=float)


def option_text(value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_json(path: Path) -> dict:
    try:
        value = printable_values(json.loads(path.read_text()))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{path}: not a JSON object")
    return value


def read_lines(path: Path) -> list[dict]:
    """Reads one JSON object per line and step. The last line may be incomplete, because the run may be writing it."""
    rows = []
    lines = path.read_text(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = printable_values(json.loads(line))
            if not isinstance(row, dict) or not isinstance(row.get("step"), int):
                raise ValueError("no step")
        except (ValueError, TypeError) as error:
            if number == len(lines):
                break
            raise BadInput(f"{path}:{number}: not a step's metrics: {error}") from error
        rows.append(row)
    return rows


def read_metrics(directory: Path) -> list[dict]:
    """The newest line of every step. A resumed run repeats the steps after its checkpoint."""
    path = directory / "metrics.jsonl"
    if not path.is_file():
        return []
    rows = {row["step"]: row for row in read_lines(path)}
    return [rows[step] for step in sorted(rows)]
