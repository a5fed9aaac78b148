# SPDX-License-Identifier: Apache-2.0
"""ZeRO++ on two nodes of two ranks: what is quantized trains nearly as well, sends what theory says, and does so again."""

import sys
import unittest
from pathlib import Path

from program import SMALL, Program, trajectory

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "analysis"))
from breakdown import settled_steps
from shoal_trace import Trace

RANKS, LOCAL, PIECE, BLOCK = 4, 2, 256, 256
NODES = {"comm.ranks_per_node": LOCAL, "zero.stage": 3, "zero.prefetch_units": 0}
ALL_THREE = {"zero.hpz_size": "node", "zero.qwz": 8, "zero.qgz": 4}


def shards(elements):
    """Elements of each rank's shard: whole pieces."""
    length = -(-(-(-elements // PIECE)) // RANKS) * PIECE
    return [min(max(elements - rank * length, 0), length) for rank in range(RANKS)]


def codes(elements, bits):
    """Bytes on the wire: the scales of all blocks, and the codes."""
    return -(-elements // BLOCK) * 4 + -(-elements * bits // 8)


class ZeroPlusPlus(Program):
    def run_with(self, *args, out="out", steps=3, **options):
        deck = self.deck(SMALL, batch={"micro": 1, "global": 8}, train={"steps": steps, "dtype": "bf16"})
        options = [f"--{name}={value}" for name, value in options.items()]
        return self.train(deck, *options, *args, ranks=RANKS, out=out)

    def sent(self, trace, operation):
        """Bytes that all ranks together send in a step."""
        name = list(trace.names).index(operation)
        events = trace.of_kind("collective")
        chosen = (events["name"] == name) & (events["unit"] >= 0) & self.in_steps(trace, events)
        return int(events["bytes"][chosen].sum()) / len(settled_steps(trace))

    @staticmethod
    def in_steps(trace, events):
        steps = settled_steps(trace)
        return (events["step"] >= steps[0]) & (events["step"] <= steps[-1])

    def test_what_is_sent_is_what_theory_says(self):
        run = self.run_with("--trace.level=comm", steps=4, **NODES, **ALL_THREE)
        self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
        trace = Trace.read(self.dir / "out")
        pieces = [n for elements in trace.unit_elements.tolist() for n in shards(elements)]
        of_weights, within, across = (sum(codes(n, bits) for n in pieces if n) for bits in (8, 8, 4))
        turns, nodes = 2, RANKS // LOCAL
        # Every gradient's shard goes to its column's rank within both nodes, and the nodes' sums of it cross once.
        self.assertEqual(self.sent(trace, "reduce_scatter"), turns * (nodes * within + across))
        # A gather over all ranks after each update: every shard's codes cross once, and reach the node's other rank. All other
        # gathers are of the node's second partition, in bf16.
        near = self.near_gathers(trace)
        self.assertEqual(self.sent(trace, "all_gather"), (1 + nodes) * of_weights + near)
        of_half = 2 * int(trace.unit_elements.sum())
        crossing = of_weights + turns * across
        self.assertLess(crossing, 0.25 * (2 * turns + turns) * of_half, "a quarter of what stage 3 sends")

    def near_gathers(self, trace):
        group = list(trace.groups).index("neighbours")
        events = trace.of_kind("collective")
        chosen = (events["group"] == group) & self.in_steps(trace, events)
        return int(events["bytes"][chosen].sum()) / len(settled_steps(trace))

    def test_it_trains_as_well_and_does_so_again(self):
        exact = self.run_with(out="exact", steps=20, **NODES)
        for options in ({"zero.qwz": 8}, {"zero.qgz": 4}, ALL_THREE, {"zero.qgz": 4, "zero.quant_feedback": "true"},
                        {"zero.qwz": 4, "zero.qgz": 8, "zero.qgz_node": 4, "zero.quant_rounding": "deepspeed"}):  # fmt: skip
            with self.subTest(**options):
                run = self.run_with(out="first", steps=20, **NODES, **options)
                self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
                self.assertEqual(trajectory(self.run_with(out="again", steps=20, **NODES, **options)), trajectory(run))
                self.assertNotEqual(run["params_checksum"], exact["params_checksum"])
                self.assertAlmostEqual(run["losses"][-1][1] / exact["losses"][-1][1], 1, delta=0.005)

    def test_hpz_changes_nothing_of_quantized_runs_but_the_links(self):
        first = self.run_with(out="first", **NODES, **{"zero.qwz": 8})
        near = self.run_with(out="near", **NODES, **{"zero.qwz": 8, "zero.hpz_size": "node"})
        self.assertEqual(trajectory(near), trajectory(first))

    def test_a_run_with_feedback_goes_on_from_its_checkpoint(self):
        options = {**NODES, "zero.qgz": 4, "zero.quant_feedback": "true", "checkpoint.every": 3, "train.steps": 6}
        whole = self.run_with(out="whole", **options)
        self.run_with(out="half", **{**options, "train.steps": 3})
        resumed = self.run_with("--checkpoint.resume=latest", out="half", **options)
        self.assertEqual(resumed["params_checksum"], whole["params_checksum"])


if __name__ == "__main__":
    unittest.main()
