# SPDX-License-Identifier: Apache-2.0
"""The traces of one run. Every start of a run writes a trace, so a resumed run has several.

Each trace records its steps and the time of its start. If a part resumed from step 20 although the part before it had
already made step 21 and more, these steps exist twice; those of the later part count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shoal.read.bad_input import BadInput
from shoal.read.clocks import aligned
from shoal.read.trace import Trace

PART = r"(?:_from_\d+)?(?:_\d+)?"  # what the program appends to the name of a resumed part's trace


@dataclass
class Parts:
    traces: list[Trace] = field(default_factory=list)  # those with steps, in the order of the steps
    begun: list[Trace] = field(
        default_factory=list
    )  # all, with the steps that were repeated, in the order of their start
    notes: list[str] = field(default_factory=list)  # sentences about files that are not among the traces


def read_parts(directory: Path, named: str, output_dir: str) -> Parts:
    """Reads the traces of the run with this output.dir: those in the directory, or those that trace.file (`named`)
    names."""
    notes, found = [], []
    for path in candidates(directory, named):
        try:
            trace = aligned(Trace.read(path))
        except BadInput as problem:
            notes.append(str(problem))
            continue
        if not named or trace.options.get("output.dir", output_dir) == output_dir:
            found.append(trace)
    parts = in_order(found)
    parts.notes = notes + parts.notes
    return parts


def candidates(directory: Path, named: str) -> list[Path]:
    if not named:
        return sorted(directory.glob("trace*.h5"))
    path = Path(named)
    pattern = re.compile(re.escape(path.stem) + PART + re.escape(path.suffix))
    return sorted(other for other in path.parent.glob("*") if other.is_file() and pattern.fullmatch(other.name))


def in_order(traces: list[Trace]) -> Parts:
    """Sorts the traces by their start, and removes from each the steps that a later one repeated."""
    begun = sorted(traces, key=_begun)
    parts = Parts(begun=begun)
    border = None
    for trace in reversed(begun):
        steps = trace.steps
        kept = trace if border is None else trace.before(border)
        if len(kept.steps):
            parts.traces.insert(0, kept)
            border = int(kept.steps[0])
        elif len(steps):
            parts.notes.append(f"{trace.path.name}: a later part repeated its steps {span(steps)}")
        elif len(begun) > 1:
            parts.notes.append(f"{trace.path.name}: has no steps")
    if not parts.traces and begun:
        parts.traces = [begun[-1]]
        parts.notes = []
    return parts


def _begun(trace: Trace) -> tuple:
    first = int(trace.steps[0]) if len(trace.steps) else 0
    return trace.attributes.get("started", ""), trace.zero, first, len(trace.path.name), trace.path.name


def without_first(steps: np.ndarray) -> np.ndarray:
    """The steps of a part that means are taken over where no summary names the settled ones. The first step touches its memory
    for the first time."""
    return steps[1:] if len(steps) > 2 else steps


def span(steps: np.ndarray) -> str:
    """Returns "3" or "3 to 40"."""
    if not len(steps):
        return "none"
    return f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"


def shape(of) -> str:
    """Returns the ranks and nodes of a part or a run, for example "4 ranks on 2 nodes"."""
    ranks = f"{of.world_size} rank{'' if of.world_size == 1 else 's'}"
    return ranks + (f" on {of.nodes} nodes" if of.nodes > 1 else "")


def title(trace: Trace) -> str:
    return f"steps {span(trace.steps)} ({trace.path.name}, {shape(trace)})"
