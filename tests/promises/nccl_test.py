# SPDX-License-Identifier: Apache-2.0
"""The whole runs of simulated_test.py with comm.backend=nccl, over a double of NCCL (tests/support/nccl_over_mpi.cpp) that
delays and reorders messages: they have the bits of runs over MPI in which each call does its work at once."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
import simulated_test
from program import main


class OverNccl(simulated_test.Simulated):
    takes_turns = ("src/comm/nccl", "src/device", "tests/support/nccl")

    def ordered(self, order, file, options, ranks, out=None):
        if order == "in-order":
            return super().ordered(order, file, options, ranks, out)
        env = {"SHOAL_SIMULATE": order, "SHOAL_NCCL_DOUBLE": "delay"}
        return self.train(file, *options, "--comm.backend=nccl", ranks=ranks, out=out, timeout=200, env=env)

    def test_gathers_that_are_apart(self):
        self.same(4, "--comm.ranks_per_node=2", "--zero.stage=3", "--zero.hpz_size=node", "--comm.gather_group=true")

    def test_one_order_of_calls_on_all_communicators(self):
        """Prefetched parameters, and means and parameters of neighbours that are in flight when the next step begins, are on
        other communicators and queues than sums of gradients. Each rank makes its calls one at a time, as on a GPU that has
        no room for two of NCCL's kernels: if ranks made them in different orders, they would wait for each other."""
        ahead = ("--zero.stage=3", "--zero.prefetch_units=2", "--comm.bucket_mb=0.02")
        late = ("--sync.kind=localsgd", "--sync.localsgd_frequency=2", "--sync.average_overlap=true")
        for some in (
            ("--zero.hpz_size=node",),
            ("--zero.hpz_size=node", "--comm.gather_group=true"),
            late,
            (*late, "--sync.average_dtype=int8", "--zero.quant_block=64"),
            ("--sync.kind=sgp", "--sync.sgp_overlap=true"),
        ):
            # An evaluation would wait for what is in flight.
            options = ("--comm.ranks_per_node=2", "--train.steps=4", "--train.eval_every=0", *ahead, *some)
            self.same_in_one_order(simulated_test.DECK, options)

    def same_in_one_order(self, deck, options):
        first = self.ordered("in-order", self.deck(deck), options, 4)
        env = {"SHOAL_SIMULATE": simulated_test.ORDERS[-1], "SHOAL_NCCL_DOUBLE": "serial"}
        by_nccl = ("--comm.backend=nccl", "--comm.timeout=20")
        run = self.train(self.deck(deck), *options, *by_nccl, ranks=4, timeout=100, env=env)
        self.assertEqual(simulated_test.trajectory(run), simulated_test.trajectory(first), options)

    def test_one_order_of_calls_in_pipelines(self):
        """Parameters and gradients of each micro-batch are on other communicators than the borders of stages."""
        deck = {**simulated_test.DECK, "model": {**simulated_test.DECK["model"], "n_layer": 4, "tied": "false"}}
        interleaved = ("--pipeline.schedule=interleaved", "--pipeline.parts=2")
        for options in (("--zero.stage=2",), ("--zero.stage=3", "--zero.prefetch_units=2", *interleaved)):
            self.same_in_one_order(deck, ("--pipeline.size=2", *options))

    def test_measuring_collectives(self):
        file = self.measured("--comm.ranks_per_node=2", "--comm.backend=nccl", backend="nccl")
        self.refused("plan", self.deck(simulated_test.DECK), "--network", file, "--comm.backend=mpi",
                     contains=(f"--network {file} was measured with nccl", "comm.backend = mpi"))  # fmt: skip
        for backend in ("auto", "nccl"):
            at = ("--network", file, "--ranks", "4", f"--comm.backend={backend}")
            done = self.shoal("plan", self.deck(simulated_test.DECK), *at)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("stage 0", done.stdout)

    def test_nothing_is_planned_for_what_mpi_does_not_reach(self):
        deck = self.deck(simulated_test.DECK)
        for backend, has_images in (("nccl", False), ("mpi", True)):
            done = self.train(deck, f"--comm.backend={backend}", ranks=2, env={"SHOAL_GPU_AWARE_MPI": "0"})
            direct = self.train(deck, f"--comm.backend={backend}", ranks=2, env={"SHOAL_GPU_AWARE_MPI": "1"})
            staging = [run["state_bytes"]["planned"]["staging"] for run in (direct, done)]
            self.assertEqual(staging[0] < staging[1], has_images, f"{backend}: {staging}")

    # These send no messages between arenas, or test the device alone.
    test_one_rank = None
    test_what_is_not_finite_is_reported = None
    test_evaluation_generation_and_export = None
    test_messages_that_do_not_reach_the_device = None
    test_another_order_is_refused = None
    test_the_host_has_no_simulated_device = None
    test_the_simulated_device_is_not_the_host = None


if __name__ == "__main__":
    main()
