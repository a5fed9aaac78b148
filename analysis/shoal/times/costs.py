# SPDX-License-Identifier: Apache-2.0
"""The costs of strategies: measures single runs, then groups them by strategy, nodes and link rate, over seeds.

The time of a step is the mean over ranks and settled steps (named in summary.json). It includes the synchronizations of nodes
that train locally, which a median would miss.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shoal.read.bad_input import BadInput
from shoal.read.run import Run
from shoal.read.run_options import NAMING, Options, differing_options, name_of
from shoal.times import breakdown

# Options whose values may differ between runs of one strategy: they repeat a run, or simulate the nodes of the cell.
REPEATING = (*NAMING, "train.seed", "comm.ranks_per_node", "comm.wait", "comm.timeout")
LINK = re.compile(r"(?:^|[/_-])link_(\d+(?:\.\d+)?)(?=$|[/_-])")


@dataclass(frozen=True)
class Cell:
    """The nodes, ranks and links that a strategy ran on."""

    nodes: int
    ranks: int
    link_gbit: float | None  # Gbit/s; None: unknown

    @property
    def ranks_per_node(self) -> int | None:
        return self.ranks // self.nodes if self.ranks % self.nodes == 0 else None

    @property
    def topology(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        each = self.ranks_per_node
        if each is None:
            return f"{self.ranks} ranks on {nodes}"
        return f"{nodes} of {each} rank{'' if each == 1 else 's'}"

    @property
    def title(self) -> str:
        return self.topology + (f", links of {self.link_gbit:g} Gbit/s" if self.link_gbit is not None else "")

    @property
    def order(self) -> tuple:
        return -self.nodes, self.ranks, self.link_gbit is not None, self.link_gbit or 0.0


@dataclass
class Measured:
    """The costs of one run."""

    path: Path
    cell: Cell
    strategy: str
    options: Options
    seed: str
    step_seconds: float
    tokens_per_s: float
    tokens: float  # trained on, at the end
    exposed_seconds: float | None  # per step, that a rank waited for messages
    # Bytes per step inside the node and between nodes, of the rank that sends most; None if the last start had no steps left.
    sent: tuple[float | None, float | None]
    sent_in_last_part: bool  # True if the run was resumed and the bytes are those of its last part
    losses: tuple[np.ndarray, np.ndarray]
    val_losses: tuple[np.ndarray, np.ndarray]
    seconds: np.ndarray  # of training until the end of each step in `losses`
    period: int  # steps after which the pattern of synchronizations repeats
    whole_periods: bool  # True if step_seconds is a mean over whole periods of synchronization

    @property
    def steps(self) -> int:
        return int(self.losses[0][-1])

    @property
    def loss(self) -> float:
        return float(self.losses[1][-1])

    @property
    def val_loss(self) -> float | None:
        return float(self.val_losses[1][-1]) if len(self.val_losses[1]) else None


def measure(path: str | Path, link_gbit: float | None) -> Measured:
    """Measures one run. link_gbit is used if the path has no link_RATE."""
    run = Run.read(path)
    for name in ("summary.json", "metrics.jsonl"):
        if name in run.missing:
            raise BadInput(f"{path}: no {name}: the run is still going, or did not end well")
    if run.unsettled:
        raise BadInput(f"{path}: {run.unsettled}; its costs cannot be compared with others'")
    if run.moved:
        raise BadInput(f"{path}: resumed {run.moved}, so it has no single cost")
    steps, seconds = run.series("step_s")
    if not len(steps) or not len(run.losses[0]) or run.throughput is None:
        raise BadInput(f"{path}: no step of training in metrics.jsonl, or no options in summary.json")
    options = run.options
    cell = Cell(nodes_of(run), run.world_size, link_rate_of(path, link_gbit))
    step_seconds = run.mean_step_seconds
    sent = run.summary.get("comm_bytes_per_step")
    return Measured(
        path=run.path,
        cell=cell,
        strategy=name_of(options, cell.ranks_per_node),
        options=options,
        seed=options.get("train.seed", ""),
        step_seconds=step_seconds,
        tokens_per_s=run.throughput,
        tokens=float(run.tokens_of(np.arange(1, run.losses[0][-1] + 1)).sum()),
        exposed_seconds=exposed_seconds(run),
        sent=tuple(
            None if sent is None else sum(each[place] for each in sent.values()) for place in ("intra", "inter")
        ),
        sent_in_last_part=sent is not None and run.summary_is_of_last_part,
        losses=run.losses,
        val_losses=run.val_losses,
        seconds=np.interp(run.losses[0], steps, np.cumsum(seconds)),
        period=run.period,
        whole_periods=len(run.settled_steps) % run.period == 0,
    )


def exposed_seconds(run: Run) -> float | None:
    """The mean over ranks and the steps that the time of a step is a mean of; None without traces of level comm or kernels."""
    if not run.parts or any(part.level not in ("comm", "kernels") for part in run.parts):
        return None
    waited, counts = [], []
    for trace in run.parts:
        steps = np.intersect1d(trace.steps, run.settled_steps)
        parts, seconds = breakdown.step_parts(trace, steps)
        waited.append(float(seconds[parts.index("wait")].mean()) if "wait" in parts else 0.0)
        counts.append(len(steps))
    return float(np.average(waited, weights=counts)) if sum(counts) else None


def nodes_of(run: Run) -> int:
    if run.trace is not None:
        return run.trace.nodes
    each = run.options.get("comm.ranks_per_node", "auto")
    return -(-run.world_size // int(each)) if each.isdigit() else 1


def link_rate_of(path: str | Path, otherwise: float | None) -> float | None:
    """Gbit/s: the last link_RATE in the path."""
    rates = LINK.findall(str(Path(path).absolute()))
    return float(rates[-1]) if rates else otherwise


def measure_all(paths: Iterable[str], link_gbit: float | None) -> list[Measured]:
    """Measures all runs. If some cannot be read, the error lists the problems of all of them."""
    runs, problems = [], []
    for path in paths:
        try:
            if any(run.path.samefile(path) for run in runs if Path(path).exists()):
                raise BadInput(f"{path}: given twice")
            runs.append(measure(path, link_gbit))
        except BadInput as problem:
            problems.append(str(problem))
    if problems:
        raise BadInput("\n".join(problems))
    tell_apart(runs)
    return runs


def tell_apart(runs: list[Measured]) -> None:
    """If runs of one strategy in one cell differ in other options, adds these options to the strategy's name."""
    for name in {run.strategy for run in runs}:
        same = [run for run in runs if run.strategy == name]
        different: set[str] = set()
        for cell in {run.cell for run in same}:
            different.update(differing_options([run.options for run in same if run.cell == cell], REPEATING))
        if different:
            for run in same:
                values = (f"{option}={run.options.get(option, 'unset')}" for option in sorted(different))
                run.strategy = f"{name} [{' '.join(values)}]"


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest value over the runs of a row."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Iterable[float | None]) -> Spread | None:
        """None if a run has no value."""
        values = list(values)
        if not values or any(value is None for value in values):
            return None
        return Spread(float(np.median(values)), float(np.min(values)), float(np.max(values)))


