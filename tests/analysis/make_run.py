#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the output directory of an invented run: 4 ranks on two nodes, with every file in the program's own form.

usage: make_run.py DIR [--level comm] [--steps 12] [--device]

Durations are chosen, not measured, so that a test knows what the analysis must find: see PHASES and WAIT_NS.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import h5py
import numpy as np

RANKS = 4
KINDS = ("step", "phase", "collective", "wait", "kernel", "io", "counter", "device_kernel", "device_copy",
         "device_collective")  # fmt: skip
QUEUES = ("host", "compute", "gather", "reduce")
UNITS = ("embedding", "block 0", "block 1", "head")
GROUPS = ("all", "node")
EVENT = np.dtype(
    [
        ("rank", "i4"), ("begin_ns", "i8"), ("duration_ns", "i8"), ("bytes", "u8"), ("name", "i4"), ("step", "i4"),
        ("unit", "i2"), ("kind", "u2"), ("group", "i2"), ("micro", "i2"), ("depth", "i2"),
        ("queue", "i2"),
    ]
)  # fmt: skip
OLDER_EVENT = np.dtype([(name, "i4" if name == "depth" else EVENT[name]) for name in EVENT.names if name != "queue"])
FILLING = (-1, 0, 0, 0, -1, 0, -1, 65535, -1, -1, 0, 0)  # a row that is no event
CHUNK = 512  # rows
FLUSH = np.dtype([("flush", "i4"), ("rank", "i4"), ("first", "u8"), ("count", "u8"), ("dropped", "u8")])

# A step on rank r, in microseconds: its phases in sequence, then 200 until the end of the step.
PHASES = {"data": 300, "forward": 9000, "backward": 19000, "reduce": 1500, "losses": 200, "clip": 400,
          "optimizer": 2500, "publish": 1100}  # fmt: skip
WAIT_NS = 1_200_000  # within reduce, on every rank
GAP_NS = 200_000
BETWEEN_STEPS_NS = 50_000
# What the compute queue of a device does in a step, one after another from its begin: name, kind, microseconds. The device does
# the last one while the host has gone on: LATE_NS of it after the step's end, most of them in the next step.
SPANS = (("copy to device", "device_copy", 100), ("matmul", "device_kernel", 12_000), ("gelu", "device_kernel", 3_000))
LATE_NAME, LATE_NS = "adamw", 150_000
DEVICE_GATHER_NS = 5_000_000  # on the queue `gather`, twice in a step
EVALUATION_NS = 300_000_000  # after every fifth step; most of it is in one kernel
RECOMPUTE_NS, RELEASE_NS = 3_000_000, 2_000  # within backward
BUCKET_BYTES = 6_000_000
# What a run says of itself in its trace and in run.json, beside its options.
PARAMETERS, DATA, CHANGED = 1_234_567, "an invented text: 4096 bytes", ("batch.micro", "zero.stage")
PEAK = {"peak GFLOP/s per rank": "100", "FLOP per token": "1e6"}  # what newer programs write about the machine


class Recorder:
    """Events of one rank, as the program records them."""

    def __init__(self, rank: int, names: list[str]):
        self.rank, self.names, self.rows = rank, names, []

    def add(
        self, kind: str, name: str, begin: int, duration: int, *, step=0, size=0, unit=-1, group=-1, micro=-1, depth=0,
        queue=0
    ):  # fmt: skip
        if name not in self.names:
            self.names.append(name)
        self.rows.append(
            (self.rank, begin, duration, size, self.names.index(name), step, unit, KINDS.index(kind), group, micro, depth, queue)
        )  # fmt: skip


def record_device(ring: Recorder, step: int, begin: int, end: int) -> None:
    now = begin
    for name, kind, microseconds in SPANS:
        ring.add(kind, name, now, microseconds * 1000, step=step, queue=1, size=4096 if kind == "device_copy" else 0)
        now += microseconds * 1000
    ring.add("device_kernel", LATE_NAME, end - LATE_NS, 2 * LATE_NS, step=step, queue=1)
    for i in range(2):
        ring.add("device_collective", "all_gather", begin + i * 6_000_000, DEVICE_GATHER_NS, step=step, queue=2)


