# SPDX-License-Identifier: Apache-2.0
"""Makes text from a file safe for a terminal, a page or a figure: control characters are replaced by visible
escapes."""

from __future__ import annotations

import re

# Control characters, line and paragraph separators, marks that change the writing direction, single surrogates.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def shown(match: re.Match) -> str:
    code = ord(match[0])
    return "\\n" if code == 10 else f"\\x{code:02x}" if code < 0x80 else f"\\u{{{code:04x}}}"


def printable(value: str) -> str:
    return CONTROL.sub(shown, value)


def printable_values(value):
    """Applies printable() to all strings in a JSON value, including keys."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_values(part) for part in value]
    if isinstance(value, dict):
        return {printable(key): printable_values(part) for key, part in value.items()}
    return value
