# SPDX-License-Identifier: Apache-2.0
"""Rules that a look at the source text can check: a file includes only headers of its own folder and of lower ones;
each library is included in few folders; what a ZeRO stage means is known to zero/stages alone; a test that is skipped
gives the reason."""

import re
import unittest

from program import SOURCE, main

LAYERS = [
    {"base"},
    {"device"},
    {"kernels"},
    {"comm", "model", "optim"},
    {"io", "zero"},
    {"data", "sync", "pipeline"},
    {"plan", "config"},
    {"app"},
]
# Where a library may be included: patterns of its headers, and of the files (paths from the source root).
LIBRARIES = {
    "Kokkos": (
        r"Kokkos_.*",
        r"kernels/(cpu/(parallel_for\.hpp|runtime\.cpp)|portable/kokkos_launch\.hpp|kokkos_trace\.cpp)",
    ),
    "oneDNN": (r"(oneapi/.*/)?dnnl.*", r"kernels/cpu/.*"),
    "OpenMP": (r"omp\.h", r"kernels/cpu/.*"),
    "MPI": (r"mpi\w*\.h", r"src/comm/.*|src/io/collective_write\.cpp"),
    "HDF5": (r"hdf5\w*\.h|H5\w+\.h", r"src/io/.*"),
    "xxHash": (r"xxh\w*\.h", r"src/io/.*"),
    "Boost": (r"boost/.*", r"src/config/.*"),
    "NVTX": (r"nvtx3/.*", r"src/device/cuda_ranges\.cpp"),
    "nlohmann-json": (r"nlohmann/json\.hpp", r"src/(app|config|io|model)/.*\.cpp"),
}


def files():
    for pattern in ("include/shoal/*/**/*.hpp", "src/*/**/*.?pp", "kernels/**/*.?*"):
        for path in SOURCE.glob(pattern):
            if path.suffix in (".hpp", ".cpp", ".cu"):
                parts = path.relative_to(SOURCE).parts
                yield path, "kernels" if parts[0] == "kernels" else parts[2] if parts[0] == "include" else parts[1]


def includes(path):
    """The header and a text for messages, for each #include of a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if found:
            yield found.group(1), f"{path.relative_to(SOURCE)}:{number} includes {found.group(1)}"


class Layers(unittest.TestCase):
    def test_includes_point_downwards(self):
        level = {folder: height for height, layer in enumerate(LAYERS) for folder in layer}
        seen = 0
        for path, folder in files():
            for header, message in includes(path):
                ours = re.match(r"shoal/(\w+)/", header)
                if ours:
                    seen += 1
                    self.assertTrue(ours.group(1) == folder or level[ours.group(1)] < level[folder], message)
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
            if folder == "pipeline":  # its stages are ranks
                continue
            lines = enumerate(path.read_text().splitlines(), 1)
            found += [f"{path.relative_to(SOURCE)}:{number}" for number, line in lines if compared.search(line)]
        self.assertEqual(tables, 2)
        self.assertEqual(found, [])

    def test_libraries_are_included_where_the_table_allows(self):
        seen = dict.fromkeys(LIBRARIES, 0)
        for path, _ in files():
            for header, message in includes(path):
                for library, (headers, allowed) in LIBRARIES.items():
                    if re.fullmatch(headers, header):
                        seen[library] += 1
                        self.assertRegex(str(path.relative_to(SOURCE)), rf"^({allowed})$", message)
        for library, times in seen.items():
            self.assertGreater(times, 0, f"{library} is included nowhere: its pattern no longer matches its headers")


# Forbidden ways to skip a test: without a reason, or without the helper that prints it (program.py, support/skips.hpp), or
# because of the number of ranks (SHOAL_RUN_IF in support/mpi_main.hpp leaves such a test out).
SILENT = {
    "*.py": r"unittest\.skip|raise unittest\.SkipTest|@skip",
    "*.cpp": r"GTEST_SKIP\(\);|(ranks|size)\(\).*GTEST_SKIP|^  if \(.*(ranks|size)\(\) [!=]= \d\) return;$",
}
# Tests that first check what one rank can check, and continue only on several ranks.
GOES_ON = {"tree_reduce_test.cpp", "quantized_runs_test.cpp"}


class Skips(unittest.TestCase):
    def test_skipped_tests_give_a_reason(self):
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

    def test_a_program_whose_tests_were_all_skipped_says_so(self):
        """unittest.main() reports success then; that of program.py ends with 77."""

        def uses_program(path):
            return path.parent.name == "app" or re.search(r"^from program import", path.read_text(), re.M)

        programs = [path for path in sorted((SOURCE / "tests").glob("*/*_test.py")) if uses_program(path)]
        self.assertGreater(len(programs), 40)
        called = re.compile(r"^ *unittest\.main\(", re.M)
        self.assertEqual([path.name for path in programs if called.search(path.read_text())], [])


if __name__ == "__main__":
    main()
