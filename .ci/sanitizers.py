# SPDX-License-Identifier: Apache-2.0
"""sanitizers.py BUILD SECONDS: builds and runs tests with sanitizers. First the tests of the folders that a change touches
(SHOAL_CHANGED names a list), then a third of all others, which SHOAL_ROTATE=k/3 names. When SECONDS are over, no test is
started any more. BUILD has been configured. .ci/passed.py says whether enough have passed."""

import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib

import schedule

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Folders with tests of the program, which is src/app.
OF_APP = ("app", "house", "promises")
# Tests that compare numbers, documents or memory, tests of scripts, tests that start many runs of code that other tests cover,
# and numbers of ranks that add no other path: at night.
RUNS = (
    "w1|study|stages|large_units|readme|bytes|memory|kills|adascale|sync|plan|bench|simulated|nccl|resume|messages|"
    "trajectory|hugging_face"
)
WITHOUT = (
    rf"({'|'.join(OF_APP)})/(({RUNS})_test|.*@portable)|analysis/|gpu/|@AVX|comm/tree_order_test|"
    r"kernels/attention_by_cudnn_test|kernels/(matmul|attention)_test@portable|kernels/refused_builds|"
    r"comm/tree_reduce_test.*/4|comm/.*/(6|12)|long$"
)
# What whole runs need.
BESIDE = [
    "shoal",
    "shoal_portable",
    "shoal_simulated",
    "shoal_failing_calls",
    "shoal_mpi_counter",
]


def listed(build):
    """The tests of the build folder that may run here."""
    found = subprocess.run(
        ["ctest", "--test-dir", str(build), "--show-only=json-v1", "-LE", "long|cluster|contract"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [
        test
        for test in json.loads(found.stdout)["tests"]
        if not re.search(WITHOUT, test["name"])
    ]


def folder_of(name):
    return name.split("/")[0]


def touched(changed):
    """A function that says whether a change of these files touches a test: its folder's sources or tests, or the program's."""
    folders = set()
    for path in changed:
        found = re.match(r"(?:src|include/shoal|tests)/(\w+)/|(kernels)/", path)
        if found and not path.endswith(("README.md", "_test.py")):
            folders.add(found.group(1) or found.group(2))
    files = {pathlib.Path(path).stem for path in changed if path.endswith("_test.py")}

    def touches(name):
        folder = folder_of(name)
        if folder in OF_APP and ("app" in folders or name.split("/")[1] in files):
            return True
        return folder in folders

    return touches


def plain_seconds():
    """How long each test took in the build without sanitizers."""
    report = ROOT / "build" / "results.xml"
    cases = (
        ElementTree.parse(report).getroot().iter("testcase") if report.exists() else ()
    )
    return {case.get("name"): float(case.get("time") or 0) for case in cases}


def main(folder, seconds):
    build = ROOT / folder
    k, parts = map(int, os.environ.get("SHOAL_ROTATE", "0/1").split("/"))
    changed = os.environ.get("SHOAL_CHANGED")
    touches = touched(pathlib.Path(changed).read_text().splitlines() if changed else [])

    tests = listed(build)
    order = sorted({folder_of(test["name"]) for test in tests})

    def turn(name):
        """A whole folder takes its turn, since it is one or two programs; of whole runs, single tests."""
        what = (
            zlib.crc32(name.encode())
            if folder_of(name) in OF_APP
            else order.index(folder_of(name))
        )
        return what % parts == k % parts

    first = [test for test in tests if touches(test["name"])]
    then = [test for test in tests if not touches(test["name"]) and turn(test["name"])]
    folders = sorted({folder_of(test["name"]) for test in first + then})
    print(f"sanitizers: {len(first)} tests of what was changed, {len(then)} by turns, of {len(tests)}: {' '.join(folders)}",
          flush=True)  # fmt: skip
    targets = [*BESIDE, *(f"{each}_tests" for each in folders)]
    subprocess.run(["cmake", "--build", str(build), "--target", *targets], check=True)
    plain = plain_seconds()

    def limit_of(name):
        return max(60.0, 10 * plain.get(name, 1e9))

    slots = 2 * len(os.sched_getaffinity(0)) + 1
    for old in (build / "Testing").glob("**/LastTest*.log"):
        old.unlink()
    results = schedule.run(
        first + then, limit_of, slots, float(seconds), build / "Testing/Temporary"
    )
    schedule.write_report(results, build / "results.xml")
    return 1 if "fail" in results.values() else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
