# SPDX-License-Identifier: Apache-2.0
"""The layering rule: a file includes only its own folder and lower ones, and each library is included in one folder
only. What a ZeRO stage means is known to zero/stages alone. Every skipped test gives its reason."""

import re
import unittest

from program import SOURCE

LAYERS = [
    {"base"},
    {"kernels"},
    {"comm", "model", "optim"},
    {"io", "zero"},
    {"data", "sync"},
    {"plan", "config"},
    {"app"},
]
# The folders that may include a third-party header.
ONLY_IN = {
    r"Kokkos_\w+\.hpp": {"kernels"},
    r"oneapi/.*": {"kernels"},
    r"mpi\.h": {"comm", "io"},
    r"hdf5\.h": {"io"},
    r"boost/.*": {"config"},
}


def files():
    for pattern in ("include/shoal/*/**/*.hpp", "src/*/*.?pp", "kernels/**/*.?*"):
        for path in SOURCE.glob(pattern):
            if path.suffix in (".hpp", ".cpp", ".cu"):
                parts = path.relative_to(SOURCE).parts
                yield path, "kernels" if parts[0] == "kernels" else parts[2] if parts[0] == "include" else parts[1]


class Layers(unittest.TestCase):
    def test_includes_point_downwards(self):
        level = {folder: height for height, layer in enumerate(LAYERS) for folder in layer}
        seen = 0
        for path, folder in files():
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = re.match(r'#include [<"]([^>"]+)[>"]', line)
                if not found:
                    continue
                where = f"{path.relative_to(SOURCE)}:{number} includes {found.group(1)}"
                ours = re.match(r"shoal/(\w+)/", found.group(1))
                if ours:
                    seen += 1
                    self.assertTrue(ours.group(1) == folder or level[ours.group(1)] < level[folder], where)
                for header, allowed in ONLY_IN.items():
                    if re.fullmatch(header, found.group(1)):
                        self.assertIn(folder, allowed, where)
        self.assertGreater(seen, 300)

    def test_only_the_table_of_stages_knows_their_numbers(self):
        """Other files ask stage_of(options).shards_parameters, ..., so that a new stage is a new row of the table."""
        compared = re.compile(
            r"\bstage\b\)?\s*([!=]=|[<>]=?)\s*\d|\d\s*([!=]=|[<>]=?)\s*[\w.>()-]*\bstage\b|switch \(.*\bstage\b"
        )
        found, tables = [], 0
        for path, folder in files():
            if folder == "zero" and path.stem == "stages":
                tables += 1
                continue
            lines = enumerate(path.read_text().splitlines(), 1)
            found += [f"{path.relative_to(SOURCE)}:{number}" for number, line in lines if compared.search(line)]
        self.assertEqual(tables, 2)
        self.assertEqual(found, [])


# Forbidden ways to skip a test: without a reason, or without the helper that prints it (program.py, support/skips.hpp).
SILENT = {
    "*.py": r"unittest\.skip|raise unittest\.SkipTest|@skip",
    "*.cpp": r"GTEST_SKIP\(\);|^  if \(.*(ranks|size)\(\) [!=]= \d\) return;$",
}
# Tests that first check what one rank can check, and continue only on several ranks.
GOES_ON = {"tree_reduce_test.cpp", "quantized_runs_test.cpp"}


class Skips(unittest.TestCase):
    def test_every_skip_gives_its_reason(self):
        silent, seen = [], 0
        for pattern, words in SILENT.items():
            for path in sorted((SOURCE / "tests").glob(f"*/{pattern}")):
                seen += 1
                if path.name in GOES_ON | {"program.py", "layers_test.py"}:
                    continue
                lines = enumerate(path.read_text().splitlines(), 1)
                silent += [f"{path.relative_to(SOURCE)}:{number}" for number, line in lines if re.search(words, line)]
        self.assertGreater(seen, 100)
        self.assertEqual(silent, [])


if __name__ == "__main__":
    unittest.main()
