# SPDX-License-Identifier: Apache-2.0
"""The properties of a run from which volume.py computes how many bytes its ZeRO stage must send."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from shoal.read.trace import Trace
from shoal.times.in_steps import gathered_units
from shoal.times.kernel_work import SIZES


@dataclass(frozen=True)
class Work:
    """See above; the letters are those of the formulas in volume.py."""

    stage: int
    native: bool  # the MPI library's own collectives
    ranks: int  # D
    micro_steps: int  # A
    rounds: int  # q
    parameter_size: int  # bytes per element
    gradient_size: int  # bytes per element
    elements: int  # N
    gathered: int  # parameters of the units that are gathered for each use
    kept: bool  # True if a unit is kept from forward to backward
    hpz_ranks: int  # G; 0 without hpZ

    @staticmethod
    def of(trace: Trace) -> Work | None:
        """Returns None if theory does not apply or the trace lacks the numbers: one rank, no /unit_elements, quantized
        messages, a pipeline, or nodes that train locally between synchronizations."""
        options = trace.options
        quantized = any(options.get(name, "off") != "off" for name in ("zero.qwz", "zero.qgz"))
        if (
            quantized
            or options.get("sync.kind", "every_step") != "every_step"
            or options.get("pipeline.size", "1") != "1"
        ):
            return None
        try:
            micro_batches = int(options["batch.global"]) // int(options["batch.micro"])
            stage, native = int(options["zero.stage"]), options.get("comm.collectives") == "native"
            parameter_size, gradient_size = SIZES[options["train.dtype"]], SIZES[options["comm.reduce_dtype"]]
        except (KeyError, ValueError):
            return None
        ranks = trace.world_size
        if ranks < 2 or not len(trace.unit_elements) or micro_batches % ranks:
            return None
        power_of_two = ranks & (ranks - 1) == 0 and not native
        return Work(
            stage=stage,
            native=native,
            ranks=ranks,
            micro_steps=micro_batches // ranks,
            rounds=micro_batches // (micro_batches & -micro_batches) if power_of_two else 1,
            parameter_size=parameter_size,
            gradient_size=gradient_size,
            elements=int(trace.unit_elements.sum()),
            gathered=int(trace.unit_elements[gathered_units(trace)].sum()),
            kept=options.get("zero.reshard_after_forward") == "false",
            hpz_ranks=hpz_ranks_of(trace),
        )

    def sent(self, elements: int, ranks: int | None = None) -> Fraction:
        """Elements that one rank sends in a reduce-scatter or an all-gather of this many elements."""
        ranks = ranks or self.ranks
        return Fraction(elements * (ranks - 1), ranks)


def hpz_ranks_of(trace: Trace) -> int:
    """Number of ranks over which hpZ's second partition is split; 0 if there is none."""
    size = trace.options.get("zero.hpz_size", "off")
    if trace.options.get("zero.stage") != "3" or size == "off":
        return 0
    count = trace.world_size // trace.nodes if size == "node" else int(size)
    return count if count < trace.world_size else 0
