# SPDX-License-Identifier: Apache-2.0
"""What decides whether a change passes (.ci/): rows take turns so that each runs once in three changes, a part in which nothing
ran is no success, a skip must be on the list, a test that hangs is a failure, and a price above the budget is one."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from program import SOURCE, main

sys.path.insert(0, str(SOURCE / ".ci"))
sys.dont_write_bytecode = True
import budget
import sanitizers
import schedule
import turns


@contextlib.contextmanager
def environment(changed=None, **variables):
    """With these variables, and SHOAL_CHANGED as the name of a file with the text `changed`."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(changed or "")
        file.flush()
        if changed is not None:
            variables["SHOAL_CHANGED"] = file.name
        with unittest.mock.patch.dict(os.environ, variables):
            yield


class Turns(unittest.TestCase):
    ROWS = tuple(f"row {i}" for i in range(20))

    def chosen(self, k, changed="src/zero/a.cpp", subject=("src/sync",), rows=ROWS):
        with (
            environment(changed, SHOAL_ROTATE=f"{k}/3"),
            contextlib.redirect_stdout(io.StringIO()) as out,
        ):
            return turns.chosen(rows, subject, str), out.getvalue()

    def test_every_row_runs_once_in_three_turns(self):
        for first in (0, 7):
            runs = [row for k in range(first, first + 3) for row in self.chosen(k)[0]]
            self.assertEqual(sorted(runs), sorted(self.ROWS))
        some, said = self.chosen(0)
        self.assertLess(len(some), len(self.ROWS))
        out = said.strip().split(": ")[-1].split("; ")
        self.assertEqual(sorted(out + some), sorted(self.ROWS), "what does not run is told")

    def test_what_was_changed_runs_whole(self):
        file = pathlib.Path(sys.argv[0]).name
        for changed in ("everything", "src/sync/outer.cpp", f"README.md\ntests/app/{file}"):
            self.assertEqual(self.chosen(0, changed)[0], list(self.ROWS), changed)
        self.assertEqual(self.chosen(0, subject=None)[0], list(self.ROWS))

    def test_something_runs(self):
        for k in range(3):
            self.assertEqual(self.chosen(k, rows=["alone"])[0], ["alone"])

    def test_tests_are_rows(self):
        class Two(unittest.TestCase):
            takes_turns, with_rows = ("src/sync",), ("test_a",)
            test_a = test_b = test_c = test_d = test_e = lambda self: None

        runs = []
        for k in range(3):
            with environment("x", SHOAL_ROTATE=f"{k}/3"), contextlib.redirect_stdout(io.StringIO()):
                runs += turns.Loader().getTestCaseNames(Two)
        self.assertEqual(sorted(runs), ["test_a"] * 3 + ["test_b", "test_c", "test_d", "test_e"])


class Passed(unittest.TestCase):
    """passed.py over a build folder with a stand-in for CTest, which lists two hundred tests."""

    NAMES = tuple(f"base/t{i}_test" for i in range(200))

    def passed(self, ended, log="", part="tests"):
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            (build / "Testing/Temporary").mkdir(parents=True)
            (build / "Testing/Temporary/LastTest.log").write_text(log)
            schedule.write_report(ended, build / "results.xml")
            listed = "".join(f"  Test #{i}: {test}\n" for i, test in enumerate(self.NAMES))
            (build / "ctest").write_text(f"#!/bin/sh\ncat <<END\n{listed}END\n")
            (build / "ctest").chmod(0o755)
            with environment(PATH=f"{build}:{os.environ['PATH']}"):
                done = subprocess.run(
                    [sys.executable, "-B", SOURCE / ".ci/passed.py", part, build], capture_output=True, text=True
                )
        return done.returncode, done.stdout + done.stderr

    def test_nothing_ran(self):
        for part in ("tests", "sanitizers"):
            code, said = self.passed({}, part=part)
            self.assertEqual(code, 1, said)
            self.assertIn("0 tests passed", said)

    def test_floors(self):
        """Of two hundred tests 180 have to pass; of sanitized ones 40."""
        for part, least in (("tests", 180), ("sanitizers", 40)):
            self.assertEqual(self.passed(dict.fromkeys(self.NAMES[:least], "run"), part=part)[0], 0)
            code, said = self.passed(dict.fromkeys(self.NAMES[: least - 1], "run"), part=part)
            self.assertEqual(code, 1)
            self.assertIn(self.NAMES[least - 1], said, "the names that did not run")

    def test_a_skipped_test_has_not_passed(self):
        ended = dict.fromkeys(self.NAMES, "run") | dict.fromkeys(self.NAMES[:21], "notrun")
        self.assertEqual(self.passed(ended)[0], 1)

    def test_a_failed_test(self):
        self.assertEqual(self.passed(dict.fromkeys(self.NAMES, "run") | {"base/t3_test": "fail"})[0], 1)

    def test_skips(self):
        all_passed = dict.fromkeys(self.NAMES, "run")
        fine = "SKIPPED: this processor has no avx512bw: ONEDNN_MAX_CPU_ISA=AVX512_CORE limits nothing\n"
        fine += "SKIPPED: MatmulPaths.Pairs: this processor multiplies bf16; tried without, too\n"
        self.assertEqual(self.passed(all_passed, fine), (0, unittest.mock.ANY))
        for lacking in (
            "SimGrid is not installed: no smpirun (Debian: libsimgrid-dev)",
            "teams of threads: no Kokkos with OpenMP (make kokkos)",
            "strace is not installed; system calls are not counted",
            "needs packages: slurm-wlm",
            "AddressSanitizer maps terabytes",  # in a build without it
            "no reason",
        ):
            code, said = self.passed(all_passed, f"{fine}SKIPPED: {lacking}\n")
            self.assertEqual(code, 1, lacking)
            self.assertIn(f"should not skip it: {lacking}", said)


