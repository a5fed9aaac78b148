# SPDX-License-Identifier: Apache-2.0
"""Nodes that train locally between synchronizations: the promises of each strategy, on four ranks, as nodes of one and
of two ranks."""

import json
import os
import pathlib
import re
import signal
import subprocess

from hangs import assert_reported_in_time
from program import BINARY, MPIEXEC, SMALL, Program, end, main, ranks_of, trajectory
from turns import chosen

DECK = {
    **SMALL,
    "model": {**SMALL["model"], "n_layer": 1, "n_embd": 16, "block_size": 16},
    "train": {"steps": 8, "seed": 3, "eval_batches": 1},
    "trace": {"level": "off"},
}
TIMEOUT = 8
SUBJECT = ("src/sync", "include/shoal/sync")
LATE = "--sync.average_overlap=true"
FEW = ("--sync.localsgd_frequency=3", "--sync.slowmo_frequency=6")
KINDS = {
    "localsgd": ("--sync.kind=localsgd", FEW[0]),
    "slowmo": ("--sync.kind=slowmo", *FEW),
    "slowmo held by every node": ("--sync.kind=slowmo", *FEW, "--sync.slowmo_memory_efficient=false"),
    "slowmo over sgp": ("--sync.kind=slowmo", FEW[1], "--sync.slowmo_base=sgp"),
    "sgp": ("--sync.kind=sgp",),
    "sgp overlapped": ("--sync.kind=sgp", "--sync.sgp_overlap=true"),
    "slowmo in 16 bits": ("--sync.kind=slowmo", *FEW, "--sync.average_dtype=bf16"),
    "diloco": ("--sync.kind=diloco", FEW[1], "--sync.slowmo_lr=0.7", "--sync.slowmo_momentum=0.9"),
    "localsgd late": ("--sync.kind=localsgd", FEW[0], LATE, "--sync.average_delay=3"),
    "slowmo in 8 bits": ("--sync.kind=slowmo", *FEW, "--sync.average_dtype=int8", "--zero.quant_block=64"),
    "slowmo late in 8 bits": ("--sync.kind=slowmo", *FEW, LATE, "--sync.average_dtype=int8", "--sync.average_delay=2"),
    "diloco late in 16 bits": ("--sync.kind=diloco", FEW[1], LATE, "--sync.average_dtype=bf16"),
}
# Strategies with delayed averages, and a step after which an average is in flight.
UNDER_WAY = {"localsgd late": 5, "slowmo late in 8 bits": 7, "diloco late in 16 bits": 6}
MAYBE_NO_UPDATE = (
    0,
    1,
)  # exit codes of runs of a few steps in which all nodes may have skipped every update; it depends on the processor


straight_runs = {}


def nodes_of(ranks):
    return f"--comm.ranks_per_node={ranks}"


