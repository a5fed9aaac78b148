# SPDX-License-Identifier: Apache-2.0
"""AdaScale reaches the same loss with four times W1's batch, after the same number of small-batch steps, which are far
fewer of its own steps. Three seeds, with AdamW and with SGD."""

import json
import statistics

import work
from program import SOURCE, Program, main, shared

SEEDS = (1, 2, 3)
# Without clipping, because clipping slows down a small batch, whose norms are larger, more than a large one. The
# learning rate ends at zero, because otherwise the small batch keeps more noise. The averages are shorter than by
# default, because those would still contain the first steps at the end.
COMMON = (
    "--train.dtype=bf16",
    "--train.grad_clip=0",
    "--schedule.kind=cosine",
    "--data.tokenizer=chars",
    "--data.shuffle=true",
    "--data.val_fraction=0.1",
    "--trace.level=off",
)
LARGE = ("--batch.global=32", "--optimizer.adascale=true", "--optimizer.adascale_smoothing=0.9")
SMALLER = (
    "--model.n_layer=3",
    "--model.n_embd=128",
    "--model.n_head=4",
    "--model.block_size=64",
    "--checkpoint.every=0",
)
SGD = ("--optimizer.kind=sgd", "--optimizer.lr=0.03", "--optimizer.weight_decay=0")


class AdaScaleLong(Program):
    def validation_loss(self, summary):
        return summary["val_losses"][-1][1]

    def check(self, name, steps, deck_of, *optimizer):
        text = shared("data", "tinyshakespeare.txt")
        small, large = [], []
        for seed in SEEDS:
            deck = deck_of(seed)
            options = (
                *COMMON,
                *optimizer,
                f"--data.source={text}",
                f"--train.steps={steps}",
                f"--schedule.total_steps={steps}",
                f"--train.seed={seed}",
            )
            plain = self.train(deck, *options, "--train.eval_batches=32", timeout=3000)
            # Two ranks have the bits of one, which would take twice as long.
            scaled = self.train(deck, *options, *LARGE, "--train.eval_batches=8", ranks=2, timeout=3000)
            small.append(self.validation_loss(plain))
            large.append(self.validation_loss(scaled))
            of_large = len(scaled["losses"])
            print(
                json.dumps(
                    {"optimizer": name, "seed": seed, "1x": small[-1], "4x": large[-1], "steps of 4x": of_large}
                ),
                flush=True,
            )
            self.assertGreaterEqual(scaled["adascale"]["effective_steps"], steps)
            self.assertLess(of_large, 0.8 * steps)
        difference = statistics.mean(large) / statistics.mean(small) - 1
        print(f"{name}: 4x against 1x {100 * difference:+.2f} %, by seed 1x {small}, 4x {large}", flush=True)
        self.assertLess(abs(difference), 0.02)

    def test_adamw(self):
        self.check("adamw", 300, lambda seed: work.export(self.dir / f"w1-{seed}", steps=1, seed=seed))

    def test_sgd(self):
        """On a smaller model: W1 takes 1500 steps, nearly an hour, until its loss no longer falls so steeply that a few
        steps decide."""
        self.check("sgd", 400, lambda _: SOURCE / "inputs" / "char.cfg", *SMALLER, *SGD)


if __name__ == "__main__":
    main()
