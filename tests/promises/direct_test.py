# SPDX-License-Identifier: Apache-2.0
"""A direct connection from the embeddings to the output (model.direct): one trajectory with and without pipelines, in which
it passes the stages in the middle by; checkpoints; what can be done with its weights."""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import Program, main, trajectory

STEPS = 4
DECK = {
    "model": {"n_layer": 4, "n_head": 2, "n_embd": 32, "block_size": 32, "vocab_size": 64, "direct": "true"},
    "data": {"source": "synthetic", "val_fraction": 0.05},
    "batch": {"micro": 1, "global": 8},
    "optimizer": {"lr": 0.01},
    "train": {"steps": STEPS, "seed": 3, "eval_batches": 1, "grad_clip": 0.5},
    "trace": {"level": "off"},
}
HEADS = {"untied": ("--model.tied=false",), "tied": ("--model.tied_gradient=apart",)}
# Ranks and options.
PIPELINES = (
    (2, "--pipeline.size=2", "--model.dropout=0.1"),
    (3, "--pipeline.size=3", "--pipeline.schedule=gpipe", "--model.dropout=0.1"),
    (4, "--pipeline.size=4", "--zero.stage=1", "--activation.checkpoint_interval=1", "--model.dropout=0.1"),
    (4, "--pipeline.size=2", "--pipeline.schedule=interleaved", "--pipeline.parts=2", "--zero.stage=1",
     "--model.dropout=0.1"),
    (2, "--pipeline.size=2", "--pipeline.schedule=gpipe", "--pipeline.checkpoint=always", "--train.dtype=bf16"),
    (4, "--pipeline.size=4", "--pipeline.checkpoint=except_last", "--train.dtype=bf16", "--comm.reduce_dtype=bf16"),
)  # fmt: skip
DECIDES = ("--model.", "--train.", "--comm.reduce_dtype")


class Direct(Program):
    def test_pipelines_change_no_bit(self):
        deck, expected = self.deck(DECK), {}
        for head, of_head in HEADS.items():
            for ranks, *options in PIPELINES:
                with self.subTest(head=head, ranks=ranks, options=options):
                    key = (*of_head, *(option for option in options if option.startswith(DECIDES)))
                    if key not in expected:
                        expected[key] = self.train(deck, *key)
                    run = self.train(deck, *of_head, *options, ranks=ranks)
                    self.assertEqual(trajectory(run), trajectory(expected[key]))
                    self.assertEqual(run["val_losses"], expected[key]["val_losses"])
                    self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])

    def test_stages_of_zero_change_no_bit(self):
        """With the copy of a tied embedding, the head's gradient is begun before that of the copy is complete. (matrix.py has
        the other heads.)"""
        deck = self.deck(DECK)
        expected = self.train(deck, *HEADS["tied"])
        for options in (
            ("--zero.stage=2", "--comm.bucket_mb=0.005"),
            ("--zero.stage=3", "--activation.checkpoint_interval=1"),
        ):
            run = self.train(deck, *HEADS["tied"], *options, ranks=2)
            self.assertEqual(trajectory(run), trajectory(expected), options)
            self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])

    def test_it_is_another_model(self):
        deck = self.deck(DECK)
        runs, counts = [], []
        for direct in ("true", "false"):
            out = self.dir / f"direct-{direct}"
            done = self.shoal("train", deck, f"--model.direct={direct}", f"--output.dir={out}")
            self.assertEqual(done.returncode, 0, done.stderr)
            runs.append(json.loads((out / "summary.json").read_text()))
            counts.append(int(re.search(r"gpt, (.*) parameters", done.stdout)[1].replace(" ", "")))
        self.assertNotEqual(trajectory(runs[0]), trajectory(runs[1]))
        self.assertEqual(counts[0] - counts[1], 64 * 32)

    def test_checkpoints_and_weights(self):
        deck = self.deck(DECK)
        untied = HEADS["untied"]
        whole = self.train(deck, *untied, "--checkpoint.every=3", out="whole")
        files = self.dir / "whole" / "checkpoints"
        resume = f"--checkpoint.resume={files / 'step_00000003.h5'}"
        run = self.train(deck, *untied, "--pipeline.size=2", resume, ranks=2)
        self.assertEqual(run["params_checksum"], whole["params_checksum"])
        self.refused(
            "train", deck, *untied, "--model.direct=false", resume, f"--output.dir={self.dir}/no",
            contains=["direct.weight"],
        )  # fmt: skip
        last = files / f"step_{STEPS:08d}.h5"
        for arguments in (("eval", last), ("generate", last, "--prompt", "0 1 2", "--tokens", "40")):
            done = self.shoal(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
        # transformers has no such model, so the weights come without a configuration, also where another model had one.
        export = self.dir / "export"
        self.train(deck, "--model.direct=false", f"--output.export={export}", "--train.steps=1", out="plain")
        self.assertTrue((export / "config.json").exists())
        self.refused(
            "train", deck, f"--model.init_from={export}", "--dry-run",
            contains=["config.json", "describes a GPT-2, which has no direct connection, model.direct is true"],
        )  # fmt: skip
        done = self.shoal("export", last, export, "--output.overwrite")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"direct.weight", (export / "model.safetensors").read_bytes())
        self.assertFalse((export / "config.json").exists())
        again = (*untied, f"--model.init_from={export}", "--train.steps=1")
        self.assertEqual(
            trajectory(self.train(deck, *again, "--pipeline.size=2", ranks=2)), trajectory(self.train(deck, *again))
        )

    def test_it_needs_a_gpt(self):
        self.refused(
            "train", self.deck(DECK, model={"kind": "mlp"}), "--dry-run",
            contains=["model.direct = true", "model.kind"], lines=2,  # and model.n_head
        )  # fmt: skip


if __name__ == "__main__":
    main()
