# SPDX-License-Identifier: Apache-2.0
"""Reads files that a run may be writing at this moment.

A run flushes its trace in several writes, and a reader that comes between two of them finds a file that contradicts itself.
A moment later it is whole again. A damaged file stays as it is, and that tells the two apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from shoal.read.bad_input import DAMAGE, BadInput

PATIENCE_S = 2.0  # a file that does not change for so long is not in the middle of a flush
LONGEST_S = 30.0  # how long a file that goes on changing is tried
RECENT_S = 60.0  # a file last changed before that is not being written, even if the clocks of two machines differ
POLL_S = 0.02

Result = TypeVar("Result")


def read_live(path: Path, read: Callable[[], Result]) -> Result:
    """Returns read(). If that fails although the file has just changed, waits until it changes once more, and tries again."""
    end = time.monotonic() + LONGEST_S
    while True:
        before = _stamp(path)
        try:
            return read()
        except (BadInput, *DAMAGE):
            if time.monotonic() > end or not _changes(path, before):
                raise


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _changes(path: Path, before: tuple[int, int]) -> bool:
    """Waits for a change of the file. False if there is none, or if the file is too old to expect one."""
    if time.time() - before[0] / 1e9 > RECENT_S:
        return False
    end = time.monotonic() + PATIENCE_S
    while _stamp(path) == before:
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True