def record_step(ring: Recorder, level: str, step: int, begin: int, device: bool) -> int:
    """Records one step that begins at `begin`. Returns its end."""
    now = begin
    for name, microseconds in PHASES.items():
        duration = microseconds * 1000 + (500_000 * (ring.rank % RANKS) if name == "forward" else 0)
        ring.add("phase", name, now, duration, step=step, micro=0 if name in ("forward", "backward") else -1, depth=1)
        if name == "backward":
            ring.add("phase", "recompute", now + 10_000_000, RECOMPUTE_NS, step=step, unit=1, micro=0, depth=2)
            ring.add("phase", "release", now + 15_000_000, RELEASE_NS, step=step, unit=1, size=BUCKET_BYTES, depth=2)
        if level in ("comm", "kernels") and name == "backward":
            for bucket in range(3):  # they overlap: each is in flight for twice the time between two starts
                ring.add("collective", "reduce_scatter", now + (bucket + 1) * 4_000_000, 8_000_000, step=step,
                         size=BUCKET_BYTES, unit=3 - bucket, group=0, depth=2)  # fmt: skip
        if level in ("comm", "kernels") and name == "reduce":
            ring.add("wait", "reduce_scatter", now + 100_000, WAIT_NS, step=step, unit=1, group=0, depth=2)
        if level in ("comm", "kernels") and name == "publish":
            ring.add("collective", "all_gather", now, 1_000_000, step=step, size=BUCKET_BYTES // 2, group=1, depth=2)
        if level == "kernels" and not device and name in ("forward", "backward"):
            for i, kernel in enumerate(("matmul", "layernorm", "gelu")):
                ring.add("kernel", kernel, now + i * 2_000_000, (1_900_000, 300_000, 500_000)[i], step=step,
                         size=0 if kernel == "matmul" else 2_000_000, unit=1, micro=0, depth=2)  # fmt: skip
        now += duration
    end = now + GAP_NS
    if device:
        record_device(ring, step, begin + LATE_NS, end)
    ring.add("step", "step", begin, end - begin, step=step)
    ring.add("counter", "memory/taken", end, 0, step=step, size=(120 + 10 * ring.rank) << 20)
    ring.add("counter", "memory/rss", end, 0, step=step, size=(190 + min(step, 3) + 10 * ring.rank) << 20)
    return end


def record_rank(
    rank: int, level: str, first: int, steps: int, names: list[str], device: bool, drift_ppm: float = 0
) -> list[tuple]:
    ring = Recorder(rank, names)
    now = 1_000_000
    for step in range(first, steps + 1):
        now = record_step(ring, level, step, now, device) + BETWEEN_STEPS_NS
        if drift_ppm and step % 2 == 0:  # a flush, at the same moment on all ranks
            moment = step * 40_000_000
            ahead = drift_ppm * moment / 1e6 if rank // 2 % 2 else 0  # on the second node
            for reading in range(4):
                ring.add("counter", "clock/barrier", round(moment + ahead) + reading * 10_000 + 100 * (rank % 2), 0, step=step,
                         size=step // 2)  # fmt: skip
        if step % 5 == 0:
            ring.add("phase", "evaluate", now, EVALUATION_NS, step=step)
            if level == "kernels":
                ring.add("device_kernel" if device else "kernel", "matmul", now + 1_000_000, EVALUATION_NS - 2_000_000, step=step, depth=1,
                         queue=int(device))  # fmt: skip
            now += EVALUATION_NS
    ring.add("io", "checkpoint", now, 30_000_000, step=steps, size=9_000_000)
    return ring.rows


def write_trace(
    path: Path, options: dict[str, str], level: str, steps: int, first: int = 1, hour: int = 3, nodes: int = 2, *,
    device: bool = False, version: int = 3, world: int = RANKS, machine: dict[str, str] | None = None, zero: int | None = None,
    drift_ppm: float = 0, complete: bool = True
) -> None:  # fmt: skip
    """Writes the trace of a part of a run that begins with step `first`, at that hour. Versions 1 and 2 are those of
    older programs. machine: more attributes of /machine. zero: when its time 0 was, nanoseconds since 1970. drift_ppm: how much faster
    the clock of the second node is."""
    names: list[str] = []
    ranks = [record_rank(rank, level, first, steps, names, device, drift_ppm) for rank in range(world)]
    text = h5py.string_dtype()
    with h5py.File(path, "w") as file:
        file.attrs.update(format_version=version, program="shoal", version="0.1.0", started=f"2026-01-02T{hour:02d}:04:05Z",
                          world_size=world, nodes=nodes, level=level, complete=int(complete))  # fmt: skip
        if zero is not None:
            file.attrs["zero_unix_ns"] = zero
        file.attrs.update(parameters=PARAMETERS, data=DATA)
        file.create_dataset("changed", data=list(CHANGED), dtype=h5py.string_dtype())
        file.create_group("options").attrs.update(options)
        about = file.create_group("machine")
        about.attrs.update({"device": "CPU", "threads": "1", **(machine or {})})
        about.create_dataset("hosts", data=[f"node{1 + rank // 2}" for rank in range(world)], dtype=text)
        file["group_parts"] = np.array([[0] * world, [rank // 2 for rank in range(world)]], "i4")
        tables = {"names": names, "units": UNITS, "groups": GROUPS, "kinds": KINDS}
        if version == 1:
            tables["kinds"] = KINDS[: KINDS.index("device_kernel")]
        else:
            tables["queues"] = QUEUES if device else QUEUES[:1]
            file.attrs["untimed_spans"] = 0
        for name, values in tables.items():
            file.create_dataset(name, data=list(values), dtype=text, maxshape=(None,))
        counts = [len(rank) for rank in ranks]
        if version >= 3:  # each rank's rows begin with a new chunk
            ranks = [rank + [FILLING] * (-len(rank) % CHUNK) for rank in ranks]
        rows = np.array([row for rank in ranks for row in rank], dtype=EVENT)
        if version == 1:
            rows = rows[list(OLDER_EVENT.names)].astype(OLDER_EVENT)
        packed = {"chunks": (CHUNK,), "shuffle": True, "compression": "gzip"} if version >= 3 else {"chunks": True}
        file.create_dataset("events", data=rows, maxshape=(None,), **packed)
        first = np.cumsum([0] + [len(rank) for rank in ranks])
        flushes = np.array([(0, r, first[r], counts[r], 0) for r in range(world)], dtype=FLUSH)
        file.create_dataset("flushes", data=flushes, maxshape=(None,))


def make_run(
    directory: Path, level: str = "comm", steps: int = 12, options: dict[str, str] | None = None, **more
) -> Path:
    """more: for write_trace()."""
    directory.mkdir(parents=True, exist_ok=True)
    options = {"model.n_layer": "2", "model.block_size": "64", "batch.micro": "4", "batch.global": "16",
               "zero.stage": "1", "trace.level": level, **(options or {})}  # fmt: skip
    losses = [[step, 2.1 + 2.0 * float(np.exp(-step / 6))] for step in range(1, steps + 1)]
    step_s = [0.034 + 0.0002 * (step % 3) for step in range(1, steps + 1)]
    val_losses = [[step, losses[step - 1][1] + 0.05] for step in range(5, steps + 1, 5)]
    with (directory / "metrics.jsonl").open("w") as file:
        for (step, loss), seconds in zip(losses, step_s, strict=True):
            file.write(json.dumps({"step": step, "loss": loss, "grad_norm": 1.0, "lr": 1e-3, "step_s": seconds,
                                   "tokens_per_s": 1024 / seconds}) + "\n")  # fmt: skip
    kinds = ("parameters", "master", "gradients", "moments", "activations", "buffers", "staging")
    states = {kind: (i + 1) << 22 for i, kind in enumerate(kinds)}
    verdict = {"ended": "done", "exit_code": 0, "steps_made": steps, "updates_skipped": 0, "ok": True, "text": "OK"}
    summary = {
        "verdict": verdict, "losses": losses, "grad_norms": [[step, 1.0] for step, _ in losses], "val_losses": val_losses,
        "final_loss": losses[-1][1], "entropy_rate": 2.0, "tokens_per_s": 1024 / float(np.median(step_s)),
        "step_s": {"median": float(np.median(step_s)), "mean": float(np.mean(step_s)), "min": min(step_s), "max": max(step_s)},
        "settled": {"steps": [[2 if steps > 2 else 1, steps]], "period": int(options.get("sync.localsgd_frequency", 1))},
        "peak_rss_bytes": [(200 + rank) << 20 for rank in range(RANKS)],
        "state_bytes": {"planned": states, "taken": states},
        "comm_bytes_per_step": {"reduce_scatter": {"intra": 12e6, "inter": 6e6}, "all_gather": {"intra": 3e6, "inter": 0}},
        "params_checksum": "0123456789abcdef", "world_size": RANKS, "options": options,
    }  # fmt: skip
    (directory / "summary.json").write_text(json.dumps(summary))
    record = {
        "run": "0123", "version": "0.1.0", "started": "2026-01-02T03:04:05Z", "world_size": RANKS, "nodes": 2, "device": "CPU",
        "threads": 1, "parameters": PARAMETERS, "data": DATA, "options": options, "changed": CHANGED,
    }  # fmt: skip
    (directory / "run.json").write_text(json.dumps(record))
    if level != "off":
        write_trace(directory / "trace.h5", options, level, steps, **more)
    return directory


def change_summary(directory: Path, **values) -> None:
    path = directory / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--level", choices=("off", "steps", "comm", "kernels"), default="comm")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--device", action="store_true", help="kernels run on a device")
    arguments = parser.parse_args()
    print(make_run(arguments.directory, arguments.level, arguments.steps, device=arguments.device))


if __name__ == "__main__":
    main()
