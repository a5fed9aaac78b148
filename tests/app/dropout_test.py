# SPDX-License-Identifier: Apache-2.0
"""Dropout in whole runs: each step and each sample of its batch has its own mask, whichever micro-batch the sample is in."""

from program import SMALL, Program, main

ALPHABET = "abcdefghijklmnopqrstuvwxyz012345"


class Dropout(Program):
    def losses(self, *options, ranks=1):
        """The losses of steps that change nothing, on samples that are all the same."""
        text = self.dir / "text.txt"
        text.write_text(ALPHABET * 100)
        deck = self.deck(
            SMALL,
            data={"source": text, "tokenizer": "bytes"},
            model={"vocab_size": 0, "block_size": len(ALPHABET)},
            optimizer={"lr": 0},
            trace={"level": "off"},
        )
        return [loss for _, loss in self.train(deck, *options, ranks=ranks)["losses"]]

    def test_every_step_has_its_own_masks(self):
        self.assertEqual(len(set(self.losses())), 1, "without dropout all steps are the same")
        losses = self.losses("--model.dropout=0.5")
        self.assertEqual(len(set(losses)), len(losses), losses)

    def test_a_sample_has_the_same_masks_in_any_micro_batch(self):
        alone = self.losses("--model.dropout=0.5")
        for micro, ranks in ((2, 1), (4, 2), (8, 1), (1, 4)):
            together = self.losses("--model.dropout=0.5", f"--batch.micro={micro}", ranks=ranks)
            for step, (a, b) in enumerate(zip(together, alone, strict=True), 1):
                self.assertAlmostEqual(a, b, delta=1e-5, msg=f"step {step}, {micro} samples, {ranks} ranks")


if __name__ == "__main__":
    main()
