# SPDX-License-Identifier: Apache-2.0
"""What a run keeps, and that it is found again: a checkpoint of the last step and of the best validation loss, and
directories of runs in the place of their newest checkpoint."""

import re
import shutil

from program import SMALL, Program, main, trajectory

TINY = {
    **SMALL,
    "model": {"kind": "gpt", "n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 8, "vocab_size": 16},
    "batch": {"micro": 1, "global": 4},
    "trace": {"level": "off"},
}
# With this rate the loss falls, rises when it grows too large in the cycle's middle, and falls again.
EVERY_2 = ("--train.eval_every=2", "--checkpoint.keep_best=true")


class Kept(Program):
    def saved(self, out):
        """The steps of the complete checkpoints."""
        files = (self.dir / out / "checkpoints").glob("*")
        return sorted(int(re.fullmatch(r"step_(\d+)\.h5", file.name)[1]) for file in files)

    def said(self, *args, code=0, ranks=1):
        done = self.shoal(*args, ranks=ranks)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_the_last_step(self):
        """A run that asks for nothing keeps its weights, and one that goes on from there is the longer run."""
        deck = self.deck(TINY)
        straight = self.train(deck, "--train.steps=5", ranks=2, out="straight")
        self.assertEqual(self.saved("straight"), [5])
        half = ("--train.steps=3", f"--output.dir={self.dir}/half")
        self.assertRegex(self.said("train", deck, *half).stdout, r"#   checkpoint +\S+/step_00000003.h5, complete")
        more = self.train(deck, "--train.steps=5", "--checkpoint.resume=latest", "--zero.stage=3", ranks=2, out="half")
        self.assertEqual(trajectory(more)[2], trajectory(straight)[2])
        self.assertEqual(more["losses"], straight["losses"][3:])
        self.assertEqual(self.saved("half"), [3, 5])
        self.assertRegex(self.said("info", self.dir / "half").stdout, r"#   tokens seen +160\n")
        again = self.said(
            "train", deck, "--train.steps=5", f"--output.dir={self.dir}/half", "--checkpoint.resume=latest"
        )
        self.assertIn("no steps were left to do", again.stdout)
        self.assertNotIn("the weights are not kept", again.stdout)

    def test_the_last_step_is_saved_once(self):
        """Also if checkpoint.every divides it. Without checkpoint.last it is saved only then."""
        written = set()
        for last in ("true", "false"):
            options = ("--checkpoint.every=3", f"--checkpoint.last={last}", f"--output.dir={self.dir}/{last}")
            told = self.said("train", self.deck(TINY), *options).stdout
            written.add(re.search(r"all of this run: (\S+ \S+) written", told)[1])
            self.assertEqual(self.saved(last), [3, 6])
        self.assertEqual(len(written), 1, "bytes of two checkpoints")
        for last, saved in (("true", [4, 6]), ("false", [4])):
            options = ("--checkpoint.every=4", f"--checkpoint.last={last}")
            self.assertIsNone(self.train(self.deck(TINY), *options, out=f"odd-{last}")["best_checkpoint"])
            self.assertEqual(self.saved(f"odd-{last}"), saved)

    def test_a_run_that_keeps_nothing_says_so(self):
        none = ("--checkpoint.last=false", f"--output.dir={self.dir}/none")
        done = self.said("train", self.deck(TINY), *none)
        self.assertRegex(done.stdout, r"#   checkpoint +none: the weights are not kept; set checkpoint.last = true")
        self.assertFalse((self.dir / "none/checkpoints").exists())
        export = ("--checkpoint.last=false", f"--output.dir={self.dir}/weights", f"--output.export={self.dir}/hf")
        self.assertNotIn("are not kept", self.said("train", self.deck(TINY), *export).stdout)

    def test_a_dry_run_plans_the_checkpoints(self):
        parameters = 16 * 16 + 8 * 16 + 12 * 16 * 16 + 13 * 16 + 2 * 16
        deck, dry = self.deck(TINY), f"--output.dir={self.dir}/dry"
        told = self.said("train", deck, dry, "--dry-run", "--checkpoint.every=4").stdout
        plan = rf"# checkpoints: of {12 * parameters / 1024:.1f} KiB or more, every 4 steps, after the last step, in "
        self.assertIn(plan, told)
        told = self.said("train", deck, dry, "--dry-run", "--checkpoint.last=false").stdout
        self.assertIn("# checkpoints: none", told)

    def test_the_best(self):
        """It outlives newer ones, also when the run was resumed, until an evaluation is better."""
        deck = self.deck(TINY, checkpoint={"keep": 1}, optimizer={"lr": 0.05})
        first = self.train(deck, *EVERY_2, "--train.steps=6", out="run")
        evaluated = dict(map(tuple, first["val_losses"]))
        best = min(evaluated, key=evaluated.get)
        self.assertEqual(first["best_checkpoint"]["step"], best)
        self.assertEqual(first["best_checkpoint"]["val_loss"], evaluated[best])
        self.assertEqual(self.saved("run"), sorted({best, 6}))
        # Losses rise now, so the best stays.
        worse = (deck, *EVERY_2, "--optimizer.lr=10", "--train.grad_clip=0", "--checkpoint.resume=latest")
        for steps in (8, 10):
            run = self.train(*worse, f"--train.steps={steps}", out="run", ranks=steps // 4)
            self.assertEqual(run["best_checkpoint"], first["best_checkpoint"])
            self.assertEqual(self.saved("run"), sorted({best, steps}))
        told = self.said("info", self.dir / "run").stdout
        self.assertIn(f"lowest {evaluated[best]:.4f} after step {best}", told)
        # Without it the run does not know, and says so.
        other = (*worse[:-1], f"--checkpoint.resume={self.dir}/run", f"--output.dir={self.dir}/other")
        told = self.said("train", *other, "--train.steps=12").stdout
        self.assertIn(f"the checkpoint of step {best}, whose validation loss was the lowest, is not in", told)
        self.assertEqual(self.saved("other"), [12])

    def test_every_kind_of_run(self):
        """Stages of a pipeline, nodes that differ when the run ends, and loss scales: the last step is kept with all that the
        next one needs, and the best of both parts is that of the whole run."""
        apart = ("--comm.ranks_per_node=1", "--sync.kind=localsgd", "--sync.localsgd_frequency=2")
        stages = ("--pipeline.size=2", "--model.n_layer=2", "--model.tied_gradient=apart")
        deck = self.deck(TINY, optimizer={"lr": 0.05}, checkpoint={"keep": 1})
        for kind in (apart, stages, ("--train.dtype=fp16", "--checkpoint.async=true")):
            with self.subTest(kind):
                name = kind[-1].replace("=", "-").strip("-")
                options = (*EVERY_2, *kind)
                whole = self.train(deck, *options, "--train.steps=8", ranks=2, out=f"whole-{name}")
                self.train(deck, *options, "--train.steps=5", ranks=2, out=name)
                again = ("--train.steps=8", "--checkpoint.resume=latest")
                rest = self.train(deck, *options, *again, ranks=2, out=name)
                self.assertEqual(rest["losses"], whole["losses"][5:])
                self.assertEqual(rest["params_checksum"], whole["params_checksum"])
                best = whole["best_checkpoint"]
                self.assertEqual(rest["best_checkpoint"]["val_loss"], best["val_loss"])
                self.assertEqual(self.saved(name), sorted({best["step"], 8}))
                loss = re.search(r"validation loss (\S+)", self.said("eval", rest["best_checkpoint"]["file"]).stdout)[1]
                self.assertAlmostEqual(float(loss), best["val_loss"], delta=2e-3)

    def test_the_best_where_a_signal_stops_the_run(self):
        """The state was saved before the evaluation; it is kept as the best all the same."""
        deck = self.deck(TINY, train={"steps": 100000, "eval_every": 1})
        options = ("--checkpoint.keep_best=true", "--checkpoint.keep=1", "--train.stop_after=0.001")
        run = self.train(deck, *options, out="run", codes=(75,))
        self.assertEqual(run["best_checkpoint"]["step"], len(run["losses"]))
        told = self.said("info", self.dir / "run").stdout
        self.assertIn(f"validation {run['val_losses'][-1][1]:.4f} after step {len(run['losses'])}; training", told)

    def test_a_directory_stands_for_its_newest_checkpoint(self):
        text = self.dir / "text.txt"
        text.write_text("to be, or not to be, that is the question\n" * 40)
        deck = self.deck(TINY, data={"source": text, "tokenizer": "chars"}, model={"vocab_size": 0})
        run = self.dir / "run"
        self.train(deck, "--checkpoint.every=2", out="run", ranks=2)
        newest = run / "checkpoints/step_00000006.h5"
        for command, *more in (("info",), ("eval",), ("generate", "--tokens=5"), ("export", self.dir / "hf")):
            done = self.said(command, run, *more, ranks=1 if command == "info" else 2)
            self.assertIn(f"# {run}: the newest complete checkpoint is {newest}\n", done.stderr)
            again = (self.dir / "again",) if command == "export" else more
            named = self.said(command, newest, *again, ranks=1 if command == "info" else 2)
            self.assertEqual(done.stdout.replace("/hf", "/again"), named.stdout, command)
        self.assertRegex(self.said("info", run / "checkpoints").stdout, r"#   step +6 of 6\n")
        # A run that is copied, and files that are no whole checkpoints.
        shutil.copytree(run, self.dir / "copied")
        shutil.rmtree(run)
        copied = self.dir / "copied"
        last = copied / "checkpoints/step_00000006.h5"
        last.write_bytes(last.read_bytes()[:-100])
        (copied / "checkpoints/step_00000008.h5.partial").write_bytes(b"half")
        done = self.said("info", copied)
        self.assertIn(f"# passed over: {last}: ", done.stderr)
        self.assertRegex(done.stdout, r"#   step +4 of 6\n")
        resumed = self.train(deck, f"--checkpoint.resume={copied}", out="resumed")
        self.assertEqual(resumed["resumed_from"]["step"], 4)

    def test_a_directory_without_one_is_one_line(self):
        self.train(self.deck(TINY), "--checkpoint.last=false", out="none")
        none, no = self.dir / "none", "no complete checkpoint; in "
        for command, *more in (("info",), ("eval",), ("generate",), ("export", self.dir / "hf")):
            contains = (f"{none}: {no}{none}: log.txt, metrics.jsonl, run.json, summary.json", "checkpoint.last = true")
            self.refused(command, none, *more, contains=contains)
        resume = f"--checkpoint.resume={none}"
        self.refused("train", self.dir / "deck.cfg", resume, "--output.dir=new", ranks=2, contains=(no,))

    def test_of_several_runs_the_last_ones(self):
        """What the run in the directory does not go on from is not its newest."""
        deck, run = self.deck(TINY), self.dir / "run"
        self.train(deck, "--checkpoint.every=2", out="run")
        from_4 = f"--checkpoint.resume={run}/checkpoints/step_00000004.h5"
        self.train(deck, from_4, "--train.steps=5", out="run")
        for directory in (run, run / "checkpoints"):
            self.assertRegex(self.said("info", directory).stdout, r"#   step +5 of 5\n")
        (run / "run.json").unlink()
        self.refused("info", run, contains=("belong to several runs", "allowed: the path of one of them"))

    def test_info_is_for_people(self):
        self.train(self.deck(TINY), "--zero.stage=3", "--train.dtype=bf16", ranks=2, out="run")
        lines = self.said("info", self.dir / "run").stdout.splitlines()
        self.assertLessEqual(len(lines), 16)
        told = "\n".join(lines)
        for words in ("step +6 of 6", "tokens seen +192", "bf16; the file holds fp32", "strategy +stage 3",
                      "2 ranks on 1 node", "complete +yes"):  # fmt: skip
            self.assertRegex(told, words)
        whole = self.said("info", "--all", self.dir / "run").stdout
        self.assertIn("/moments/second/transformer.wte.weight", whole)
        self.assertIn("[optimizer]", whole)
        self.assertIn("checksums agree", self.said("info", "--verify", self.dir / "run").stdout)


if __name__ == "__main__":
    main()
