#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what strategies cost: step time, waiting, bytes and loss, by number of nodes and link rate, over several
seeds.

usage: strategies.py RUN ... [-o DIR] [--baseline NAME] [--link-rate GBIT] [--predictions FILE]

Each RUN is the output directory of a finished run. Its strategy, seed and nodes are read from its options and trace. If
its path contains link_RATE (out/link_0.1/seed_2, stage3_link_0.05), RATE is the rate of the links in Gbit/s. Runs that
differ only in the seed are one row, with their median, least and greatest values.

Prints a table for each number of nodes and link rate. Writes strategies.json, loss_by_time and step_time_by_rate (PNG
and SVG) to DIR.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import groupby
from pathlib import Path

from shoal.program import packages, run_main

packages("h5py", "numpy", "matplotlib")

from shoal.draw import figures_strategies
from shoal.draw.figures import Nothing
from shoal.draw.styles import bytes_text, plain, plt
from shoal.draw.text_table import aligned
from shoal.read.bad_input import BadInput
from shoal.times.costs import Row, Spread, measure_all, rows_of, strategies_of
from shoal.times.predictions import Prediction, compare_with, read_predictions

DEFAULT_BASELINE = "stage 3"
LEGEND = """\
# s/step: mean over ranks and steps, including synchronizations of nodes, without the first step (of each part, if the run was
# resumed) and without warm-up steps ("after N"). tokens/s: tokens of a step / s/step. For several seeds: median (least..most).
# waiting s: time per step that a rank waited for messages, mean over ranks. inside, between nodes: bytes sent per step by the
# rank that sends most, including warm-up. difference: validation loss (or last training loss) against the baseline run with the
# same seed and as many tokens.
"""


def spread_text(spread: Spread | None, form: str = "", factor: float = 1) -> str:
    """The median, and the range if the values differ. Without a format: four significant digits."""
    if spread is None:
        return "-"
    middle, least, most = (
        format(factor * value, form) if form else plain(value, 4)
        for value in (spread.median, spread.least, spread.most)
    )
    return middle if least == most else f"{middle} ({least}..{most})"


def table_of(rows: list[Row], baseline: str | None, predicted: bool) -> list[str]:
    """The lines of the table of one cell."""
    head = ["strategy", "runs", "steps", "s/step", "waiting s", "of step", "inside/step", "between/step", "tokens/s"]
    head += [f"x {baseline}"] if baseline else []
    head += ["loss", "validation"] + (["difference %"] if baseline else [])
    head += ["predicted s", "error %"] if predicted else []
    lines = [head]
    for row in rows:
        exposed = row.over_runs(lambda run: run.exposed_seconds)
        share = row.over_runs(
            lambda run: None if run.exposed_seconds is None else run.exposed_seconds / run.step_seconds
        )
        line = [
            row.strategy,
            str(len(row.runs)),
            spread_text(row.over_runs(lambda run: run.steps), ".0f"),
            spread_text(row.step_seconds),
            spread_text(exposed),
            "-" if share is None else spread_text(share, ".0f", 100) + " %",
            *("-" if sent is None else bytes_text(sent) for sent in row.sent),
            spread_text(row.over_runs(lambda run: run.tokens_per_s), ",.0f"),
        ]
        line += [spread_text(row.ratio, ".3f")] if baseline else []
        line += [spread_text(row.over_runs(lambda run: run.loss), ".4f")]
        line += [spread_text(row.over_runs(lambda run: run.val_loss), ".4f")]
        line += [spread_text(row.loss_difference, "+.2f", 100)] if baseline else []
        if predicted:
            seconds, error = row.predicted_seconds, row.prediction_error
            line += ["-", "-"] if seconds is None else [plain(seconds, 4), f"{100 * error:+.1f}"]
        lines.append(line)
    return aligned(lines, numbers_from=1)