@dataclass
class Row:
    """The runs of one strategy in one cell."""

    strategy: str
    cell: Cell
    runs: list[Measured] = field(default_factory=list)
    base: Row | None = None  # the row of the baseline
    predicted_seconds: float | None = None

    def over_runs(self, value: Callable[[Measured], float | None]) -> Spread | None:
        return Spread.of(value(run) for run in self.runs)

    @property
    def step_seconds(self) -> Spread:
        return self.over_runs(lambda run: run.step_seconds)

    @property
    def sent(self) -> tuple[float | None, ...]:
        """Bytes per step inside the node and between nodes, the medians; None if a run does not tell."""
        spreads = (self.over_runs(lambda run, place=place: run.sent[place]) for place in (0, 1))
        return tuple(spread and spread.median for spread in spreads)

    @property
    def ratio(self) -> Spread | None:
        """tokens/s divided by those of the baseline."""
        return self._relative(lambda run: run.tokens_per_s)

    @property
    def loss_difference(self) -> Spread | None:
        """Loss relative to the baseline's, minus 1; None unless both have seen the same number of tokens. It is the
        validation loss if all runs have one, otherwise the last training loss."""
        if self.base is None or len({run.tokens for run in self.runs + self.base.runs}) > 1:
            return None
        validated = all(run.val_loss is not None for run in self.runs + self.base.runs)
        ratio = self._relative((lambda run: run.val_loss) if validated else (lambda run: run.loss))
        return ratio and Spread(ratio.median - 1, ratio.least - 1, ratio.most - 1)

    @property
    def prediction_error(self) -> float | None:
        """Relative to the measured time."""
        return None if self.predicted_seconds is None else self.predicted_seconds / self.step_seconds.median - 1

    def _relative(self, value: Callable[[Measured], float]) -> Spread | None:
        """Each run's value, divided by the baseline's of the same seed, or by the median of all baselines if none has
        it."""
        if self.base is None:
            return None

        def compared(run: Measured) -> float:
            partners = [other for other in self.base.runs if other.seed == run.seed] or self.base.runs
            return value(run) / float(np.median([value(other) for other in partners]))

        return self.over_runs(compared)


def rows_of(runs: list[Measured], baseline: str) -> list[Row]:
    """Groups runs into rows, by cell; within a cell the strategies are in the order in which they were first given."""
    rows: dict[tuple[str, Cell], Row] = {}
    for run in runs:
        rows.setdefault((run.strategy, run.cell), Row(run.strategy, run.cell)).runs.append(run)
    for row in rows.values():
        row.base = rows.get((baseline, row.cell))
    order = strategies_of(rows.values())
    return sorted(rows.values(), key=lambda row: (row.cell.order, order.index(row.strategy)))


def strategies_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.strategy for row in rows))
