# SPDX-License-Identifier: Apache-2.0
"""Every README.md: its commands run as they are written, and its links lead to files.

The `sh` and `python` blocks are run from the root of the tree, in order. README.md comes first. Every other README then
starts with the output directories that README.md left in out/, and with nothing of each other's. Blocks of other kinds
(console, make) show commands that a test cannot run: batch systems, modules, downloads, long runs.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from program import BINARY, SOURCE, Program, main
from turns import changed, chosen

MAIN = pathlib.Path("README.md")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
RUN = ("sh", "python")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable  # Debian's, which has h5py
# A file or folder of the tree, but not an entry of CTest, such as kernels/matmul_test; NAME and FOLDER stand for any.
PATH = re.compile(r"(?<![\w/.<-])((?:src|include|kernels|tests|analysis|jobscripts|inputs)/[\w./*{},]*[\w*/}])")
NOT_OURS = ("out", ".git")  # and build folders


def entries():
    """The files and folders at the root of the tree, without what is built or written there."""
    return [path for path in SOURCE.iterdir() if path.name not in NOT_OURS and not path.name.startswith("build")]


def readmes():
    """All README.md, relative to the root; the one at the root first."""
    below = [found for path in entries() if path.is_dir() for found in path.rglob("README.md")]
    return [MAIN, *sorted(path.relative_to(SOURCE) for path in below)]


def text_of(readme):
    return (SOURCE / readme).read_text()


def commands(readme):
    """The commands of a README, in order, as bash takes them: the lines of `sh` blocks, and `python` blocks as a
    whole."""
    found = []
    for language, block in FENCE.findall(text_of(readme)):
        if language == "python":
            found.append(f"python3 - <<'END_OF_BLOCK'\n{block}END_OF_BLOCK")
        elif language == "sh":
            lines = block.replace("\\\n", " ").splitlines()
            found += [line for line in lines if line and not line.startswith("#")]
    return found


class Readmes(Program):
    def setUp(self):
        super().setUp()
        # The commands write to out/ below the working directory. In a copy of the tree, made of links, they leave ours
        # clean.
        self.tree = self.dir / "tree"
        self.tree.mkdir()
        for path in entries():
            os.symlink(path, self.tree / path.name)
        (self.tree / "build").mkdir()
        os.symlink(BINARY, self.tree / "build" / "shoal")
        os.symlink(os.environ["SHOAL_SIMULATED"], self.tree / "build" / "shoal_simulated")

    def run_command(self, command):
        ranks = int(re.search(r"-n (\d+)", command).group(1)) if "mpiexec" in command else 1
        return subprocess.run(
            ["bash", "-c", command.replace("python3", PYTHON, 1) if command.startswith("python3") else command],
            cwd=self.tree,
            env=self.environment(ranks, {"PYTHONDONTWRITEBYTECODE": "1"}),
            capture_output=True,
            text=True,
            timeout=300,
        )

    def test_every_command(self):
        out, left = self.tree / "out", self.dir / "left"
        count = 0
        others = readmes()[1:]
        touched = [readme for readme in others if changed("readme_test.py", (str(readme),))]
        touched += chosen([readme for readme in others if readme not in touched], (str(MAIN), "inputs/"), str)
        for readme in [MAIN, *touched]:
            if readme != MAIN:
                shutil.rmtree(out, ignore_errors=True)
                shutil.copytree(left, out)
            for command in commands(readme):
                count += 1
                with self.subTest(readme=str(readme), command=command):
                    done = self.run_command(command)
                    self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            if readme == MAIN:
                shutil.copytree(out, left)
        self.assertGreater(count, 10)

    def test_every_block_of_commands_is_run_or_marked_as_shown_only(self):
        """A block whose fence is indented or misspelt would not be found, and its commands would not be run."""
        misspelt = {"bash", "shell", "py", "python3", "Makefile"}  # for sh or console, python, make
        for readme in readmes():
            text = text_of(readme)
            languages = [language for language, _ in FENCE.findall(text)]
            with self.subTest(readme=str(readme)):
                self.assertEqual(set(languages) & misspelt, set())
                fences = re.findall(r"^\s*(?:```|~~~).*$", text, re.M)
                self.assertEqual(len(fences), 2 * len(languages), fences)
                self.assertEqual(
                    len(re.findall(r"```(?:sh|python)\b", text)), sum(language in RUN for language in languages)
                )

    def test_every_link_leads_to_a_file(self):
        for readme in readmes():
            for target in LINK.findall(text_of(readme)):
                if re.match(r"\w+:", target) or target.startswith("#"):
                    continue
                with self.subTest(readme=str(readme), link=target):
                    self.assertTrue((SOURCE / readme.parent / target.split("#")[0]).exists())

    def test_every_path_leads_to_a_file(self):
        """Files move, and what tells of them does not move with them."""
        seen = 0
        for readme in readmes():
            text = FENCE.sub("", text_of(readme))
            for path in re.findall(PATH, re.sub("NAME|FOLDER", "*", text)):
                if path.endswith("_test"):
                    continue
                seen += 1
                with self.subTest(readme=str(readme), path=path):
                    self.assertTrue(any(SOURCE.glob(path)))
        self.assertGreater(seen, 200)

    def test_every_heading_that_a_link_names_is_there(self):
        for readme in readmes():
            for target in LINK.findall(text_of(readme)):
                path, _, anchor = target.partition("#")
                page = SOURCE / readme.parent / path if path else SOURCE / readme
                if not anchor or re.match(r"\w+:", target) or page.suffix != ".md" or not page.exists():
                    continue
                headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.M)
                anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
                with self.subTest(readme=str(readme), link=target):
                    self.assertIn(anchor, anchors)


if __name__ == "__main__":
    main()
