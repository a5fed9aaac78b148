# SPDX-License-Identifier: Apache-2.0
"""Every deck in inputs/ runs for three steps. The decks of the ZeRO stages have the trajectory of the deck that they
derive from."""

import unittest

from program import SOURCE, Program, trajectory


class Decks(Program):
    def test_all_decks_run(self):
        text = self.dir / "text.txt"
        text.write_text("To be, or not to be, that is the question:\n" * 2000)
        decks = sorted((SOURCE / "inputs").glob("*.cfg"))
        self.assertGreater(len(decks), 3)
        trajectories = {}
        for deck in decks:
            with self.subTest(deck=deck.name):
                more = [f"--data.source={text}", "--model.vocab_size=0"] if "data.source" in deck.read_text() else []
                # Large models are run with fewer layers and samples, so that three steps take seconds.
                if "124m" in deck.name:
                    more += ["--model.n_layer=1", "--model.block_size=64", "--batch.micro=1", "--batch.global=2"]
                summary = self.train(
                    deck,
                    "--train.steps=3",
                    "--train.eval_batches=1",
                    "--checkpoint.every=0",
                    *more,
                    ranks=2,
                    out=deck.stem,
                )
                self.assertEqual(len(summary["losses"]), 3)
                trajectories[deck.stem] = trajectory(summary)
        for deck in ("zero1", "zero2", "zero3"):
            self.assertEqual(trajectories[deck], trajectories["quickstart"], deck)


if __name__ == "__main__":
    unittest.main()
