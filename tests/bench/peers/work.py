# SPDX-License-Identifier: Apache-2.0
"""W1, W2 and W3 as README.md defines them: initial weights and sequences, computed with numpy."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LEARNING_RATE, BETAS, EPSILON, WEIGHT_DECAY, CLIP, WARMUP_STEPS = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, 20


@dataclass(frozen=True)
class Work:
    name: str
    layers: int
    heads: int
    width: int
    block: int
    vocabulary: int  # symbols that occur
    rows: int  # of the token embedding
    batch: int  # sequences per rank and step
    reads_text: bool

    @property
    def tokens_per_step(self) -> int:
        """Number of tokens that one rank trains on in a step."""
        return self.batch * self.block

    @property
    def product_weights(self) -> int:
        """Number of weights in matrix products, including the head."""
        return 12 * self.layers * self.width**2 + self.rows * self.width

    @property
    def flops_per_token(self) -> int:
        return 6 * self.product_weights + 12 * self.layers * self.width * self.block


WORKS = {
    work.name: work
    for work in (
        Work("W1", 6, 6, 384, 256, 65, 65, 8, True),
        Work("W2", 12, 12, 768, 256, 50257, 50304, 4, False),
        Work("W3", 12, 12, 768, 2048, 65, 65, 1, True),
    )
}


def mix(z: np.ndarray) -> np.ndarray:
    """One step of splitmix64 on uint64, modulo 2^64."""
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def hashes(key: int, first: int, count: int) -> np.ndarray:
    """hash(key, i) for i = first ... first + count - 1."""
    with np.errstate(over="ignore"):
        return mix(mix(np.array([key], np.uint64)) + np.arange(first, first + count, dtype=np.uint64))


def normal(seed: int, tensor: int, shape: tuple[int, ...], std: float) -> np.ndarray:
    """Normal numbers (Box and Muller), one hash each; computed in parts, because the double intermediates are large."""
    values = np.empty(math.prod(shape), np.float32)
    piece = 1 << 20
    for first in range(0, len(values), piece):
        h = hashes(65536 * seed + tensor, first, min(piece, len(values) - first))
        u1 = ((h >> np.uint64(32)).astype(np.float64) + 1.0) / 2.0**32
        u2 = (h & np.uint64(0xFFFFFFFF)).astype(np.float64) / 2.0**32
        values[first : first + piece] = std * (np.sqrt(-2.0 * np.log(u1)) * np.cos(2.0 * math.pi * u2))
    return values.reshape(shape)


def shapes(work: Work) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """(Hugging Face's name, shape [out, in] or [n], kind) in the order of the tensors' numbers."""
    c = work.width
    yield "transformer.wte.weight", (work.rows, c), "embedding"
    yield "transformer.wpe.weight", (work.block, c), "embedding"
    for layer in range(work.layers):
        for name, out, into, what in (
            ("ln_1", c, 0, "norm"),
            ("attn.c_attn", 3 * c, c, "matrix"),
            ("attn.c_proj", c, c, "residual"),
            ("ln_2", c, 0, "norm"),
            ("mlp.c_fc", 4 * c, c, "matrix"),
            ("mlp.c_proj", c, 4 * c, "residual"),
        ):
            yield f"transformer.h.{layer}.{name}.weight", (out, into) if into else (out,), what
            yield f"transformer.h.{layer}.{name}.bias", (out,), "bias"
    yield "transformer.ln_f.weight", (c,), "norm"
    yield "transformer.ln_f.bias", (c,), "bias"


def weights(work: Work, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor with Hugging Face's name and orientation: linear layers are [in, out] there."""
    for number, (name, shape, what) in enumerate(shapes(work)):
        if what in ("norm", "bias"):
            yield name, np.full(shape, 1.0 if what == "norm" else 0.0, np.float32)
            continue
        std = 0.02 / math.sqrt(2 * work.layers) if what == "residual" else 0.02
        values = normal(seed, number, shape, std)
        yield name, values if what == "embedding" else np.ascontiguousarray(values.T)


def find_text(named: str | None = None) -> Path | None:
    """The file with tinyshakespeare, from the places that README.md names."""
    shared = os.environ.get("SHOAL_SHARED", Path(__file__).resolve().parents[4] / "shared")
    places = [named or os.environ.get("SHOAL_TEXT"), Path(shared) / "data" / "tinyshakespeare.txt"]
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


class Sequences:
    """The sequences, rows [block + 1], of the steps. text None: random tokens instead, to measure speed only."""

    def __init__(self, work: Work, seed: int, text: Path | None):
        self.work, self.seed, self.characters = work, seed, None
        if work.reads_text and text is not None:
            symbols, tokens = np.unique(np.frombuffer(text.read_bytes(), np.uint8), return_inverse=True)
            if len(symbols) != work.vocabulary:
                raise ValueError(f"{text}: {len(symbols)} symbols, not the {work.vocabulary} of tinyshakespeare")
            self.characters = tokens[: len(tokens) * 9 // 10]

    def rows(self, step: int, rank: int, ranks: int) -> np.ndarray:
        work, first, length = self.work, (step * ranks + rank) * self.work.batch, self.work.block + 1
        if self.characters is None:
            tokens = hashes(2**62 + self.seed, first * length, work.batch * length) % np.uint64(work.vocabulary)
            return tokens.reshape(work.batch, length).astype(np.uint16)
        begins = hashes(2**63 + self.seed, first, work.batch) % np.uint64(len(self.characters) - work.block)
        return np.stack([self.characters[int(b) : int(b) + length] for b in begins]).astype(np.uint16)
