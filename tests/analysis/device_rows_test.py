#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole runs on the simulated device: the trace tells what each of its queues did, by the device's clock, which has another
zero than the host's and runs 5 % too fast."""

import os
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent / "analysis"), str(TESTS / "app"), str(TESTS / "analysis")]
import h5py
from program import BINARY, Program, main, skip, trajectory
from scripts import script
from shoal.read.trace import Trace

STEPS, LAYERS, MICRO_BATCHES = 4, 2, 4
DECK = {
    "model": {"kind": "gpt", "n_layer": LAYERS, "n_head": 2, "n_embd": 32, "block_size": 16, "vocab_size": 64},
    "data": {"source": "synthetic"},
    "batch": {"micro": 1, "global": MICRO_BATCHES},
    "train": {"steps": STEPS, "seed": 3, "grad_clip": 0.5, "eval_batches": 1},
    "trace": {"level": "kernels", "interval": 3},
}


class DeviceRows(Program):
    def run_on(self, program, *options, order=None, ranks=1):
        """Returns the run's directory, summary and trace. program: an environment variable."""
        self.binary = os.environ.get(program, BINARY)
        out = self.dir / f"out-{len(list(self.dir.glob('out-*')))}"
        env = {"SHOAL_SIMULATE": order} if order else {}
        summary = self.train(self.deck(DECK), *options, ranks=ranks, out=out.name, env=env)
        return out, summary, Trace.read(out)

    def in_order(self, out, trace):
        """In the file, and so in the order of the queue, the spans of a queue do not overlap. Nothing was left out."""
        self.assertEqual((trace.queues, trace.dropped), (["host", "compute", "gather", "reduce"], 0))
        self.assertEqual(trace.attributes["untimed_spans"], "0")
        with h5py.File(out / "trace.h5") as file:
            events = file["events"][()]
        for rank in range(trace.world_size):
            for queue in (1, 2, 3):
                spans = events[(events["rank"] == rank) & (events["queue"] == queue)]
                ends = spans["begin_ns"] + spans["duration_ns"]
                overlaps = int((spans["begin_ns"][1:] < ends[:-1]).sum())
                self.assertEqual(overlaps, 0, f"rank {rank}, queue {queue}: {len(spans)} spans")
                self.assertTrue(len(spans) == 0 or int(spans["duration_ns"].min()) >= 0)

    @staticmethod
    def kernels(trace, kind):
        """How often each kernel is in each step."""
        events = trace.of_kind(kind)
        events = events[events["step"] > 0]
        return Counter((int(event["step"]), trace.names[event["name"]]) for event in events)

    def test_each_kernel_is_there_once(self):
        _, untraced, steps_alone = self.run_on("SHOAL_SIMULATED", "--trace.level=steps", order="late")
        self.assertEqual(steps_alone.device_queues, [], "below the level of both")
        _, _, host = self.run_on("SHOAL_PORTABLE")
        expected = self.kernels(host, "kernel")
        self.assertEqual(expected[1, "attention"], LAYERS * MICRO_BATCHES)
        self.assertEqual((host.device_queues, host.queues, len(host.of_kind("device_kernel"))), ([], ["host"], 0))
        for order in ("in-order", "late"):
            out, summary, trace = self.run_on("SHOAL_SIMULATED", order=order)
            self.assertEqual(trajectory(summary), trajectory(untraced), order)
            self.assertEqual(summary["device"]["waits_per_step"], 1, order)
            self.in_order(out, trace)
            self.assertEqual(self.kernels(trace, "device_kernel"), expected, order)
            self.assertEqual(len(trace.of_kind("kernel")), 0, "the host runs no kernels")
            copies = self.kernels(trace, "device_copy")
            self.assertGreaterEqual(copies[1, "copy to host"], 1, "losses")
            self.assertGreaterEqual(copies[1, "copy to device"], MICRO_BATCHES, "tokens")
            self.within_steps(trace, order)
            shown = script("report.py", out)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("device idle", shown.stdout)
            self.assertEqual(script("perfetto.py", out, "-o", self.dir / "trace.json").returncode, 0)

    def within_steps(self, trace, order):
        """In order, each kernel runs while the host enqueues it; late, when the host waits, so that the end of a step is done
        in the next one."""
        tolerance_ns = 500_000  # of readings of the two clocks, on a machine that does other work
        steps = {int(step["step"]): step for step in trace.of_kind("step")}
        evaluations = trace.of_kind("phase")
        evaluations = evaluations[evaluations["name"] == list(trace.names).index("evaluate")]
        self.assertEqual(len(evaluations), 1, "at the end")
        evaluated_ns = int(evaluations["begin_ns"][0]) - tolerance_ns

        def between(span):
            return span["step"] == STEPS and span["begin_ns"] >= evaluated_ns

        for span in trace.of_queue(1):
            step = int(span["step"])
            if step == 0 or between(span):
                continue
            last = steps[step if order == "in-order" else min(step + 1, STEPS)]
            self.assertGreaterEqual(span["begin_ns"], steps[step]["begin_ns"] - tolerance_ns, f"{order}, step {step}")
            if order == "in-order" or step < STEPS:
                end = last["begin_ns"] + last["duration_ns"]
                self.assertLessEqual(
                    span["begin_ns"] + span["duration_ns"], end + tolerance_ns, f"{order}, step {step}"
                )

    def test_operations_lie_on_their_queues(self):
        """With NCCL, for which the tests have a double: parameters are gathered on one queue, gradients summed on another."""
        if os.environ.get("SHOAL_NCCL_DOUBLE_IS_THERE") != "1":
            skip("there is no nccl.h, which CUDA's toolkit or NCCL brings")
        options = ("--zero.stage=3", "--comm.backend=nccl")
        _, direct, _ = self.run_on("SHOAL_SIMULATED", "--zero.stage=3", order="in-order", ranks=2)
        sent = direct["comm_bytes_per_step"]
        for level in ("comm", "kernels"):
            out, summary, trace = self.run_on(
                "SHOAL_SIMULATED", *options, f"--trace.level={level}", order="late", ranks=2
            )
            self.assertEqual(trajectory(summary), trajectory(direct))
            self.assertEqual(summary["device"]["waits_per_step"], 1)
            self.in_order(out, trace)
            spans, calls = trace.of_kind("device_collective"), trace.of_kind("collective")
            calls = calls[calls["unit"] >= 0]  # of parameters and gradients: the others are of numbers on the host
            counted = Counter(trace.names[name] for name in calls["name"])
            # On two ranks of one node, a gather is one exchange, and a sum at least one.
            self.assertEqual({trace.names[name] for name in spans["name"]}, {"exchange"})
            self.assertEqual(int((spans["queue"] == 2).sum()), counted["all_gather"])
            self.assertGreaterEqual(int((spans["queue"] == 3).sum()), counted["reduce_scatter"])
            self.assertEqual(int((spans["queue"] == 1).sum()), 0)
            self.assertEqual(int(spans["bytes"].sum()), 0, "the host's events have them")
            self.assertEqual(summary["comm_bytes_per_step"], sent)
            self.assertEqual(len(trace.of_kind("device_kernel")) > 0, level == "kernels")


if __name__ == "__main__":
    main()