def number(value: float | None) -> float | None:
    """JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def json_of(row: Row) -> dict:
    def spread(values: Spread | None, factor: float = 1) -> dict | None:
        return values and {name: number(factor * getattr(values, field)) for name, field in
                           (("median", "median"), ("min", "least"), ("max", "most"))}  # fmt: skip

    error = row.prediction_error
    return {
        "strategy": row.strategy,
        "nodes": row.cell.nodes,
        "ranks_per_node": row.cell.ranks_per_node,
        "ranks": row.cell.ranks,
        "link_gbit": row.cell.link_gbit,
        "runs": [str(run.path) for run in row.runs],
        "seeds": [run.seed for run in row.runs],
        "steps": [run.steps for run in row.runs],
        "step_seconds": spread(row.step_seconds),
        "exposed_seconds": spread(row.over_runs(lambda run: run.exposed_seconds)),
        "tokens_per_s": spread(row.over_runs(lambda run: run.tokens_per_s)),
        "ratio": spread(row.ratio),
        "sent_bytes_per_step": dict(zip(("intra", "inter"), row.sent, strict=True)),
        "loss": spread(row.over_runs(lambda run: run.loss)),
        "val_loss": spread(row.over_runs(lambda run: run.val_loss)),
        "loss_difference_percent": spread(row.loss_difference, 100),
        "predicted_seconds": row.predicted_seconds,
        "prediction_error_percent": None if error is None else 100 * error,
    }


def notes(rows: list[Row], unmatched: list[Prediction]) -> list[str]:
    """Remarks that a reader of the table needs."""
    found = []
    for row in rows:
        short = [run for run in row.runs if not run.whole_periods]
        if short:
            steps = short[0].period
            found.append(f"{row.strategy}, {row.cell.title}: fewer than {steps} + 1 steps, so its mean is not over whole "
                         f"periods of {steps}: {short[0].path}")  # fmt: skip
        found += [f"{run.path} was resumed; its bytes per step are those of the last part" for run in row.runs
                  if run.sent_in_last_part]  # fmt: skip
    if any(row.over_runs(lambda run: run.exposed_seconds) is None for row in rows):
        found.append("waiting times need runs with trace.level = comm")
    return [*found, *(f"predicted, not measured: {prediction.title}" for prediction in unmatched)]


def write(directory: Path, rows: list[Row], baseline: str | None, predictions: list[Prediction]) -> list[str]:
    """Writes all files. Returns a sentence for each figure that could not be drawn."""
    absent = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        content = {"baseline": baseline, "rows": [json_of(row) for row in rows]}
        (directory / "strategies.json").write_text(json.dumps(content, indent=1) + "\n")
        for name, draw in (("loss_by_time", lambda: figures_strategies.loss_by_time(rows)),
                           ("step_time_by_rate", lambda: figures_strategies.step_time_by_rate(rows, predictions))):  # fmt: skip
            files = [directory / f"{name}.{ending}" for ending in ("png", "svg")]
            try:
                figure = draw()
            except Nothing as nothing:
                absent.append(f"{name}: {nothing}")
                for file in files:
                    file.unlink(missing_ok=True)
                continue
            for file in files:
                figure.savefig(file)
            plt.close(figure)
    except OSError as error:
        raise BadInput(f"{directory}: cannot be written: {error.strerror}") from error
    return absent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="output directories of runs")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", default=Path("strategies"))
    parser.add_argument(
        "--baseline", metavar="NAME", help=f"strategy that others are compared with (default: {DEFAULT_BASELINE})"
    )
    parser.add_argument("--link-rate", type=float, metavar="GBIT", help="Gbit/s, for runs whose path has no link_RATE")
    parser.add_argument(
        "--predictions", type=Path, metavar="FILE", help="JSON with predicted step times (see predictions.py)"
    )
    arguments = parser.parse_args()
    if arguments.link_rate is not None and not 0 < arguments.link_rate < math.inf:
        raise BadInput(f"--link-rate {arguments.link_rate:g}: allowed: above 0")
    predictions = read_predictions(arguments.predictions) if arguments.predictions else []
    runs = measure_all(arguments.runs, arguments.link_rate)
    rows = rows_of(runs, arguments.baseline or DEFAULT_BASELINE)
    names = strategies_of(rows)
    baseline = arguments.baseline or (DEFAULT_BASELINE if DEFAULT_BASELINE in names else None)
    if baseline is not None and baseline not in names:
        raise BadInput(f"--baseline {baseline}: no run has this strategy; there are: {', '.join(names)}")
    unmatched = compare_with(predictions, rows)
    absent = write(arguments.output, rows, baseline, predictions)
    print(LEGEND)
    for cell, of_cell in groupby(rows, key=lambda row: row.cell):
        print(f"# {cell.title}")
        print("\n".join(table_of(list(of_cell), baseline, bool(predictions))), end="\n\n")
    for note in notes(rows, unmatched):
        print(f"# {note}")
    for why in absent:
        print(f"not drawn: {why}")
    print(arguments.output)


if __name__ == "__main__":
    run_main(main)
