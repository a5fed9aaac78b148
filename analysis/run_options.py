# SPDX-License-Identifier: Apache-2.0
"""What a run's options say of it: its strategy, in a word, and how often its nodes meet."""

from __future__ import annotations

from needed import packages

packages("numpy", "h5py")

import numpy as np

Options = dict[str, str]

# Options that name the run rather than describe it.
NAMING = ("output.", "checkpoint.dir", "checkpoint.resume", "trace.")


def differing_options(runs: list[Options], naming: tuple[str, ...] = NAMING) -> list[str]:
    """Names of the options in which runs differ, but for those that begin with one of `naming`."""
    names = sorted({name for options in runs for name in options if not name.startswith(naming)})
    return [name for name in names if len({options.get(name) for options in runs}) > 1]


def name_of(options: Options, ranks_per_node: int | None) -> str:
    """For example "stage 3 hpZ qwZ8 qgZ4" or "SlowMo/48 over LocalSGD/3": numbers after a / are steps between meetings."""
    kind = options.get("sync.kind", "every_step")
    name = _sharded(options, ranks_per_node) if kind == "every_step" else _apart(options, kind)
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


def _apart(options: Options, kind: str) -> str:
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
    """The first so many steps are not those of nodes that train apart: they share gradients."""
    return int(options.get("sync.warmup_steps", 0)) if options.get("sync.kind", "every_step") != "every_step" else 0


def period_of(options: Options) -> int:
    """Steps after which what nodes do among each other repeats: 1 where they do the same after every step."""
    kind = options.get("sync.kind", "every_step")
    if kind == "localsgd":
        return int(options.get("sync.localsgd_frequency", 1))
    return int(options.get("sync.slowmo_frequency", 1)) if kind in ("slowmo", "diloco") else 1


def settled(steps: np.ndarray, options: Options) -> np.ndarray:
    """Of a run's steps those that averages are taken over: all but the first, whose memory is touched for the first time,
    where nodes warm up those after that, and where they meet now and then the last of them in whole periods, if there is
    one."""
    apart = steps[steps > warmup_of(options)]
    rest = steps[1:] if len(steps) > 2 else steps
    rest = apart if 0 < len(apart) < len(rest) else rest
    period = period_of(options)
    return rest[len(rest) % period :] if len(rest) >= period else rest
