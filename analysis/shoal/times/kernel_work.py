# SPDX-License-Identifier: Apache-2.0
"""Operations and bytes of kernels. A trace has the bytes of matrix products alone; everything else follows from the model's
options, by the formulas below.

A product of [rows, in] and [in, out] takes 2 x rows x in x out operations; attention takes two products forward and four
backward, each over the earlier tokens alone. Bytes are the least that must be read and written once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.read.trace import Trace
from shoal.times.breakdown import Kernel

SIZES = {"fp32": 4, "bf16": 2, "fp16": 2}
SUFFIXES = ("_dx", "_dw")


@dataclass
class Work:
    flops: float = 0.0  # of one call; 0: not counted (a kernel that is no product, which moving data limits)
    bytes: float = 0.0  # of one call; 0: unknown


@dataclass
class Model:
    """The sizes of a GPT and of its batch on one rank."""

    width: int
    inner: int
    layers: int
    vocabulary: int
    tokens: int  # of a sequence
    rows: int  # tokens of a micro-batch
    micro_steps: float  # of one copy of the model, divided by its ranks: each of them computes a part of the layers
    size: int  # bytes of a number
    own: float  # parameters whose optimizer state this rank has

    @staticmethod
    def of(trace: Trace) -> Model | None:
        """None if the model is no GPT or the trace lacks its options."""
        options = trace.options
        if options.get("model.kind", "gpt") != "gpt":
            return None
        try:
            width, layers, tokens, micro = (
                int(options[f"{name}"]) for name in ("model.n_embd", "model.n_layer", "model.block_size", "batch.micro")
            )
            inner, vocabulary = options["model.n_inner"], options["model.vocab_size"]
            size = SIZES[options.get("train.dtype", "fp32")]
            batch, stages = int(options["batch.global"]), int(options.get("pipeline.size", "1"))
        except (KeyError, ValueError):
            return None
        if min(width, layers, tokens, micro, stages) < 1:
            return None
        if not vocabulary.isdigit():  # the embedding unit has a row for each symbol and each position
            vocabulary = int(trace.unit_elements[0]) // width - tokens if len(trace.unit_elements) else 0
        elements = float(trace.unit_elements.sum())
        own = elements / (stages if options.get("zero.stage", "0") == "0" else trace.world_size)
        micro_steps = max(batch // (micro * max(trace.world_size // stages, 1)), 1) / stages
        return Model(width, int(inner) if inner.isdigit() else 4 * width, layers, int(vocabulary), tokens, micro * tokens,
                     micro_steps, size, own)  # fmt: skip

    @property
    def products(self) -> dict[str, tuple[int, int, int]]:
        """Of each matrix product: in, out, and how often a micro-batch has it."""
        return {
            "qkv": (self.width, 3 * self.width, self.layers),
            "attention_out": (self.width, self.width, self.layers),
            "mlp": (self.width, self.inner, self.layers),
            "mlp_out": (self.inner, self.width, self.layers),
            "head": (self.width, self.vocabulary, 1),
            "direct": (self.width, self.vocabulary, 1),
        }


def work_of(kernel: Kernel, model: Model | None) -> Work:
    """The work of one call, a mean over the calls."""
    if model is None:
        return Work(bytes=kernel.bytes_per_call)
    base = next((kernel.name.removesuffix(end) for end in SUFFIXES if kernel.name.endswith(end)), kernel.name)
    if base in model.products:
        return _product(kernel, model, model.products[base])
    one = model.rows * model.width * model.size  # bytes of an activation
    wide, logits = model.rows * model.inner * model.size, model.rows * model.vocabulary * model.size
    pairs = 2 * model.rows * model.width * (model.tokens + 1)  # operations of two products over the earlier tokens
    by_name = {
        "attention": Work(pairs, 4 * one),
        "attention_backward": Work(2 * pairs, 8 * one),
        "layernorm_forward": Work(bytes=2 * one),
        "layernorm_recompute": Work(bytes=2 * one),
        "layernorm_backward": Work(bytes=3 * one),
        "gelu_forward": Work(bytes=2 * wide),
        "gelu_backward": Work(bytes=3 * wide),
        "embedding_forward": Work(bytes=2 * one),
        "cross_entropy": Work(bytes=2 * logits),
        "adamw": Work(bytes=28 * model.own / max(kernel.calls_per_step, 1)),
    }
    return by_name.get(kernel.name, Work(bytes=kernel.bytes_per_call))


def _product(kernel: Kernel, model: Model, shape: tuple[int, int, int]) -> Work:
    """The rows of a call follow from its bytes, if the trace has them, otherwise from the micro-batch."""
    inputs, outputs, times = shape
    weight = inputs * outputs * (4 if kernel.name.endswith("_dw") else model.size)  # weight gradients are fp32
    if kernel.bytes_per_call > weight:
        rows = (kernel.bytes_per_call - weight) / (model.size * (inputs + outputs))
    else:  # large products are cut into several calls
        rows = min(model.rows, model.rows * times * model.micro_steps / max(kernel.calls_per_step, 1e-9))
    moved = kernel.bytes_per_call or weight + rows * model.size * (inputs + outputs)
    return Work(2 * rows * inputs * outputs, moved)


@dataclass
class Point:
    """A kernel in the roofline picture."""

    name: str
    intensity: float  # operations per byte
    flops_per_s: float
    share: float  # of the step


def points(trace: Trace, kernels: list[Kernel]) -> tuple[list[Point], list[str]]:
    """The kernels whose operations and bytes are both known, and the names of the others."""
    model = Model.of(trace)
    placed, others = [], []
    for kernel in kernels:
        work, seconds = work_of(kernel, model), kernel.seconds_per_step
        if work.flops and work.bytes and seconds > 0:
            rate = work.flops * kernel.calls_per_step / seconds
            placed.append(Point(kernel.name, work.flops / work.bytes, rate, kernel.share))
        else:
            others.append(kernel.name)
    return placed, others


def greatest_bandwidth(trace: Trace, kernels: list[Kernel]) -> float:
    """The most bytes/s of any kernel that takes 1 % of the kernels' time or more: a bound from below for what memory allows."""
    model, all_kernels = Model.of(trace), sum(kernel.share for kernel in kernels)
    rates = [
        work_of(kernel, model).bytes * kernel.calls_per_step / kernel.seconds_per_step
        for kernel in kernels
        if kernel.seconds_per_step > 0 and kernel.share >= 0.01 * all_kernels
    ]
    return float(np.max(rates, initial=0.0))


def peak(trace: Trace) -> float | None:
    """FLOP/s of a rank that the program measured at its start; None if the trace lacks it."""
    try:
        return float(trace.machine["peak GFLOP/s per rank"]) * 1e9 or None
    except (KeyError, ValueError):
        return None
