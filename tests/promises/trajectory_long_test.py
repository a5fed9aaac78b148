# SPDX-License-Identifier: Apache-2.0
"""The long version of the matrix: every combination of three choices, a random sample of all rows, and more numbers of
micro-batches."""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from matrix import SPACE, Matrix
from program import SMALL, main, trajectory


class Stages(Matrix):
    def test_every_three_choices(self):
        self.walk(SPACE.covering(3))

    def test_a_sample_of_all(self):
        self.walk(SPACE.sample(400))


class Batches(Matrix):
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
                    train={"steps": 3, "dtype": dtype, "eval_batches": 1},
                )
                ranks = [n for n in (1, 2, 4, 8) if total % n == 0]
                runs = [
                    trajectory(self.train(deck, "--output.overwrite", ranks=n, out=f"out-{n}", timeout=200))
                    for n in ranks
                ]
                for run in runs[1:]:
                    self.assertEqual(run, runs[0])


if __name__ == "__main__":
    main()
