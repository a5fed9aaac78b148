# SPDX-License-Identifier: Apache-2.0
"""Every deck in inputs/ runs for three steps. The decks of the ZeRO stages have the trajectory of the deck that they
derive from, and the pipeline that of its deck without one. Rank 0 alone reads a deck."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import BINARY, MPIEXEC, ON_OTHER_KERNELS, SMALL, SOURCE, Program, main, trajectory


class Decks(Program):
    takes_turns = ON_OTHER_KERNELS

    def test_all_decks_run(self):
        text = self.dir / "text.txt"
        text.write_text("To be, or not to be, that is the question:\n" * 2000)
        decks = sorted((SOURCE / "inputs").glob("*.cfg"))
        self.assertGreater(len(decks), 3)
        trajectories = {}

        def run(deck, *more, name):
            options = (
                "--train.steps=3",
                "--train.eval_batches=1",
                "--checkpoint.every=0",
                "--checkpoint.last=false",
                *more,
            )
            summary = self.train(deck, *options, ranks=2, out=name)
            self.assertEqual(len(summary["losses"]), 3)
            trajectories[name] = trajectory(summary)

        for deck in decks:
            with self.subTest(deck=deck.name):
                more = [f"--data.source={text}", "--model.vocab_size=0"] if "data.source" in deck.read_text() else []
                # Large models are run with fewer layers and samples, so that three steps take seconds.
                if "124m" in deck.name:
                    more += ["--model.n_layer=1", "--model.block_size=64", "--batch.micro=1", "--batch.global=2"]
                run(deck, *more, name=deck.stem)
        for deck in ("zero1", "zero2", "zero3"):
            self.assertEqual(trajectories[deck], trajectories["quickstart"], deck)
        run(SOURCE / "inputs" / "pipeline.cfg", "--pipeline.size=1", name="without_pipeline")
        self.assertEqual(trajectories["pipeline"], trajectories["without_pipeline"])

    def start_two(self, *ranks):
        """Starts two ranks, each in a directory of its own with a command line of its own: (directory, argument ...)."""
        words = []
        for directory, *more in ranks:
            words += [":"] * bool(words) + ["-n", "1", "-wdir", directory, BINARY, "train", *more, "--print-config"]
        return subprocess.run(
            [MPIEXEC, *map(str, words)], env=self.environment(2), capture_output=True, text=True, timeout=60
        )

    def test_rank_0_alone_reads_deck_and_configuration(self):
        deck, empty = self.deck(SMALL), self.dir / "empty"
        empty.mkdir()
        (self.dir / "ds.json").write_text('{"train_batch_size": 8, "gradient_clipping": 0.25}')
        both = ("deck.cfg", "--deepspeed=ds.json")
        done = self.start_two((self.dir, *both), (empty, *both))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\ngrad_clip += 0.25 ")
        done = self.start_two((self.dir, "none.cfg"), (self.dir, "none.cfg"))
        self.assertEqual((done.returncode, done.stderr.count("none.cfg: no such file")), (2, 1), done.stderr)
        done = self.start_two((self.dir, deck), (self.dir, "deck.cfg"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("rank 1 was started with another file name than rank 0", done.stderr)


if __name__ == "__main__":
    main()