class Sync(Program):
    takes_turns = SUBJECT
    with_rows = ("test_resume_between_synchronisations",)

    def run_of(self, kind, *options, ranks=4, per_node=2, **more):
        return self.train(self.deck(DECK), *KINDS[kind], nodes_of(per_node), *options, ranks=ranks, **more)

    def straight(self, kind, *options, **more):
        """The uninterrupted run on two nodes. Runs repeat bit for bit (test_run_to_run), so several tests compare with
        the same one."""
        if (kind, options) not in straight_runs:
            straight_runs[kind, options] = self.run_of(kind, *options, **more)
        return straight_runs[kind, options]

    def test_averaging_after_every_step_of_plain_sgd_is_every_step(self):
        """The average of x - lr g_k over nodes is x - lr mean(g_k). In floats they differ by a few roundings per step: 2^-24 of
        parameters below 1, whose effect on the loss is their size times the gradient's."""
        plain = ("--optimizer.kind=sgd", "--optimizer.momentum=0", "--optimizer.lr=0.1", "--train.grad_clip=0")
        deck = self.deck(DECK)
        every_step = self.train(deck, *plain, ranks=4)
        for per_node in (1, 2):
            run = self.train(
                deck, *plain, "--sync.kind=localsgd", "--sync.localsgd_frequency=1", nodes_of(per_node), ranks=4
            )
            for (step, a), (_, b) in zip(run["losses"], every_step["losses"], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5, msg=f"step {step}, {per_node} ranks per node")
            self.assertEqual(len(run["losses"]), 8)

    def test_slow_momentum_of_nothing_is_localsgd(self):
        localsgd = self.straight("localsgd")
        slowmo = self.run_of("slowmo", "--sync.slowmo_momentum=0")
        self.assertEqual(trajectory(slowmo), trajectory(localsgd))
        self.assertNotEqual(trajectory(self.straight("slowmo")), trajectory(localsgd))

    def test_slow_momentum_after_every_step_of_plain_sgd_is_momentum(self):
        """With u the sum of gradients that decay, x becomes x - lr u in both. SlowMo divides a step by its rate and multiplies u by
        it, which costs a few roundings, and a rate that varies shows whether it is this step's."""
        warm = ("--schedule.kind=linear", "--schedule.warmup_steps=4")
        sgd = ("--optimizer.kind=sgd", "--optimizer.lr=0.5", "--train.grad_clip=0", *warm)
        every_step = ("--sync.kind=slowmo", "--sync.localsgd_frequency=1", "--sync.slowmo_frequency=1")
        deck = self.deck(DECK)
        momentum = self.train(deck, *sgd, "--optimizer.momentum=0.5")
        slow = self.train(deck, *sgd, "--optimizer.momentum=0", *every_step, "--sync.slowmo_momentum=0.5")
        without = self.train(deck, *sgd, "--optimizer.momentum=0")
        self.assertGreater(abs(momentum["final_loss"] - without["final_loss"]), 1e-3)
        for (step, a), (_, b) in zip(slow["losses"], momentum["losses"], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-5, msg=f"step {step}")

    def test_run_to_run_and_nodes_by_either_option(self):
        for kind in ("slowmo", "sgp overlapped", "slowmo late in 8 bits"):
            first = self.straight(kind)
            self.assertEqual(trajectory(self.run_of(kind)), trajectory(first), kind)
            by_sync = self.train(self.deck(DECK), *KINDS[kind], "--sync.nprocs_per_node=2", ranks=4)
            self.assertEqual(trajectory(by_sync), trajectory(first), kind)
            self.assertEqual(first["state_bytes"]["planned"], first["state_bytes"]["taken"])
        # Inside a node the MPI library's sums round differently: a few times 2^-24 of gradients, norms and losses per
        # step.
        native = self.run_of("localsgd", "--comm.collectives=native")
        for (_, a), (_, b) in zip(native["losses"], self.straight("localsgd")["losses"], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-4)

    def test_stages_inside_a_node_change_nothing(self):
        for kind, dtype in (
            ("slowmo in 16 bits", "fp32"),
            ("slowmo held by every node", "bf16"),
            ("diloco", "bf16"),
            ("slowmo late in 8 bits", "bf16"),
            ("localsgd late", "fp32"),
        ):
            runs = {
                stage: self.run_of(kind, f"--zero.stage={stage}", f"--train.dtype={dtype}", "--model.dropout=0.1")
                for stage in range(4)
            }
            for stage, run in runs.items():
                self.assertEqual(trajectory(run), trajectory(runs[0]), f"{kind}, {dtype}, stage {stage}")
                self.assertEqual(run["state_bytes"]["planned"], run["state_bytes"]["taken"])
            self.assertLess(
                runs[1]["state_bytes"]["taken"]["moments"], runs[0]["state_bytes"]["taken"]["moments"], "ZeRO's group"
            )

    def test_warming_up_is_every_step(self):
        """Bit for bit, if the numbers of nodes and of micro-batches are powers of two."""
        fp16 = ("--train.dtype=fp16", "--train.loss_scale_power=21", "--comm.reduce_dtype=fp16")
        for kind, per_node, options in (
            ("slowmo", 1, ("--zero.stage=3", "--train.dtype=bf16", "--comm.reduce_dtype=bf16")),
            ("slowmo", 2, ("--zero.stage=0", "--model.dropout=0.1")),
            ("sgp", 2, ("--zero.stage=2", "--train.dtype=bf16")),
            ("slowmo late in 8 bits", 2, ("--zero.stage=3", "--batch.micro=2")),
            ("diloco", 1, fp16),
        ):
            with self.subTest(kind=kind, per_node=per_node):
                straight = self.train(self.deck(DECK), *options, "--train.steps=6", ranks=4)
                warm = self.run_of(kind, *options, "--train.steps=6", "--sync.warmup_steps=6", per_node=per_node)
                self.assertEqual(trajectory(warm), trajectory(straight))
                self.assertEqual(warm["state_bytes"]["planned"], warm["state_bytes"]["taken"])
        # The MPI library's sums round differently: a few times 2^-24 of gradients, norms and losses per step.
        native = ("--comm.collectives=native", "--train.steps=6")
        straight = self.train(self.deck(DECK), *native, ranks=4)
        warm = self.run_of("localsgd", *native, "--sync.warmup_steps=6")
        for (_, a), (_, b) in zip(warm["losses"], straight["losses"], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-4)

    def test_what_follows_warming_up_is_a_run_that_begins_there(self):
        self.train(self.deck(DECK), "--train.steps=4", "--checkpoint.every=4", ranks=4, out="together")
        file = self.dir / "together" / "checkpoints" / "step_00000004.h5"
        longer, warm = "--train.steps=10", "--sync.warmup_steps=4"
        for kind in ("slowmo held by every node", "slowmo over sgp", "diloco late in 16 bits", "slowmo late in 8 bits"):
            straight = self.straight(kind, longer, warm)
            begun = self.run_of(kind, longer, warm, f"--checkpoint.resume={file}")
            self.assertEqual(begun["losses"], straight["losses"][4:], kind)
            self.assertEqual(begun["params_checksum"], straight["params_checksum"], kind)
        straight = self.straight("slowmo late in 8 bits", warm)
        for at in (3, 4, 7):
            again = self.resumed("slowmo late in 8 bits", at, warm)
            self.assertEqual(again["losses"], straight["losses"][at:], f"from step {at}")
            self.assertEqual(again["params_checksum"], straight["params_checksum"], f"from step {at}")
        apart = self.dir / "slowmo-late-in-8-bits-7-2" / "checkpoints" / "step_00000007.h5"
        contains = ["sync.warmup_steps = 10", "trained locally", "allowed: up to 7"]
        options = (*KINDS["slowmo"], nodes_of(2), longer, "--sync.warmup_steps=10", f"--checkpoint.resume={apart}")
        no = f"--output.dir={self.dir / 'no'}"
        self.refused("train", self.deck(DECK), *options, no, ranks=4, contains=contains)

    def resumed(self, kind, at, *options, per_node=2, **more):
        out = f"{kind.replace(' ', '-')}-{at}-{per_node}"
        self.run_of(
            kind, f"--train.steps={at}", f"--checkpoint.every={at}", *options, per_node=per_node, out=out, **more
        )
        return self.run_of(kind, "--checkpoint.resume=latest", *options, per_node=per_node, out=out, **more)

    def test_resume_between_synchronisations(self):
        for kind in chosen(KINDS, SUBJECT, str):
            straight = self.straight(kind)
            for at in (3, 5, 7) if kind == "slowmo" else (UNDER_WAY.get(kind, 5),):
                again = self.resumed(kind, at)
                self.assertEqual(again["losses"], straight["losses"][at:], f"{kind}, from step {at}")
                self.assertEqual(again["params_checksum"], straight["params_checksum"], f"{kind}, from step {at}")

    def test_fp16_with_an_overflow_on_the_way_resumes(self):
        options = ("--train.dtype=fp16", "--train.loss_scale_power=22", "--train.loss_scale_window=2")
        straight = self.straight("localsgd", *options)
        again = self.resumed("localsgd", 5, *options)
        self.assertEqual(again["losses"], straight["losses"][5:])
        self.assertEqual(again["params_checksum"], straight["params_checksum"])
        self.assertEqual(len(straight["losses"]), 8)

    def test_a_checkpoint_goes_on_with_other_nodes_and_is_evaluated_as_their_mean(self):
        validates = ("--data.val_fraction=0.1", "--train.eval_batches=2")
        out = self.dir / "apart"
        run = self.run_of("localsgd", "--train.steps=5", "--checkpoint.every=5", *validates, out="apart")
        file = out / "checkpoints" / "step_00000005.h5"
        done = self.shoal("eval", file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"validation loss {run['val_losses'][-1][1]:.6f}", done.stdout)
        self.assertEqual(self.shoal("export", file, self.dir / "weights").returncode, 0)
        self.assertTrue((self.dir / "weights" / "model.safetensors").exists())
        # A run that makes no step exports that mean, too: also if its nodes would have synchronized after this step.
        weights = (self.dir / "weights" / "model.safetensors").read_bytes()
        other = ("--sync.kind=localsgd", "--sync.localsgd_frequency=5", nodes_of(2), f"--checkpoint.resume={file}")
        exports = f"--output.export={self.dir / 'none'}"
        self.train(self.deck(DECK), *other, exports, "--train.steps=5", ranks=4, out="none")
        self.assertEqual((self.dir / "none" / "model.safetensors").read_bytes(), weights)
        told = self.shoal("info", "--verify", "--all", file)
        self.assertIn("/nodes/1/parameters/", told.stdout)
        self.assertIn("/nodes/0/moments/first/", told.stdout)
        for ranks, options in ((4, (*KINDS["localsgd"], nodes_of(1))), (2, ("--sync.kind=every_step",))):
            other = self.shoal(
                "train",
                self.deck(DECK),
                *options,
                f"--checkpoint.resume={file}",
                f"--output.dir={self.dir / f'other-{ranks}'}",
                ranks=ranks,
            )
            self.assertEqual(other.returncode, 0, other.stderr)
            self.assertIn("of 2 nodes that trained locally", other.stdout)
            summary = json.loads((self.dir / f"other-{ranks}" / "summary.json").read_text())
            self.assertEqual([step for step, _ in summary["losses"]], [6, 7, 8])
        # A checkpoint of ranks that synchronized at every step can start a run of nodes that train locally.
        together = self.train(self.deck(DECK), "--train.steps=3", "--checkpoint.every=3", ranks=2, out="together")
        file = self.dir / "together" / "checkpoints" / "step_00000003.h5"
        begun = self.run_of("slowmo", f"--checkpoint.resume={file}")
        self.assertEqual([step for step, _ in begun["losses"]], [4, 5, 6, 7, 8])
        self.assertEqual(together["losses"][-1][0], 3)

    def test_a_mean_under_way_is_taken_in_by_other_nodes_and_left_out_by_one(self):
        kind = "slowmo late in 8 bits"
        self.run_of(kind, "--train.steps=7", "--checkpoint.every=7", out="late")
        file = self.dir / "late" / "checkpoints" / "step_00000007.h5"
        for ranks, per_node, left_out in ((4, 1, False), (2, 2, True)):
            done = self.shoal(
                "train",
                self.deck(DECK),
                *KINDS[kind],
                nodes_of(per_node),
                f"--checkpoint.resume={file}",
                f"--output.dir={self.dir / f'nodes-{ranks}'}",
                ranks=ranks,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("# the checkpoint has a mean in flight" in done.stdout, left_out, done.stdout)
            self.assertEqual("no outer update that this run can continue" in done.stdout, left_out)

    def test_nothing_is_said_between_synchronisations(self):
        """With one rank per node, a step without a synchronization sends nothing, so the bytes are proportional to the
        synchronizations."""
        sent = {}
        for meetings in (1, 2, 4):
            options = ("--sync.kind=localsgd", f"--sync.localsgd_frequency={8 // meetings}", nodes_of(1))
            run = self.train(self.deck(DECK), *options, ranks=2, out=f"out-{meetings}")
            sent[meetings] = {name: bytes["inter"] for name, bytes in run["comm_bytes_per_step"].items()}
            self.assertEqual([step for step, _ in run["losses"]], list(range(1, 9)))
            lines = (self.dir / f"out-{meetings}" / "metrics.jsonl").read_text().splitlines()
            self.assertEqual([json.loads(line)["step"] for line in lines], list(range(1, 9)))
        for name in ("reduce_scatter", "all_gather"):
            self.assertEqual(sent[2][name], 2 * sent[1][name])
            self.assertEqual(sent[4][name], 4 * sent[1][name])
        self.assertLess(sent[1]["all_reduce"], 8 * 2 * (5 * 8 + 1))  # losses and norms, all in one call
        half = self.train(
            self.deck(DECK),
            "--sync.kind=localsgd",
            "--sync.localsgd_frequency=4",
            "--sync.average_dtype=bf16",
            nodes_of(1),
            ranks=2,
        )
        int8 = self.train(
            self.deck(DECK),
            "--sync.kind=localsgd",
            "--sync.localsgd_frequency=4",
            "--sync.average_dtype=int8",
            LATE,
            "--sync.average_delay=4",
            nodes_of(1),
            ranks=2,
            out="int8",
        )
        for name in ("reduce_scatter", "all_gather"):  # 4 bytes of scale for 256 elements
            ratio = int8["comm_bytes_per_step"][name]["inter"] / sent[2][name]
            self.assertGreater(ratio, (1 + 4 / 256) / 4 - 1e-9)
            self.assertLess(ratio, 0.27, "units end in shorter blocks")
        # Before the first step the nodes find their common parameters, in fp32; that does not count for a step.
        self.assertEqual(half["comm_bytes_per_step"]["reduce_scatter"]["inter"], sent[2]["reduce_scatter"] / 2)

    def test_a_node_that_is_broken_is_known_at_the_next_synchronization(self):
        deck = self.deck(DECK, optimizer={"kind": "sgd", "lr": 1e30})
        done = self.refused(
            "train",
            deck,
            *KINDS["localsgd"],
            nodes_of(2),
            f"--output.dir={self.dir / 'broken'}",
            ranks=4,
            code=1,
            contains=["step ", "node 0: the "],
        )
        self.assertNotIn("terminate", done.stderr)

    def test_an_overflow_at_the_smallest_loss_scale_is_known_at_the_next_synchronization(self):
        """It comes after the last step. The error names the step and the node of the overflow, and the metrics end with this
        step. Which scale is too large for some of the steps depends on the processor."""
        for power in (17, 18, 19, 20):
            out = self.dir / f"overflow-{power}"
            done = self.shoal(
                "train",
                self.deck(DECK, train={"steps": 40, "dtype": "fp16", "on_nan": "skip"}, optimizer={"lr": 0.01}),
                f"--train.loss_scale_power={power}",
                f"--train.loss_scale_minimum={2**power}",
                "--train.loss_scale_hysteresis=1",
                "--comm.reduce_dtype=fp16",
                "--sync.kind=localsgd",
                "--sync.localsgd_frequency=40",
                nodes_of(2),
                f"--output.dir={out}",
                ranks=4,
            )
            if done.returncode != 0:
                break
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("shoal: ")]
        named = f"the gradients overflow at a loss scale of {2**power:g},"
        said = re.match(rf"shoal: step (\d+): node [01]: {re.escape(named)}", line)
        self.assertTrue(said, line)
        steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, list(range(1, int(said[1]) + 1)))

    def skipping(self, kinds):
        """Finds options with which the gradients of one node overflow 16 bits more often than those of the other, both nodes
        train in some of the 8 steps, and runs of all these kinds leave updates out. Where the limit is depends on the
        processor."""
        for rate in (30, 25, 35, 20, 40, 28, 32, 22, 38, 26, 45, 33, 24, 50):
            options = (
                f"--optimizer.lr={rate}",
                "--train.grad_clip=0",
                "--comm.reduce_dtype=fp16",
                "--train.on_nan=skip",
            )
            out = f"rate-{rate}"
            self.run_of("localsgd", *options, "--checkpoint.every=8", out=out, codes=MAYBE_NO_UPDATE)
            told = self.shoal("info", "--all", self.dir / out / "checkpoints" / "step_00000008.h5").stdout
            skipped = [int(count) for count in re.findall(r"node/\d/skipped_updates +(\d+)", told)]
            self.assertEqual(len(skipped), 2, told)
            if skipped[0] == skipped[1] or min(skipped) >= 7:
                continue
            runs = [self.straight(kind, *options, codes=MAYBE_NO_UPDATE) for kind in kinds]
            if all(run["verdict"]["exit_code"] == 0 and self.left_out(run) > 0 for run in runs):
                return options
        self.fail("at no rate one node left out more updates than the other")

    @staticmethod
    def left_out(run):
        """In how many steps a node left its update out, as the mean over nodes says."""
        return [norm for _, norm in run["grad_norms"]].count(None)

    def test_a_node_that_leaves_an_update_out_keeps_the_rhythm(self):
        kinds = ("localsgd", "slowmo late in 8 bits")
        options = self.skipping(kinds)
        for kind in kinds:
            straight = self.straight(kind, *options)
            self.assertEqual([step for step, _ in straight["losses"]], list(range(1, 9)), kind)
            sharded = self.run_of(kind, *options, "--zero.stage=2")
            self.assertEqual(trajectory(sharded), trajectory(straight), kind)
            again = self.resumed(kind, 5, *options, codes=MAYBE_NO_UPDATE)
            self.assertEqual(again["losses"], straight["losses"][5:], kind)
            self.assertEqual(again["params_checksum"], straight["params_checksum"], kind)

    def without_rank_3(self, how, out):
        """Runs two nodes that synchronize every third step, and sends this signal to rank 3 between synchronizations.
        This is soon after a checkpoint and long before the next one, because ranks that wait inside the library that
        writes checkpoints answer no questions. Returns standard error, the exit code, and the seconds until all ranks
        had ended."""
        # The launcher must not notice the end of rank 3, because it would kill the others: a shell stays alive in its
        # place.
        stays = '"$0" "$@"; code=$?; test $code -lt 128 || sleep 100; exit $code'
        arguments = (
            "--train.steps=1000000",
            "--checkpoint.every=200",
            f"--comm.timeout={TIMEOUT}",
            f"--output.dir={out}",
        )
        command = [MPIEXEC, "-n", "4", "sh", "-c", stays, BINARY, "train", str(self.deck(DECK)), *KINDS["slowmo"]]
        run = subprocess.Popen(
            [*command, nodes_of(2), *arguments],
            env=self.environment(4),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(end, run)
        self.wait_for(lambda: len(list((out / "checkpoints").glob("step_*.h5"))) >= 2, run)
        (victim,) = [
            number
            for number in ranks_of(out)
            if b"PMI_RANK=3\0" in pathlib.Path(f"/proc/{number}/environ").read_bytes()
        ]
        os.kill(victim, how)
        _, said = run.communicate(timeout=60)
        return said, run.returncode

    def test_a_node_that_dies_ends_the_run_which_goes_on_with_fewer(self):
        """If a rank is killed, ranks on its machine notice that its process is gone. If it is stopped, which is like a
        node that has lost its power, ranks that wait for it at the next synchronization notice it."""
        named = {
            signal.SIGKILL: r"shoal: rank \d: rank 3 \(.*\) died without an error message",
            signal.SIGSTOP: r"shoal: rank \d has waited \d+ s for .*: no sign of life from rank 3 \(",
        }
        for how, words in named.items():
            out = self.dir / how.name
            said, code = self.without_rank_3(how, out)
            self.assertNotEqual(code, 0)
            lines = [line for line in said.splitlines() if line.startswith("shoal: ")]
            self.assertEqual(len(lines), 1, said)
            self.assertRegex(lines[0], words)
            if how == signal.SIGSTOP:
                assert_reported_in_time(self, lines[0], TIMEOUT)
        steps = max(int(re.search(r"_(\d+)", f.name).group(1)) for f in (out / "checkpoints").glob("step_*.h5"))
        again = self.shoal(
            "train",
            self.deck(DECK),
            *KINDS["slowmo"],
            nodes_of(2),
            f"--output.dir={out}",
            "--checkpoint.resume=latest",
            f"--train.steps={steps + 4}",
            ranks=2,
        )
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("their mean is used", again.stdout)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual([step for step, _ in summary["losses"]], list(range(steps + 1, steps + 5)))

    def test_the_banner_says_whether_it_pays_off(self):
        done = self.shoal("train", self.deck(DECK), *KINDS["slowmo"], nodes_of(2), ranks=4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 nodes of 2 ranks", done.stdout)
        self.assertRegex(done.stdout, r"worth it +(yes|no)[:,]")
        done = self.shoal("train", self.deck(DECK), *KINDS["slowmo"], "--output.overwrite", ranks=2)
        self.assertRegex(done.stdout, r"worth it +no: there is one node")

    def test_bad_input(self):
        deck = self.deck(DECK)
        cases = [
            (["--sync.kind=synchronous"], ["sync.kind", "every_step"]),
            (["--sync.kind=slowmo", "--sync.slowmo_frequency=7"], ["sync.slowmo_frequency = 7", "multiple", "6, 9"]),
            (["--sync.kind=sgp", "--zero.stage=3", nodes_of(1)], ["zero.stage = 3", "stochastic gradient push"]),
            (
                [
                    "--sync.kind=slowmo",
                    "--sync.slowmo_base=sgp",
                    "--zero.stage=3",
                    "--sync.nprocs_per_node=4",
                    nodes_of(2),
                ],
                ["zero.stage = 3", "ranks of several nodes"],
            ),
            (["--sync.kind=localsgd", "--sync.nprocs_per_node=3"], ["sync.nprocs_per_node = 3", "number of ranks (4)"]),
            (["--sync.warmup_steps=2"], ["sync.warmup_steps = 2", "no effect", "sync.kind = every_step"]),
            (["--sync.localsgd_frequency=2"], ["sync.localsgd_frequency = 2", "no effect", "sync.kind = every_step"]),
            (["--sync.kind=sgp", "--sync.slowmo_momentum=0.4"], ["sync.slowmo_momentum", "no effect"]),
            (["--sync.kind=slowmo", "--sync.sgp_overlap=true"], ["sync.sgp_overlap", "no effect"]),
            (
                ["--sync.kind=slowmo", "--sync.slowmo_base=sgp", "--sync.localsgd_frequency=2"],
                ["sync.localsgd_frequency", "no effect"],
            ),
            (["--sync.kind=localsgd", "--checkpoint.async=true"], ["checkpoint.async", "sync.kind"]),
            (["--sync.kind=sgp", LATE], ["sync.average_overlap", "no effect"]),
            (["--sync.kind=slowmo", LATE, "--sync.slowmo_base=sgp"], ["sync.average_overlap", "allowed: localsgd"]),
            (
                ["--sync.kind=slowmo", LATE, "--sync.slowmo_memory_efficient=false"],
                ["sync.average_overlap", "in the background", "allowed: true"],
            ),
            (["--sync.kind=localsgd", LATE, "--sync.average_delay=4"], ["sync.average_delay = 4", "allowed: 1 to 3"]),
            (["--sync.kind=localsgd", "--sync.average_delay=2"], ["sync.average_delay = 2", "no effect"]),
            (["--sync.kind=localsgd", "--sync.average_dtype=int4"], ["sync.average_dtype", "int8"]),
        ]
        for arguments, contains in cases:
            ranks = (
                4 if any("sgp" in a or "nprocs" in a for a in arguments) else 1
            )  # the others are wrong on any number
            with self.subTest(arguments=arguments):
                self.refused(
                    "train", deck, f"--output.dir={self.dir / 'no'}", *arguments, ranks=ranks, contains=contains
                )
                self.assertFalse((self.dir / "no").exists(), "nothing is written")


if __name__ == "__main__":
    main()