class Schedule(unittest.TestCase):
    def run_of(self, commands, seconds=60, limit=60.0, slots=2):
        tests = [
            {"name": f"x/{name}", "command": ["sh", "-c", command], "properties": [
                {"name": "WORKING_DIRECTORY", "value": "/"}, {"name": "SKIP_RETURN_CODE", "value": 77}]}
            for name, command in commands.items()
        ]  # fmt: skip
        with tempfile.TemporaryDirectory() as logs, contextlib.redirect_stdout(io.StringIO()) as out:
            return schedule.run(tests, lambda name: limit, slots, seconds, pathlib.Path(logs)), out.getvalue()

    def test_ends(self):
        ended, said = self.run_of({"a": "true", "b": "echo it broke; exit 3", "c": "exit 77"})
        self.assertEqual(ended, {"x/a": "run", "x/b": "fail", "x/c": "notrun"})
        self.assertIn("it broke", said)

    def test_a_test_that_hangs_is_a_failure(self):
        ended, said = self.run_of({"a": "sleep 1000"}, limit=0.3)
        self.assertEqual(ended, {"x/a": "fail"})
        self.assertIn("did not end within", said)

    def test_nothing_is_started_when_the_time_is_over(self):
        self.assertEqual(self.run_of({"a": "true"}, seconds=0)[0], {})

    def test_what_was_changed_comes_first(self):
        touches = sanitizers.touched(["src/zero/engine.cpp", "tests/promises/resume_test.py", "src/comm/README.md"])
        touched = [
            name for name in ("zero/a_test", "promises/resume_test", "app/b_test", "comm/c_test") if touches(name)
        ]
        self.assertEqual(touched, ["zero/a_test", "promises/resume_test"])

    def test_a_change_of_the_program_touches_all_whole_runs(self):
        names = ("app/a_test", "house/b_test", "promises/c_test", "zero/d_test")
        for path, touched in (("src/app/main.cpp", names[:3]), ("tests/promises/matrix.py", names[2:3])):
            self.assertEqual(tuple(filter(sanitizers.touched([path]), names)), touched, path)


class Budget(unittest.TestCase):
    def judged(self, seconds, name="app/some_test"):
        with (
            tempfile.NamedTemporaryFile("w", suffix=".log") as log,
            unittest.mock.patch.object(budget, "loops", lambda: [0.0]),
        ):
            log.write(f"{seconds} 0.5 3.2 {name}\n")
            log.flush()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return budget.main(log.name)

    def test_border(self):
        most = budget.BUDGET * budget.NOISE - 0.5
        self.assertEqual(self.judged(most), 0)
        self.assertEqual(self.judged(most + 0.1), 1)
        self.assertEqual(self.judged(most + 0.1, "zero/some_test/4"), 0, "a unit test has no budget")

    def test_only_a_file_that_has_moved_keeps_its_price(self):
        old = {"app/a_test": 30.0, "app/b_test": 40.0}
        for above, raised in (
            ({"app/a_test": 30.0, "promises/b_test": 40.0}, []),
            ({"app/a_test": 31.0, "promises/b_test": 41.0}, ["app/a_test", "promises/b_test"]),
            (old | {"promises/b_test": 40.0, "house/c_test": 21.0}, ["promises/b_test", "house/c_test"]),
        ):
            self.assertEqual(budget.raised(above, old), raised)

    def test_an_empty_log(self):
        with tempfile.NamedTemporaryFile() as log, contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(budget.main(log.name), 1)

    def test_measured(self):
        """tests/support/measured.sh counts processes that the command waits for, and passes on its end."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            work = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done'; echo said; echo told >&2; exit 77"
            done = subprocess.run(
                [SOURCE / "tests/support/measured.sh", "app/a_test", "sh", "-c", work], capture_output=True, text=True,
                env={**os.environ, "SHOAL_CPU_LOG": str(log)},
            )  # fmt: skip
            self.assertEqual((done.returncode, done.stdout, done.stderr), (77, "said\n", "told\n"))
            self.assertGreater(budget.spent(log)["app/a_test"], 0.01)


class Entries(unittest.TestCase):
    def test_a_file_that_no_program_has_is_an_error(self):
        """An entry whose file has no test, or another name, must not pass."""
        programs = sorted((pathlib.Path(os.environ["SHOAL_BINARY"]).parent / "tests/base").glob("base_unit_tests"))
        self.assertEqual(len(programs), 1)
        for argument, code in (("--file=state_test", 0), ("--file=no_such_test", 1), ("--file=state", 1)):
            done = subprocess.run([*programs, argument], capture_output=True, text=True)
            self.assertEqual(done.returncode, code, f"{argument}\n{done.stdout}\n{done.stderr}")
        done = subprocess.run(
            [*programs, "--file=state_test", "--gtest_filter=Nothing*"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 1, done.stdout)


if __name__ == "__main__":
    main()
