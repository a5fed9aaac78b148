# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of several runs in one directory: `latest` resumes from this run's own, and a run deletes only its
own."""

import errno
import json
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import SMALL, SOURCE, Program, main, preloaded

TINY = {**SMALL, "model": {**SMALL["model"], "n_layer": 1, "n_embd": 16, "block_size": 8}, "trace": {"level": "off"}}
FAILING_CALLS = os.environ.get("SHOAL_FAILING_CALLS", str(SOURCE / "build/tests/support/libshoal_failing_calls.so"))


def damage(file):
    """Flips one bit of the raw data; the metadata keep their valid checksum."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


class Lineage(Program):
    def setUp(self):
        super().setUp()
        self.kept = self.dir / "kept"

    def steps(self):
        return sorted(int(p.stem.removeprefix("step_")) for p in self.kept.glob("step_*.h5"))

    def run_to(self, steps, *args, out, every=2, keep=0, **sections):
        options = (f"--train.steps={steps}", f"--checkpoint.every={every}", f"--checkpoint.keep={keep}")
        return self.train(self.deck(TINY, **sections), f"--checkpoint.dir={self.kept}", *options, *args, out=out)

    def from_step(self, step):
        return f"--checkpoint.resume={self.kept / f'step_{step:08d}.h5'}"

    def test_a_damaged_newest_checkpoint_does_not_outlive_the_good(self):
        self.run_to(8, out="run", every=4)
        damage(self.kept / "step_00000008.h5")
        for keep in (1, 2):
            done = self.run_to(6, "--checkpoint.resume=latest", out="run", every=1, keep=keep)
            self.assertEqual(done["resumed_from"]["step"], 4 if keep == 1 else 6)
            self.assertEqual(self.steps(), [6, 8], "its newest, and what is not its to delete")

    def test_latest_is_not_of_an_abandoned_trajectory(self):
        first = self.run_to(8, out="run", every=4)
        self.assertIsNone(first["resumed_from"])
        again = self.run_to(4, self.from_step(4), out="run")  # ends before it has written anything
        self.assertEqual((again["resumed_from"]["run"], again["resumed_from"]["step"]), (first["run"], 4))
        self.assertNotEqual(again["run"], first["run"])
        third = self.run_to(6, "--checkpoint.resume=latest", out="run")
        self.assertEqual(third["resumed_from"]["step"], 4, "step 8 was left when the run went on from step 4")
        self.assertEqual(self.steps(), [4, 6, 8])
        last = self.run_to(7, "--checkpoint.resume=latest", out="run", keep=1)
        self.assertEqual((last["resumed_from"]["run"], last["resumed_from"]["step"]), (third["run"], 6))
        self.assertEqual(self.steps(), [7, 8])
        said = self.shoal("info", "--all", self.kept / "step_00000007.h5").stdout
        for part in (last["run"], f"{first['run'][:12]} until step 4", f"{third['run'][:12]} until step 6"):
            self.assertIn(part, said)

    def test_two_runs_in_one_directory(self):
        self.run_to(8, out="first", every=4)
        done = self.shoal(
            "train", self.deck(TINY, data={"shuffle": "true"}), "--train.steps=6", "--checkpoint.every=2",
            "--checkpoint.keep=1", f"--checkpoint.dir={self.kept}", f"--output.dir={self.dir / 'second'}",
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("holds checkpoints that are not of this run's lineage", done.stdout)
        self.assertIn("steps 4, 8", done.stdout)
        self.assertEqual(self.steps(), [6, 8], "step 4 was replaced by its own, which went when 6 was complete")
        arguments = (f"--checkpoint.dir={self.kept}", f"--output.dir={self.dir / 'third'}")
        self.refused(
            "train", self.dir / "deck.cfg", *arguments, "--checkpoint.resume=latest",
            contains=("belong to several runs", "step_00000006.h5 (step 6, run", "step_00000008.h5", "started", "the path"),
        )  # fmt: skip
        for out, step in (("first", 8), ("second", 6)):
            self.assertEqual(self.run_to(9, "--checkpoint.resume=latest", out=out)["resumed_from"]["step"], step)

    def test_nothing_to_resume_is_said_and_nothing_is_lost(self):
        # Like a run that was killed before its first checkpoint.
        self.train(self.deck(SMALL), "--train.steps=2", "--checkpoint.last=false", out="killed")
        out = self.dir / "killed"
        trace = (out / "trace.h5").read_bytes()
        latest = (f"--output.dir={out}", "--checkpoint.resume=latest", "--train.steps=2")
        done = self.shoal("train", self.dir / "deck.cfg", *latest, ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"# nothing to resume in {out / 'checkpoints'}: the run begins at step 0", done.stdout)
        self.assertEqual((out / "trace.h5").read_bytes(), trace)
        lines = (out / "metrics.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["step"] for line in lines], [1, 2])

    def calls(self, latest, below):
        """How often a run that resumes opens the file whose calls are logged, and reads from it."""
        log, copy = self.dir / "calls", self.dir / "copy"
        shutil.copytree(self.dir / "run", copy)  # the run replaces its records
        steps = "--train.steps=2"  # none is left to do, so the run writes no checkpoint
        options = (*latest, steps, f"--output.dir={copy}")
        done = self.shoal("train", self.dir / "deck.cfg", *options, env={**below, "SHOAL_FAIL_LOG": str(log)})
        self.assertEqual(done.returncode, 0, done.stderr)
        made = [line.split()[1] for line in log.read_text().splitlines()]
        counts = {call: made.count(call) for call in ("open", "read")}
        self.assertGreater(min(counts.values()), 4, counts)
        return counts

    def test_what_can_not_be_resumed_is_an_error(self):
        self.run_to(2, out="run")
        damage(self.kept / "step_00000002.h5")
        latest = (f"--checkpoint.dir={self.kept}", f"--output.dir={self.dir / 'run'}", "--checkpoint.resume=latest")
        self.refused("train", self.dir / "deck.cfg", *latest, contains=("no checkpoint is whole", "step_00000002.h5"))
        (self.kept / "step_00000002.h5").write_text("nothing is known of it")
        self.refused("train", self.dir / "deck.cfg", *latest, contains=("no checkpoint is whole", "step_00000002.h5"))
        # If the directory or the newest checkpoint cannot be read at this moment, that is an error, too: the run
        # neither starts from the beginning nor resumes from an older one.
        (self.kept / "step_00000002.h5").unlink()
        self.run_to(2, "--output.overwrite", out="run", every=1)
        for call, number in (("opendir", errno.EMFILE), ("opendir", errno.EACCES), ("open", errno.EMFILE)):
            fails = {**preloaded(FAILING_CALLS), "SHOAL_FAIL_CALL": call, "SHOAL_FAIL_ERRNO": str(number)}
            fails["SHOAL_FAIL_BELOW"] = str(self.kept if call == "opendir" else self.kept / "step_00000002.h5")
            said = (os.strerror(number), "cannot be listed" if call == "opendir" else "step_00000002.h5")
            self.refused("train", self.dir / "deck.cfg", *latest, code=1, contains=said, env=fails)
        fails = {**preloaded(FAILING_CALLS), "SHOAL_FAIL_BELOW": str(self.kept / "step_00000002.h5")}
        fails["SHOAL_FAIL_ERRNO"] = str(errno.EIO)
        for call, count in self.calls(latest[::2], fails).items():  # in HDF5, among other places
            for at in (1, count // 3, 2 * count // 3, count - 1):
                fails |= {"SHOAL_FAIL_CALL": call, "SHOAL_FAIL_AT": str(at)}
                said = (os.strerror(errno.EIO), "step_00000002.h5")
                self.refused("train", self.dir / "deck.cfg", *latest, code=1, contains=said, env=fails)
        del fails["SHOAL_FAIL_AT"]
        for call in ("open", "read"):  # while it is loaded, on another rank than the one that lists the directory
            fails |= {"SHOAL_FAIL_RANK": "1", "SHOAL_FAIL_CALL": call, "SHOAL_FAIL_ERRNO": str(errno.ESTALE)}
            said = (os.strerror(errno.ESTALE), "step_00000002.h5")
            self.refused("train", self.dir / "deck.cfg", *latest, code=1, contains=said, env=fails, ranks=2)
        moved = (f"--checkpoint.dir={self.dir / 'empty'}", *latest[1:])
        self.refused("train", self.dir / "deck.cfg", *moved, contains=("kept its own in", str(self.kept)))

    def test_the_last_step_is_saved(self):
        self.run_to(3, out="with-a-directory", every=0)
        self.assertEqual(self.steps(), [3])
        self.train(self.deck(TINY), self.from_step(3), "--train.steps=5", out="resumed")
        names = [p.name for p in (self.dir / "resumed" / "checkpoints").iterdir()]
        self.assertEqual(names, ["step_00000005.h5"])
        self.train(self.deck(TINY), "--train.steps=1", "--checkpoint.last=false", out="without")
        self.assertFalse((self.dir / "without" / "checkpoints").exists())
        again = f"--output.dir={self.dir / 'without'}"
        self.refused("train", self.dir / "deck.cfg", again, "--train.steps=1", contains=("holds another run",))
        (self.dir / "without" / "metrics.jsonl").unlink()
        (self.dir / "without" / "summary.json").unlink()
        self.refused("train", self.dir / "deck.cfg", again, "--train.steps=1", contains=("run.json",))


if __name__ == "__main__":
    main()
