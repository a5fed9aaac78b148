# SPDX-License-Identifier: Apache-2.0
"""AdaScale in whole runs: gains are the same on any number of ranks and at every stage, and steps of the small batch
are counted."""

import json

from program import SMALL, Program, main, trajectory

ADASCALE = {**SMALL, "optimizer": {"adascale": "true"}, "trace": {"level": "off"}}
OPTIMIZERS = (("--optimizer.kind=sgd", "--optimizer.lr=0.1"), ("--optimizer.kind=adamw",))


class AdaScale(Program):
    def metrics(self, out):
        return [json.loads(line) for line in (self.dir / out / "metrics.jsonl").read_text().splitlines()]

    def gains(self, *args, **sections):
        return self.train(self.deck(ADASCALE, **sections), *args)["adascale"]["gains"]

    def test_one_trajectory_in_every_stage_and_on_any_number_of_ranks(self):
        others = (
            (1, ("--zero.stage=3",)),
            (2, ("--zero.stage=2", "--comm.bucket_mb=0.004")),
            (4, ("--zero.stage=1", "--comm.overlap=false")),
            (4, ("--zero.stage=3", "--comm.bucket_mb=0.004", "--train.threads=2")),
        )
        threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
        for batch, dtypes in ((8, ()), (12, ("--train.dtype=bf16", "--comm.reduce_dtype=bf16"))):
            deck = self.deck(ADASCALE, batch={"global": batch}, train={"steps": 24})
            for optimizer in OPTIMIZERS:
                reference = self.train(deck, *optimizer, *dtypes)
                self.assertGreater(len(reference["losses"]), 2)
                for ranks, options in others:
                    run = self.train(deck, *optimizer, *dtypes, *options, ranks=ranks, env=threads)
                    what = f"{optimizer}, {dtypes}, {options}, {ranks} ranks"
                    self.assertEqual(run["adascale"], reference["adascale"], what)
                    self.assertEqual(trajectory(run), trajectory(reference), what)
                    self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"], what)

    def test_a_run_ends_when_the_steps_of_the_small_batch_are_made(self):
        deck = self.deck(ADASCALE, train={"steps": 30}, schedule={"kind": "cosine", "warmup_steps": 10})
        for optimizer, power in zip(OPTIMIZERS, (1, 0.5), strict=True):
            summary = self.train(deck, *optimizer, out="ends" + str(power))
            lines = self.metrics("ends" + str(power))
            made, plain = 0, self.rates_of_all_steps(optimizer)
            for line in lines:
                self.assertLess(made, 30, "no step after the last")
                self.assertTrue(1 <= line["gain"] <= 8, line)
                self.assertAlmostEqual(line["lr"], plain[int(made)] * line["gain"] ** power, delta=1e-12)
                made += line["gain"]
                self.assertAlmostEqual(line["effective_steps"], made, delta=1e-9)
            self.assertGreaterEqual(made, 30)
            self.assertEqual([len(lines), lines[-1]["effective_steps"]], [
                len(summary["losses"]), summary["adascale"]["effective_steps"],
            ])  # fmt: skip
            self.assertLess(len(lines), 25, "gradients of eight sequences differ")

    def rates_of_all_steps(self, optimizer):
        """Returns the schedule's learning rate of each of 30 steps, from a run without AdaScale."""
        deck = self.deck(SMALL, "plain.cfg", train={"steps": 30}, schedule={"kind": "cosine", "warmup_steps": 10})
        self.train(deck, *optimizer, "--batch.global=1", "--output.overwrite", out="plain")
        return [line["lr"] for line in self.metrics("plain")]

    def test_resume_is_bit_exact(self):
        deck = self.deck(ADASCALE, train={"steps": 40}, model={"dropout": 0.1})
        for optimizer in OPTIMIZERS:
            straight = self.train(deck, *optimizer, ranks=2)
            out = "resumed" + optimizer[0][-4:]
            self.train(deck, *optimizer, "--checkpoint.every=3", "--checkpoint.keep=0", ranks=2, out=out)
            file = self.dir / out / "checkpoints" / "step_00000003.h5"
            for ranks, stage in ((1, 0), (4, 3)):
                again = self.train(
                    deck, *optimizer, f"--checkpoint.resume={file}", f"--zero.stage={stage}", ranks=ranks
                )
                self.assertEqual(again["losses"], straight["losses"][3:])
                self.assertEqual(again["adascale"]["gains"], straight["adascale"]["gains"][3:])
                self.assertEqual(again["adascale"]["effective_steps"], straight["adascale"]["effective_steps"])
                self.assertEqual(again["params_checksum"], straight["params_checksum"])

    def test_the_last_checkpoint_has_nothing_left_to_do(self):
        deck = self.deck(ADASCALE, train={"steps": 10})
        done = self.train(deck, "--checkpoint.every=100", out="all")
        again = self.train(deck, "--checkpoint.resume=latest", "--checkpoint.every=100", out="all")
        self.assertEqual([again["losses"], again["adascale"]], [[], None])
        self.assertEqual(again["params_checksum"], done["params_checksum"])

    def test_other_commands_read_its_checkpoints(self):
        deck = self.deck(ADASCALE, train={"steps": 10})
        self.train(deck, "--checkpoint.every=100", out="all")
        (file,) = (self.dir / "all" / "checkpoints").glob("*.h5")
        for ranks in (1, 2):
            done = self.shoal("eval", file, ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("validation loss", done.stdout)

    def test_a_run_without_it_goes_on_with_it(self):
        deck = self.deck(ADASCALE, train={"steps": 20})
        self.train(deck, "--optimizer.adascale=false", "--train.steps=5", "--checkpoint.every=5", out="plain")
        self.train(deck, "--checkpoint.resume=latest", out="plain")
        first = self.metrics("plain")[5]
        self.assertAlmostEqual(first["effective_steps"], 5 + first["gain"], delta=1e-9)

    def test_gains_are_of_gradients_before_clipping(self):
        for kind in ("sgd", "adamw"):
            frozen = (f"--optimizer.kind={kind}", "--optimizer.lr=0")
            free, clipped = (self.gains(*frozen, f"--train.grad_clip={limit}") for limit in (0, 0.001))
            if kind == "sgd":
                self.assertEqual(free, clipped)
            # adamw's weights are moments of clipped gradients. Other gains may make one step more or less.
            self.assertGreaterEqual(min(len(free), len(clipped)), 2)
            for (_, a), (_, b) in zip(free, clipped, strict=False):
                self.assertAlmostEqual(a, b, delta=0.05 * a)

    def test_neither_loss_scale_nor_overflow_changes_gains(self):
        options = ("--train.dtype=fp16", "--optimizer.kind=sgd", "--optimizer.lr=0.1")
        deck = self.deck(ADASCALE, train={"steps": 30})
        plain = self.train(deck, *options, "--train.loss_scale=1024")
        scaled = self.train(deck, *options, "--train.loss_scale=2048")
        gains = [run["adascale"]["gains"] for run in (plain, scaled)]
        self.assertGreater(min(map(len, gains)), 5)
        for (_, a), (_, b) in zip(*gains, strict=False):  # other gains may make one step more or less
            self.assertAlmostEqual(a, b, delta=0.01 * a)  # because small gradients are rounded differently in fp16
        overflowing = self.train(deck, *options, "--train.loss_scale_power=26", out="overflowing")
        lines = self.metrics("overflowing")
        self.assertEqual(lines[0]["skipped"], "overflow")
        self.assertNotIn("gain", lines[0])
        updates = [line for line in lines if "skipped" not in line]
        self.assertEqual(
            [[line["step"], line["gain"]] for line in updates], overflowing["adascale"]["gains"], "of updates alone"
        )
        self.assertAlmostEqual(
            overflowing["adascale"]["effective_steps"], sum(line["gain"] for line in updates), delta=1e-9
        )
        self.assertLessEqual(len(lines), 30, "train.steps bounds what is tried, too")

    def test_a_scale_of_one_is_the_plain_run(self):
        deck = self.deck(ADASCALE, train={"steps": 4})
        for optimizer in OPTIMIZERS:
            one = self.train(deck, *optimizer, "--optimizer.adascale_scale=1")
            self.assertEqual([gain for _, gain in one["adascale"]["gains"]], [1, 1, 1, 1])
            plain = self.train(deck, *optimizer, "--optimizer.adascale=false")
            self.assertEqual(trajectory(one), trajectory(plain))
            self.assertIsNone(plain["adascale"])


if __name__ == "__main__":
    main()
