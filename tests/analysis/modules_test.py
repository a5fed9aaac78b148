#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules for the modules in analysis/ that a look at their source can check: programs import the package `shoal`, whose folders
import only those before them (read, then tokens and times, draw); no modules import each other in a circle."""

import ast
import sys
import unittest
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ANALYSIS = Path(__file__).resolve().parents[2] / "analysis"
LEVELS = {"shoal.read": 0, "shoal.tokens": 1, "shoal.times": 1, "shoal.draw": 2, "shoal": 3, "": 4}  # "": programs


def imports_of(source, modules):
    """The modules among `modules` that this source imports, anywhere in it."""
    named = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            named += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return modules & set(named)


class Modules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        paths = {
            ".".join(path.relative_to(ANALYSIS).with_suffix("").parts): path
            for path in ANALYSIS.rglob("*.py")
            if path.name != "__init__.py"
        }
        cls.imports = {name: imports_of(path.read_text(), set(paths)) for name, path in paths.items()}

    def test_imports_point_downwards(self):
        seen = 0
        for module, imported in self.imports.items():
            folder = module.rpartition(".")[0]
            for other in imported:
                seen += 1
                below = other.rpartition(".")[0]
                # A program imports no other program. What all programs share may use what reads, and no more.
                allowed = below == folder if folder not in ("", "shoal") else False
                self.assertTrue(allowed or LEVELS[below] < LEVELS[folder], f"{module} imports {other}")
                self.assertTrue(folder != "shoal" or below == "shoal.read", f"{module} imports {other}")
        self.assertGreater(seen, 100)
        self.assertEqual({module.rpartition(".")[0] for module in self.imports}, set(LEVELS))

    def test_no_modules_import_each_other(self):
        order = list(TopologicalSorter(self.imports).static_order())
        self.assertLess(order.index("shoal.read.trace"), order.index("report"))
        with self.assertRaises(CycleError):
            list(TopologicalSorter({"a": {"b"}, "b": {"c"}, "c": {"a"}}).static_order())

    def test_no_program_hides_a_module_of_the_standard_library(self):
        """Python looks into the folder of the running program first, so matplotlib would import ours instead."""
        names = {path.stem for path in ANALYSIS.glob("*.py")}
        self.assertIn("report", names)
        self.assertEqual(names & sys.stdlib_module_names, set())


if __name__ == "__main__":
    unittest.main()
