# SPDX-License-Identifier: Apache-2.0
"""A longer run of W1 ends within the band of PyTorch's runs (three seeds, widened by half their spread)."""

import work
from program import Program, main, shared


class W1Long(Program):
    def test_band(self):
        deck = work.export(self.dir / "w1", steps=1000)
        text = shared("data", "tinyshakespeare.txt")
        validation = {}
        summary = self.train(deck, "--checkpoint.every=300", "--checkpoint.keep=0", out="run", timeout=6000)
        losses = [loss for _, loss in summary["losses"]]
        for step in (300, 1000):
            done = self.shoal(
                "eval",
                self.dir / "run" / "checkpoints" / f"step_{step:08d}.h5",
                f"--data.source={text}",
                "--data.tokenizer=chars",
                "--data.val_fraction=0.1",
                timeout=600,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            validation[step] = float(done.stdout.split("validation loss")[1].split()[0])

        def mean(step):
            return sum(losses[step - 10 : step]) / 10

        for value, low, high, what in (
            (mean(200), 2.45, 2.50, "training loss at 200"),
            (mean(300), 2.33, 2.44, "training loss at 300"),
            (validation[300], 2.36, 2.46, "validation loss at 300"),
            (validation[1000], 1.79, 1.87, "validation loss at 1000"),
        ):
            print(f"{what}: {value:.4f}, band {low}-{high}")
            self.assertTrue(low <= value <= high, f"{what}: {value}")


if __name__ == "__main__":
    main()
