# SPDX-License-Identifier: Apache-2.0
"""What became of a text in its tokens."""

from __future__ import annotations

from pathlib import Path

from shoal.read.printable import printable


class Comparison:
    """Whether the bytes of the tokens are the text, and how many tokens stand for unknown text."""

    def __init__(self, vocabulary: list[bytes], unknown: int | None) -> None:
        self.vocabulary, self.unknown_id = vocabulary, unknown
        self.tokens = self.unknown = 0
        self.difference = ""  # the first one
        self.path, self.bytes = Path(), 0  # of the text so far

    def file(self, path: Path) -> None:
        self.path, self.bytes = path, 0

    def add(self, text: str, ids: list[int]) -> None:
        self.tokens += len(ids)
        self.unknown += 0 if self.unknown_id is None else ids.count(self.unknown_id)
        if self.difference:
            return
        expected, found = text.encode(), b"".join(self.vocabulary[token] for token in ids)
        # Some tokenizers put a blank in front of a text, which their decoders leave out.
        if found != expected and (self.bytes > 0 or found != b" " + expected):
            self.differ(expected, found)
        self.bytes += len(expected)

    def differ(self, expected: bytes, found: bytes) -> None:
        if self.bytes == 0 and found.startswith(b" ") and not expected.startswith(b" "):
            found = found[1:]
        at = next(
            (i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), min(len(expected), len(found))
        )
        while at > 0 and at < len(expected) and expected[at] & 0xC0 == 0x80:  # within a character
            at -= 1
        was, became = (printable(part[at : at + 40].decode(errors="replace")[:16]) for part in (expected, found))
        self.difference = f'from byte {self.bytes + at} of {self.path} on, "{was}" becomes "{became}"'

    def sentence(self) -> str:
        percent = 100 * self.unknown / max(self.tokens, 1)
        return (
            f"decodes to the text: {f'no ({self.difference})' if self.difference else 'yes'}; {percent:.3g} % unknown"
        )
