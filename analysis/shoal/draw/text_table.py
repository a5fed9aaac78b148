# SPDX-License-Identifier: Apache-2.0
"""Text tables for a terminal."""

from __future__ import annotations


def aligned(rows: list[list[str]], numbers_from: int | None = None) -> list[str]:
    """Aligns columns: each is as wide as its widest cell. Columns from `numbers_from` on are aligned to the right."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    first = len(widths) if numbers_from is None else numbers_from
    sides = [str.ljust if column < first else str.rjust for column in range(len(widths))]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip()
        for row in rows
    ]
