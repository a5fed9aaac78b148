# SPDX-License-Identifier: Apache-2.0
"""Rows of columns, grouped by their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def places(order: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """The place of each row, from 0, among the rows with the same values in these columns. order: the rows, sorted so that
    those with the same values follow one another."""
    starts = np.maximum.accumulate(np.where(_begins(order, columns), np.arange(len(order)), 0))
    result = np.empty(len(order), np.int64)
    result[order] = np.arange(len(order)) - starts
    return result


def numbers(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers the different combinations of values, from 0."""
    order = np.lexsort(columns[::-1])
    result = np.empty(len(order), np.int64)
    result[order] = np.cumsum(_begins(order, columns))
    return result


def alike(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The rows with the same values in these columns, as indices: one array for each combination, in ascending order."""
    order = np.lexsort(columns[::-1])
    return np.split(order, np.flatnonzero(_begins(order, columns))) if len(order) else []


def _begins(order: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Whether a row, in this order, has other values than the one before it; the first one does not count."""
    begins = np.zeros(len(order), bool)
    for column in columns:
        begins[1:] |= column[order][1:] != column[order][:-1]
    return begins
