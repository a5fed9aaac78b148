# SPDX-License-Identifier: Apache-2.0
"""safetensors files of float32 tensors: 8 bytes with the length of the header, a JSON header, the raw tensors."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np


def write(path: Path, shapes: dict[str, tuple[int, ...]], tensors: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes the tensors one by one, never all in memory. They must come in the order of shapes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for (expected, shape), (name, values) in zip(shapes.items(), tensors, strict=True):
            if (expected, shape) != (name, values.shape):
                raise ValueError(f"{path}: got {name} {values.shape} instead of {expected} {shape}")
            file.write(np.ascontiguousarray(values, "<f4").tobytes())


def read(path: Path) -> dict[str, np.ndarray]:
    with path.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return tensors
