# SPDX-License-Identifier: Apache-2.0
"""Rules that a look at the source text can check: what stands at the top of the tree; a file includes only headers of its own room
and sub-room and of lower ones; files include each other in no other circles than those listed here; each library is included in
few folders; what a ZeRO stage means is known to zero/stages alone; what a run says goes through base/output; a test that is
skipped gives the reason."""

import collections
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
import include_graph as graph
from program import SOURCE, main

TOP = {
    *("Makefile", "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE"),
    *("src", "include", "kernels", "jobscripts", "inputs", "tests", "analysis"),
}
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
# Rooms that have sub-rooms, from the ground up. "" is what stands at the top of the room.
SUBROOMS = {
    "app": [
        {"support"},
        {"setup"},
        {"bench", "checkpoint"},
        {"doctor", "plan", "train"},
        {"", "jobscript"},
        {"study"},
    ],
    "io": [{"files"}, {"hdf5", "lock", "safetensors"}, {"checkpoint", "kinds", "tiers", "tokens", "trace"}],
    "comm": [{"operations"}, {"nccl"}, {"world"}, {"collectives", "hang"}],
    "device": [{""}, {"simulated"}],
    "kernels": [
        {"rules"},
        {"common"},
        {"portable", "cpu/vectors"},
        {"cuda", "cpu/attention", "cpu/product"},
        {"cpu"},
    ],
    "config": [{"table"}, {"checks", "json"}, {"deepspeed"}, {"input"}],
    "plan": [{"costs"}, {"memory", "time"}, {"pipeline"}, {"simgrid"}],
}
# Units that include each other. Each line is a debt: none may be added.
CIRCLES = [
    ["comm/groups", "comm/world"],
    ["comm/queued_tree", "comm/tree_reduce", "comm/tree_stages"],
    ["io/hdf5", "io/hdf5_driver"],
    ["io/hdf5_checks", "io/packed_chunk"],
    ["plan/collective_costs", "plan/group_places"],
    ["plan/fit", "plan/savings"],
    [
        *("plan/pipeline_places", "plan/pipeline_resources", "plan/pipeline_run"),
        *("plan/pipeline_step", "plan/stage_operations", "plan/stage_schedule"),
    ],
    ["plan/recorder", "plan/recording"],
]
# Where a library may be included: patterns of its headers, and of the files (paths from the source root).
LIBRARIES = {
    "Kokkos": (
        r"Kokkos_.*",
        r"kernels/(common/(kokkos_trace\.cpp|parallel_for\.hpp)|cpu/runtime\.cpp|portable/kokkos_launch\.hpp)",
    ),
    "oneDNN": (r"(oneapi/.*/)?dnnl.*", r"kernels/cpu/.*"),
    "OpenMP": (r"omp\.h", r"kernels/(common/parallel_for\.hpp|cpu/.*)"),
    "MPI": (r"mpi\w*\.h", r"src/comm/.*|src/io/checkpoint/collective_write\.cpp"),
    "liburing": (r"liburing\.h", r"src/io/tiers/.*"),
    "HDF5": (r"hdf5\w*\.h|H5\w+\.h", r"src/io/.*"),
    "xxHash": (r"xxh\w*\.h", r"src/io/.*"),
    "Boost": (r"boost/.*", r"src/config/.*"),
    "NVTX": (r"nvtx3/.*", r"src/device/cuda_ranges\.cpp"),
    "nlohmann-json": (r"nlohmann/json\.hpp", r"src/(app|config|io|model)/.*\.cpp"),
}


