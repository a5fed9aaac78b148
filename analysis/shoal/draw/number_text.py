# SPDX-License-Identifier: Apache-2.0
"""Numbers as text, without exponents."""

from __future__ import annotations

import numpy as np


def plain(value: float, figures: int = 3) -> str:
    """A number with at least `figures` significant digits and without an exponent."""
    if not np.isfinite(value):
        return str(value)
    digits = figures - 1 - int(np.floor(np.log10(abs(value)))) if value else 0
    return np.format_float_positional(round(float(value), max(digits, 0)), trim="-")
