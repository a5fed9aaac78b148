# SPDX-License-Identifier: Apache-2.0
"""One trajectory at every ZeRO stage, on any number of ranks, with any way of sending: every pair of choices occurs in
some run."""

from matrix import SPACE, Matrix
from program import main


class Stages(Matrix):
    def test_every_pair_of_choices(self):
        self.walk(SPACE.covering(2))


if __name__ == "__main__":
    main()
