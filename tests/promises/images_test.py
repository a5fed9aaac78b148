# SPDX-License-Identifier: Apache-2.0
"""Memory of the host through which messages pass if the MPI library does not reach the device's (include/shoal/base/memory.hpp,
Images), on the simulated device: it is planned, and of the buffers for which it is planned messages use every one. The device
refuses messages of any other buffer, and names those that no message has used."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import Program, main
from turns import chosen

# Each rank's part of each unit is larger than what is packed into a common message (src/comm/messages.cpp), so messages read
# and write the buffers themselves.
DECK = {
    "model": {
        "kind": "gpt",
        "n_layer": 1,
        "n_head": 2,
        "n_embd": 128,
        "block_size": 8,
        "vocab_size": 1024,
        "tied": "false",
    },
    "data": {"source": "synthetic"},
    "batch": {"micro": 1, "global": 4},
    "train": {"steps": 3, "eval_every": 2, "eval_batches": 1},
    "trace": {"level": "off"},
    "checkpoint": {"last": "false"},
}
# Messages of a gather that need no packing do not use its memory for messages.
PACKED = {"buffers: messages"}

NODES = ("--comm.ranks_per_node=2",)
ONE_EACH = ("--comm.ranks_per_node=1", "--train.steps=5")
BF16 = ("--train.dtype=bf16", "--comm.reduce_dtype=bf16")
EVERY_2 = "--sync.localsgd_frequency=2"
STAGES = "--pipeline.size=2", "--model.n_layer=4"
INTERLEAVED = "--pipeline.schedule=interleaved", "--pipeline.parts=2"
APART = "--model.tied=true", "--model.tied_gradient=apart"

SUBJECT = ("src/device", "include/shoal/device", "src/base/memory", "include/shoal/base/memory")
# (ranks, stage of ZeRO, further options)
RUNS = (
    (2, 0),
    (4, 0, *BF16),
    (2, 1, *BF16),
    (2, 2, "--comm.overlap=false"),
    (4, 3, "--zero.prefetch_units=2"),
    (2, 3, "--zero.persist_below=150000"),  # of some units parameters stay whole
    (4, 3, *NODES, "--zero.hpz_size=node"),
    (4, 3, *NODES, "--zero.qwz=8", "--zero.qgz=4"),
    (4, 3, *NODES, "--zero.qwz=8", "--zero.qgz=4", "--zero.hpz_size=node"),
    (4, 2, *NODES, "--zero.qgz=8", "--zero.quant_feedback=true"),
    (2, 0, "--comm.collectives=native"),
    (2, 2, "--optimizer.adascale=true"),
    (2, 0, *ONE_EACH, "--sync.kind=slowmo", "--sync.localsgd_frequency=1", "--sync.slowmo_frequency=2"),
    (2, 0, *ONE_EACH, "--sync.kind=diloco", "--sync.slowmo_frequency=2", "--sync.average_dtype=int8"),
    (4, 1, *NODES, *BF16, "--sync.kind=localsgd", EVERY_2),
    (2, 0, *ONE_EACH, "--sync.kind=localsgd", EVERY_2, "--sync.average_dtype=bf16", "--sync.warmup_steps=2"),
    (2, 0, *ONE_EACH, "--sync.kind=localsgd", EVERY_2, "--sync.average_overlap=true"),
    (2, 0, *ONE_EACH, "--sync.kind=sgp"),
    (2, 0, *ONE_EACH, "--sync.kind=sgp", "--sync.sgp_overlap=true"),
    (4, 1, *STAGES),
    (2, 0, *STAGES, *APART),
    (4, 3, *STAGES, *INTERLEAVED),
    (2, 0, *STAGES, "--model.direct=true"),
)  # fmt: skip


class Images(Program):
    takes_turns = SUBJECT
    with_rows = ("test_planned_is_used",)
    binary = os.environ.get("SHOAL_SIMULATED", "")

    def planned(self, deck, ranks, reaching, *options):
        """The deck's own row of a plan, for a library that reaches so much of arenas."""
        file = self.dir / "plan.json"
        env = {"SHOAL_GPU_AWARE_MPI": reaching}
        options = (*options, "--output.overwrite=true")
        done = self.shoal("plan", deck, "--ranks", ranks, "--json", file, *options, env=env)
        self.assertEqual(done.returncode, 0, f"{options}\n{done.stderr}")
        (own,) = (run for run in json.loads(file.read_text())["runs"] if run["asked"])
        return own["state_bytes"], {(part["kind"], part["label"]): part["bytes"] for part in own["parts"]}

    def unused(self, deck, ranks, reaching, *options):
        """Trains. Returns the summary, and the buffers that were taken for messages and that no message has used."""
        out = self.dir / f"out-{len(list(self.dir.glob('out-*')))}"
        env = {"SHOAL_GPU_AWARE_MPI": reaching, "SHOAL_SIMULATE": "in-order", "SHOAL_SIMULATE_MESSAGES": "unused"}
        done = self.shoal("train", deck, f"--output.dir={out}", *options, ranks=ranks, env=env)
        self.assertEqual(done.returncode, 0, f"{options} on {ranks} ranks\n{done.stderr}")
        told = "no message has used "
        lines = [line.split(told)[1] for line in done.stderr.splitlines() if told in line]
        return json.loads((out / "summary.json").read_text()), set(lines)

    def test_planned_is_used(self):
        deck = self.deck(DECK)
        for ranks, stage, *more in chosen(RUNS, SUBJECT, str):
            options = (f"--zero.stage={stage}", *more)
            run, unused = self.unused(deck, ranks, "0", *options)
            told = f"{options} on {ranks} ranks"
            self.assertLessEqual(unused, PACKED, told)
            self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"], told)

            through_host, parts = self.planned(deck, ranks, "0", *options)
            self.assertEqual(through_host, run["state_bytes"]["planned"], told)
            direct, direct_parts = self.planned(deck, ranks, "1", *options)
            images = parts.pop(("staging", "copies for messages"))
            self.assertEqual(parts, direct_parts, told)
            self.assertEqual(through_host, {**direct, "staging": direct["staging"] + images}, told)

    def test_collectives_alone(self):
        """Of a library whose messages of two ranks reach arenas."""
        deck = self.deck(DECK)
        for options, has_images in (((), False), (("--comm.collectives=native",), True)):
            run, unused = self.unused(deck, 2, "messages", *options)
            planned, parts = self.planned(deck, 2, "messages", *options)
            self.assertLessEqual(unused, PACKED)
            self.assertEqual(planned, run["state_bytes"]["planned"])
            self.assertEqual(("staging", "copies for messages") in parts, has_images, options)

    def test_one_rank_needs_none(self):
        deck = self.deck(DECK)
        self.assertEqual(self.planned(deck, 1, "0"), self.planned(deck, 1, "1"))


if __name__ == "__main__":
    main()
