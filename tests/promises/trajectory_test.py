# SPDX-License-Identifier: Apache-2.0
"""Losses, norms and parameters have the same bits on 1, 2, 4 and 8 ranks for one global batch."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import ON_OTHER_KERNELS, SMALL, Program, main, trajectory


class Trajectory(Program):
    takes_turns = ON_OTHER_KERNELS

    def same(self, ranks, *args, sections=SMALL, **changes):
        deck = self.deck(sections, train={"steps": 3}, **changes)
        runs = {n: trajectory(self.train(deck, *args, ranks=n, out=f"out-{n}", timeout=200)) for n in ranks}
        first = runs[ranks[0]]
        for n, run in runs.items():
            self.assertEqual(run, first, f"{n} ranks against {ranks[0]}")
        return first

    def test_a_power_of_two_of_micro_batches(self):
        self.same([1, 2, 4, 8], batch={"micro": 1, "global": 8})

    def test_twelve_micro_batches_make_three_rounds(self):
        self.same([1, 2, 4], batch={"micro": 1, "global": 12})

    def test_bf16_with_dropout_and_small_messages(self):
        self.same(
            [1, 2, 4],
            "--train.dtype=bf16",
            "--model.dropout=0.1",
            "--comm.bucket_mb=0.02",
            batch={"micro": 1, "global": 4},
        )

    def test_sgd_on_a_classifier(self):
        classifier = {**SMALL, "model": {"kind": "mlp", "n_layer": 2, "n_embd": 16, "block_size": 8, "vocab_size": 64}}
        self.same(
            [1, 2], "--optimizer.kind=sgd", "--optimizer.lr=0.1", sections=classifier, batch={"micro": 2, "global": 8}
        )

    def test_message_size_and_overlap_change_nothing(self):
        deck = self.deck(SMALL, train={"steps": 3})
        first = trajectory(self.train(deck, ranks=2))
        for option in (
            "--comm.bucket_mb=0.004",
            "--comm.bucket_mb=0.1",
            "--comm.overlap=false",
            "--trace.level=kernels",
            "--trace.level=off",
        ):
            self.assertEqual(trajectory(self.train(deck, option, ranks=2)), first, option)

    def test_checkpointed_activations_change_nothing_but_their_memory(self):
        deep = {**SMALL, "model": {**SMALL["model"], "n_layer": 5, "dropout": 0.1}}
        for dtype in ("fp32", "bf16"):
            deck = self.deck(deep, batch={"micro": 1, "global": 4}, train={"steps": 3, "dtype": dtype})
            reference = self.train(deck, ranks=1)
            planned = [reference["state_bytes"]["planned"]["activations"]]
            for interval, stage in (("4", 1), ("auto", 3), ("1", 2)):
                run = self.train(deck, f"--activation.checkpoint_interval={interval}", f"--zero.stage={stage}", ranks=2)
                self.assertEqual(trajectory(run), trajectory(reference), f"{dtype}, interval {interval}, stage {stage}")
                self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
                planned.append(run["state_bytes"]["planned"]["activations"])
            self.assertEqual(planned, sorted(planned, reverse=True), "the shorter the interval, the less is kept")
            self.assertLess(planned[-1], planned[0] / 2)

    def test_three_ranks_reproduce_run_to_run(self):
        deck = self.deck(SMALL, batch={"micro": 1, "global": 6}, train={"steps": 3})
        first = self.train(deck, ranks=3)
        self.assertEqual(trajectory(self.train(deck, ranks=3)), trajectory(first))
        alone = self.train(deck, ranks=1)
        for (_, a), (_, b) in zip(first["losses"], alone["losses"], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_another_seed_is_another_trajectory(self):
        deck = self.deck(SMALL, train={"steps": 3})
        self.assertNotEqual(trajectory(self.train(deck)), trajectory(self.train(deck, "--train.seed=4")))


if __name__ == "__main__":
    main()
