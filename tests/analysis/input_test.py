#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""If packages are missing, or a file is damaged or of another kind, the scripts in analysis/ print one line and no
traceback."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import h5py
import make_run
import numpy as np

from scripts import ANALYSIS, script  # isort: skip
from shoal.read import live
from shoal.read.bad_input import BadInput
from shoal.read.run import Run
from shoal.read.trace import Trace

PROGRAMS = ("report.py", "compare.py", "strategies.py", "perfetto.py", "make_tokens.py")


def run(*command):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=120)


class MissingPackages(unittest.TestCase):
    def test_every_script_says_in_a_line_what_to_install(self):
        scripts = sorted(ANALYSIS.glob("*.py"))
        self.assertLessEqual(set(PROGRAMS), {path.name for path in scripts})
        for path in scripts:
            with self.subTest(path.name):
                done = run("-S", "-B", path)  # without the directories that contain packages
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertRegex(done.stderr, rf"\A{path.name}: .* has no .*numpy.*\n\Z")
                self.assertIn(" -m pip install ", done.stderr)
                if path.name != "make_tokens.py":
                    self.assertRegex(done.stderr, "apt-get install .*python3-numpy")
        lacks = run("-S", "-B", ANALYSIS / "report.py").stderr
        self.assertIn("h5py, numpy, matplotlib", lacks)
        self.assertIn("apt-get install python3-h5py python3-numpy python3-matplotlib", lacks)


class Damage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = Path(tempfile.mkdtemp(prefix="shoal-input-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        # Damaged files do not become whole while a reader waits.
        cls.enterClassContext(unittest.mock.patch.object(live, "PATIENCE_S", 0.0))
        cls.good = make_run.make_run(cls.directory / "good", level="comm", steps=4)

    def test_a_file_that_is_no_whole_trace_is_one_line(self):
        whole = (self.good / "trace.h5").read_bytes()
        contents = {"empty.h5": b"", "text.h5": b"no trace\n" * 50, "half.h5": whole[: len(whole) // 2]}
        for name, content in contents.items():
            (self.directory / name).write_bytes(content)
        with h5py.File(self.directory / "other.h5", "w") as file:
            file["tokens"] = np.arange(5)
        for name in (*contents, "other.h5", "absent.h5"):
            for program in ("perfetto.py", "report.py"):
                with self.subTest(f"{program} {name}"):
                    done = script(program, self.directory / name)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertRegex(done.stderr, rf"\A{program}: .*{name}: .*\n\Z")
        done = run("-B", ANALYSIS / "perfetto.py", self.directory / "half.h5")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)

    def test_bad_input_of_every_script_is_one_line(self):
        (self.directory / "nothing").mkdir()
        bad_json = Path(shutil.copytree(self.good, self.directory / "bad-json"))
        (bad_json / "summary.json").write_text("{")
        listed = Path(shutil.copytree(self.good, self.directory / "listed"))
        (listed / "summary.json").write_text('{"losses": 7, "options": [1]}')
        for program, more in (("report.py", ()), ("compare.py", (self.good,)), ("strategies.py", (self.good,))):
            for path, expected in ((self.directory / "nowhere", "no such directory"), (self.directory / "nothing", "holds no run"),
                                   (bad_json, "not JSON"), (listed, "")):  # fmt: skip
                with self.subTest(f"{program} {path.name}"):
                    done = script(program, path, *more)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertRegex(done.stderr, rf"\A{program}: .*{expected}.*\n\Z")

    def test_tables_and_attributes_that_do_not_fit_are_refused(self):
        def set_field(field, value):
            def change(file):
                rows = file["events"][()]
                rows[field][5] = value
                file["events"][...] = rows

            return change

        def replace(name, data):
            def change(file):
                del file[name]
                file.create_dataset(name, data=data)

            return change

        cases = {
            "rank": (set_field("rank", 4), "ranks beyond the 4"),
            "kind": (set_field("kind", 99), "kinds beyond the 10"),
            "duration": (set_field("duration_ns", -1), "a duration below 0"),
            "numbers": (replace("events", np.arange(5)), "/events lacks rank"),
            "world": (lambda file: file.attrs.__setitem__("world_size", "many"), "cannot be read"),
            "array": (lambda file: file.attrs.__setitem__("nodes", np.arange(5000)), "cannot be read"),
            "claims": (lambda file: file["events"].resize((1 << 40,)), "claims 52776558133248 bytes"),
            "flushes": (replace("flushes", np.arange(5)), "cannot be read"),
        }
        for name, (change, expected) in cases.items():
            with self.subTest(name):
                path = Path(shutil.copy(self.good / "trace.h5", self.directory / f"{name}.h5"))
                with h5py.File(path, "r+") as file:
                    change(file)
                with self.assertRaisesRegex(BadInput, rf"{name}\.h5: .*{expected}"):
                    Trace.read(path)

    def test_what_a_terminal_would_obey_is_shown(self):
        evil, other = "\x1b]0;evil\x07<b>\u202e", "\u009b2J"
        copy = Path(shutil.copytree(self.good, self.directory / "evil"))
        with h5py.File(copy / "trace.h5", "r+") as file:
            for name in ("names", "units", "groups"):
                if len(file[name]):
                    file[name][0] = evil + name
            for place in (file, file["options"], file["machine"]):
                for key in list(place.attrs):
                    if isinstance(place.attrs[key], str):
                        place.attrs[key] = place.attrs[key] + other
        summary = json.loads((copy / "summary.json").read_text())
        summary["options"][f"model.{evil}"] = evil
        summary["comm_bytes_per_step"][evil] = {"intra": 1, "inter": 2}
        (copy / "summary.json").write_text(json.dumps(summary))
        for program, more in (
            ("report.py", ()),
            ("compare.py", (self.good, "-o", copy / "compare.png")),
            ("perfetto.py", ()),
        ):
            with self.subTest(program):
                done = script(program, copy / "trace.h5" if program == "perfetto.py" else copy, *more)
                self.assertEqual(done.returncode, 0, done.stderr)
                written = [path.read_text() for path in copy.glob("report/*.html")]
                for said in (done.stdout, done.stderr, *written):
                    self.assertNotRegex(said, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
                self.assertTrue(all("<b>" not in page for page in written))
        self.assertIn("\\x1b]0;evil\\x07&lt;b&gt;\\u{202e}", written[0])

    def test_a_damaged_part_of_a_run_is_named_and_the_rest_shown(self):
        copy = Path(shutil.copytree(self.good, self.directory / "part"))
        (copy / "trace_from_4.h5").write_bytes(b"torn")
        found = Run.read(copy)
        self.assertEqual([part.path.name for part in found.parts], ["trace.h5"])
        self.assertRegex(found.notes[0], "trace_from_4.h5: not an HDF5 file")
        done = script("report.py", copy)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "not shown: traces: .*trace_from_4.h5: not an HDF5 file")


if __name__ == "__main__":
    unittest.main()
