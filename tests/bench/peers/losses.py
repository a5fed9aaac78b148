# SPDX-License-Identifier: Apache-2.0
"""Two programs are compared only if they train the same: their losses may differ by rounding alone."""

from __future__ import annotations

from collections.abc import Sequence

from verdicts import Line

# An update of Adam moves a parameter by the learning rate or less, however large its gradient is. So if gradients are off by
# a relative error e, an update is off by about e of itself, and changes the loss by about e of what the update changes it by.
# That is at most 0.6 nats: the first update of W1. In the worst case the errors of all steps add up.
#
# e is a unit roundoff of the type of activations and gradients. In fp32 it is 1000 of them: sums have thousands of terms.
LARGEST_CHANGE = 0.6
ERRORS = {"fp32": 1000 * 2.0**-24, "bf16": 2.0**-8}


def most_apart(dtype: str, steps: int) -> float:
    return LARGEST_CHANGE * ERRORS[dtype] * steps


def largest_difference(one: Sequence[float], other: Sequence[float]) -> float:
    """Of the losses of a step."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def losses_line(name: str, dtype: str, one: Sequence[float], other: Sequence[float], note: str = "") -> Line:
    """A comparison that fails, whether or not targets must be met, if the losses differ by more than rounding."""
    return Line(f"{name} largest difference of losses", largest_difference(one, other), "nats",
                at_most=most_apart(dtype, len(one)), note=note, required=True)  # fmt: skip
