# SPDX-License-Identifier: Apache-2.0
"""Text that came from a file, for a terminal, a page or a figure: what would be obeyed there is shown instead."""

from __future__ import annotations

import re

# Control characters, ends of lines and paragraphs, marks that turn the direction of writing, halves of pairs.
OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def shown(match: re.Match) -> str:
    code = ord(match[0])
    return "\\n" if code == 10 else f"\\x{code:02x}" if code < 0x80 else f"\\u{{{code:04x}}}"


def printable(value: str) -> str:
    return OBEYED.sub(shown, value)


def printable_values(value):
    """The same of all strings of a JSON value, keys too."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_values(part) for part in value]
    if isinstance(value, dict):
        return {printable(key): printable_values(part) for key, part in value.items()}
    return value
