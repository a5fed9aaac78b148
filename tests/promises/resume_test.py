# SPDX-License-Identifier: Apache-2.0
"""Resuming is bit-exact: a run that was killed and resumed equals one that ran through, on another number of ranks,
too."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import BINARY, MPIEXEC, SMALL, Program, main, ranks_of, trajectory

ENDLESS = "--train.steps=1000000"


def kill(processes):
    """The launcher may be faster: it ends the other ranks when it sees that the first one has died."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


class Resume(Program):
    def straight(self, deck, ranks=1):
        return self.train(deck, ranks=ranks, out="straight")

    def start(self, deck, out, *options, ranks):
        command = [MPIEXEC, "-n", str(ranks), BINARY, "train", str(deck), f"--output.dir={out}", *options]
        return subprocess.Popen(
            command, env=self.environment(ranks), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill_after(self, deck, out, step, ranks):
        """Starts a run and kills every rank with -9 as soon as step_N.h5 exists. It would go on for ever, so that it has not ended
        when this is seen."""
        run = self.start(deck, out, f"--checkpoint.every={step}", "--checkpoint.keep=0", ENDLESS, ranks=ranks)
        wanted = out / "checkpoints" / f"step_{step:08d}.h5"
        deadline = time.time() + 60
        while not wanted.exists() and time.time() < deadline and run.poll() is None:
            time.sleep(0.005)
        self.assertTrue(wanted.exists(), "no checkpoint was written")
        kill(ranks_of(out))
        self.assertNotEqual(run.wait(timeout=60), 0)

    def kill_in_a_save(self, deck, out, *options, ranks):
        """Starts a run without an end and kills every rank with -9 while it writes a checkpoint, after the first one is
        complete. Returns True if that worked: then a temporary file is left."""
        files = out / "checkpoints"
        run = self.start(deck, out, "--checkpoint.every=2", ENDLESS, *options, ranks=ranks)
        deadline = time.time() + 60
        while not list(files.glob("*.h5")) and time.time() < deadline and run.poll() is None:
            time.sleep(0.005)
        processes = ranks_of(out)
        while not list(files.glob("*.partial")) and time.time() < deadline and run.poll() is None:
            time.sleep(0.001)
        kill(processes)
        self.assertNotEqual(run.wait(timeout=60), 0)
        return bool(list(files.glob("*.partial")))

    def check_kill_in_a_save(self, name, *options):
        deck = self.deck(SMALL, model={"n_embd": 256, "n_head": 4}, train={"eval_every": 0}, batch={"micro": 2})
        for attempt in range(8):
            out = self.dir / f"{name}-{attempt}"
            if self.kill_in_a_save(deck, out, *options, ranks=2):
                break
        else:
            self.fail("no run was caught while it wrote a checkpoint")
        newest = max(int(p.stem.removeprefix("step_")) for p in (out / "checkpoints").glob("*.h5"))
        steps = f"--train.steps={newest + 10}"
        straight = self.train(deck, steps, ranks=2, out=f"{name}-straight")
        again = self.train(
            deck, "--checkpoint.every=8", "--checkpoint.resume=latest", steps, *options, ranks=2, out=out.name
        )
        self.assertEqual(again["losses"], straight["losses"][newest:])
        self.assertEqual(again["params_checksum"], straight["params_checksum"])
        self.assertEqual(list((out / "checkpoints").glob("*.partial")), [], "what the killed run left")

    def test_kill_9_in_the_middle_of_a_save(self):
        self.check_kill_in_a_save("at-once")

    def test_kill_9_in_the_middle_of_a_save_in_the_background(self):
        self.check_kill_in_a_save("background", "--checkpoint.async=true")

    def test_saved_in_the_background_is_saved_at_once(self):
        deck = self.deck(SMALL, train={"steps": 9, "eval_every": 0}, model={"dropout": 0.1})
        at_once = self.train(deck, "--checkpoint.every=4", "--checkpoint.keep=2", ranks=2, out="at-once")
        background = self.train(
            deck, "--checkpoint.every=4", "--checkpoint.keep=2", "--checkpoint.async=true", ranks=2, out="background"
        )
        self.assertEqual(trajectory(background), trajectory(at_once))
        names = sorted(p.name for p in (self.dir / "background" / "checkpoints").glob("*"))
        self.assertEqual(names, ["step_00000008.h5", "step_00000009.h5"])
        for resumed, ranks in (("background", 1), ("at-once", 4)):
            file = self.dir / resumed / "checkpoints" / "step_00000008.h5"
            again = self.train(deck, f"--checkpoint.resume={file}", ranks=ranks, out=f"again-{resumed}")
            self.assertEqual(again["params_checksum"], at_once["params_checksum"], resumed)
        # The copy is planned and allocated; it is the part of three fp32 states that this rank writes.
        state = background["state_bytes"]
        self.assertEqual(state["planned"], state["taken"])
        kept = state["taken"]["parameters"] + state["taken"]["moments"]
        copy = state["taken"]["staging"] - at_once["state_bytes"]["taken"]["staging"]
        self.assertAlmostEqual(copy, kept / 2, delta=0.1 * kept)

    def test_a_checkpoint_of_three_ranks_goes_on_with_two(self):
        deck = self.deck(SMALL, train={"steps": 3}, batch={"global": 6})
        for options in ((), ("--checkpoint.async=true",)):
            out = f"three-{len(options)}"
            three = self.train(deck, "--checkpoint.every=3", *options, ranks=3, out=out)
            two = self.train(deck, "--checkpoint.resume=latest", ranks=2, out=out)
            self.assertEqual(two["losses"], [])
            self.assertEqual(two["params_checksum"], three["params_checksum"])

    def test_kill_9_and_resume(self):
        deck = self.deck(
            SMALL, train={"steps": 40, "eval_every": 0}, model={"dropout": 0.1}, batch={"micro": 2, "global": 8}
        )
        straight = self.straight(deck, ranks=2)
        out = self.dir / "killed"
        self.kill_after(deck, out, 20, ranks=2)
        for ranks in (2, 1, 4):
            again = self.train(
                deck,
                f"--checkpoint.resume={out / 'checkpoints' / 'step_00000020.h5'}",
                ranks=ranks,
                out=f"resumed-{ranks}",
            )
            self.assertEqual(again["params_checksum"], straight["params_checksum"], f"{ranks} ranks")
            self.assertEqual(again["losses"], straight["losses"][20:], f"{ranks} ranks")

    def test_latest_continues_in_the_same_directory(self):
        deck = self.deck(SMALL, train={"steps": 12}, schedule={"total_steps": 12, "kind": "cosine", "warmup_steps": 2})
        straight = self.straight(deck)
        out = self.dir / "same"
        self.train(deck, "--checkpoint.every=3", "--train.steps=7", out="same")
        names = sorted(p.name for p in (out / "checkpoints").glob("*"))
        self.assertEqual(names, ["step_00000003.h5", "step_00000006.h5", "step_00000007.h5"])
        again = self.train(deck, "--checkpoint.every=3", "--checkpoint.resume=latest", out="same")
        self.assertEqual([step for step, _ in again["losses"]], list(range(8, 13)))
        self.assertEqual(again["params_checksum"], straight["params_checksum"])
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines], list(range(1, 13)))
        self.assertEqual([[line["step"], line["loss"]] for line in lines], straight["losses"])

    def test_a_damaged_newest_checkpoint_is_passed_over(self):
        deck = self.deck(SMALL, train={"steps": 6})
        straight = self.straight(deck)
        self.train(deck, "--checkpoint.every=2", "--train.steps=4", out="damaged")
        newest = self.dir / "damaged" / "checkpoints" / "step_00000004.h5"
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 1
        newest.write_bytes(content)
        again = self.train(deck, "--checkpoint.resume=latest", out="damaged")
        self.assertEqual([step for step, _ in again["losses"]], [3, 4, 5, 6])
        self.assertEqual(trajectory(again)[2], straight["params_checksum"])

    def test_stop_after_ends_with_75_and_a_checkpoint(self):
        deck = self.deck(SMALL, train={"steps": 100000})
        for background in ("false", "true"):
            out = self.dir / f"timed-{background}"
            options = ("--train.stop_after=1", f"--checkpoint.async={background}")
            done = self.shoal("train", deck, f"--output.dir={out}", *options, ranks=2)
            self.assertEqual(done.returncode, 75, done.stderr)
            summary = json.loads((out / "summary.json").read_text())
            steps = len(summary["losses"])
            said = f"STOPPED EARLY after {steps} of 100000 steps (exit code 75: requeue)"
            self.assertEqual(summary["verdict"], {"ended": "stopped early", "exit_code": 75, "steps_made": steps,
                                                  "updates_skipped": 0, "ok": False, "text": said})  # fmt: skip
            self.assertTrue(done.stdout.endswith(f"\n# {said}\n"), done.stdout)
            self.assertTrue((out / "checkpoints" / f"step_{steps:08d}.h5").exists())


if __name__ == "__main__":
    main()
