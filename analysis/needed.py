# SPDX-License-Identifier: Apache-2.0
"""Checks that the packages a script needs are installed, and if not, prints one line on how to get them. Standard
library only."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

NOT_IN_DEBIAN = ("tokenizers", "tensorboardX")  # Debian 12


def packages(*names: str) -> None:
    """Ends the program with one line and status 2 if this Python lacks one of them. Call it before importing them."""
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    if not absent:
        return
    debian = [f"python3-{name}" for name in absent if name not in NOT_IN_DEBIAN]
    ways = [f"apt-get install {' '.join(debian)} (for /usr/bin/python3)"] if len(debian) == len(absent) else []
    ways.append(f"{sys.executable or 'python3'} -m pip install {' '.join(absent)}")
    script = Path(sys.argv[0]).name
    print(f"{script}: {sys.executable} has no {', '.join(absent)}: {', or '.join(ways)}", file=sys.stderr)
    sys.exit(2)
