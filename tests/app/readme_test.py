# SPDX-License-Identifier: Apache-2.0
"""The README's commands run as they stand (its sh blocks, in order; make and batch systems are tested elsewhere)."""

import os
import pathlib
import re
import subprocess
import unittest

from program import BINARY, SOURCE, Program


class Readme(Program):
    def test_every_command_of_the_tour(self):
        blocks = re.findall(r"^```sh\n(.*?)^```$", (SOURCE / "README.md").read_text(), re.M | re.S)
        commands = [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]
        self.assertGreater(len(commands), 10)
        # The tour writes to out/ below the working directory: a copy of the tree by links keeps the repository clean.
        for entry in SOURCE.iterdir():
            if entry.name not in ("build", "out", ".git"):
                os.symlink(entry, self.dir / entry.name)
        (self.dir / "build").mkdir()
        os.symlink(BINARY, self.dir / "build" / "shoal")
        python = pathlib.Path("/usr/bin/python3")
        for command in commands:
            ranks = int(re.search(r"-n (\d+)", command).group(1)) if "mpiexec" in command else 1
            if command.startswith("python3") and python.exists():
                command = command.replace("python3", str(python), 1)
            with self.subTest(command):
                done = subprocess.run(
                    ["bash", "-c", command],
                    cwd=self.dir,
                    env=self.environment(ranks),
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    unittest.main()
