# SPDX-License-Identifier: Apache-2.0
"""Pipelines of one machine: the bits of one rank, checkpoints that any number of stages reads, memory as planned, and ranks
that die."""

import re

from pipeline_matrix import DECK, SPACE, PipelineMatrix
from program import main, trajectory

GPT = {**DECK, "model": {**DECK["model"], "n_head": 2, "tied": "false", "dropout": 0.1}}


class Pipelines(PipelineMatrix):
    def test_every_pair_of_choices(self):
        self.walk(SPACE.covering(2))

    def test_resume_on_any_number_of_stages(self):
        deck = self.deck(GPT, batch={"micro": 1, "global": 8}, train={"steps": 7, "seed": 3})
        whole = self.train(deck, out="whole")
        at, steps = [], [(1, 1), (3, 2), (5, 3), (7, 1)]  # steps made so far, and on how many stages
        for done, stages in steps:
            last = self.train(
                deck,
                f"--train.steps={done}",
                "--checkpoint.every=1",
                "--output.overwrite",
                f"--checkpoint.dir={self.dir}/checkpoints",
                *([f"--checkpoint.resume={at[-1]}"] if at else []),
                *([f"--pipeline.size={stages}"] if stages > 1 else []),
                ranks=stages,
                out="parts",
            )
            at.append(next((self.dir / "checkpoints").glob(f"step_*{done}.h5")))
        self.assertEqual(last["params_checksum"], whole["params_checksum"])
        losses = self.shoal("eval", at[1], "--train.eval_batches=2").stdout
        self.assertEqual(self.shoal("eval", at[1], "--train.eval_batches=2", ranks=2).stdout.split("on ")[-1].split("\n")[1:],
                         losses.split("on ")[-1].split("\n")[1:])  # fmt: skip

    def test_memory_is_as_planned_and_falls_with_stages(self):
        deck = self.deck(GPT, batch={"micro": 1, "global": 8})
        whole = self.train(deck, out="whole")
        run = self.train(deck, "--pipeline.size=4", ranks=4, out="four")
        self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
        self.assertEqual(trajectory(run), trajectory(whole))
        states = [summary["state_bytes"]["planned"]["moments"] for summary in (whole, run)]
        self.assertLess(states[1], 0.5 * states[0])

    def test_a_stage_that_dies_ends_the_others(self):
        """Either they name it, or the launcher is faster, ends them, and says so."""
        deck = self.deck(GPT, batch={"micro": 1, "global": 8}, train={"steps": 1000})
        done = self.shoal("train", deck, f"--output.dir={self.dir}/dies", "--pipeline.size=3", "--comm.timeout=5",
                          "--fault.kind=kill@3:1", ranks=3, timeout=60)  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertTrue(
            re.search(r"rank 1 .*died|BAD TERMINATION", done.stderr + done.stdout), done.stderr + done.stdout
        )

    def test_a_stage_that_stops_is_named(self):
        deck = self.deck(GPT, batch={"micro": 1, "global": 8}, train={"steps": 1000})
        done = self.shoal("train", deck, f"--output.dir={self.dir}/stops", "--pipeline.size=3", "--comm.timeout=2",
                          "--fault.kind=hang@3:1", ranks=3, timeout=60)  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"shoal: rank 1 .*no sign of life")
        self.assertRegex(done.stderr, r"receive of (the gradients|the activations)[^\n]*turn \d+")

    def test_what_is_refused(self):
        deck = self.deck(GPT, batch={"micro": 1, "global": 8})
        for options, contains in (
            (["--model.tied=true"], ("model.tied_gradient = joined", "allowed: apart")),
            (["--zero.stage=2"], ("zero.stage = 2", "allowed: 0, 1")),
            (["--optimizer.adascale=true"], ("optimizer.adascale", "allowed: false")),
            (["--pipeline.balance=4,3"], ("adds up to 7", "8")),
            (["--pipeline.parts=2"], ("pipeline.parts = 2", "1f1b")),
        ):
            self.refused(
                "train", deck, f"--output.dir={self.dir}/no", "--pipeline.size=2", *options, ranks=2, contains=contains
            )
        self.assertFalse((self.dir / "no").exists())


if __name__ == "__main__":
    main()
