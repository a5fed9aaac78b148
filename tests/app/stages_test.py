# SPDX-License-Identifier: Apache-2.0
"""One trajectory at every ZeRO stage, on any number of ranks, with any way of sending: every pair of choices occurs in
some run."""

import unittest

from matrix import SPACE, Matrix


class Stages(Matrix):
    def test_every_pair_of_choices(self):
        self.walk(SPACE.covering(2))


if __name__ == "__main__":
    unittest.main()
