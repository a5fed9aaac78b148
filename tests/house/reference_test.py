# SPDX-License-Identifier: Apache-2.0
"""The reference of options in inputs/README.md is what `shoal train --help=markdown` prints. With --write it is made so."""

import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import BINARY, SOURCE, main

README = SOURCE / "inputs" / "README.md"
BEGIN = "<!-- Written by `python3 tests/house/reference_test.py --write` from `shoal train --help=markdown`. Do not edit. -->\n"
END = "<!-- End of the generated part. -->\n"


def parts():
    """The README before, in and after the generated part."""
    before, _, rest = README.read_text().partition(BEGIN)
    inside, _, after = rest.partition(END)
    return before + BEGIN, inside, END + after


def printed():
    done = subprocess.run([BINARY, "train", "--help=markdown"], capture_output=True, text=True, check=True, timeout=60)
    return "\n" + done.stdout + "\n"


class Reference(unittest.TestCase):
    def test_the_readme_has_what_the_program_prints(self):
        text = README.read_text()
        self.assertEqual((text.count(BEGIN), text.count(END)), (1, 1), "the marker lines of the generated part")
        same = parts()[1] == printed()
        self.assertTrue(same, "inputs/README.md is out of date: run python3 tests/house/reference_test.py --write")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        before, _, after = parts()
        README.write_text(before + printed() + after)
    else:
        main()
