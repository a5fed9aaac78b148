#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts text files to a tokens file with any tokenizer.json: see --help. The code is in shoal_tokenize.py."""

import importlib.util
import sys
import sysconfig
from pathlib import Path

if __name__ == "__main__":
    from shoal_tokenize import main

    sys.exit(main())

# The standard library has a module of the same name, which matplotlib and tracebacks import. Python looks into the
# folder of the running script first and finds this file, so it replaces itself by the library's module.
_spec = importlib.util.spec_from_file_location(__name__, Path(sysconfig.get_path("stdlib")) / "tokenize.py")
_module = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _module
_spec.loader.exec_module(_module)
