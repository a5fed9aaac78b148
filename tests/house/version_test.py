# SPDX-License-Identifier: Apache-2.0
"""src/cmake/write_version.cmake: the version of a build names its commit, and tells apart all sources that differ."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from program import SOURCE, main, skip

SCRIPT = SOURCE / "src/cmake/write_version.cmake"


class Version(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.tree = pathlib.Path(holder.name) / "tree"
        self.output = pathlib.Path(holder.name) / "version.cpp"
        for name in ("src/a.cpp", "include/a.hpp", "kernels/a.cpp", "jobscripts/a.sh", "CMakeLists.txt", "README.md"):
            file = self.tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)

    def git(self, *args):
        if shutil.which("git") is None:
            skip("there is no git")
        of = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        command = ["git", *of, "-C", str(self.tree), *args]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def commit(self):
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "all")
        return self.git("rev-parse", "--short=8", "HEAD")

    def version(self, tree=None):
        values = (f"-DSOURCES={tree or self.tree}", "-DVERSION=1.2.3", f"-DOUTPUT={self.output}")
        subprocess.run(["cmake", *values, "-P", str(SCRIPT)], check=True, timeout=60)
        return re.fullmatch(r'.*return "1\.2\.3\+(.*)"; }\n', self.output.read_text(), re.S).group(1)

    def test_a_commit(self):
        commit = self.commit()
        self.assertEqual(self.version(), f"g{commit}")
        (self.tree / "README.md").write_text("not a source")
        self.assertEqual(self.version(), f"g{commit}")

    def test_a_changed_or_a_new_source(self):
        commit, seen = self.commit(), set()
        for name in ("src/a.cpp", "include/a.hpp", "kernels/a.cpp", "jobscripts/a.sh", "CMakeLists.txt", "src/new.cpp"):
            (self.tree / name).write_text("changed")
            seen.add(self.version())
            self.assertRegex(self.version(), rf"^g{commit}\.s[0-9a-f]{{8}}$")
        self.assertEqual(len(seen), 6)

    def test_without_git(self):
        first = self.version()
        self.assertRegex(first, r"^s[0-9a-f]{8}$")
        (self.tree / "kernels/a.cpp").rename(self.tree / "kernels/b.cpp")
        self.assertNotEqual(self.version(), first)

    def test_inside_another_repository(self):
        alone = self.version()
        inside = self.tree / "third_party"
        shutil.copytree(self.tree, inside)
        self.commit()
        self.assertEqual(self.version(inside), alone)

    def test_the_same_version_leaves_the_file_alone(self):
        self.version()
        before = self.output.stat().st_mtime_ns
        self.version()
        self.assertEqual(self.output.stat().st_mtime_ns, before)


if __name__ == "__main__":
    main()
