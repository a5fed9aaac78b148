# SPDX-License-Identifier: Apache-2.0
"""What is raised when a file that the user names cannot be read."""

from __future__ import annotations

# Exceptions that h5py and numpy raise when a file is damaged.
DAMAGE = (OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, MemoryError)


class BadInput(Exception):
    """The user's input is wrong; the message is one line that names the fault and the file."""


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
