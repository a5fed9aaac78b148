# SPDX-License-Identifier: Apache-2.0
"""A peer that trains something else is a failed comparison, and no stage is compared with it."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from losses import most_apart
from two_ranks import Field, Run
from verdicts import unmet

LOSSES = [4.138, 3.618, 3.531, 3.365]


class Losses(unittest.TestCase):
    def lines(self, apart):
        """Of two peers of which the fastest one's last loss is off."""
        field = Field.__new__(Field)
        field.dtype, field.peers = "bf16", ["ddp", "deepspeed-zero0"]
        field.runs = {f"stage {stage}": [Run(300.0, 10**8, LOSSES)] for stage in range(4)}
        field.runs["ddp"] = [Run(100.0, 10**9, LOSSES)]
        field.runs["deepspeed-zero0"] = [Run(200.0, 10**9, [*LOSSES[:-1], LOSSES[-1] + apart])]
        return field.lines()

    def test_a_peer_with_other_losses_fails_and_is_not_compared_with(self):
        lines = self.lines(1.01 * most_apart("bf16", 4))
        self.assertEqual(unmet(lines), ["W1 bf16, 2 ranks: deepspeed-zero0 largest difference of losses"])
        names = [line.name for line in lines]
        self.assertIn("W1 bf16, 2 ranks: stage 0 / ddp", names)
        self.assertNotIn("W1 bf16, 2 ranks: stage 0 / deepspeed-zero0", names)

    def test_a_peer_that_rounds_otherwise_is_compared_with(self):
        lines = self.lines(0.99 * most_apart("bf16", 4))
        self.assertEqual(unmet(lines), [])
        self.assertIn("W1 bf16, 2 ranks: stage 0 / deepspeed-zero0", [line.name for line in lines])


if __name__ == "__main__":
    unittest.main()
