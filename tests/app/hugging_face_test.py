# SPDX-License-Identifier: Apache-2.0
"""Weights in and out: what shoal exports is what it imported, and transformers reads it with the same logits."""

import importlib.util
import json
import struct
import unittest

from program import Program, shared, skip


def tensors(path):
    """A safetensors file as {name: (shape, bytes)}, read without any library."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: (entry["shape"], content[8 + length :][slice(*entry["data_offsets"])]) for name, entry in header.items()
    }


class HuggingFace(Program):
    def test_in_and_out_is_the_same(self):
        source = shared("oracles", "hf-gpt2", "tiny")
        config = json.loads((source / "config.json").read_text())
        deck = self.deck(
            {
                "model": {
                    "kind": "gpt", "n_layer": config["n_layer"], "n_head": config["n_head"], "n_embd": config["n_embd"],
                    "block_size": config["n_positions"], "vocab_size": config["vocab_size"], "init_from": source,
                    "n_inner": config.get("n_inner") or 0, "layer_norm_epsilon": config["layer_norm_epsilon"],
                },
                "batch": {"micro": 1, "global": 2},
                "train": {"steps": 1},
                "optimizer": {"lr": 0},
            }
        )  # fmt: skip
        out = self.dir / "hf"
        self.train(deck, f"--output.export={out}", "--checkpoint.every=1", out="run", ranks=2)
        self.assertEqual(tensors(out / "model.safetensors"), tensors(source / "model.safetensors"))
        done = self.shoal("export", self.dir / "run" / "checkpoints" / "step_00000001.h5", self.dir / "again")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(tensors(self.dir / "again" / "model.safetensors"), tensors(source / "model.safetensors"))
        self.same_logits(out)

    def same_logits(self, exported):
        """transformers reads the export, and its logits are those that came with the weights."""
        if importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None:
            skip("transformers and torch (PyPI) are not installed: the export was compared tensor by tensor only")
        import torch
        from transformers import GPT2LMHeadModel

        expected = json.loads(shared("oracles", "hf-gpt2", "tiny", "expected.json").read_text())
        model = GPT2LMHeadModel.from_pretrained(exported).eval()
        sequence = torch.tensor([a + b for a, b in zip(expected["input_ids"], expected["continuation"])])
        with torch.no_grad():
            loss = model(sequence, labels=sequence).loss.item()
        self.assertAlmostEqual(loss, expected["loss_of_sequence_f64"], delta=5e-6)

    def test_a_config_that_disagrees_is_named(self):
        source = shared("oracles", "hf-gpt2", "tiny")
        config = json.loads((source / "config.json").read_text())
        deck = self.deck(
            {
                "model": {
                    "n_layer": config["n_layer"] + 1,
                    "n_head": config["n_head"],
                    "n_embd": config["n_embd"],
                    "block_size": config["n_positions"],
                    "vocab_size": config["vocab_size"],
                    "init_from": source,
                },
                "batch": {"micro": 1, "global": 1},
            }
        )
        self.refused("train", deck, f"--output.dir={self.dir / 'no'}", contains=["config.json", "n_layer"])


if __name__ == "__main__":
    unittest.main()
