# SPDX-License-Identifier: Apache-2.0
"""Imported first: if this Python lacks numpy or h5py, as can happen with `make bench`, the script starts again with the
system's Python."""

import importlib.util
import os
import subprocess
import sys

NEEDED = ("numpy", "h5py")
SYSTEM = "/usr/bin/python3"

if any(importlib.util.find_spec(name) is None for name in NEEDED):
    probe = [SYSTEM, "-c", "import " + ", ".join(NEEDED)]
    if sys.executable == SYSTEM or not os.path.exists(SYSTEM) or subprocess.run(probe, capture_output=True).returncode:
        sys.exit(f"{sys.argv[0]}: needs Python with {' and '.join(NEEDED)} (Debian: python3-h5py; or pip install)")
    os.execv(SYSTEM, [SYSTEM, *sys.argv])
