# SPDX-License-Identifier: Apache-2.0
"""fp16: a step that overflows changes nothing but the loss scale. A run that is resumed across overflows, at another
stage and on other ranks, has the bits of the uninterrupted run."""

import json
import math

from program import SMALL, Program, main, trajectory

STEPS = 14
# The loss scale starts too high and grows again soon, so the first steps overflow, and later ones, when there are
# moments.
SCALE = {"dtype": "fp16", "steps": STEPS, "loss_scale_power": 24, "loss_scale_hysteresis": 1, "loss_scale_window": 2}


class Fp16(Program):
    def states(self, step):
        """Checksums of all parameters, moments and residuals after the step, as `shoal info` prints them."""
        done = self.shoal("info", "--all", self.dir / "straight" / "checkpoints" / f"step_{step:08d}.h5")
        self.assertEqual(done.returncode, 0, done.stderr)
        words = [line.split() for line in done.stdout.splitlines()]
        tensors = {row[1]: row[-1] for row in words if len(row) > 2 and row[-2] == "checksum"}
        self.assertTrue(any(name.startswith("/moments/second/") for name in tensors))
        return tensors

    def scales(self, out):
        """The loss scale of every step."""
        return [(line["step"], line["loss_scale"]) for line in self.metrics(out)]

    def metrics(self, out):
        """The lines about the steps of a run."""
        return [json.loads(line) for line in (self.dir / out / "metrics.jsonl").read_text().splitlines()]

    def test_a_resumed_run_may_skip_all_that_is_left(self):
        """That is a success only if an update was made before."""
        deck = self.deck(SMALL, train=SCALE, checkpoint={"every": 1, "keep": 0}, trace={"level": "off"})
        straight = self.train(deck, ranks=2, out="straight")
        overflows = {step for step, norm in straight["grad_norms"] if norm is None}
        first_update = min(set(range(1, STEPS + 1)) - overflows)
        late = min(step for step in overflows if step > first_update)
        self.assertGreater(first_update, 2, "two steps overflow first")
        for step, code in ((2, 1), (late, 0)):
            done = self.shoal("train", deck, f"--checkpoint.resume={self.dir}/straight/checkpoints/step_{step - 1:08d}.h5",
                              f"--train.steps={step}", f"--output.dir={self.dir / f'to-{step}'}", ranks=2)  # fmt: skip
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            said = "NO UPDATE: the only update was skipped" if code else f"OK: {step} of {step} steps, 1 update skipped"
            self.assertIn(said, done.stdout)

    def test_residuals_of_quantized_gradients_have_the_scale_of_the_loss(self):
        """A run goes on with another power of two. Quantization does not depend on it, but fp16 rounds the smallest gradients
        in another place: by some 1e-7 of the loss. Residuals of the wrong scale change it by 1e-3."""
        options = ("--zero.stage=2", "--zero.qgz=4", "--zero.quant_feedback=true", "--comm.ranks_per_node=2")
        deck = self.deck(SMALL, train={"dtype": "fp16", "steps": 6, "loss_scale": 1024}, checkpoint={"every": 3})
        straight = self.train(deck, *options, ranks=4, out="of-1024")
        resume = f"--checkpoint.resume={self.dir / 'of-1024/checkpoints/step_00000003.h5'}"
        same = self.train(deck, *options, resume, ranks=4, out="same")
        self.assertEqual(same["losses"], straight["losses"][3:])
        self.assertEqual(same["params_checksum"], straight["params_checksum"])
        other = self.train(deck, *options, resume, "--train.loss_scale=4096", ranks=4, out="other")
        for (step, loss), (_, expected) in zip(other["losses"], straight["losses"][3:], strict=True):
            self.assertAlmostEqual(loss, expected, delta=1e-5, msg=f"step {step}")

    def test_residuals_resume_across_a_change_of_the_scale(self):
        options = ("--zero.stage=2", "--zero.qgz=4", "--zero.quant_feedback=true", "--comm.ranks_per_node=2")
        deck = self.deck(SMALL, train=SCALE, checkpoint={"every": 1, "keep": 0}, trace={"level": "off"})
        straight = self.train(deck, *options, ranks=4, out="straight")
        scales = dict(self.scales("straight"))
        changed = [step for step in range(3, STEPS) if scales[step + 1] != scales[step]]
        self.assertTrue(changed, scales)
        file = self.dir / f"straight/checkpoints/step_{changed[0]:08d}.h5"
        resumed = self.train(deck, *options, f"--checkpoint.resume={file}", ranks=4, out="resumed")
        self.assertEqual(resumed["losses"], straight["losses"][changed[0] :])
        self.assertEqual(resumed["params_checksum"], straight["params_checksum"])

        overflows = [step for step, norm in straight["grad_norms"] if norm is None]
        self.assertGreater(len(overflows), 1)
        updated = next(step for step, norm in straight["grad_norms"] if norm is not None)
        zeros = self.residuals(overflows[0])
        self.assertEqual(len(zeros), 4)
        self.assertFalse(zeros.items() & self.residuals(updated).items(), "checksums that never change show nothing")
        for step in overflows[1:]:
            self.assertEqual(self.residuals(step), zeros, "errors of a gradient that was discarded")

    def residuals(self, step):
        return {name: checksum for name, checksum in self.states(step).items() if name.startswith("/residuals/")}

    def test_overflows_leave_no_trace_and_runs_resume_across_them(self):
        deck = self.deck(SMALL, train=SCALE, checkpoint={"every": 1, "keep": 0}, trace={"level": "off"})
        straight = self.train(deck, out="straight")
        overflows = [step for step, norm in straight["grad_norms"] if norm is None]
        self.assertEqual(overflows[0], 1)
        later = [step for step in overflows if step - 1 not in overflows and 2 < step < STEPS]
        self.assertTrue(later, f"no overflow after an update: {overflows}")
        overflow = later[0]

        earlier, before, after = (self.states(step) for step in (overflow - 2, overflow - 1, overflow))
        self.assertEqual(after, before, "parameters or moments have changed")
        self.assertNotEqual(earlier, before, "checksums that never change show nothing")
        scales = self.scales("straight")
        self.assertEqual(dict(scales)[overflow + 1], dict(scales)[overflow] / 2)

        for start, stage, ranks in ((1, 3, 2), (overflow - 2, 2, 4), (overflow, 1, 2)):
            out = f"resumed-{start}"
            resumed = self.train(
                deck,
                f"--checkpoint.resume={self.dir / 'straight' / 'checkpoints' / f'step_{start:08d}.h5'}",
                f"--zero.stage={stage}",
                "--checkpoint.every=0",
                ranks=ranks,
                out=out,
            )
            losses, norms, checksum = trajectory(resumed)
            self.assertEqual(losses, straight["losses"][start:], f"from step {start}")
            self.assertEqual(norms, straight["grad_norms"][start:], f"from step {start}")
            self.assertEqual(checksum, straight["params_checksum"], f"from step {start}")
            self.assertEqual(self.scales(out), scales[start:], f"from step {start}")

    def test_steps_that_overflow_are_no_updates(self):
        """They count neither for the schedule nor for Adam's bias correction. All samples are the same, so a run whose first steps
        overflow has, after them, the losses and learning rates of a run without overflows."""
        text = self.dir / "text.txt"
        text.write_text("0123456789abcdef" * 2000)
        deck = self.deck(
            SMALL,
            data={"source": text, "tokenizer": "bytes"},
            model={"vocab_size": 0},
            train={**SCALE, "loss_scale_window": 1000},
            schedule={"kind": "linear", "warmup_steps": 8},
            optimizer={"lr": 0.01},
        )
        self.train(deck, out="late")
        late = self.metrics("late")
        overflows = sum(line["loss_scale"] > late[-1]["loss_scale"] for line in late)
        self.assertGreater(overflows, 1)
        self.train(deck, f"--train.loss_scale_power={math.log2(late[-1]['loss_scale']):.0f}", out="early")
        early = self.metrics("early")[:-overflows]
        self.assertGreater(len({line["lr"] for line in early}), 4, "a rate that stays shows nothing")
        self.assertGreater(early[0]["loss"] - early[-1]["loss"], 0.5)
        for name in ("loss", "lr", "grad_norm", "loss_scale"):
            self.assertEqual([line[name] for line in late[overflows:]], [line[name] for line in early], name)


if __name__ == "__main__":
    main()
