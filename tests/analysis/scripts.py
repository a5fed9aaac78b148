# SPDX-License-Identifier: Apache-2.0
"""Runs the scripts in analysis/ as their users do, but in this process, because starting a program takes longer than
its work. Every figure that a script saves must show all that is drawn into it."""

import contextlib
import importlib
import io
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

from inside import outside
from matplotlib.figure import Figure

ANALYSIS = Path(__file__).resolve().parents[2] / "analysis"
sys.path.insert(0, str(ANALYSIS))


SAVE = Figure.savefig


def save_if_whole(figure, *arguments, **more):
    SAVE(figure, *arguments, **more)
    hidden = outside(figure)
    assert not hidden, "\n".join(hidden)


def script(name, *arguments):
    """Returns the exit status and the output that the program would have had."""
    module = importlib.import_module(name.removesuffix(".py"))
    out, err, code = io.StringIO(), io.StringIO(), 0
    command = [str(ANALYSIS / name), *map(str, arguments)]
    with (
        warnings.catch_warnings(),
        mock.patch("sys.argv", command),
        mock.patch.object(Figure, "savefig", save_if_whole),
        contextlib.redirect_stdout(out),
    ):
        warnings.simplefilter("error", RuntimeWarning)
        with contextlib.redirect_stderr(err):
            try:
                module.run_main(module.main)
            except SystemExit as end:
                code = end.code
    return subprocess.CompletedProcess(command, code or 0, out.getvalue(), err.getvalue())
