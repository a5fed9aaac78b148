#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a run's metrics.jsonl as CSV, or as events of TensorBoard.

usage: export_metrics.py OUT_DIR [--csv FILE] [--tensorboard DIR]

Both have one row or point per step; of steps that a resumed run repeated, those of the last part. TensorBoard needs the
package tensorboardX; its times are those of the steps, counted from the start of the run, if a trace tells it.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

from shoal.program import packages, run_main

packages("h5py", "numpy")

from shoal.read.bad_input import BadInput
from shoal.read.run import read_metrics
from shoal.read.run_parts import read_parts


def write_csv(rows: list[dict], path: Path) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)  # null, a number that was not finite, becomes an empty cell


def write_events(rows: list[dict], directory: Path, start: float) -> None:
    packages("tensorboardX")
    from tensorboardX import SummaryWriter

    if any(directory.glob("events.out.tfevents.*")):
        raise BadInput(f"{directory}: holds events already, which TensorBoard would show beside these")
    now = start
    with SummaryWriter(str(directory)) as writer:
        for row in rows:
            now += row.get("step_s") or 0.0
            for name, value in row.items():
                if name == "step" or isinstance(value, (str, list, dict)):
                    continue
                number = math.nan if value is None else float(value)
                writer.add_scalar(name, number, row["step"], walltime=now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="OUT_DIR", type=Path, help="a run's output directory")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table")
    parser.add_argument("--tensorboard", type=Path, metavar="DIR", help="write events there (needs tensorboardX)")
    arguments = parser.parse_args()
    if arguments.csv is None and arguments.tensorboard is None:
        raise BadInput("give --csv FILE, --tensorboard DIR, or both")
    rows = read_metrics(arguments.run)
    if not rows:
        raise BadInput(f"{arguments.run}: no step in metrics.jsonl")
    for path, write in ((arguments.csv, write_csv), (arguments.tensorboard, None)):
        if path is None:
            continue
        try:
            if write:
                write(rows, path)
            else:
                begun = read_parts(arguments.run, "", "").begun
                write_events(rows, path, begun[0].zero if begun else 0.0)
        except OSError as error:
            raise BadInput(f"{path}: cannot be written: {error.strerror}") from error
        print(f"{path}: {len(rows)} steps")


if __name__ == "__main__":
    run_main(main)
