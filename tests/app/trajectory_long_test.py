# SPDX-License-Identifier: Apache-2.0
"""The whole matrix of the promise: number of micro-batches x ranks x dtype x optimizer x dropout."""

import itertools
import unittest

from program import SMALL, Program, trajectory


class Matrix(Program):
    def test_every_combination(self):
        for total, dtype, optimizer, dropout in itertools.product(
            (6, 8, 12, 20, 24), ("fp32", "bf16"), ("adamw", "sgd"), (0, 0.1)
        ):
            with self.subTest(global_batch=total, dtype=dtype, optimizer=optimizer, dropout=dropout):
                deck = self.deck(
                    SMALL,
                    batch={"micro": 1, "global": total},
                    model={"dropout": dropout},
                    optimizer={"kind": optimizer, "lr": 0.01},
                    train={"steps": 3, "dtype": dtype},
                )
                ranks = [n for n in (1, 2, 4, 8) if total % n == 0]
                runs = [
                    trajectory(self.train(deck, "--output.overwrite", ranks=n, out=f"out-{n}", timeout=200))
                    for n in ranks
                ]
                for run in runs[1:]:
                    self.assertEqual(run, runs[0])


if __name__ == "__main__":
    unittest.main()
