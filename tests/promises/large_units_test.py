# SPDX-License-Identifier: Apache-2.0
"""Runs of a model whose units, and their shards, are larger than the pieces in which the program converts, sends, saves and
loads them. In other tests models are so small that each unit is one piece."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import Program, main, trajectory

CHARACTERS, WIDTH = 20000, 64
LARGEST_PIECE = 2**20  # elements: of a message between nodes, and of what is read from a checkpoint at once
STEPS = 6


class LargeUnits(Program):
    def setUp(self):
        super().setUp()
        self.assertGreater(CHARACTERS * WIDTH, LARGEST_PIECE, "the embedding")
        # Few characters, so that they are learnt in a few steps, from all parts of the embedding.
        few = [chr(0x4E00 + i * (CHARACTERS // 64)) for i in range(64)]
        text = "".join(few[(7 * i * i + 13 * i) % 61] for i in range(9 * CHARACTERS))
        file = self.dir / "text.txt"
        file.write_text(text + "".join(chr(0x4E00 + i) for i in range(CHARACTERS)), encoding="utf-8")
        self.small = self.deck({
            "model": {"kind": "gpt", "n_layer": 1, "n_head": 2, "n_embd": WIDTH, "block_size": 16},
            "data": {"source": file, "tokenizer": "chars"},
            "batch": {"micro": 1, "global": 4},
            "optimizer": {"kind": "sgd", "lr": 1},
            "train": {"steps": STEPS, "seed": 3, "eval_batches": 1},
            "trace": {"level": "off"},
        })  # fmt: skip

    def test_gradients_in_bf16(self):
        """Rounded to 8 bits twice, as gradients of micro-batches and as their sum, they change what a step gains by 2^-8 at
        most."""
        exact = dict(self.train(self.small)["losses"])
        self.assertLess(exact[STEPS], exact[1] - 1, "nothing is learnt")
        for ranks, stage in ((1, 0), (2, 1)):
            options = ("--comm.reduce_dtype=bf16", f"--zero.stage={stage}")
            for step, loss in self.train(self.small, *options, ranks=ranks)["losses"]:
                delta = 2**-8 * (exact[1] - exact[step]) + 1e-6
                self.assertAlmostEqual(loss, exact[step], delta=delta, msg=f"step {step} at stage {stage}")

    def test_two_nodes_that_push_have_their_mean(self):
        """So SGP has the bits of LocalSGD that synchronizes after every step."""
        nodes = "--comm.ranks_per_node=1"
        pushed = self.train(self.small, nodes, "--sync.kind=sgp", ranks=2)
        averaged = self.train(self.small, nodes, "--sync.kind=localsgd", "--sync.localsgd_frequency=1", ranks=2)
        self.assertEqual(trajectory(pushed), trajectory(averaged))
        self.assertEqual(pushed["val_losses"], averaged["val_losses"])
        alone = self.train(self.small)
        self.assertNotEqual(trajectory(pushed), trajectory(alone), "nodes that train alone have another trajectory")

    def test_checkpoints(self):
        """A run that is resumed with another strategy and number of ranks has the bits of the uninterrupted one."""
        adam = ("--optimizer.kind=adamw", "--optimizer.lr=0.01")
        whole = self.train(self.small, *adam, "--zero.stage=3", "--checkpoint.every=3", ranks=2, out="whole")
        file = self.dir / "whole/checkpoints/step_00000003.h5"
        for ranks, stage, io in ((1, 0, "auto"), (4, 2, "auto"), (2, 1, "collective")):
            out = f"resumed-{ranks}"
            options = (*adam, f"--checkpoint.resume={file}", f"--zero.stage={stage}", f"--checkpoint.io={io}")
            resumed = self.train(self.small, *options, "--checkpoint.every=3", ranks=ranks, out=out)
            self.assertEqual(resumed["losses"], whole["losses"][3:], out)
            self.assertEqual(resumed["params_checksum"], whole["params_checksum"], out)
            self.assertEqual(self.tensors(out), self.tensors("whole"), out)

    def tensors(self, out):
        """The lines of `shoal info --verify` about the tensors of the last checkpoint, with their checksums."""
        done = self.shoal("info", self.dir / out / f"checkpoints/step_{STEPS:08d}.h5", "--verify", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stdout.splitlines() if " checksum " in line]
        self.assertTrue(any("transformer.wte.weight" in line for line in lines), done.stdout)
        return lines


if __name__ == "__main__":
    main()
