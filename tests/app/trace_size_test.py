# SPDX-License-Identifier: Apache-2.0
"""How large a trace grows: thousands of ranks write one for days."""

import re

from program import SMALL, Program, main

RANKS = 2
MOST_BYTES_PER_STEP = 1e6 / 3600  # of a rank: 1 MB in an hour with a step every second


class TraceSize(Program):
    def size(self, steps):
        """Bytes of a run's trace in the file system."""
        deck = self.deck(
            SMALL, model={"n_layer": 12}, zero={"stage": 1}, trace={"level": "comm"}, checkpoint={"last": "false"}
        )
        self.train(deck, f"--train.steps={steps}", "--train.eval_batches=0", ranks=RANKS, out=f"out-{steps}")
        return (self.dir / f"out-{steps}/trace.h5").stat().st_size

    def test_a_rank_writes_less_than_a_megabyte_in_an_hour(self):
        """At level comm, with 12 blocks and ZeRO stage 1, without what the file has once. Measured: 180 to 245 bytes a
        step, depending on how irregular the times are, which are most so among 20 other programs on one core; 1475 without
        compression."""
        few, many = 40, 240
        grown = (self.size(many) - self.size(few)) / (many - few) / RANKS
        print(f"{grown:.0f} bytes per step and rank")
        self.assertLess(grown, MOST_BYTES_PER_STEP)

    def test_no_event_is_lost(self):
        """The trace is written more often than every trace.interval steps if a rank's buffer, of 262,144 events, cannot hold
        the events of that many. Each of these steps has some 20,000."""
        deck = self.deck(SMALL, model={"n_layer": 4}, batch={"micro": 1, "global": 128}, trace={"level": "kernels"})
        self.train(deck, "--train.steps=15", "--trace.interval=20", "--train.eval_batches=0", out="many")
        told = self.shoal("info", self.dir / "many/trace.h5").stdout
        events, lost = map(int, re.search(r"events +(\d+) in \d+ writes, (\d+) dropped", told).groups())
        self.assertEqual(lost, 0)
        self.assertGreater(events, 270_000, "more than there is room for at a time")


if __name__ == "__main__":
    main()
