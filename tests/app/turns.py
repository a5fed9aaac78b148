# SPDX-License-Identifier: Apache-2.0
"""Rows of dear tests take turns. With SHOAL_ROTATE=k/3 a row runs if the hash of its name says k, so that every row runs once
while k goes from 0 to 2; .ci/run takes k from .ci/changes. All rows run without SHOAL_ROTATE, as at night, and in a test whose
subject was changed: SHOAL_CHANGED names a file with the files of a change, one a line, or "everything".

A row is a test of a class whose attribute `takes_turns` names the subject, as beginnings of paths, or what chosen() is given. A
test that calls chosen() is in `with_rows` and is no row itself: its rows would wait for two turns at once."""

import os
import pathlib
import sys
import unittest
import zlib


def changed(file, subject):
    """Whether the change touches the test in this file, or what it tests."""
    told = os.environ.get("SHOAL_CHANGED")
    paths = pathlib.Path(told).read_text().splitlines() if told else ["everything"]
    return paths == ["everything"] or any(pathlib.Path(path).name == file or path.startswith(subject) for path in paths)


def chosen(rows, subject, name=repr):
    """The rows whose turn it is. If there is none, the first one, so that no test runs nothing."""
    rows = list(rows)
    turn = os.environ.get("SHOAL_ROTATE")
    file = pathlib.Path(sys.argv[0]).name
    if subject is None or not turn or not rows or changed(file, tuple(subject)):
        return rows
    k, parts = map(int, turn.split("/"))
    names = [name(row) for row in rows]
    runs = [zlib.crc32(f"{file}: {each}".encode()) % parts == k % parts for each in names]
    if not any(runs):
        runs[0] = True
    out = [each for each, it_runs in zip(names, runs, strict=True) if not it_runs]
    if out:
        print(f"ROTATED OUT: {file}: {len(out)} of {len(rows)}: {'; '.join(out)}", flush=True)
    return [row for row, it_runs in zip(rows, runs, strict=True) if it_runs]


class Loader(unittest.TestLoader):
    """Loads the tests whose turn it is, unless the command line names tests."""

    def getTestCaseNames(self, testCaseClass):
        names = super().getTestCaseNames(testCaseClass)
        always = [name for name in names if name in getattr(testCaseClass, "with_rows", ())]
        rows = [name for name in names if name not in always]
        return always + chosen(rows, getattr(testCaseClass, "takes_turns", None), str)
