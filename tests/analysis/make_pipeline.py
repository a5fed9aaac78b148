# SPDX-License-Identifier: Apache-2.0
"""Writes invented runs of pipelines, whose every duration is known: a forward pass takes 2 ms, a backward pass 4 ms."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import h5py
import make_run
import numpy as np

FORWARD, BACKWARD, AFTER = (
    2_000_000,
    4_000_000,
    3_000_000,
)  # ns; AFTER: the optimizer, after the last pass of all stages
BORDER_BYTES = 65536


def one_f_one_b(stages: int, stage: int, turns: int) -> list[tuple[bool, int, int]]:
    """(forward, part of the stage, turn)"""
    first = min(stages - stage, turns)
    order = [(True, 0, turn) for turn in range(first)]
    for turn in range(turns):
        order += [(False, 0, turn)] + ([(True, 0, first + turn)] if first + turn < turns else [])
    return order


def gpipe(parts: int, turns: int) -> list[tuple[bool, int, int]]:
    forward = [(True, part, turn) for part in range(parts) for turn in range(turns)]
    return forward + [(False, part, turn) for part in reversed(range(parts)) for turn in range(turns)]


def times(stages: int, parts: int, turns: int, transfer: int) -> dict[int, list[tuple]]:
    """By stage: (forward, part of the model, turn, begin, waited since)"""
    lists = {stage: gpipe(parts, turns) if parts > 1 else one_f_one_b(stages, stage, turns) for stage in range(stages)}
    ends: dict[tuple, int] = {}
    free, done = dict.fromkeys(lists, 0), {stage: [] for stage in lists}
    while any(lists.values()):
        for stage, order in lists.items():
            while order:
                forward, place, turn = order[0]
                part = place * stages + stage
                of = part + (-1 if forward else 1)
                needs = (forward, of, turn) if 0 <= of < parts * stages else None
                if needs is not None and needs not in ends:
                    break
                begin = max(free[stage], ends[needs] + transfer if needs else 0)
                done[stage].append((forward, part, turn, begin, free[stage]))
                free[stage] = ends[forward, part, turn] = begin + (FORWARD if forward else BACKWARD)
                order.pop(0)
    return done


def record(
    ring: make_run.Recorder, step: int, zero: int, slower: int, done: list[tuple], end: int, first_turn: int
) -> int:
    """One step of a stage that begins at `zero`, with all durations times `slower`. Returns its end."""
    end = zero + slower * (end + AFTER)
    ring.add("step", "step", zero, end - zero, step=step)
    for forward, part, turn, begin, since in done:
        if begin > since:
            ring.add("wait", "receive", zero + slower * since, slower * (begin - since), step=step, depth=1)
            ring.add("collective", "receive", zero, slower * begin, step=step, group=2, depth=1)
        duration = slower * (FORWARD if forward else BACKWARD)
        begin = zero + slower * begin
        ring.add("phase", "forward" if forward else "backward", begin, duration, step=step, unit=part, micro=first_turn + turn,
                 depth=1)  # fmt: skip
        if not forward and turn == 0:
            ring.add("phase", "recompute", begin, duration // 4, step=step, unit=part, micro=first_turn + turn, depth=2)
        ring.add("collective", "send", begin + duration, 1000, step=step, group=2, size=BORDER_BYTES, depth=1)
    ring.add("phase", "optimizer", end - slower * AFTER, slower * AFTER, step=step, depth=1)
    for name, size in (("arenas", 100 - ring.rank), ("resident", 200 - ring.rank)):
        ring.add("counter", f"memory/{name}", end, 0, step=step, size=size << 20)
    return end


def make_pipeline(directory: Path, stages: int, turns: int, *, parts: int = 1, data: int = 1, transfer: int = 0,
                  slower: tuple[int, ...] = (1, 3, 2, 1, 5)) -> Path:  # fmt: skip
    """A unit is a part. `slower`: of each step. Of its settled steps, 2 to 5, the third one has the median time."""
    done = times(stages, parts, turns, transfer)
    end = max(
        forward_begin + (FORWARD if forward else BACKWARD)
        for of in done.values()
        for forward, _, _, forward_begin, _ in of
    )

    def record_rank(rank, _level, _first, _steps, names, *_):
        ring, now = make_run.Recorder(rank, names), 1_000_000
        for step, factor in enumerate(slower, start=1):
            now = record(ring, step, now, factor, done[rank // data], end, rank % data * turns)
        return ring.rows

    options = {"pipeline.size": str(stages), "pipeline.parts": str(parts), "batch.global": str(4 * turns * data),
               "pipeline.schedule": "gpipe" if parts > 1 else "1f1b", "zero.stage": "0"}  # fmt: skip
    units = tuple(f"unit {unit}" for unit in range(parts * stages))
    with mock.patch.multiple(make_run, record_rank=record_rank, UNITS=units):
        path = make_run.make_run(directory, "comm", len(slower), options, world=stages * data, nodes=1)
    with h5py.File(path / "trace.h5", "r+") as file:
        del file["groups"], file["group_parts"]
        file.create_dataset("groups", data=["all", "data", "pipeline"], dtype=h5py.string_dtype())
        ranks = np.arange(stages * data)
        file["group_parts"] = np.array([0 * ranks, ranks // data, ranks % data], "i4")
    return path
