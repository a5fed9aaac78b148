# SPDX-License-Identifier: Apache-2.0
"""A whole run from the command line alone, compared with losses and norms of another program: weights in Hugging Face's
form, a tokens file, samples in their order (oracles/stream)."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import Program, main, shared

LOSS_LIMIT, NORM_LIMIT = 5e-6, 1e-5  # the tolerances that come with the reference: absolute, and relative


class Stream(Program):
    def test_losses_and_norms_are_torchs(self):
        oracle = shared("oracles", "stream")
        expected = json.loads((oracle / "expected.json").read_text())
        case = expected["case"]
        self.assertGreater(case["steps"], 1)
        deck = self.deck(
            {
                "model": {"n_layer": case["n_layer"], "n_head": case["n_head"], "n_embd": case["n_embd"],
                          "block_size": case["block"], "vocab_size": case["vocab"], "init_from": oracle / "init"},
                "data": {"source": oracle / "tokens.h5", "val_fraction": 0, "shuffle": "false"},
                "batch": {"micro": case["batch"] // 4, "global": case["batch"]},
                "train": {"steps": case["steps"], "grad_clip": case["clip"]},
                "optimizer": {"lr": case["lr"], "beta1": case["betas"][0], "beta2": case["betas"][1],
                              "epsilon": case["eps"], "weight_decay": case["wd"]},
                "trace": {"level": "off"},
                "checkpoint": {"last": "false"},
            }
        )  # fmt: skip
        run = self.train(deck, "--zero.stage=3", ranks=2)
        self.assertEqual(len(run["losses"]), len(expected["losses_f64"]))
        self.assertEqual(len(run["grad_norms"]), len(expected["norms_f64"]))
        for (step, loss), wanted in zip(run["losses"], expected["losses_f64"], strict=True):
            self.assertLess(abs(loss - wanted), LOSS_LIMIT, f"loss of step {step}")
        for (step, norm), wanted in zip(run["grad_norms"], expected["norms_f64"], strict=True):
            self.assertLess(abs(norm - wanted), NORM_LIMIT * wanted, f"norm of step {step}")


if __name__ == "__main__":
    main()
