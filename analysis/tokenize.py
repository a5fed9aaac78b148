#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text files to a tokens file with any tokenizer.json: see --help. The work is done in shoal_tokenize.py."""

import importlib.util
import sys
import sysconfig
from pathlib import Path

if __name__ == "__main__":
    from shoal_tokenize import main

    sys.exit(main())

# The standard library has a module of this name, which matplotlib and tracebacks import, and Python looks into the folder of
# the running script first: whoever imports `tokenize` gets the library's.
_spec = importlib.util.spec_from_file_location(__name__, Path(sysconfig.get_path("stdlib")) / "tokenize.py")
_module = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _module
_spec.loader.exec_module(_module)
