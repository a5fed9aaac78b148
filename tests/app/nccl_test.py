# SPDX-License-Identifier: Apache-2.0
"""The whole runs of simulated_test.py with comm.backend=nccl, over a double of NCCL (tests/support/nccl_over_mpi.cpp) that
delays and reorders messages: they have the bits of runs over MPI in which each call does its work at once."""

import simulated_test
from program import main


class OverNccl(simulated_test.Simulated):
    def ordered(self, order, file, options, ranks, out=None):
        if order == "in-order":
            return super().ordered(order, file, options, ranks, out)
        env = {"SHOAL_SIMULATE": order, "SHOAL_NCCL_DOUBLE": "delay"}
        return self.train(file, *options, "--comm.backend=nccl", ranks=ranks, out=out, timeout=200, env=env)

    def test_measuring_collectives(self):
        file = self.measured("--comm.ranks_per_node=2", "--comm.backend=nccl", backend="nccl")
        self.refused("plan", self.deck(simulated_test.DECK), "--network", file, "--comm.backend=mpi",
                     contains=(f"--network {file} was measured with nccl", "comm.backend = mpi"))  # fmt: skip
        for backend in ("auto", "nccl"):
            plan = ("plan", self.deck(simulated_test.DECK), "--network", file, "--ranks", "4", f"--comm.backend={backend}")
            done = self.shoal(*plan)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("stage 0", done.stdout)

    # These send no messages between arenas, or test the device alone.
    test_one_rank = None
    test_what_is_not_finite_is_reported = None
    test_evaluation_generation_and_export = None
    test_another_order_is_refused = None
    test_the_host_has_no_simulated_device = None
    test_the_simulated_device_is_not_the_host = None


if __name__ == "__main__":
    main()
