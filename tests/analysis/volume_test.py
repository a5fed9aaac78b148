#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real runs send what ZeRO's stages have to send, to the byte (Rajbhandari et al. 2020, section 7)."""

import dataclasses
import sys
from fractions import Fraction
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent / "analysis"), str(TESTS / "app")]
import report
from program import SMALL, Program, main
from shoal.draw import report_tables
from shoal.read.run import Run
from shoal.times import breakdown, late_ranks, traffic, volume

V, T, C, LAYERS = 64, 32, 32, 2
BLOCK, HEAD = 12 * C * C + 13 * C, 2 * C
N = (V + T) * C + LAYERS * BLOCK + HEAD
PIECE = 256  # elements: shards are cut at multiples of it


class Volumes(Program):
    takes_turns = ("analysis/", "src/comm")

    def run_of(self, ranks=2, micro_batches=8, **options):
        options = {
            "train.steps": 4,
            "trace.level": "comm",
            "trace.interval": 2,
            "batch.global": micro_batches,
        } | options
        out = self.dir / f"out-{len(list(self.dir.glob('out-*')))}"
        self.train(self.deck(SMALL), *(f"--{k}={v}" for k, v in options.items()), ranks=ranks, out=out.name)
        return Run.read(out)

    def volumes(self, **options):
        trace = self.run_of(**options).trace
        self.assertEqual((int(trace.unit_elements.sum()), trace.dropped), (N, 0))
        return trace, volume.volumes(trace)

    def equal(self, row, elements, size, ranks=2):
        """The mean of the ranks is exact. Each rank differs from it by at most the padding of every transfer of every
        unit."""
        expected = Fraction(elements * size * (ranks - 1), ranks)
        self.assertEqual(row.measured, expected, row)
        self.assertEqual((row.theory - row.saved + row.extra, row.difference), (expected, 0), row)
        padding = Fraction(elements, N) * (LAYERS + 2) * PIECE * size * (ranks - 1)
        self.assertLessEqual(max(row.most - row.measured, row.measured - row.least), padding, row)

    def test_stages_0_and_1_send_twice_the_parameters(self):
        for stage, state in ((0, "gradients"), (1, "parameters")):
            for micro_batches, rounds in ((8, 1), (12, 3)):
                with self.subTest(stage=stage, micro_batches=micro_batches):
                    _, (reduced, gathered) = self.volumes(micro_batches=micro_batches, **{"zero.stage": stage})
                    self.equal(reduced, rounds * N, 4)
                    self.equal(gathered, N, 4)
                    self.assertEqual((reduced.operation, gathered.operation, gathered.state),
                                     ("reduce_scatter", "all_gather", state))  # fmt: skip

    def test_stage_2_reduces_every_turn(self):
        for ranks in (2, 4):
            _, (reduced, gathered) = self.volumes(ranks=ranks, **{"zero.stage": 2})
            self.equal(reduced, 8 // ranks * N, 4, ranks)
            self.equal(gathered, N, 4, ranks)

    def test_stage_3_gathers_for_forward_and_backward(self):
        for ranks in (2, 4):
            turns = 8 // ranks
            trace, (reduced, gathered) = self.volumes(ranks=ranks, **{"zero.stage": 3, "zero.prefetch_units": 0})
            self.equal(reduced, turns * N, 4, ranks)
            self.equal(
                gathered, 2 * turns * N - turns * HEAD, 4, ranks
            )  # the head's backward follows its forward immediately
            self.assertLessEqual(reduced.measured + gathered.measured, reduced.theory * 3)
            by_unit = {(op.unit, op.name): op for op in traffic.unit_operations(trace)}
            for unit, elements in enumerate(trace.unit_elements.tolist()):
                gather, release = by_unit[unit, "all_gather"], by_unit[unit, "release"]
                self.assertEqual(gather.calls_per_step, turns * (1 if elements == HEAD else 2))
                self.assertEqual(release.calls_per_step, gather.calls_per_step)
                self.assertEqual(gather.bytes_per_step, gather.calls_per_step * elements * 4 * (ranks - 1) / ranks)
                self.assertGreater(gather.exposed_per_step, 0, "nothing is prefetched")
            self.assert_waits_contain_the_end(trace, "all_gather")

    def assert_waits_contain_the_end(self, trace, name):
        """A rank begins to wait for an operation on a unit while this is in flight, and goes on when it has ended: how long after
        that depends on when it gets its processor back."""
        events = trace.events[(trace.events["name"] == volume.index_of(trace, name)) & (trace.events["unit"] >= 0)]
        events = events[events["step"] > 0]
        waits, calls = (events[events["kind"] == trace.kinds.index(kind)] for kind in ("wait", "collective"))
        self.assertGreater(len(waits), 0)
        for wait in waits:
            begin, end = wait["begin_ns"], wait["begin_ns"] + wait["duration_ns"]
            own = calls[(calls["rank"] == wait["rank"]) & (calls["unit"] == wait["unit"])]
            ends = own["begin_ns"] + own["duration_ns"]
            self.assertTrue(((own["begin_ns"] <= begin) & (begin <= ends) & (ends <= end)).any(), (wait, own))

    def test_what_stays_is_gathered_less_and_what_is_computed_again_more(self):
        stage_3 = {"zero.stage": 3, "zero.prefetch_units": 0}
        _, (_, kept) = self.volumes(**stage_3, **{"zero.reshard_after_forward": "false"})
        self.equal(kept, 4 * N, 4)
        _, (reduced, whole, gathered) = self.volumes(**stage_3, **{"zero.persist_below": 4000})
        self.equal(reduced, 4 * N, 4)
        self.equal(whole, N - LAYERS * BLOCK, 4)
        self.equal(gathered, 8 * LAYERS * BLOCK, 4)
        recomputed = {"activation.checkpoint_interval": 2, "model.n_layer": 4}
        _, gathered = volume.volumes(self.run_of(**stage_3, **recomputed).trace)
        self.assertEqual(gathered.difference, 0)
        self.assertGreater(gathered.extra, 0)

    def test_hpz_gathers_once_over_all_ranks(self):
        for size in ("node", 1):
            nodes = {"zero.stage": 3, "zero.prefetch_units": 0, "comm.ranks_per_node": 2, "zero.hpz_size": size}
            trace, (reduced, far, near) = self.volumes(ranks=4, **nodes)
            self.equal(reduced, 2 * N, 4, 4)
            self.equal(far, N, 4, 4)
            neighbours = 2 if size == "node" else 1
            self.assertEqual(near.measured, Fraction((4 * N - 2 * HEAD - N) * 4 * (neighbours - 1), neighbours))
            self.assertEqual(near.difference, 0)
            groups = {op.group for op in traffic.operations(trace) if op.name == "all_gather"}
            self.assertEqual(groups, {"all", "neighbours"} if neighbours > 1 else {"all"})

    def test_types_messages_and_what_lies_between_steps(self):
        _, (reduced, gathered) = self.volumes(
            **{"zero.stage": 1, "train.dtype": "bf16", "comm.reduce_dtype": "bf16", "comm.bucket_mb": 0.004}
        )
        self.equal(reduced, N, 2)
        self.equal(gathered, N, 2)
        evaluated = {"train.eval_every": 1, "checkpoint.every": 2}
        _, (reduced, gathered) = self.volumes(**evaluated, **{"zero.stage": 3, "zero.prefetch_units": 0})
        self.equal(gathered, 8 * N - 4 * HEAD, 4)
        _, (reduced, gathered) = self.volumes(**evaluated, **{"zero.stage": 2, "comm.bucket_mb": 0.02})
        self.equal(gathered, N, 4)
        # The all-gather of parameters before the first step has another clock, so it may seem to lie anywhere.
        trace = self.run_of(**{"zero.stage": 1}).trace
        early = trace.events[(trace.events["step"] == 0) & (trace.events["unit"] >= 0)]
        self.assertGreater(len(early), 0)
        early["begin_ns"] = trace.of_kind("step", rank=0)["begin_ns"][1]
        trace.events[(trace.events["step"] == 0) & (trace.events["unit"] >= 0)] = early
        self.equal(volume.volumes(trace)[1], N, 4)
        _, (reduced,) = self.volumes(**{"comm.collectives": "native"})
        self.equal(reduced, 2 * N, 4)

    def test_evaluations_and_checkpoints_change_no_row(self):
        """Parameters are cut into many messages, most of which begin when an evaluation or the next step needs them. If nodes
        train locally, evaluations also gather their mean."""
        local = {"sync.kind": "localsgd", "sync.localsgd_frequency": 2, "comm.ranks_per_node": 2}
        for ranks, options in ((2, {"zero.stage": 2}), (4, {"zero.stage": 1, **local})):
            options = {**options, "comm.bucket_mb": 0.01}
            rows = []
            for more in ({}, {"train.eval_every": 1, "checkpoint.every": 3}):
                trace = self.run_of(ranks=ranks, **options, **more).trace
                found = traffic.operations(trace)
                rows.append({(op.name, op.group): (op.calls_per_step, op.bytes_per_step) for op in found
                             if op.bytes_per_step > 1000})  # fmt: skip
                parts, seconds = breakdown.step_parts(trace)
                waited = seconds[parts.index("wait")].mean()
                self.assertAlmostEqual(sum(op.exposed_per_step for op in found), waited, places=12)
                exposed = late_ranks.exposed(trace, late_ranks.split_waits(trace))
                self.assertAlmostEqual(sum(op.seconds for op in exposed), waited, places=12)
            self.assertEqual(rows[1], rows[0], options)

    def test_a_skipped_update_saves_its_all_gather(self):
        """The loss scale of the first updates is too large. With many messages, most of them begin in the step after the
        update."""
        scale = {"train.dtype": "fp16", "train.loss_scale_power": 24, "train.loss_scale_hysteresis": 1}
        background = ({"zero.stage": 1}, {"zero.stage": 2, "comm.bucket_mb": 0.01})
        for options in (*background, {"zero.stage": 1, "comm.overlap": "false"}):
            run = self.run_of(**scale, **options, **{"train.steps": 8})
            # In the background, the parameters that steps 2 to 8 use are those of updates 1 to 7.
            updates = run.metrics[:-1] if options in background else run.metrics[1:]
            made = [row["step"] for row in updates if row.get("skipped") is None]
            skipped = len(updates) - len(made)
            self.assertIn(skipped, range(1, 7))
            gathered = volume.volumes(run.trace)[1]
            self.equal(gathered, Fraction(len(made) * N, 7), 2)
            self.assertEqual(gathered.saved, Fraction(skipped, 7) * gathered.theory)
            self.assertIn(f"{skipped} of the 7 updates", report_tables.volume_note(run.trace))
            events = run.trace.events
            of_update = (events["name"] == volume.index_of(run.trace, "all_gather")) & (events["unit"] >= 0)
            of_update &= events["step"] == made[0] + (options in background)  # the step in which they end
            damaged = dataclasses.replace(run.trace, events=events[~of_update])
            self.assertLess(volume.volumes(damaged)[1].difference, 0, "an update that was made has no all-gather")

    def test_the_report_has_both_tables(self):
        run = self.run_of(**{"zero.stage": 3, "activation.checkpoint_interval": 1})
        page = report.build(run, self.dir)
        self.assertEqual([absent for absent in page.absent if "kernels" not in absent], [])
        self.assertTrue((self.dir / "units.png").exists())
        body = "\n".join(page.body)
        for expected in (
            "A = 4 micro-batches",
            "2 A N",
            "h.1</td><td>free gathered parameters",
            "recompute</td>",
            "<td>+0</td>",
        ):
            self.assertIn(expected, body)
        self.assertEqual({row[0] for row in report_tables.unit_rows(run.trace)}, {"embedding", "h.0", "h.1", "head"})


if __name__ == "__main__":
    main()
