# SPDX-License-Identifier: Apache-2.0
"""shoal plan: its figures are those of runs, to the byte; its table can be parsed; bad input gives one line."""

import json
import os
import pathlib
import re

from networks import NETWORK, written
from program import BINARY, SMALL, Program, main, skip

KINDS = ("parameters", "master", "gradients", "moments", "activations", "buffers", "staging")
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def bytes_of(words):
    """Parses '475 MiB', or '-' for nothing."""
    if words == "-":
        return 0
    number, unit = words.split()
    return float(number) * BYTES[unit]


def limits_of_groups():
    """Of the control groups around this process, where most systems mount them."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        mount = pathlib.Path("/sys/fs/cgroup") / controllers
        own = mount / group.lstrip("/")
        for directory in (own, *own.parents):
            for name in ("memory.limit_in_bytes", "memory.max", "memory.high"):
                file = directory / name
                words = file.read_text().strip() if file.exists() else "max"
                if words != "max":
                    yield int(words)


class Planning(Program):
    def plan(self, *args, env=None):
        """Returns the printed table and the JSON file."""
        file = self.dir / f"plan-{len(list(self.dir.glob('plan-*')))}.json"
        done = self.shoal("plan", *args, "--json", file, env=env)
        self.assertEqual(done.returncode, 0, f"{args}\n{done.stdout}\n{done.stderr}")
        return done.stdout, json.loads(file.read_text())

    @staticmethod
    def only(plan, ranks, stage, checkpointing):
        """The only row of the plan with these properties."""
        rows = [
            run
            for run in plan["runs"]
            if (run["ranks"], run["stage"]) == (ranks, stage) and (run["checkpoint_interval"] != 0) == checkpointing
        ]
        assert len(rows) == 1, rows
        return rows[0]

    def assert_a_run_takes_it(self, plan, deck, ranks, stage, *args, checkpointing=False):
        summary = self.train(deck, f"--zero.stage={stage}", *args, ranks=ranks)
        taken = summary["state_bytes"]
        planned = self.only(plan, ranks, stage, checkpointing)["state_bytes"]
        self.assertEqual(tuple(planned), KINDS)
        self.assertEqual(planned, taken["planned"], f"stage {stage}, {ranks} ranks, {args}")
        self.assertEqual(planned, taken["taken"], f"stage {stage}, {ranks} ranks, {args}")


class Plan(Planning):
    def test_a_run_takes_what_was_planned(self):
        deck = self.deck(SMALL, train={"steps": 1}, trace={"level": "off"})
        _, plan = self.plan(deck, "--ranks", "1,2")
        for ranks in (1, 2):
            for stage in range(4):
                self.assert_a_run_takes_it(plan, deck, ranks, stage)
        for stage in (0, 3):
            self.assert_a_run_takes_it(
                plan, deck, 2, stage, "--activation.checkpoint_interval=auto", checkpointing=True
            )

    def test_a_run_in_16_bits_that_saves_in_the_background_takes_what_was_planned(self):
        deck = self.deck(
            SMALL,
            model={"n_layer": 3, "n_embd": 48, "vocab_size": 0},
            train={"steps": 2, "dtype": "bf16"},
            comm={"reduce_dtype": "bf16", "bucket_mb": 0.01},
            checkpoint={"every": 1, "async": "true"},
            activation={"checkpoint_interval": 2},
        )
        _, plan = self.plan(deck, "--ranks", "2")
        for stage in (1, 2):
            self.assert_a_run_takes_it(plan, deck, 2, stage, checkpointing=True)
        self.assertTrue(any(part["label"] == "checkpoint copy" for part in plan["runs"][0]["parts"]))
        _, at_once = self.plan(deck, "--ranks", "2", "--checkpoint.async=false")
        for run, other in zip(plan["runs"], at_once["runs"], strict=True):
            self.assertEqual(run["model_state_bytes"], other["model_state_bytes"])

    def test_the_table_says_the_same_in_columns(self):
        deck = self.deck(SMALL, zero={"stage": 2})
        said, plan = self.plan(deck, "--ranks", "1,2,4,...,1024", "--memory", "1GiB")
        lines = said.splitlines()
        head = next(line for line in lines if line.startswith("#ranks"))
        rows = [line for line in lines if line and not line.startswith("#")]
        self.assertEqual(len(rows), len(plan["runs"]))
        self.assertEqual(len(rows), 11 * 2 * 4)
        names = re.split(r"  +", head.lstrip("#"))
        ends = [match.end() for match in re.finditer(r"\S+( \S+)*", head)]
        for row, run in zip(rows, plan["runs"], strict=True):
            self.assertEqual([m.end() for m in re.finditer(r"\S+( \S+)*", row)], ends, f"{head}\n{row}")
            cells = dict(zip(names, re.split(r"  +", row.strip()), strict=True))
            self.assertEqual(cells["ranks"], str(run["ranks"]))
            self.assertEqual(cells["stage"], f"{run['stage']}*" if run["asked"] else str(run["stage"]))
            for kind in KINDS:
                self.assertAlmostEqual(
                    bytes_of(cells[kind]), run["state_bytes"][kind], delta=run["state_bytes"][kind] / 150
                )
            self.assertAlmostEqual(bytes_of(cells["total"]), run["total_bytes"], delta=run["total_bytes"] / 150)
            self.assertEqual(run["total_bytes"], sum(run["state_bytes"].values()))
            self.assertIn(str(run["most_layers"]), cells["layers that fit"])
        asked = [(run["stage"], run["checkpoint_interval"]) for run in plan["runs"] if run["asked"]]
        self.assertEqual(asked, [(2, 0)] * 11)
        self.assertIn("# batch.global = 8 cannot be divided", said)
        self.assertEqual(self.only(plan, 4, 0, False)["batch_global"], 8)
        self.assertEqual(self.only(plan, 1024, 0, False)["batch_global"], 1024)
        self.assertEqual(said.count("cannot be divided"), 1)

    def test_what_does_not_divide_the_ranks_is_named(self):
        deck = self.deck(SMALL, zero={"stage": 3, "hpz_size": 2}, batch={"global": 0})
        for options, named in (
            ((), "zero.hpz_size = 2 does not divide 3, 5 ranks"),
            (("--comm.ranks_per_node=4",), "comm.ranks_per_node = 4 does not divide 5 ranks"),
        ):
            said, plan = self.plan(deck, "--ranks", "1,2,3,4,5", *options)
            self.assertIn(f"# {named}: planned there without it\n", said)
            self.assertEqual(said.count("does not divide"), 1 + len(options))
            self.assertIn(f"{named}: planned there without it", plan["notes"])

    def test_deepspeeds_estimate_stands_beside_it(self):
        deck = self.deck(SMALL)
        said, plan = self.plan(deck, "--ranks", "8", "--comm.ranks_per_node=4")
        params = plan["parameters"]
        rows = {(row["stage"], row["offload_optimizer"]): row for row in plan["deepspeed"] if row["stage"] == 2}
        self.assertEqual(rows[2, False]["gpu_bytes"], 2 * params + 18 * params // 8)
        self.assertEqual(rows[2, True]["gpu_bytes"], 2 * params)
        self.assertEqual((rows[2, False]["gpus_per_node"], rows[2, False]["nodes"]), (4, 2))
        self.assertEqual(len([row for row in plan["deepspeed"] if row["stage"] == 3]), 6)
        said, plan = self.plan(deck, "--ranks", "2,8", "--comm.ranks_per_node=4")
        self.assertEqual({(row["gpus_per_node"], row["nodes"]) for row in plan["deepspeed"]}, {(2, 1), (4, 2)})
        shown = [line for line in said.splitlines() if re.match(r" +8 +2 ", line)]
        self.assertEqual(len(shown), 2)
        wanted = 2 * params + 18 * params // 8
        for line in shown:
            self.assertAlmostEqual(bytes_of(re.split(r"  +", line.strip())[-1]), wanted, delta=wanted / 150)

    def test_step_times_of_every_strategy(self):
        network = self.bench_file()
        deck = self.deck(SMALL, train={"steps": 4, "dtype": "bf16"}, trace={"level": "off"},
                         sync={"kind": "slowmo", "localsgd_frequency": 2, "slowmo_frequency": 4, "slowmo_base": "localsgd"})  # fmt: skip
        at = ("--network", network, "--ranks", "4", "--nodes", "2", "--comm.ranks_per_node=2", "--step-seconds", "0.5")
        said, plan = self.plan(deck, *at)
        self.assertIn("# fastest on 4 ranks: ", said)
        rows = {run["strategy"]: run for run in plan["strategies"]}
        self.assertEqual([*rows], ["stage 0", "stage 1", "stage 2", "stage 3", "hpZ", "hpZ+qwZ", "hpZ+qwZ+qgZ",
                                   "localsgd", "slowmo", "sgp", "diloco"])  # fmt: skip
        self.assertEqual([name for name, run in rows.items() if run["asked"]], ["slowmo"])
        exact = {"stage 0", "stage 1", "stage 2", "stage 3", "hpZ"}
        self.assertEqual({name for name, run in rows.items() if run["same_trajectory"]}, exact)
        for name, run in rows.items():
            with self.subTest(strategy=name):
                time = run["step_time"]
                self.assertEqual((run["nodes"], time["compute_s"]), (2, 0.5))
                self.assertAlmostEqual(time["step_s"], 0.5 + time["exposed_s"])
        best = min(rows.values(), key=lambda run: run["step_time"]["step_s"])
        self.assertEqual(plan["fastest"], [{"ranks": 4, "strategy": best["strategy"]}])

    def test_gathers_that_are_apart_over_nccl(self):
        """They are hidden better, in pipelines as well. Over MPI the option has no effect."""
        deck = self.deck(
            PIPELINED, zero={"stage": 3, "prefetch_units": 1}, batch={"micro": 1, "global": 32}, pipeline={"size": 1}
        )
        network = self.dir / "network.json"
        for backend in ("nccl", "mpi"):
            network.write_text(json.dumps({**NETWORK, "machine": {"backend": backend}}))
            exposed = []
            for apart in ("false", "true"):
                at = ("--network", network, "--ranks", "8", "--nodes", "4", f"--comm.gather_group={apart}")
                _, plan = self.plan(deck, *at)
                rows = {run["strategy"]: run for run in plan["strategies"] if "refused" not in run}
                exposed.append([rows[name]["step_time"]["exposed_s"] for name in ("stage 3", "hpZ", "P=2, stage 3")])
            for together, apart in zip(*exposed, strict=True):
                (self.assertLess if backend == "nccl" else self.assertEqual)(apart, together, backend)

    def test_nodes_that_train_locally_are_planned_as_nodes(self):
        """Nodes of --network count for memory, too; where nothing says what a node is, the plan says what it took for one."""
        deck = self.deck(
            SMALL, train={"steps": 1}, trace={"level": "off"}, zero={"stage": 1}, sync={"kind": "localsgd"}
        )
        network = self.dir / "network.json"
        network.write_text(json.dumps(NETWORK))
        guess = "ranks: planned as one node, on which memory depends here"
        said, guessed = self.plan(deck, "--ranks", "1,4")
        self.assertIn(f"# 4 {guess}", said)
        said, known = self.plan(deck, "--ranks", "4", "--network", network, "--nodes", "2")
        self.assertNotIn(guess, said)
        self.assertGreater(self.only(known, 4, 1, False)["total_bytes"], self.only(guessed, 4, 1, False)["total_bytes"])
        self.assert_a_run_takes_it(known, deck, 4, 1, "--comm.ranks_per_node=2")
        sgp = ("--sync.kind=sgp", "--zero.stage=3")  # splits the parameters within a node, so needs two ranks of it
        said, rows = self.plan(deck, "--ranks", "2,4", "--network", network, "--nodes", "2", *sgp)
        self.assertIn(f"# 2 {guess}", said)
        refused = {run["ranks"]: "refused" in run for run in rows["strategies"] if run["asked"]}
        self.assertEqual(refused, {2: True, 4: False})
        dry = ("train", deck, "--dry-run", "--ranks", "4")
        self.assertIn(f"# 4 {guess}", self.shoal(*dry).stdout)
        self.assertNotIn(guess, self.shoal(*dry, "--comm.ranks_per_node=2").stdout)

    def test_the_fastest_trains_most_tokens_in_a_second(self):
        """Where the batch cannot be divided for all strategies, steps differ in their tokens."""
        deck = self.deck(PIPELINED, pipeline={"size": 1}, batch={"micro": 1, "global": 2})
        slow = json.loads(json.dumps(NETWORK))  # in computing: the passes of a micro-batch take longest
        slow["model"]["training"]["fp32"]["by_width"][0]["gflops"] = 0.01
        network = self.dir / "network.json"
        network.write_text(json.dumps(slow))
        said, plan = self.plan(deck, "--ranks", "4", "--network", network, "--nodes", "1")
        rows = {run["strategy"]: run for run in plan["strategies"] if "refused" not in run}
        tokens = {name: run["tokens_per_step"] for name, run in rows.items()}
        self.assertEqual((tokens["stage 0"], tokens["P=2, stage 0"]), (4 * 32, 2 * 32))
        self.assertIn("# steps on 4 ranks have 64 to 128 tokens", said)

        def rate(name):
            return tokens[name] / rows[name]["step_time"]["step_s"]

        self.assertEqual(plan["fastest"][0]["strategy"], max(rows, key=rate))
        shortest = min(rows, key=lambda name: rows[name]["step_time"]["step_s"])
        self.assertNotEqual(shortest, max(rows, key=rate), "otherwise this tests nothing")

    def test_fp16_is_as_fast_as_what_computes_its_products(self):
        """Those of fp32 on processors, and units as fast as bf16's on GPUs."""
        training = NETWORK["model"]["training"]
        rates = {"by_width": [{"n_embd": 32, "gflops": 400}], "update_s": 1e-12}
        model = {**NETWORK["model"], "training": {**training, "bf16": rates}}
        deck, network = self.deck(SMALL), self.dir / "network.json"
        for machine, like in (({}, "fp32"), ({"kind": "host"}, "fp32"), ({"kind": "cuda"}, "bf16")):
            network.write_text(json.dumps({**NETWORK, "machine": {"backend": "mpi", **machine}, "model": model}))
            at = ("--network", network, "--ranks", "4")
            seconds = {
                dtype: self.plan(deck, *at, f"--train.dtype={dtype}")[1]["strategies"][0]["step_time"]["compute_s"]
                for dtype in ("fp32", "bf16", "fp16")
            }
            self.assertAlmostEqual(seconds["fp16"] / seconds[like], 1, places=6, msg=f"{machine}: {seconds}")
            self.assertLess(seconds["bf16"], 0.5 * seconds["fp32"])

    def test_step_times_follow_the_links_rate(self):
        """Of a network whose latencies are known: measured ones depend on what else the machine does."""
        network = self.dir / "network.json"
        network.write_text(json.dumps(NETWORK))
        deck = self.deck(SMALL)
        at = ("--network", network, "--ranks", "4")
        slow = self.plan(deck, *at, "--link-rate", "0.001", "--memory", "1MiB")[1]
        self.assertEqual(slow["fastest"], [], "nothing fits")
        for run in slow["strategies"][:4]:
            wire = run["step_time"]["across_bytes_per_node"] * 8 / 1e6 * 1514 / 1448
            communication = run["step_time"]["communication_s"]
            self.assertTrue(wire < communication < 1.2 * wire, f"{run['strategy']}: {communication} of {wire}")
        one = self.plan(deck, *at, "--nodes", "1")[1]
        self.assertEqual(len(one["strategies"]), 4, "one node: nothing crosses")
        refused = self.plan(deck, *at, "--model.tied_gradient=apart")[0]
        self.assertRegex(
            refused, r"\n# hpZ.qwZ~: refused: .*zero.qwz.*\n# hpZ.qwZ~: refused: .*hpz_size", "one line each"
        )
        refused = self.plan(deck, *at, "--zero.stage=3", "--optimizer.adascale=true")[1]["strategies"]
        self.assertIn("optimizer.adascale", next(run["refused"] for run in refused if run["strategy"] == "slowmo"))
        self.refused("plan", deck, "--nodes", "2", contains=["--network FILE"])
        self.refused("plan", deck, *at, "--nodes", "3", contains=["4 ranks", "3 nodes"])
        each = ("--comm.ranks_per_node=2", "--ranks", "3")
        self.refused("plan", deck, "--network", network, *each, contains=["3 ranks", "nodes of 2 ranks", "--nodes"])
        self.refused("plan", deck, "--network", deck, contains=["--network", str(deck)])

    def test_a_run_of_the_largest_model_that_fits_starts_and_one_layer_more_does_not(self):
        deck = self.deck(SMALL, train={"steps": 1}, trace={"level": "off"}, comm={"bucket_mb": 0.01})
        limit = ("--memory.limit", "0.005")  # GiB
        _, plan = self.plan(deck, "--ranks", "2", *limit)
        self.assertEqual(plan["memory_bytes"], int(0.005 * (1 << 30)))
        layers = self.only(plan, 2, 2, False)["most_layers"]
        self.assertGreater(layers, 2)
        self.train(deck, *limit, "--zero.stage=2", f"--model.n_layer={layers}", ranks=2)
        self.refused(
            "train",
            deck,
            *limit,
            "--zero.stage=2",
            f"--model.n_layer={layers + 1}",
            ranks=2,
            contains=[
                "per rank, and a rank may take 5.12 MiB",
                "the cheapest way to make it fit: activation.checkpoint_interval = ",
            ],
        )

    def test_what_a_run_takes_beside_its_engine_counts(self):
        """A limit of the planned bytes is accepted, one byte less is refused."""
        deck = self.deck(SMALL, checkpoint={"async": "true"}, output={"export": self.dir / "weights"})
        _, plan = self.plan(deck, "--ranks", "1")
        state = self.only(plan, 1, 0, False)["state_bytes"]
        self.assertGreater(state["staging"], state["master"], "the copy of a checkpoint, and pieces of an export")
        planned = sum(state.values())

        def limit(size):
            return f"--memory.limit={size / (1 << 30)!r}"  # GiB

        done = self.shoal("train", deck, "--dry-run", limit(planned))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused("train", deck, "--dry-run", limit(planned - 1), contains=["the run needs", "per rank"])

    def test_ranks_of_one_machine_share_its_memory(self):
        """Also if it pretends to be several nodes."""
        memory = min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits_of_groups())
        width, states = 64, 29  # bytes of a parameter, its gradient, its moments and partial sums in fp32
        vocabulary = int(0.75 * memory / states / width)
        text = self.dir / "text.txt"
        text.write_text("a few words to learn\n" * 20)
        data = {"source": text, "tokenizer": "bytes"}
        deck = self.deck(SMALL, model={"n_embd": width, "vocab_size": vocabulary}, data=data)
        alone = self.shoal("train", deck, "--dry-run")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        for nodes in ((), ("--comm.ranks_per_node=1",)):
            self.refused("train", deck, "--dry-run", *nodes, ranks=2, contains=("GiB per rank, and a rank may take", "for 2 ranks of"))  # fmt: skip

    def test_ranks_in_a_control_group_share_its_limit(self):
        """Of 300 MiB: a run of one rank fits, two do not. The refusal names the group."""
        group, limit = self.control_group(300 << 20)
        text = self.dir / "text.txt"
        text.write_text("a few words to learn\n" * 20)
        vocabulary = int(0.6 * (300 << 20) / 29 / 64)  # 29 bytes for each parameter, in fp32
        data = {"source": text, "tokenizer": "bytes"}
        deck = self.deck(SMALL, model={"n_embd": 64, "vocab_size": vocabulary}, data=data)
        self.binary = self.dir / "in_group"
        self.binary.write_text(f'#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec {BINARY} "$@"\n')
        self.binary.chmod(0o755)
        alone = self.shoal("train", deck, "--dry-run")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.refused("train", deck, "--dry-run", ranks=2, contains=("a rank may take 150 MiB", f"; the limit: {limit}, 300 MiB for 2 ranks of"))  # fmt: skip
        grid = {"nodes": 1, "ranks_per_node": 2, "strategies": "stage 0"}
        study = self.deck(SMALL, "study.cfg", model={"n_embd": 64, "vocab_size": vocabulary}, data=data, study=grid)
        self.refused("study", study, "--dry-run", contains=("a rank may take 150 MiB", str(limit)))

    def control_group(self, limit):
        """A new control group with this limit, and the file that holds it; skips the test if none can be made."""
        for mount, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
            group = pathlib.Path("/sys/fs/cgroup") / mount / f"shoal-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            self.addCleanup(group.rmdir)
            try:
                (group / name).write_text(str(limit))
            except OSError:  # the memory controller is not there
                continue
            return group, group / name
        skip("no control group with a limit can be made here: that needs root")

    def test_powers_of_two_up_to_a_thousand_ranks(self):
        plan = self.plan(self.deck(SMALL), "--ranks", "1,2,4,...,1024", "--memory", "24GiB")[1]
        ranks = [2**power for power in range(11)]
        self.assertEqual(sorted({run["ranks"] for run in plan["runs"]}), ranks)
        self.assertEqual(len(plan["runs"]), len(ranks) * 4 * 2)
        for stage in (1, 2, 3):
            states = [self.only(plan, n, stage, False)["model_state_bytes"] for n in ranks]
            self.assertEqual(states, sorted(states, reverse=True), "the more ranks, the less each keeps")

    def test_one_process_of_a_batch_job_may_ask(self):
        self.plan(self.deck(SMALL), "--ranks", "2", "--comm.ranks_per_node=2", env={"SLURM_NTASKS": "64"})

    def test_a_deepspeed_configuration(self):
        config = self.dir / "ds.json"
        config.write_text('{"train_batch_size": 8, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true}}')
        deck = self.deck({"model": SMALL["model"]})
        said, plan = self.plan(deck, "--deepspeed", config, "--ranks", "2,4,16")
        self.assertEqual({run["stage"] for run in plan["runs"] if run["asked"]}, {1})
        self.assertEqual([self.only(plan, r, 0, False)["batch_micro"] for r in (2, 4, 16)], [4, 2, 1])
        self.assertIn("16 ranks: planned there", said)

    def test_bad_input(self):
        deck = self.deck(SMALL)
        old = self.dir / "old.json"
        old.write_text("{}")
        cases = [
            (["--ranks", "0"], ["--ranks 0: ", "from 1 to", "1,2,4,...,1024"]),
            (["--ranks", "2,x"], ["--ranks 2,x: ", "x is no number of ranks"]),
            (["--ranks", "1,...,3"], ["--ranks 1,...,3: ", "does not lead to 3"]),
            (["--memory", "24Gi?"], ["--memory 24Gi?: ", "24GiB"]),
            (["--memory", "24"], ["--memory 24: ", "unit"]),
            (["--rank", "3"], ["rank: unknown option", "did you mean --ranks?"]),
            (["--zero.stag=2"], ["zero.stag: unknown option", "did you mean zero.stage?"]),
            (["--model.n_head=3"], ["n_embd", "n_head"]),
            (["--zero.tile_linear=2"], ["not built yet: zero.tile_linear"]),
            (["--json", old], ["--json ", "old.json", "exists"]),
            (["--json", self.dir / "nowhere" / "plan.json"], ["plan.json", "cannot be written"]),
        ]
        for arguments, contains in cases:
            with self.subTest(arguments=arguments):
                done = self.refused("plan", deck, *arguments, contains=contains)
                self.assertEqual(done.stderr.count("shoal: "), 1, done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertEqual(old.read_text(), "{}")
        self.refused("plan", self.dir / "nowhere.cfg", contains=["nowhere.cfg"])


PIPELINED = {
    **SMALL,
    "model": {**SMALL["model"], "n_layer": 4, "tied": "false"},
    "data": {"source": "synthetic", "val_fraction": 0},
    "train": {"steps": 2, "dtype": "fp32", "seed": 3},
    "trace": {"level": "off"},
    "pipeline": {"size": 2},
}


class Pipelines(Planning):
    """Two stages of a model of four layers."""

    def test_the_largest_stage_takes_what_was_planned(self):
        """Each of the stages is the largest once. A run ends with an error if another rank does not take its plan."""
        for balance, largest, ranks, stage in (("1,3", 1, 2, 0), ("3,1", 0, 4, 1), ("1,3", 1, 4, 3)):
            deck = self.deck(PIPELINED, pipeline={"balance": balance, "checkpoint": "except_last"})
            said, plan = self.plan(deck, "--ranks", f"1,{ranks}", f"--zero.stage={stage}")
            self.assertIn("# pipeline.size = 2 does not divide 1 ranks: not planned there", said)
            self.assert_a_run_takes_it(plan, deck, ranks, stage)
            run = self.only(plan, ranks, stage, False)
            first = int(balance[0])
            self.assertEqual([row["units"] for row in run["pipeline"]], [[[0, 1 + first]], [[1 + first, 6]]])
            self.assertEqual([row["largest"] for row in run["pipeline"]], [largest == 0, largest == 1])
            self.assertEqual(run["total_bytes"], max(row["total_bytes"] for row in run["pipeline"]))
            self.assertEqual("# zero.stage = 3: a rank sends up to " in said, stage == 3)
            both = [self.only(plan, ranks, of_zero, False)["total_bytes"] for of_zero in (1, 2)]
            self.assertTrue(both[1] < both[0] if ranks > 2 else both[1] == both[0], both)

    def test_data_pipelines_or_both(self):
        """A pipeline over a slow link sends activations in place of gradients, and that pays off."""
        network = written(self.dir)
        deck = self.deck(PIPELINED, pipeline={"size": 1}, batch={"global": 32})
        at = ("--network", network, "--nodes", "2", "--link-rate", "0.001", "--step-seconds", "0.01")
        said, plan = self.plan(deck, "--ranks", "4", *at)
        rows = {run["strategy"]: run for run in plan["strategies"]}
        self.assertIn("P=4, stage 1", rows)
        self.assertNotIn("P=8, stage 0", rows, "there are four layers")
        across = {name: rows[name]["step_time"]["across_bytes_per_node"] for name in ("stage 0", "P=2, stage 0")}
        border = 4 * 32 * 32  # fp32, block_size x n_embd
        self.assertEqual(across["P=2, stage 0"], 32 * border, "each micro-batch crosses once in each direction")
        both = rows["P=2, stage 0"]
        self.assertEqual(both["step_time"]["sent"]["send"], {"intra": 0, "inter": 16 * border})
        self.assertEqual(both["pipeline"]["half_idle_batch_global"], 66)  # 2 A + P - 1 turns of 2 ranks
        self.assertAlmostEqual(both["pipeline"]["ideal_idle_share"], 1 / 17)
        self.assertIn("# P=2: idle ", said)
        self.assertEqual(plan["fastest"][0]["strategy"], min(rows, key=lambda n: rows[n]["step_time"]["step_s"]))

    def test_layers_go_to_stages_that_have_room(self):
        """The first stage of 1f1b keeps more micro-batches; balance = auto avoids what does not fit, and the text of a run
        that does not fit names the balance that does."""
        deck = self.deck(PIPELINED, model={"n_layer": 6}, batch={"micro": 4, "global": 32})
        plan = self.plan(deck, "--ranks", "2")[1]
        free = self.only(plan, 2, 0, False)["pipeline"]
        self.assertEqual([row["units"] for row in free], [[[0, 4]], [[4, 8]]])
        self.assertGreater(free[0]["total_bytes"], free[1]["total_bytes"])
        limit = free[0]["total_bytes"] - 1
        tight = self.plan(deck, "--ranks", "2", "--memory", f"{limit}B")[1]
        fitting = self.only(tight, 2, 0, False)["pipeline"]
        self.assertEqual([row["units"] for row in fitting], [[[0, 3]], [[3, 8]]])
        self.assertLessEqual(max(row["total_bytes"] for row in fitting), limit)
        gib = ("--memory.limit", repr(limit / 2**30))
        told = ["stage 0 of the pipeline: the run needs", "the cheapest way to make it fit: pipeline.balance = 2,4: "]
        self.refused("train", deck, *gib, "--pipeline.balance=3,3", "--dry-run", "--ranks", "2", contains=told)
        done = self.shoal("train", deck, *gib, "--dry-run", "--ranks", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"#stage of pipeline +units .*\n# +0 +0-2 .*\n# +1 +3-7 ")
        nothing = ["stage 0 of the pipeline", "a smaller model, more stages, or fewer ranks per node: even "]
        self.refused("train", deck, "--memory.limit=0.0001", "--dry-run", "--ranks", "2", contains=nothing)
        deep = ("--model.n_layer=96", "--pipeline.size=8", "--batch.global=64", "--ranks", "8", "--memory.limit=0.002")
        self.refused("train", deck, *deep, "--dry-run", contains=["of the pipeline: the run needs"])


if __name__ == "__main__":
    main()
