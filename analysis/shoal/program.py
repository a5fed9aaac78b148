# SPDX-License-Identifier: Apache-2.0
"""What each program does first and last: it checks that the packages it needs are installed, and turns bad input into one
line. Standard library only."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from shoal.read.bad_input import DAMAGE, BadInput, one_line

NOT_IN_DEBIAN = ("tokenizers", "tensorboardX")  # Debian 12


def packages(*names: str) -> None:
    """Ends the program with one line and status 2 if a package is not installed. To be called before they are imported."""
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    if not absent:
        return
    debian = [f"python3-{name}" for name in absent if name not in NOT_IN_DEBIAN]
    ways = [f"apt-get install {' '.join(debian)} (for /usr/bin/python3)"] if len(debian) == len(absent) else []
    ways.append(f"{shlex.quote(sys.executable or 'python3')} -m pip install {' '.join(absent)}")
    script = Path(sys.argv[0]).name
    print(f"{script}: {sys.executable} has no {', '.join(absent)}: {', or '.join(ways)}", file=sys.stderr)
    sys.exit(2)


def run_main(main: Callable[[], None]) -> None:
    """Runs a script's main(). Bad input becomes one line on stderr and exit status 2. `python3 -X dev` shows the
    traceback of an unexpected error."""
    try:
        main()
    except BrokenPipeError:  # `report.py ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)
    except (BadInput, *DAMAGE) as error:
        if sys.flags.dev_mode:
            raise
        told = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {one_line(error)}"
        print(f"{Path(sys.argv[0]).name}: {told}", file=sys.stderr)
        sys.exit(2)
