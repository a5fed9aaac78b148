# SPDX-License-Identifier: Apache-2.0
"""Pipelines of one machine: the bits of one rank, checkpoints that any number of stages reads, memory as planned, and ranks
that die."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from pipeline_matrix import DECK, SPACE, PipelineMatrix
from program import main, trajectory

GPT = {**DECK, "model": {**DECK["model"], "n_head": 2, "tied": "false", "dropout": 0.1}}


class Pipelines(PipelineMatrix):
    subject = ("src/pipeline", "include/shoal/pipeline")

    def test_every_pair_of_choices(self):
        self.walk(SPACE.covering(2))

    def test_resume_on_any_number_of_stages(self):
        deck = self.deck(GPT, batch={"micro": 1, "global": 8}, train={"steps": 7, "seed": 3})
        whole = self.train(deck, out="whole")
        # Steps made so far, on how many stages, on how many data-parallel ranks, and which stage of ZeRO.
        at, steps = [], [(1, 1, 2, 3), (3, 2, 1, 0), (4, 2, 2, 3), (5, 3, 1, 1), (6, 2, 2, 2), (7, 1, 1, 0)]
        for done, stages, data_ranks, zero_stage in steps:
            last = self.train(
                deck,
                f"--train.steps={done}",
                "--checkpoint.every=1",
                "--output.overwrite",
                f"--checkpoint.dir={self.dir}/checkpoints",
                *([f"--checkpoint.resume={at[-1]}"] if at else []),
                *([f"--pipeline.size={stages}"] if stages > 1 else []),
                f"--zero.stage={zero_stage}",
                ranks=stages * data_ranks,
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

    def test_memory_falls_with_the_stage_of_zero(self):
        """Parts of a stage are gathered one unit after another, so less is in memory than the stage's parameters."""
        deck = self.deck(GPT, model={"n_layer": 16, "vocab_size": 32}, batch={"micro": 1, "global": 8})
        interleaved = ("--pipeline.size=2", "--pipeline.schedule=interleaved", "--pipeline.parts=2")
        runs = [self.train(deck, *interleaved, f"--zero.stage={stage}", ranks=4, out=str(stage)) for stage in (1, 2, 3)]
        for run in runs:
            self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
            self.assertEqual(trajectory(run), trajectory(runs[0]))
        taken = [sum(run["state_bytes"]["taken"].values()) for run in runs]
        self.assertLess(taken[1], taken[0])
        self.assertLess(taken[2], taken[1])

    def test_rounded_messages_are_those_without_a_pipeline(self):
        """Each unit is quantized by itself, so the number of stages changes no bit if that of data-parallel ranks stays."""
        deck = self.deck(GPT, batch={"micro": 1, "global": 8}, train={"steps": 4})
        rounded = ("--zero.stage=3", "--zero.hpz_size=1", "--zero.qwz=8", "--zero.qgz=4", "--zero.quant_feedback=true",
                   "--comm.ranks_per_node=1")  # fmt: skip
        exact = self.train(deck, "--zero.stage=3", ranks=2, out="exact")
        whole = self.train(deck, *rounded, ranks=2, out="whole")
        self.assertNotEqual(trajectory(whole), trajectory(exact))
        run = self.train(deck, *rounded, "--pipeline.size=2", ranks=4, out="two")
        self.assertEqual(trajectory(run), trajectory(whole))
        self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
        # The rounding errors of all stages are in the checkpoint.
        saved = (*rounded, "--pipeline.size=2", "--checkpoint.every=2", "--output.overwrite",
                 f"--checkpoint.dir={self.dir}/rounded")  # fmt: skip
        self.train(deck, *saved, "--train.steps=2", ranks=4, out="saved")
        again = self.train(deck, *saved, "--checkpoint.resume=latest", ranks=4, out="saved")
        self.assertEqual(again["params_checksum"], whole["params_checksum"])
        with_others = self.shoal("train", deck, *rounded, f"--output.dir={self.dir}/others", "--train.steps=3",
                                 f"--checkpoint.resume={self.dir}/rounded/step_00000002.h5", ranks=2)  # fmt: skip
        self.assertEqual(with_others.returncode, 0, with_others.stderr)
        self.assertIn("residuals start at zero: the checkpoint has 2 stages of 2 ranks", with_others.stdout)

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
            (["--model.tied=true"], ("needs model.tied_gradient = apart", "or model.tied = false")),
            (["--optimizer.adascale=true"], ("optimizer.adascale", "allowed: false")),
            (["--pipeline.balance=4,3"], ("adds up to 7", "8")),
            (["--pipeline.parts=2"], ("pipeline.parts = 2", "1f1b")),
        ):
            self.refused(
                "train", deck, f"--output.dir={self.dir}/no", "--pipeline.size=2", *options, ranks=2, contains=contains
            )
        on_nodes_of_three = ("--comm.ranks_per_node=3", "--zero.stage=2", "--zero.qgz=4", "--batch.global=6")
        self.refused("train", deck, f"--output.dir={self.dir}/no", "--pipeline.size=3", *on_nodes_of_three, ranks=6,
                     contains=("a node has 3 ranks and a stage has 2", "one of which divides the other"))  # fmt: skip
        self.assertFalse((self.dir / "no").exists())


if __name__ == "__main__":
    main()
