# SPDX-License-Identifier: Apache-2.0
"""The program on portable kernels learns what the program on tuned kernels learns. (Other tests run a second time on
portable kernels: NAME@portable.) SHOAL_QUICKSTART_STEPS: length of the two runs that are compared (40)."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import SOURCE, Program, main, skip

STEPS = int(os.environ.get("SHOAL_QUICKSTART_STEPS", "40"))


class Portable(Program):
    def test_it_says_that_its_kernels_are_portable(self):
        self.binary = os.environ["SHOAL_PORTABLE"]
        version = self.shoal("--version").stdout
        self.assertIn("Kokkos", version)
        self.assertNotIn("oneDNN", version)

    def test_more_threads_than_its_kokkos_has_are_refused(self):
        self.binary = os.environ["SHOAL_PORTABLE"]
        if "(Serial)" not in self.shoal("--version").stdout:
            skip("this Kokkos has threads")
        self.refused(
            "train",
            SOURCE / "inputs/tiny.cfg",
            "--train.threads=2",
            f"--output.dir={self.dir / 'out'}",
            env={"OMP_NUM_THREADS": "2"},
            contains=("train.threads = 2", "1 thread", "allowed: auto, or 1"),
        )

    def test_the_losses_of_the_quickstart_agree(self):
        deck = SOURCE / "inputs/quickstart.cfg"
        steps = f"--train.steps={STEPS}"
        tuned = self.train(deck, steps, ranks=2, out="tuned", timeout=300)
        self.binary = os.environ["SHOAL_PORTABLE"]
        portable = self.train(deck, steps, ranks=2, out="portable", timeout=300)
        self.assertEqual(len(portable["losses"]), STEPS)
        self.assertNotEqual(portable["params_checksum"], tuned["params_checksum"])
        self.assertLess(abs(portable["losses"][-1][1] - tuned["losses"][-1][1]), 1e-3)


if __name__ == "__main__":
    main()
