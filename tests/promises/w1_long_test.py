# SPDX-License-Identifier: Apache-2.0
"""A longer run of W1 stays within the band of PyTorch's runs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
import work
from program import Program, main, shared

# Differences of rounding grow until runs differ as much as those of other seeds do, so a band is that of three seeds, widened on
# both sides by half its width, but by 0.02 at least. Of step 1000 there is one seed: its loss may be 0.04 away, which is less
# than half the width of the widened band of validation at 300 (0.055).
LEAST, OF_ONE_SEED = 0.02, 0.04


def band(values):
    widening = OF_ONE_SEED if len(values) == 1 else max(LEAST, (max(values) - min(values)) / 2)
    return min(values) - widening, max(values) + widening


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

        cases = [(f"training loss at {step}", mean(step), values) for step, values in work.MEANS.items()]
        cases += [(f"validation loss at {step}", validation[step], values) for step, values in work.VALIDATION.items()]
        for what, value, values in cases:
            low, high = band(values)
            print(f"{what}: {value:.4f}, band {low:.4f}-{high:.4f}")
            self.assertTrue(low <= value <= high, f"{what}: {value}")


if __name__ == "__main__":
    main()
