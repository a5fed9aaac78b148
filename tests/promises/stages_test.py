# SPDX-License-Identifier: Apache-2.0
"""One trajectory at every ZeRO stage, on any number of ranks, with any way of sending: every pair of choices occurs in
some run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from matrix import SPACE, Matrix
from program import main


class Stages(Matrix):
    subject = ("src/zero", "include/shoal/zero")

    def test_every_pair_of_choices(self):
        self.walk(SPACE.covering(2))


if __name__ == "__main__":
    main()
