# SPDX-License-Identifier: Apache-2.0
"""Derives from a run's options the name of its strategy."""

from __future__ import annotations

Options = dict[str, str]

# Options for the files that a run reads and writes; they do not change what it computes.
NAMING = ("output.", "checkpoint.dir", "checkpoint.resume", "trace.")


def differing_options(runs: list[Options], naming: tuple[str, ...] = NAMING) -> list[str]:
    """Names of the options in which the runs differ, without those that begin with one of `naming`."""
    names = sorted({name for options in runs for name in options if not name.startswith(naming)})
    return [name for name in names if len({options.get(name) for options in runs}) > 1]


def name_of(options: Options, ranks_per_node: int | None) -> str:
    """For example "stage 3 hpZ qwZ8 qgZ4" or "SlowMo/48 over LocalSGD/3". A number after / is the steps between
    synchronizations."""
    kind = options.get("sync.kind", "every_step")
    name = _sharded(options, ranks_per_node) if kind == "every_step" else _local(options, kind)
    name += _pipeline(options)
    return name + (" native" if options.get("comm.collectives") == "native" else "")


def _sharded(options: Options, ranks_per_node: int | None) -> str:
    words = [f"stage {options.get('zero.stage', '0')}"]
    hpz = options.get("zero.hpz_size", "off")
    if hpz != "off":
        words.append("hpZ" if hpz in ("node", str(ranks_per_node)) else f"hpZ/{hpz}")
    for option, word in (("zero.qwz", "qwZ"), ("zero.qgz", "qgZ")):
        if options.get(option, "off") != "off":
            words.append(word + options[option])
    return " ".join(words)


def _pipeline(options: Options) -> str:
    """For example " pipeline 2 gpipe x 3": stages, schedule unless it is 1f1b, and parts of a stage."""
    stages, parts = options.get("pipeline.size", "1"), options.get("pipeline.parts", "1")
    if stages == "1":
        return ""
    schedule = options.get("pipeline.schedule", "1f1b")
    return (
        f" pipeline {stages}" + (f" {schedule}" if schedule != "1f1b" else "") + (f" x {parts}" if parts != "1" else "")
    )


def _local(options: Options, kind: str) -> str:
    averages, updates = options.get("sync.localsgd_frequency", "?"), options.get("sync.slowmo_frequency", "?")
    push = "SGP overlapped" if options.get("sync.sgp_overlap") == "true" else "SGP"
    if kind == "slowmo":
        base = push if options.get("sync.slowmo_base") == "sgp" else f"LocalSGD/{averages}"
        name = f"SlowMo/{updates}" + ("" if base == f"LocalSGD/{updates}" else f" over {base}")
    else:
        name = {"localsgd": f"LocalSGD/{averages}", "diloco": f"DiLoCo/{updates}", "sgp": push}.get(kind, kind)
    dtype = options.get("sync.average_dtype", "fp32")
    how = ([dtype] if dtype != "fp32" else []) + (["late"] if options.get("sync.average_overlap") == "true" else [])
    warmed = [f"after {warmup_of(options)}"] if warmup_of(options) else []
    return " ".join([name, *how, *warmed])


def warmup_of(options: Options) -> int:
    """Number of steps at the beginning in which nodes that later train locally still synchronize gradients."""
    return int(options.get("sync.warmup_steps", 0)) if options.get("sync.kind", "every_step") != "every_step" else 0