class Top(unittest.TestCase):
    @unittest.skipUnless(shutil.which("git") and (SOURCE / ".git").exists(), "there is no git, or this is no clone")
    def test_nothing_else_stands_there(self):
        """A file that a test or a tool has left is easily committed."""
        listed = subprocess.run(["git", "ls-files"], cwd=SOURCE, capture_output=True, text=True, check=True).stdout
        first = {path.split("/")[0] for path in listed.splitlines()}
        self.assertEqual({name for name in first if not name.startswith(".")}, TOP)


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = graph.files()
        cls.includes = graph.includes(cls.files)

    def test_includes_point_downwards(self):
        level = {room: height for height, layer in enumerate(LAYERS) for room in layer}
        seen = 0
        for file, included in self.includes.items():
            room = graph.room_of(file)
            for path, message in included:
                other = graph.room_of(path)
                seen += 1
                self.assertTrue(other == room or level[other] < level[room], message)
                self.assertTrue(other == room or path.startswith("include/"), f"{message}, a private header")
        self.assertGreater(seen, 1500)

    def test_includes_point_downwards_within_a_room(self):
        level = {
            room: {subroom: height for height, layer in enumerate(layers) for subroom in layer}
            for room, layers in SUBROOMS.items()
        }
        home = {graph.unit_of(file): graph.subroom_of(file) for file in self.files if not file.startswith("include/")}
        found = {room: set() for room in SUBROOMS}
        for file, included in self.includes.items():
            room, subroom = graph.room_of(file), graph.subroom_of(file)
            if room not in SUBROOMS or subroom is None:
                continue
            found[room].add(subroom)
            for path, message in included:
                other = home.get(graph.unit_of(path))  # none: a public header without a source
                if graph.room_of(path) == room and other is not None:
                    self.assertTrue(other == subroom or level[room][other] < level[room][subroom], message)
        for room, subrooms in found.items():
            self.assertEqual(subrooms, set(level[room]), room)

    def test_tuned_kernels_and_others_do_not_include_each_other(self):
        """They are the implementations of one interface; a program has one of them."""
        seen = collections.Counter()
        for file, included in self.includes.items():
            for path, message in included:
                sides = {graph.subroom_of(end).split("/")[0] for end in (file, path) if end.startswith("kernels/")}
                seen.update(sides)
                self.assertFalse("cpu" in sides and sides & {"portable", "cuda"}, message)
        self.assertGreater(min(seen["cpu"], seen["portable"], seen["cuda"]), 30)

    def test_names_of_units_are_unique_in_a_room(self):
        places = {}
        for file in self.files:
            if not file.startswith(("include/", "kernels/")):
                places.setdefault(graph.unit_of(file), set()).add(graph.subroom_of(file))
        self.assertEqual({unit: where for unit, where in places.items() if len(where) > 1}, {})

    def test_no_files_include_each_other(self):
        """A header and its source count as one. The list may only become shorter."""
        self.assertEqual(graph.circles(graph.units(self.files)), CIRCLES)
        self.assertEqual(graph.circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}), [["a", "b", "c"]])

    def test_only_the_table_of_stages_knows_their_numbers(self):
        """Other files ask stage_of(options).shards_parameters, ..., so that a new stage is a new row of the table."""
        compared = re.compile(
            r"\bstage\b\)?\s*([!=]=|[<>]=?)\s*\d|\d\s*([!=]=|[<>]=?)\s*[\w.>()-]*\bstage\b|switch \(.*\bstage\b"
        )
        found, tables = [], 0
        for file in graph.files():
            if graph.unit_of(file) == "zero/stages":
                tables += 1
                continue
            if graph.room_of(file) == "pipeline":  # its stages are ranks
                continue
            lines = enumerate((SOURCE / file).read_text().splitlines(), 1)
            found += [f"{file}:{number}" for number, line in lines if compared.search(line)]
        self.assertEqual(tables, 2)
        self.assertEqual(found, [])

    def test_whatever_a_run_says_goes_through_one_sink(self):
        """So that log.txt has it. Other commands have no log; a handler of signals must not wait for a file."""
        prints = re.compile(r"\b((f?printf|f?puts|putchar|fwrite)\(|write\(STD\w+_FILENO|std::c(out|err|log)\b)")
        allowed = re.compile(
            r"src/app/((bench|doctor|jobscript|plan|study)/)?\w+\.cpp|src/app/support/interrupt\.cpp"
            r"|src/device/simulated/.*|src/base/output\.cpp"
        )
        found = {}
        for file in graph.files():
            lines = (SOURCE / file).read_text().splitlines()
            found[file] = [number for number, line in enumerate(lines, 1) if prints.search(line)]
        self.assertTrue(found["src/base/output.cpp"])
        self.assertEqual([file for file, lines in found.items() if lines and not allowed.fullmatch(file)], [])

    def test_libraries_are_included_where_the_table_allows(self):
        seen = dict.fromkeys(LIBRARIES, 0)
        for file in graph.files():
            for header, message in graph.lines_of(file):
                for library, (headers, allowed) in LIBRARIES.items():
                    if re.fullmatch(headers, header):
                        seen[library] += 1
                        self.assertRegex(file, rf"^({allowed})$", message)
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
            whole_runs = path.parent.name in ("app", "house", "promises")
            return whole_runs or re.search(r"^from program import", path.read_text(), re.M)

        programs = [path for path in sorted((SOURCE / "tests").glob("*/*_test.py")) if uses_program(path)]
        self.assertGreater(len(programs), 40)
        called = re.compile(r"^ *unittest\.main\(", re.M)
        self.assertEqual([path.name for path in programs if called.search(path.read_text())], [])


if __name__ == "__main__":
    main()
