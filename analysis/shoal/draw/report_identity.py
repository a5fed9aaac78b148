# SPDX-License-Identifier: Apache-2.0
"""The first table of report.py: which run this was. The trace of its last part decides, then run.json; what neither has, as
files of older programs, is left out."""

from __future__ import annotations

from shoal.draw.page import Row
from shoal.read.run import Run
from shoal.read.run_options import NAMING, differing_options, name_of
from shoal.read.run_parts import shape, span

SIZES = {
    "model.n_layer": "{} layers",
    "model.n_head": "{} heads",
    "model.n_embd": "width {}",
    "model.block_size": "context {}",
    "model.vocab_size": "vocabulary {}",
}


def rows(run: Run) -> list[Row]:
    options = run.options
    found = [
        ("model", model(run)),
        ("data", run.about("data")),
        ("dtype", dtype(options)),
        ("batch", batch(options)),
        ("strategy", strategy(run)),
        ("ran on", ranks(run)),
        ("device", device(run)),
        ("program", program(run)),
        (
            "differs from the defaults",
            ", ".join(f"{name} = {options.get(name, '?')}" for name in run.changed),
        ),
        ("changed when resumed", changed_between_parts(run)),
    ]
    return [row for row in found if row[1]]


def model(run: Run) -> str:
    options = run.options
    kind = options.get("model.kind", "")
    names = [name for name in SIZES if name in options and (kind, name) != ("mlp", "model.n_head")]
    sizes = [SIZES[name].format(options[name]) for name in names]
    count = run.about("parameters")
    sizes += [f"{int(count):,} parameters"] if count.isdigit() else []
    return f"{kind}: {', '.join(sizes)}" if kind else ", ".join(sizes)


def dtype(options: dict[str, str]) -> str:
    own, summed = options.get("train.dtype", ""), options.get("comm.reduce_dtype", "")
    return f"{own}, gradients summed in {summed}" if own and summed not in ("", own) else own


def batch(options: dict[str, str]) -> str:
    whole, length, micro = (options.get(name) for name in ("batch.global", "model.block_size", "batch.micro"))
    if whole is None or length is None:
        return ""
    return f"{whole} sequences of {length} tokens per step" + (f", in micro-batches of {micro}" if micro else "")


def strategy(run: Run) -> str:
    """As compare.py and strategies.py name it."""
    world, nodes = run.world_size, run.nodes
    even = world and nodes and world % nodes == 0
    return name_of(run.options, world // nodes if even else None) if "zero.stage" in run.options else ""


def ranks(run: Run) -> str:
    if len(run.parts) > 1:
        return "; ".join(f"steps {span(part.steps)}: {shape(part)}" for part in run.parts)
    return shape(run) if run.world_size else ""


def device(run: Run) -> str:
    name, threads = run.about("device"), run.about("threads")
    each = f"{threads} thread{'' if threads == '1' else 's'} per rank" if threads else ""
    return ", ".join(filter(None, (name, each)))


def program(run: Run) -> str:
    version, started = (
        run.about("version"),
        run.parts[0].attributes.get("started", "") if run.parts else run.about("started"),
    )
    return ", ".join(
        filter(None, (f"shoal {version}" if version else "", f"started {started} (UTC)" if started else ""))
    )


def changed_between_parts(run: Run) -> str:
    """The options that had other values in earlier parts of a resumed run."""
    names = differing_options([part.options for part in run.parts], (*NAMING, "train.stop_after"))
    return "; ".join(f"{name}: {', then '.join(values_of(run, name))}" for name in names)


def values_of(run: Run, name: str) -> list[str]:
    """The values of an option, part by part, without repetitions."""
    values = [part.options.get(name, "not set") for part in run.parts]
    return [value for place, value in enumerate(values) if place == 0 or value != values[place - 1]]
