# SPDX-License-Identifier: Apache-2.0
"""Whole runs on the simulated device (include/shoal/device/simulated.hpp) have the bits of the run in which each call does
its work at once: with work done as late as events allow, and in orders that are drawn from seeds. If bits differ, an event is
missing; if the host touches the device's memory, the run ends with a message.

SHOAL_SIMULATED_SEEDS: number of seeds (1). SHOAL_SIMULATED_SEED: the first seed (1)."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import Program, main, trajectory

FIRST = int(os.environ.get("SHOAL_SIMULATED_SEED", "1"))
ORDERS = ["late", *(f"seed:{FIRST + i}" for i in range(int(os.environ.get("SHOAL_SIMULATED_SEEDS", "1"))))]

DECK = {
    "model": {"kind": "gpt", "n_layer": 2, "n_head": 2, "n_embd": 32, "block_size": 16, "vocab_size": 64},
    "data": {"source": "synthetic"},
    "batch": {"micro": 1, "global": 4},
    "optimizer": {"lr": 0.01},
    "train": {"steps": 3, "seed": 3, "grad_clip": 0.5, "eval_every": 2, "eval_batches": 1},
}


class Simulated(Program):
    takes_turns = ("src/device", "include/shoal/device")
    binary = os.environ.get("SHOAL_SIMULATED", "")

    def same(self, ranks, *options, deck=DECK, **changes):
        """Trains in all orders; returns the summary of the run in program order."""
        file = self.deck(deck, **changes)
        first = self.ordered("in-order", file, options, ranks)
        for order in ORDERS:
            run = self.ordered(order, file, options, ranks)
            self.assertEqual(trajectory(run), trajectory(first), f"SHOAL_SIMULATE={order} {options} on {ranks} ranks")
            self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
            self.assertEqual(run["device"]["waits_per_step"], 1, f"SHOAL_SIMULATE={order} {options} on {ranks} ranks")
        return first

    def resumed(self, ranks, *options, ways=((),), at=2, deck=DECK):
        """Trains to step `at` and continues from the checkpoint, in all orders and each of these ways to save. The run must
        end as the one that goes straight on, in program order."""
        file = self.deck(deck)
        straight = self.ordered("in-order", file, options, ranks)
        for order in ORDERS:
            for way in ways:
                out = f"resumed-{len(list(self.dir.glob('resumed-*')))}"
                saving = (*options, *way, f"--checkpoint.every={at}")
                self.ordered(order, file, (*saving, f"--train.steps={at}"), ranks, out=out)
                again = self.ordered(order, file, (*saving, "--checkpoint.resume=latest"), ranks, out=out)
                told = f"SHOAL_SIMULATE={order} {options} {way} on {ranks} ranks"
                self.assertEqual(again["losses"], straight["losses"][at:], told)
                self.assertEqual(again["params_checksum"], straight["params_checksum"], told)

    def ordered(self, order, file, options, ranks, out=None):
        return self.train(file, *options, ranks=ranks, out=out, timeout=200, env={"SHOAL_SIMULATE": order})

    def test_one_rank(self):
        reference = self.same(1)
        self.assertEqual(trajectory(self.same(1, "--activation.checkpoint_interval=1")), trajectory(reference))
        self.same(1, "--train.dtype=bf16", "--model.dropout=0.1", "--comm.reduce_dtype=bf16")
        self.same(1, "--train.dtype=fp16", "--train.loss_scale_power=10")

    def test_a_classifier_and_sgd(self):
        classifier = {"kind": "mlp", "n_layer": 2, "n_embd": 16, "block_size": 8, "vocab_size": 64}
        self.same(2, "--optimizer.kind=sgd", deck={**DECK, "model": classifier})

    def test_stages(self):
        runs = [trajectory(self.same(2, f"--zero.stage={stage}")) for stage in (0, 1, 2, 3)]
        runs.append(trajectory(self.same(4, "--zero.stage=3", "--zero.prefetch_units=2", "--comm.bucket_mb=0.02")))
        runs.append(trajectory(self.same(2, "--zero.stage=2", "--comm.overlap=false")))
        for run in runs[1:]:
            self.assertEqual(run, runs[0])

    def test_pipelines(self):
        """Borders, and the gradients and parameters of each micro-batch, are on different queues."""
        deck = {**DECK, "model": {**DECK["model"], "n_layer": 4, "tied": "false"}}
        whole = trajectory(self.ordered("in-order", self.deck(deck), (), 1))
        interleaved = ("--pipeline.schedule=interleaved", "--pipeline.parts=2")
        for options in (
            ("--zero.stage=1",),
            ("--zero.stage=2", "--comm.bucket_mb=0.02"),
            ("--zero.stage=3", *interleaved),
            (
                "--zero.stage=3",
                "--zero.prefetch_units=2",
                "--zero.reshard_after_forward=false",
                "--pipeline.schedule=gpipe",
            ),
        ):
            run = self.same(4, "--pipeline.size=2", *options, deck=deck)
            self.assertEqual(trajectory(run), whole, options)

    def test_units_that_share_memory_with_messages(self):
        """Backward writes a block's gradient to the memory of an earlier block, which a message was sent from: a bucket is
        as large as a block. In the larger model MPI cannot send a message before it is received."""
        for size, bucket, runs in ((32, 0.05, ((2, 2), (3, 4))), (128, 0.8, ((2, 2),))):
            model = {**DECK["model"], "n_layer": 6, "n_embd": size}
            deck = {**DECK, "model": model, "train": {**DECK["train"], "steps": 2}}
            whole = trajectory(self.ordered("in-order", self.deck(deck), (), 1))
            for stage, ranks in runs:
                run = self.same(ranks, f"--zero.stage={stage}", f"--comm.bucket_mb={bucket}", deck=deck)
                self.assertEqual(trajectory(run), whole, f"{size} wide, stage {stage}, {ranks} ranks")

    def test_initial_weights(self):
        written = self.train(self.deck(DECK), f"--output.export={self.dir / 'weights'}")
        first = self.same(2, "--zero.stage=3", f"--model.init_from={self.dir / 'weights'}")
        self.assertNotEqual(first["losses"][0], written["losses"][0], "the weights were not read")

    def test_fp16_overflows(self):
        scale = {"dtype": "fp16", "steps": 6, "loss_scale_power": 24, "loss_scale_hysteresis": 1}
        norms = dict(self.same(2, "--zero.stage=2", train=scale)["grad_norms"])
        self.assertIsNone(norms[1], "an overflow")
        self.assertTrue(any(norm is not None for norm in norms.values()), norms)

    def test_three_ranks(self):
        self.same(3, "--zero.stage=3", batch={"micro": 1, "global": 6})

    def test_native_collectives(self):
        self.same(2, "--comm.collectives=native", "--zero.stage=1")

    def test_messages_that_do_not_reach_the_device(self):
        """An MPI library that does not read a GPU's memory: messages pass through memory of the host."""
        deck, nodes = self.deck(DECK), ("--comm.ranks_per_node=2", "--zero.stage=3")
        for ranks, *options in (
            (2, "--zero.stage=0"),
            (2, "--zero.stage=2", "--comm.overlap=false"),
            (3, "--zero.stage=3", "--zero.prefetch_units=2", "--batch.global=6"),
            (2, "--comm.collectives=native", "--zero.stage=1"),
            (3, "--comm.collectives=native", "--zero.stage=3", "--batch.global=6"),
            (4, *nodes, "--zero.qwz=8", "--zero.qgz=4", "--zero.hpz_size=node"),
            (
                2,
                "--comm.ranks_per_node=1",
                "--sync.kind=slowmo",
                "--sync.localsgd_frequency=1",
                "--sync.slowmo_frequency=2",
            ),
            (2, "--comm.ranks_per_node=1", "--sync.kind=sgp", "--sync.sgp_overlap=true"),
        ):
            direct = self.ordered("in-order", deck, options, ranks)
            for reaching in ("0", "messages") if "--comm.collectives=native" in options else ("0",):
                staged = self.train(deck, *options, ranks=ranks, timeout=200, env={"SHOAL_GPU_AWARE_MPI": reaching})
                self.assertEqual(trajectory(staged), trajectory(direct), f"{reaching}: {options} on {ranks} ranks")

    def test_the_environment_says_what_mpi_reaches(self):
        """What each way does to MPI's calls is tests/comm/reach_test.cpp's."""
        deck = self.deck(DECK)
        for given, way in (
            ("0", "through memory of the host, "),
            ("messages", "the MPI library reads and writes the GPUs' memory, but its collectives go through "),
            ("1", "the MPI library reads and writes the GPUs' memory\n"),
        ):
            out = f"--output.dir={self.dir / given}"
            done = self.shoal("train", deck, "--train.steps=1", out, ranks=2, env={"SHOAL_GPU_AWARE_MPI": given})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"\n#   messages +{way}")
        self.refused("train", deck, env={"SHOAL_GPU_AWARE_MPI": "2"},
                     contains=("SHOAL_GPU_AWARE_MPI=2", "allowed: 0, 1, messages"))  # fmt: skip

    def test_zeropp(self):
        nodes = ("--comm.ranks_per_node=2", "--zero.stage=3")
        self.same(4, *nodes, "--zero.hpz_size=node")
        self.same(4, *nodes, "--zero.qwz=8", "--zero.qgz=4", "--trace.level=kernels")
        self.same(4, *nodes, "--zero.qgz=8", "--zero.quant_feedback=true")

    def test_nodes_that_train_locally(self):
        nodes = ("--comm.ranks_per_node=1", "--train.steps=5")
        averaged, outer = "--sync.localsgd_frequency=2", "--sync.slowmo_frequency=2"
        self.same(2, *nodes, "--sync.kind=slowmo", "--sync.localsgd_frequency=1", outer)
        self.same(2, *nodes, "--sync.kind=diloco", outer, "--sync.average_dtype=int8", "--zero.quant_block=64")
        self.same(2, *nodes, "--sync.kind=localsgd", averaged, "--sync.average_overlap=true")
        self.same(2, *nodes, "--sync.kind=localsgd", averaged, "--sync.average_dtype=bf16", "--sync.warmup_steps=2")
        self.same(2, *nodes, "--sync.kind=sgp")
        self.same(2, *nodes, "--sync.kind=sgp", "--sync.sgp_overlap=true")

    def test_adascale(self):
        self.same(2, "--optimizer.adascale=true", "--zero.stage=2")

    def test_what_is_not_finite_is_reported(self):
        """After an update to huge parameters, and to infinite ones."""
        file = self.deck(DECK, optimizer={"kind": "sgd"}, train={"on_nan": "skip", "eval_every": 0, "grad_clip": 0})
        for rate, named in (("1e30", "gradient of unit head"), ("1e39", "parameters of unit embedding")):
            said = {}
            for order in ("in-order", *ORDERS):
                out = f"{rate}-{order}"
                run = self.ordered(order, file, (f"--optimizer.lr={rate}", "--zero.stage=2"), 2, out=out)
                lines = (self.dir / out / "metrics.jsonl").read_text().splitlines()
                said[order] = trajectory(run), [json.loads(line).get("skipped", "updated") for line in lines]
                self.assertEqual(said[order], said["in-order"], order)
                self.assertIn(named, said[order][1][1])

    def test_checkpoints_and_resuming(self):
        saved = ("--checkpoint.async=false",), ("--checkpoint.async=true",), ("--checkpoint.io=collective",)
        self.resumed(2, "--zero.stage=2", ways=saved, deck={**DECK, "train": {**DECK["train"], "steps": 4}})

    def test_resuming_with_states_of_zeropp(self):
        """The errors of quantized messages, and the node's second copy of the parameters."""
        errors = ("--zero.qgz=8", "--zero.quant_feedback=true")
        self.resumed(4, "--comm.ranks_per_node=2", "--zero.stage=3", "--zero.hpz_size=node", *errors)

    def test_resuming_nodes_that_train_locally(self):
        """Between two synchronizations, while an average or a neighbour's parameters are in flight."""
        deck = {**DECK, "train": {**DECK["train"], "steps": 5}}
        late = ("--sync.average_overlap=true", "--sync.average_delay=2")
        for options in (
            ("--sync.kind=localsgd", "--sync.localsgd_frequency=2", *late),
            ("--sync.kind=slowmo", "--sync.localsgd_frequency=1", "--sync.slowmo_frequency=2"),
            ("--sync.kind=sgp", "--sync.sgp_overlap=true"),
        ):
            self.resumed(2, "--comm.ranks_per_node=1", *options, at=3, deck=deck)

    def test_evaluation_generation_and_export(self):
        text = self.dir / "text.txt"
        text.write_text("a line of text that is read by the program\n" * 50)
        tokens = self.dir / "tokens.h5"
        self.assertEqual(self.shoal("tokenize", text, tokens).returncode, 0)
        file = self.deck(DECK, data={"source": tokens, "val_fraction": 0.2}, model={"vocab_size": 0})
        self.ordered("in-order", file, ("--checkpoint.every=3",), 1, out="run")
        checkpoint = self.dir / "run/checkpoints/step_00000003.h5"
        said = {}
        for order in ("in-order", *ORDERS):
            env = {"SHOAL_SIMULATE": order}
            commands = [
                self.shoal("eval", checkpoint, env=env),
                self.shoal("generate", checkpoint, "--prompt=a text", "--tokens=40", env=env),
                self.shoal("export", checkpoint, self.dir / order, env=env),
            ]
            for done in commands:
                self.assertEqual(done.returncode, 0, f"{order}: {done.stdout}{done.stderr}")
            said[order] = (
                commands[0].stdout,
                commands[1].stdout,
                (self.dir / order / "model.safetensors").read_bytes(),
            )
        for order in ORDERS:
            self.assertEqual(said[order], said["in-order"], order)

    def measured(self, *options, backend):
        """Runs `shoal bench comm`. Returns its file, with an invented model: to measure one takes long, and two sizes."""
        sizes = ("--min", "4KiB", "--max", "4KiB", "--repetitions", "1", "--row-seconds", "0.001")
        for order in ORDERS:
            file = self.dir / f"{order}.json"
            env = {"SHOAL_SIMULATE": order}
            done = self.shoal("bench", "comm", *options, *sizes, "--output", file, ranks=4, env=env, timeout=200)
            self.assertEqual(done.returncode, 0, f"{order}: {done.stdout}{done.stderr}")
            self.assertIn(f"by {backend} (comm.backend)", done.stdout)
            told = json.loads(file.read_text())
            self.assertEqual((told["machine"]["kind"], told["machine"]["backend"]), ("simulated", backend))
            self.assertEqual([row for row in told["rows"] if row["wrong"] != 0], [], order)
            self.assertGreater(len(told["rows"]), 30)
        link, codec = {"latency_s": 1e-6, "s_per_byte": 1e-10}, {"quantize_s": 1e-9, "dequantize_s": 1e-9}
        told["model"] = {
            "ranks_per_node": 2,
            "node": link,
            "across": link,
            "sum_s_per_byte": 1e-11,
            "quantization": {"int8": codec, "int4": codec},
            "gflops": {"fp32": 100.0},
            "training": {"fp32": {"by_width": [{"n_embd": 64, "gflops": 10.0}], "update_s": 1e-9}},
        }
        file.write_text(json.dumps(told))
        return file

    def test_measuring_collectives(self):
        file = self.measured("--comm.ranks_per_node=2", backend="mpi")
        self.refused("plan", self.deck(DECK), "--network", file, "--comm.backend=nccl",
                     contains=(f"--network {file} was measured with mpi", "comm.backend = nccl"))  # fmt: skip

    def test_another_order_is_refused(self):
        for given in ("soon", "seed:", "seed:x", "seed:-1", ""):
            self.refused("train", self.deck(DECK), env={"SHOAL_SIMULATE": given},
                         contains=("SHOAL_SIMULATE=" + given, "in-order, late, seed:N"))  # fmt: skip

    def test_the_host_has_no_simulated_device(self):
        self.binary = os.environ["SHOAL_BINARY"]
        deck = self.deck(DECK)
        self.refused("train", deck, env={"SHOAL_SIMULATE": "late"}, contains=("SHOAL_SIMULATE=late", "host"))
        self.refused(
            "train",
            deck,
            "--train.device=simulated",
            contains=("train.device = simulated", "computes on the host", "is shoal_simulated"),
        )
        self.refused(
            "train",
            deck,
            "--train.device=cuda",
            contains=("train.device = cuda", "computes on the host", "is build-cuda/shoal, which `make cuda` builds"),
        )
        self.refused(
            "train",
            deck,
            "--train.tf32=true",
            contains=("train.tf32 = true", "computes on the host", "allowed: false"),
        )
        self.refused("train", deck, "--train.fused_gelu=true", contains=("fused_gelu = true", "computes on the host"))
        self.train(deck, "--train.device=host", "--train.steps=1")

    def test_the_simulated_device_is_not_the_host(self):
        self.refused("train", self.deck(DECK), "--train.device=host", contains=("computes on the simulated",))


if __name__ == "__main__":
    main()
