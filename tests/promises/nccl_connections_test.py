# SPDX-License-Identifier: Apache-2.0
"""Over the double of NCCL: all connections are made before a run compares its arenas with the memory that is free, since
NCCL takes memory of the GPU for each of them, and none is made that the run does not use."""

import collections
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
import simulated_test
from program import main

LINE = re.compile(
    r"double of NCCL: rank (\d+) connects communicator (\d+) (to|from|for) (rank \d+|collectives) in phase (\w+)"
)
ORIGIN = re.compile(r"double of NCCL: rank 0 makes communicator \d+ in phase (\w+)")
NODES = ("--comm.ranks_per_node=2",)
STAGE_3 = (*NODES, "--zero.stage=3")
SYNC = (*NODES, "--train.steps=5")
TIED = ("--pipeline.size=2", "--model.tied_gradient=apart")


class Connections(simulated_test.Program):
    binary = simulated_test.Simulated.binary

    def expect(self, connections, *options, ranks=4, deck=simulated_test.DECK):
        """connections: by communicator, how many ranks rank 0 sends to. Returns what has collectives of NCCL."""
        number = len(list(self.dir.glob("out-*")))
        out = f"--output.dir={self.dir}/out-{number}"
        env = {"SHOAL_NCCL_DOUBLE": "connections"}
        done = self.shoal(
            "train", self.deck(deck), "--comm.backend=nccl", out, *options, ranks=ranks, timeout=200, env=env
        )
        self.assertEqual(done.returncode, 0, f"{options}\n{done.stdout}\n{done.stderr}")
        apart = "--comm.gather_group=true" in options
        self.assertEqual(ORIGIN.findall(done.stderr), ["connect"] * (2 if apart else 1), options)
        made = LINE.findall(done.stderr)
        late = [line for line in made if line[-1] != "connect"]
        self.assertEqual(late, [], f"connections after the check of memory, with {options}")
        sends, collective = collections.Counter(), set()
        for rank, communicator, direction, *_ in made:
            if direction == "for":
                collective.add(communicator)
            elif direction == "to" and rank == "0":
                sends[communicator] += 1
        self.assertEqual(sorted(sends.values(), reverse=True), connections, f"{options}\n{done.stderr}")
        return collective

    def test_sharded_states(self):
        """In the tree a rank exchanges with those of its node, and with those in its place on other nodes."""
        for stage in range(4):
            self.assertEqual(self.expect([2], *NODES, f"--zero.stage={stage}"), set())
        self.expect([3], "--zero.stage=2")
        self.expect([4], *NODES, "--zero.stage=3", "--batch.global=8", ranks=8)  # 1 on its node, 3 across nodes

    def test_gathers_that_are_apart(self):
        """Communicators of gathers are more, and share no buffers with others: first those of sums, then those of gathers.
        With hpZ the neighbours only gather, and qgZ sums on nodes and across them alone."""
        apart = "--comm.gather_group=true"
        self.expect([2, 2], *NODES, apart, "--zero.stage=1")
        self.expect([2, 2, 1], *STAGE_3, apart, "--zero.hpz_size=node")
        self.expect([2, 1, 1, 1], *STAGE_3, apart, "--zero.hpz_size=node", "--zero.qwz=8", "--zero.qgz=4")
        self.expect([1, 1, 1, 1], *SYNC, apart, "--sync.kind=localsgd", "--sync.warmup_steps=2", "--zero.stage=1")
        self.expect([1, 1, 1], *NODES, apart, *TIED, "--zero.stage=2", deck=self.deeper())
        self.assertEqual(len(self.expect([3, 3], apart, "--comm.collectives=native", "--zero.stage=3")), 2)
        self.assertEqual(len(self.expect([3, 3], apart, "--optimizer.adascale=true", "--zero.stage=2")), 1)

    def deeper(self):
        return {**simulated_test.DECK, "model": {**simulated_test.DECK["model"], "n_layer": 4}}

    def test_zeropp(self):
        """The ranks of hpZ's second shards are those of the node, whose communicator they share."""
        self.expect([2, 1], *STAGE_3, "--zero.hpz_size=node")
        self.expect([2, 1, 1], *STAGE_3, "--zero.hpz_size=node", "--zero.qwz=8", "--zero.qgz=4")
        self.expect([3], "--zero.stage=3", "--zero.qwz=8", "--zero.qgz=4")  # one node: `node` has all ranks

    def test_pipelines(self):
        """Borders and copies of a tied unit go to the same rank, by one communicator."""
        deck = self.deeper()
        self.expect([1, 1], *NODES, *TIED, "--zero.stage=2", deck=deck)
        self.expect([2], "--pipeline.size=4", *TIED[1:], "--zero.stage=1", deck=deck)  # stage 0 has a copy on stage 3
        interleaved = ("--pipeline.schedule=interleaved", "--pipeline.parts=2")
        self.expect([1, 1], *STAGE_3, *TIED, *interleaved, deck=deck)

    def test_nodes_that_train_locally(self):
        outer = ("--sync.slowmo_frequency=2", "--sync.slowmo_momentum=0.2")
        self.expect([1, 1], *SYNC, "--sync.kind=slowmo", "--sync.localsgd_frequency=1", *outer)
        self.expect([1, 1], *SYNC, "--sync.kind=diloco", *outer, "--sync.average_dtype=int8", "--zero.quant_block=64")
        self.expect([1, 1], *SYNC, "--sync.kind=localsgd", "--sync.warmup_steps=2", "--zero.stage=3")
        self.expect(
            [3], "--comm.ranks_per_node=1", "--train.steps=5", "--sync.kind=sgp"
        )  # 2 neighbours, and the mean's 3

    def test_collectives_of_nccl(self):
        self.assertEqual(len(self.expect([3], "--comm.collectives=native", "--zero.stage=1")), 1)
        self.assertEqual(len(self.expect([3], "--comm.collectives=native", "--zero.stage=3")), 1)

    def test_adascale(self):
        self.assertEqual(len(self.expect([3], "--optimizer.adascale=true", "--zero.stage=2")), 1)


if __name__ == "__main__":
    main()
