# SPDX-License-Identifier: Apache-2.0
"""ZeRO++ on two nodes of two ranks: quantized messages train nearly as well, have the bytes that theory predicts, and
give the same bits in each run."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent / "analysis"), str(TESTS / "app")]
import h5py
import numpy as np
from program import SMALL, Program, main, trajectory
from shoal.read.trace import Trace
from shoal.times.breakdown import settled_steps
from shoal.times.in_steps import within_steps

RANKS, LOCAL, PIECE, BLOCK = 4, 2, 256, 256
NODES = {"comm.ranks_per_node": LOCAL, "zero.stage": 3, "zero.prefetch_units": 0}
ALL_THREE = {"zero.hpz_size": "node", "zero.qwz": 8, "zero.qgz": 4}


def shards(elements):
    """Elements of each rank's shard, cut at multiples of 256."""
    pieces = (elements + PIECE - 1) // PIECE
    length = (pieces + RANKS - 1) // RANKS * PIECE
    return [min(max(elements - rank * length, 0), length) for rank in range(RANKS)]


def codes(elements, bits):
    """Bytes sent: the scales of all blocks, and the codes."""
    return -(-elements // BLOCK) * 4 + -(-elements * bits // 8)


class ZeroPlusPlus(Program):
    takes_turns = ("src/comm/quantized", "src/zero", "kernels/portable/quantize")

    def run_with(self, *args, out="out", steps=3, **options):
        deck = self.deck(SMALL, batch={"micro": 1, "global": 8}, train={"steps": steps, "dtype": "bf16"})
        options = [f"--{name}={value}" for name, value in options.items()]
        return self.train(deck, *options, *args, ranks=RANKS, out=out)

    @staticmethod
    def sent(trace, operation, *groups):
        """Bytes that all ranks together send in a step."""
        events = within_steps(trace, "collective")
        chosen = (events["name"] == list(trace.names).index(operation)) & (events["unit"] >= 0)
        chosen &= np.isin(events["group"], [list(trace.groups).index(group) for group in groups])
        return int(events["bytes"][chosen].sum()) / len(settled_steps(trace))

    def test_what_is_sent_is_what_theory_says(self):
        run = self.run_with("--trace.level=comm", steps=4, **NODES, **ALL_THREE)
        self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
        trace = Trace.read(self.dir / "out")
        pieces = [n for elements in trace.unit_elements.tolist() for n in shards(elements)]
        of_weights, within, across = (sum(codes(n, bits) for n in pieces if n) for bits in (8, 8, 4))
        turns, nodes = 2, RANKS // LOCAL
        # Each gradient shard is sent to one rank in each node, and the sum of a node crosses to the other node once.
        self.assertEqual(self.sent(trace, "reduce_scatter", "all"), turns * (nodes * within + across))
        # One all-gather over all ranks after each update: the codes of every shard cross once, and reach the other rank
        # of the node.
        self.assertEqual(self.sent(trace, "all_gather", "all"), (1 + nodes) * of_weights)
        self.assertGreater(self.sent(trace, "all_gather", "neighbours"), 0)
        of_half = 2 * int(trace.unit_elements.sum())
        crossing = of_weights + turns * across
        self.assertLess(crossing, 0.25 * (2 * turns + turns) * of_half, "a quarter of what stage 3 sends")

    def test_it_trains_as_well_and_does_so_again(self):
        exact = self.run_with(out="exact", steps=20, **NODES)
        coarse = {"zero.qwz": 4, "zero.qgz": 8, "zero.qgz_node": 4, "zero.quant_rounding": "deepspeed"}
        for options, allowed in (({"zero.qwz": 8}, 0.005), ({"zero.qgz": 4}, 0.005), (ALL_THREE, 0.005),
                                 ({"zero.qgz": 4, "zero.quant_feedback": "true"}, 0.005), (coarse, 0.02)):  # fmt: skip
            with self.subTest(**options):
                options = {**NODES, **options, "output.overwrite": "true"}
                run = self.run_with(out="first", steps=20, **options)
                self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
                self.assertEqual(trajectory(self.run_with(out="again", steps=20, **options)), trajectory(run))
                self.assertNotEqual(run["params_checksum"], exact["params_checksum"])
                self.assertAlmostEqual(run["losses"][-1][1] / exact["losses"][-1][1], 1, delta=allowed)

    def test_hpz_changes_nothing_of_quantized_runs_but_the_links(self):
        first = self.run_with(out="first", **NODES, **{"zero.qwz": 8})
        near = self.run_with(out="near", **NODES, **{"zero.qwz": 8, "zero.hpz_size": "node"})
        self.assertEqual(trajectory(near), trajectory(first))

    def test_with_feedback_checkpoints_change_nothing_and_runs_go_on_from_them(self):
        options = {**NODES, "zero.qgz": 4, "zero.quant_feedback": "true", "train.steps": 6, "trace.level": "off"}
        never = self.run_with(out="never", **options)
        often = {**options, "checkpoint.every": 2, "checkpoint.async": "true"}
        background = self.run_with(out="background", **often)
        self.assertEqual(trajectory(background), trajectory(never))
        self.assertEqual(background["state_bytes"]["taken"], background["state_bytes"]["planned"])
        file = self.dir / "background" / "checkpoints" / "step_00000004.h5"
        resumed = self.run_with(f"--checkpoint.resume={file}", out="resumed", **options)
        self.assertEqual(resumed["losses"], never["losses"][4:])
        self.assertEqual(resumed["params_checksum"], never["params_checksum"])
        at_once = (
            self.dir / "resumed" / "checkpoints" / "step_00000006.h5"
        )  # resumed from the checkpoint that was written in the background
        with h5py.File(at_once) as one, h5py.File(self.dir / "background" / "checkpoints" / at_once.name) as other:
            self.assertEqual(len(one["residuals"]), RANKS)
            for rank in map(str, range(RANKS)):
                self.assertTrue(np.any(one["residuals"][rank][:]))
                self.assertTrue(np.array_equal(one["residuals"][rank][:], other["residuals"][rank][:]))
        # With other buckets the residuals are others, too.
        deck = self.deck(SMALL, batch={"micro": 1, "global": 8}, train={"steps": 5, "dtype": "bf16"})
        cut = {**options, "comm.bucket_mb": 0.01, "train.steps": 5, "checkpoint.resume": file}
        arguments = [f"--{name}={value}" for name, value in cut.items()]
        done = self.shoal("train", deck, f"--output.dir={self.dir / 'cut'}", *arguments, ranks=RANKS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("residuals start at zero", done.stdout)


if __name__ == "__main__":
    main()
