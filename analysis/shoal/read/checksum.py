# SPDX-License-Identifier: Apache-2.0
"""The checksum of a dataset in a tokens file (include/shoal/io/token_file.hpp), in numpy: the sum modulo 2^64 of
XXH3_64bits(piece, seed = index of the piece) over pieces of 64 bytes. The last piece is filled up with zeros."""

from __future__ import annotations

import numpy as np

PIECE = 64

# XXH3 for inputs of 64 bytes: four products of 128 bits, folded. The key is the first 64 bytes of XXH3's secret.
KEY = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    ),
    "<u8",
)
PRIME64_1 = np.uint64(0x9E3779B185EBCA87)
PRIME_MX1 = np.uint64(0x165667919E3779F9)
LOW = np.uint64(0xFFFFFFFF)


def folded_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """XOR of the two halves of a 128-bit product."""
    half = np.uint64(32)
    a_low, a_high, b_low, b_high = a & LOW, a >> half, b & LOW, b >> half
    low, middle = a_low * b_low, a_high * b_low
    carry = (low >> half) + (middle & LOW) + a_low * b_high
    return (a * b) ^ ((middle >> half) + (carry >> half) + a_high * b_high)


def hashes(pieces: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """The hash of each piece. pieces: uint64 [n, 8]."""
    total = np.full(len(pieces), np.uint64(PIECE) * PRIME64_1)
    for words, key in ((2, 4), (4, 6), (0, 0), (6, 2)):
        total += folded_product(pieces[:, words] ^ (KEY[key] + seeds), pieces[:, words + 1] ^ (KEY[key + 1] - seeds))
    total ^= total >> np.uint64(37)
    total *= PRIME_MX1
    return total ^ (total >> np.uint64(32))


class Checksum:
    """A checksum of data that arrive in parts of any length."""

    def __init__(self) -> None:
        self.sum = self.pieces = 0
        self.rest = b""

    def update(self, data: bytes) -> None:
        data = self.rest + data
        whole = len(data) // PIECE * PIECE
        self._add(data[:whole])
        self.rest = data[whole:]

    def _add(self, data: bytes) -> None:
        if not data:
            return
        pieces = np.frombuffer(data, "<u8").reshape(-1, PIECE // 8)
        seeds = np.arange(self.pieces, self.pieces + len(pieces), dtype=np.uint64)
        with np.errstate(over="ignore"):
            self.sum = (self.sum + int(np.add.reduce(hashes(pieces, seeds)))) % (1 << 64)
        self.pieces += len(pieces)

    def hexadecimal(self) -> str:
        last = Checksum()
        last.pieces = self.pieces
        last._add(self.rest.ljust(PIECE, b"\0") if self.rest else b"")
        return f"{(self.sum + last.sum) % (1 << 64):016x}"
