# SPDX-License-Identifier: Apache-2.0
"""A tied embedding whose two gradients are added once a step (model.tied_gradient = apart): one trajectory with and
without pipelines, whose checkpoints all of them continue."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import Program, main, trajectory

STEPS = 4
DECK = {
    "model": {
        "n_layer": 4, "n_head": 2, "n_embd": 32, "block_size": 32, "vocab_size": 64, "dropout": 0.1,
        "tied_gradient": "apart",
    },
    "data": {"source": "synthetic", "val_fraction": 0.05},
    "batch": {"micro": 1, "global": 8},
    "optimizer": {"lr": 0.01},
    "train": {"steps": STEPS, "seed": 3, "eval_batches": 1, "grad_clip": 0.5},
    "trace": {"level": "off"},
}  # fmt: skip
# Ranks, pipeline.size, pipeline.schedule, zero.stage, and more.
WAYS = (
    (2, 1, "1f1b", 0),
    (2, 1, "1f1b", 2, "--comm.bucket_mb=0.005"),
    (2, 1, "1f1b", 3, "--zero.persist_below=4000"),
    (4, 1, "1f1b", 1),
    (2, 2, "1f1b", 1),
    (4, 2, "gpipe", 0, "--comm.bucket_mb=0.005"),
    (4, 2, "interleaved", 1, "--pipeline.parts=2", "--pipeline.checkpoint=always"),
    (3, 3, "gpipe", 0),
    (4, 4, "1f1b", 1, "--activation.checkpoint_interval=1"),
)


def given(size, schedule, stage):
    options = [f"--zero.stage={stage}"]
    return options if size == 1 else [*options, f"--pipeline.size={size}", f"--pipeline.schedule={schedule}"]


class Tied(Program):
    def test_neither_pipelines_nor_stages_change_a_bit(self):
        types = (
            ("--train.dtype=fp32",),
            ("--train.dtype=bf16", "--comm.reduce_dtype=bf16"),
            ("--train.dtype=fp16", "--train.loss_scale_power=23"),  # the first steps overflow
        )
        deck = self.deck(DECK)
        for i, dtype in enumerate(types):
            expected = self.train(deck, *dtype)
            if i == 2:
                self.assertIn(expected["verdict"]["updates_skipped"], (1, 2, 3))
            for j, (ranks, size, schedule, stage, *more) in enumerate(WAYS):
                if i > 0 and j % 3 != i:  # every way is run in fp32, and some in one of the others
                    continue
                with self.subTest(dtype=dtype[0], ranks=ranks, size=size, schedule=schedule, stage=stage):
                    run = self.train(deck, *dtype, *given(size, schedule, stage), *more, ranks=ranks)
                    self.assertEqual(trajectory(run), trajectory(expected))
                    self.assertEqual(run["val_losses"], expected["val_losses"])
                    self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])

    def test_the_order_of_the_sum_decides_the_last_bits(self):
        deck = self.deck(DECK)
        joined, apart = self.train(deck, "--model.tied_gradient=joined"), self.train(deck)
        self.assertNotEqual(trajectory(joined), trajectory(apart))
        for (_, a), (_, b) in zip(joined["grad_norms"], apart["grad_norms"], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-4 * a)

    def test_a_run_continues_with_and_without_a_pipeline(self):
        ways = {"pipeline": ("--pipeline.size=2", "--zero.stage=1"), "alone": ()}
        ranks = {"pipeline": 2, "alone": 1}
        deck = self.deck(DECK)
        exports = []
        for way, options in ways.items():
            whole = self.train(deck, *options, "--checkpoint.every=3", ranks=ranks[way], out=way)
            files = self.dir / way / "checkpoints"
            other = "alone" if way == "pipeline" else "pipeline"
            run = self.train(
                deck, *ways[other], f"--checkpoint.resume={files / 'step_00000003.h5'}", ranks=ranks[other]
            )
            self.assertEqual(run["params_checksum"], whole["params_checksum"])
            self.assertEqual(run["losses"], whole["losses"][3:])
            last = files / f"step_{STEPS:08d}.h5"
            done = self.shoal("eval", last)
            self.assertEqual(done.returncode, 0, done.stderr)
            exports.append(self.dir / f"export-{way}")
            done = self.shoal("export", last, exports[-1])
            self.assertEqual(done.returncode, 0, done.stderr)
        first, second = ((export / "model.safetensors").read_bytes() for export in exports)
        self.assertEqual(first, second)
        self.assertNotIn(b"head.wte", first)
        again = self.train(deck, f"--model.init_from={exports[0]}", "--train.steps=1", *ways["pipeline"], ranks=2)
        self.assertEqual(
            trajectory(again), trajectory(self.train(deck, f"--model.init_from={exports[0]}", "--train.steps=1"))
        )


if __name__ == "__main__":
    main()
