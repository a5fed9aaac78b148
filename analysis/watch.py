#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows a run while it goes: loss, tokens/s and gradient norm, redrawn from metrics.jsonl.

usage: watch.py OUT_DIR [--png FILE] [--interval S] [--once]

Draws in the terminal, with plain characters, and with --png also into a picture. Ends when the run has ended, that is when
summary.json covers the last step. A run that stopped early to be requeued (exit code 75) is waited for: the next part goes
on in the same directory. --once draws what there is and ends. Ctrl-C ends the watching, not the run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

from shoal.program import packages, run_main

packages("h5py", "numpy")

import numpy as np

from shoal.draw.number_text import plain
from shoal.read.bad_input import BadInput
from shoal.read.printable import printable
from shoal.read.run import last_step, pairs, read_metrics

SHOWN = (("loss", "loss, nats per token"), ("tokens_per_s", "tokens/s"), ("grad_norm", "gradient norm"))
REQUEUE = 75  # exit code of a run that wants to be started again
HEIGHT = 8  # lines of a plot
MARGIN = 12  # columns for the numbers beside a plot


def ended(directory: Path, last: int) -> str | None:
    """The verdict of a run that has ended, None while it goes on or is to be requeued. `last`: the last step in the metrics.
    A summary that ends before it is that of an earlier part."""
    try:
        summary = json.loads((directory / "summary.json").read_text())
        verdict = summary.get("verdict", {})
        if (last_step(summary) or 0) < last or verdict.get("exit_code") == REQUEUE:
            return None
        return printable(str(verdict.get("text", "ended")))
    except (OSError, ValueError, AttributeError, TypeError):  # not there, or being written
        return None


def plot(steps: np.ndarray, values: np.ndarray, width: int) -> list[str]:
    """Lines of text: a mark for the mean of each column's steps."""
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    if not len(steps):
        return ["(no values yet)"]
    columns = max(width - MARGIN - 1, 8)
    first, last = int(steps[0]), int(steps[-1])
    place = ((steps - first) * (columns - 1) // max(last - first, 1)).astype(int)
    counts = np.bincount(place, minlength=columns)
    means = np.bincount(place, weights=values, minlength=columns) / np.maximum(counts, 1)
    low, high = float(means[counts > 0].min()), float(means[counts > 0].max())
    level = np.zeros(columns, int) if high == low else np.rint((means - low) / (high - low) * (HEIGHT - 1)).astype(int)
    lines = []
    for row in range(HEIGHT - 1, -1, -1):
        number = {HEIGHT - 1: high, 0: low}.get(row)
        marks = "".join("*" if counts[i] and level[i] == row else " " for i in range(columns))
        lines.append(f"{plain(number, 4) if number is not None else '':>{MARGIN - 2}} |{marks}".rstrip())
    left, right = str(first), str(last)
    lines.append(" " * (MARGIN - 1) + "+" + "-" * columns)
    lines.append(" " * MARGIN + left + " " * max(columns - len(left) - len(right), 1) + right)
    return lines


def screen(directory: Path, rows: list[dict], state: str, width: int) -> str:
    lines = [printable(f"{directory}: {state}")]
    for name, title in SHOWN:
        steps, values = series(rows, name)
        newest = f": {plain(float(values[-1]), 5)} at step {steps[-1]}" if len(steps) else ""
        lines += ["", title + newest, *plot(steps, values, width)]
    return "\n".join(lines)


def series(rows: list[dict], name: str) -> tuple[np.ndarray, np.ndarray]:
    return pairs([(row["step"], row[name]) for row in rows if name in row])


def draw(rows: list[dict], path: Path, title: str) -> None:
    """Replaces the picture as a whole, so that who looks at it never sees a part of it."""
    from shoal.draw.styles import LINE_COLOURS, PLAIN, plt, whole_numbers

    figure, axes = plt.subplots(len(SHOWN), 1, figsize=(8.4, 8.0), sharex=True)
    for (name, label), panel, colour in zip(
        SHOWN, axes, (LINE_COLOURS[0], LINE_COLOURS[0], LINE_COLOURS[4]), strict=True
    ):
        steps, values = series(rows, name)
        panel.plot(steps, values, color=colour, marker="o" if len(steps) < 12 else "", ms=4)
        panel.set(ylabel=label)
        panel.yaxis.set_major_formatter(PLAIN)
    axes[0].set_title(title)
    axes[-1].set_xlabel("step")
    whole_numbers(axes[-1].xaxis)
    partial = path.with_name(f".{path.name}.partial")
    try:
        figure.savefig(partial, format="png")
        os.replace(partial, path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="OUT_DIR", type=Path, help="a run's output directory")
    parser.add_argument("--png", type=Path, metavar="FILE", help="also draw into this picture")
    parser.add_argument(
        "--interval", type=float, default=2.0, metavar="S", help="seconds between two looks (default: 2)"
    )
    parser.add_argument("--once", action="store_true", help="draw once and end")
    arguments = parser.parse_args()
    if not arguments.run.is_dir():
        raise BadInput(f"{arguments.run}: no such directory")
    if not arguments.interval > 0:
        raise BadInput(f"--interval {arguments.interval}: must be above 0")
    shown = None
    while True:
        rows = read_metrics(arguments.run)
        last = rows[-1]["step"] if rows else 0
        verdict = ended(arguments.run, last)
        state = verdict or (f"step {last}" if rows else "no step yet")
        if (last, verdict) != shown:
            shown = (last, verdict)
            text = screen(arguments.run, rows, state, shutil.get_terminal_size().columns)
            print("\x1b[2J\x1b[H" + text if sys.stdout.isatty() else text + "\n", flush=True)
            if arguments.png and rows:
                draw(rows, arguments.png, printable(f"{arguments.run.resolve().name}: {state}"))
        if verdict or arguments.once:
            return
        time.sleep(arguments.interval)


if __name__ == "__main__":
    run_main(main)
