# SPDX-License-Identifier: Apache-2.0
"""shoal plan --trace-out and shoal study --simulate: what SimGrid makes of the traces, where it is installed, and what is
refused."""

import json
import os
import re
import shutil
import subprocess

from networks import NETWORK
from program import SMALL, Program, main, skip

# Nothing is in flight while another message is, or while a rank computes: then a step of the plan has no overlap to model.
ALONE = ("--comm.overlap=false", "--step-seconds", "0.01", "--comm.bucket_mb=100")


class Simulation(Program):
    def network(self, **changes):
        file = self.dir / "network.json"
        file.write_text(json.dumps({**NETWORK, **changes}))
        return file

    def trace(self, *options, ranks=4, nodes=2, out="trace", network=None):
        deck = self.deck(SMALL, batch={"micro": 1, "global": 8})
        done = self.shoal("plan", deck, "--network", self.network(**(network or {})), "--ranks", ranks, "--nodes", nodes,
                          "--trace-out", self.dir / out, "--output.overwrite", *options)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# replay it: ", done.stdout)
        return self.dir / out

    def planned(self, *options, ranks=4, nodes=2, network=None):
        """What the plan says of the deck's own strategy."""
        file = self.dir / "plan.json"
        deck = self.deck(SMALL, batch={"micro": 1, "global": 8})
        done = self.shoal("plan", deck, "--network", self.network(**(network or {})), "--ranks", ranks, "--nodes", nodes,
                          "--json", file, "--output.overwrite", *options)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        (asked,) = (row for row in json.loads(file.read_text())["strategies"] if row["asked"])
        return asked

    def planned_s(self, *options):
        return self.planned(*options)["step_time"]["step_s"]

    def replayed(self, directory, *settings):
        if shutil.which("smpirun") is None:
            skip("SimGrid is not installed: no smpirun (Debian: libsimgrid-dev)")
        script = ["sh", directory / "replay.sh", *settings]
        done = subprocess.run(script, capture_output=True, text=True, timeout=100)
        found = re.findall(r"Simulation time ([0-9.]+)", done.stdout)
        self.assertTrue(done.returncode == 0 and found, done.stdout)
        return float(found[-1])


class Traces(Simulation):
    def test_the_directory_describes_itself(self):
        out = self.trace("--zero.stage=3", ranks=8, nodes=4)
        about = json.loads((out / "about.json").read_text())
        self.assertEqual((about["ranks"], about["nodes"], about["steps"]), (8, 4, 1))
        self.assertEqual(about["trace_bytes"], (out / "trace.txt").stat().st_size)
        self.assertEqual(about["processes"], 8 * (1 + about["lanes"]))
        hosts = (out / "hosts.txt").read_text().split()
        self.assertEqual(len(hosts), about["processes"])
        self.assertEqual(sorted(set(hosts)), ["node0", "node1", "node2", "node3"])
        self.assertTrue(os.access(out / "replay.sh", os.X_OK))

    def test_steps_follow_each_other(self):
        local = ("--sync.kind=localsgd", "--sync.localsgd_frequency=3")
        self.assertEqual(json.loads((self.trace(*local) / "about.json").read_text())["steps"], 3)
        self.assertEqual(json.loads((self.trace(*local, "--steps", 7) / "about.json").read_text())["steps"], 7)

    def test_bad_input(self):
        deck, network, out = self.deck(SMALL), self.network(), self.dir / "out"
        at = ("plan", deck, "--trace-out", out, "--network", network)
        self.refused("plan", deck, "--trace-out", out, "--ranks", 4, contains=("--network FILE",))
        self.refused("plan", deck, "--steps", 4, contains=("--trace-out",))
        self.refused(*at, "--ranks", 4, "--json", self.dir / "plan.json", contains=("--trace-out", "--json"))
        self.refused(*at, contains=("one number of ranks", "7"))
        self.refused(*at, "--ranks", 4, "--nodes", 3, contains=("4 ranks", "3 nodes"))
        self.refused(*at, "--ranks", 32768, "--nodes", 16384, contains=("32768 ranks", "16384"))
        self.refused(
            *at, "--ranks", 4, "--nodes", 2, "--comm.collectives=native", contains=("comm.collectives", "native")
        )
        self.refused(*at, "--ranks", 4, "--nodes", 2, "--platform=torus", contains=("platform = torus", "fat-tree"))
        many = ("--ranks", 1024, "--nodes", 512, "--zero.stage=1", "--steps", 10_000)
        self.refused(*at, *many, contains=("million lines", "allowed: up to 200 million"))
        self.assertFalse(out.exists() and any(out.iterdir()))
        foreign = self.dir / "foreign"
        foreign.mkdir()
        (foreign / "thesis.tex").write_text("do not touch")
        self.refused("plan", deck, "--trace-out", foreign, "--network", network, "--ranks", 4, "--nodes", 2,
                     "--output.overwrite", contains=("foreign", "holds files"))  # fmt: skip
        beneath = self.dir / "file"
        beneath.write_text("")
        self.refused("plan", deck, "--trace-out", beneath / "out", "--network", network, "--ranks", 4, "--nodes", 2,
                     contains=("--trace-out", "file"))  # fmt: skip
        self.trace()
        self.refused("plan", deck, "--trace-out", self.dir / "trace", "--network", network, "--ranks", 4, "--nodes", 2,
                     contains=("--output.overwrite",))  # fmt: skip
        for wrong, said in (({"gflops": 0}, "gflops = 0 at n_embd = 32"), ({"n_embd": -32}, "n_embd = -32")):
            rates = {"by_width": [{"n_embd": 32, "gflops": 100, **wrong}], "update_s": 1e-12}
            file = self.network(model={**NETWORK["model"], "training": {"fp32": rates}})
            self.refused("plan", deck, "--network", file, "--ranks", 4, contains=(f"--network {file}", said))
        queued = self.network(machine={"backend": "nccl"})
        self.refused(
            "plan", deck, "--trace-out", out, "--network", queued, "--ranks", 4, "--nodes", 2, contains=("nccl",)
        )


class Replays(Simulation):
    def test_without_overlap_a_replay_takes_as_long_as_the_plan_says(self):
        """Both count the same bytes and rates. A message of the replay has 16 bytes more, and an exchange of a few numbers
        has some, of about 50 kB per step."""
        for options in (
            ("--zero.stage=0",),
            ("--zero.stage=1",),
            ("--sync.kind=localsgd", "--sync.localsgd_frequency=1"),
        ):
            with self.subTest(options=options):
                simulated, planned = self.replayed(self.trace(*options, *ALONE)), self.planned_s(*options, *ALONE)
                self.assertAlmostEqual(simulated / planned, 1, delta=0.02)

    def test_every_platform_and_strategy_is_replayed(self):
        for platform, ranks, nodes, options in (
            ("fat-tree", 8, 4, ("--zero.stage=3",)),
            ("fat-tree", 40, 20, ("--zero.stage=1",)),
            ("dragonfly", 8, 4, ("--zero.stage=3", "--zero.hpz_size=node", "--zero.qwz=8", "--zero.qgz=4")),
            ("dragonfly", 40, 20, ("--zero.stage=2",)),
            ("two-level", 6, 3, ("--sync.kind=sgp",)),
            ("two-level", 4, 2, ("--sync.kind=localsgd", "--sync.localsgd_frequency=2", "--sync.average_overlap=true",
                                 "--sync.average_delay=1", "--sync.average_dtype=int8")),
        ):  # fmt: skip
            with self.subTest(platform=platform, ranks=ranks, options=options):
                out = self.trace("--batch.global=240", f"--platform={platform}", *options, ranks=ranks, nodes=nodes)
                self.assertGreater(self.replayed(out), 0)


# A network that takes no time, and a model whose parts take the same time, but for a head of less than HEAD of a layer.
FREE = {
    **NETWORK["model"],
    "node": {"latency_s": 1e-12, "s_per_byte": 1e-18},
    "across": {"latency_s": 1e-12, "s_per_byte": 1e-18},
}
EQUAL = ("--model.n_layer=8", "--model.n_embd=512", "--model.vocab_size=16", "--model.tied=false")
HEAD = 16 / (12 * 512)  # operations of the head, by those of a layer's products
APART = ("--model.n_layer=8", "--model.tied_gradient=apart")
SENDS = tuple(
    f"--cfg=smpi/send-is-detached-thresh:{least}" for least in (10**9, 2)
)  # eager; rendezvous, but for signals


class Pipelines(Simulation):
    def test_messages_have_the_bytes_of_the_plan(self):
        for zero in (1, 2, 3):
            with self.subTest(zero=zero):
                pipeline = ("--pipeline.size=2", f"--zero.stage={zero}", *APART)
                out = self.trace(*pipeline)
                about = json.loads((out / "about.json").read_text())
                sent = dict.fromkeys(range(4), 0)  # by rank, without the numbers for losses and norm, whose tag is 1
                for line in (out / "trace.txt").read_text().splitlines():
                    words = line.split()
                    if words[1] == "isend" and int(words[3]) > 1:
                        sent[int(words[0]) // (1 + about["lanes"])] += int(words[4])
                for stage, planned in enumerate(self.planned(*pipeline)["pipeline"]["sent_by_stage"]):
                    bytes_of_rank = sum(sum(planned[of].values()) for of in ("borders", "reductions"))
                    self.assertEqual(sent[2 * stage], bytes_of_rank)

    def test_without_communication_a_step_takes_the_ideal_span(self):
        """v A + P - 1 turns of a part, forward and backward. Without data-parallel ranks nothing else is in a step."""
        seconds = 1.0  # of the mean stage, so 4 of the model
        for turns, parts, schedule in ((8, 1, "1f1b"), (8, 1, "gpipe"), (8, 2, "interleaved"), (2, 1, "1f1b")):
            pipeline = ("--pipeline.size=4", f"--pipeline.schedule={schedule}", f"--pipeline.parts={parts}")
            options = (*EQUAL, *pipeline, f"--batch.global={turns}", "--step-seconds", seconds)
            out = self.trace(*options, network={"model": FREE})
            planned = self.planned(*options, network={"model": FREE})["step_time"]["step_s"]
            beat = seconds / turns / parts
            ideal = (parts * turns + 3) * beat
            least = ideal * (1 - HEAD / 8)  # the head takes its share of the seconds from all parts
            most = ideal * (1 + HEAD * parts * 4 / 8)  # all parts last as long as the one with the head
            for sends in SENDS:
                with self.subTest(turns=turns, schedule=schedule, sends=sends):
                    simulated = self.replayed(out, sends)
                    self.assertGreater(simulated, least - 1e-6)
                    self.assertLess(simulated, most + 1e-6)
                    self.assertAlmostEqual(simulated, planned, delta=1e-5)  # each computation is rounded to 1e-9 s

    def test_every_schedule_is_replayed(self):
        for ranks, options in (
            (4, (*APART, "--pipeline.size=2", "--zero.stage=1")),
            (8, (*APART, "--pipeline.size=4", "--pipeline.schedule=gpipe", "--pipeline.checkpoint=except_last")),
            (8, (*APART, "--pipeline.size=2", "--pipeline.schedule=interleaved", "--pipeline.parts=2", "--comm.overlap=false")),
            (6, (*APART, "--pipeline.size=2", "--zero.stage=1", "--batch.global=18")),
            (4, (*APART, "--pipeline.size=2", "--zero.stage=2")),
            (8, (*APART, "--pipeline.size=4", "--zero.stage=3", "--pipeline.checkpoint=always")),
            (8, (*APART[:1], "--model.tied=false", "--pipeline.size=2", "--pipeline.schedule=interleaved", "--pipeline.parts=2",
                 "--zero.stage=3", "--zero.hpz_size=2", "--zero.qwz=8")),
        ):  # fmt: skip
            with self.subTest(ranks=ranks, options=options):
                out = self.trace(*options, "--steps", 2, ranks=ranks, nodes=2)
                for sends in SENDS:
                    self.assertGreater(self.replayed(out, sends), 0)

    def test_without_overlap_a_step_waits_for_gathers_and_reductions_as_planned(self):
        """Each stage is on a node of its own, so that its ranks do not send over the link that carries borders."""
        pipeline = ("--pipeline.size=2", "--model.tied=false", "--batch.global=32", "--step-seconds", 0.01)
        for zero in (0, 1, 2, 3):
            for schedule in ("1f1b", "gpipe"):
                with self.subTest(zero=zero, schedule=schedule):
                    options = (
                        *pipeline,
                        f"--zero.stage={zero}",
                        f"--pipeline.schedule={schedule}",
                        "--comm.overlap=false",
                    )
                    simulated, planned = self.replayed(self.trace(*options)), self.planned_s(*options)
                    self.assertAlmostEqual(simulated / planned, 1, delta=0.02)

    def test_on_a_slow_network_a_step_takes_as_long_as_planned(self):
        """Borders decide, and both models send those of a part one after another. A border has 4096 bytes, and 16 more in the
        replay, and an exchange of a few numbers takes time there."""
        pipeline = ("--pipeline.size=2", "--model.tied=false", "--batch.global=64", "--step-seconds", 0.01)
        for schedule in ("1f1b", "gpipe"):
            with self.subTest(schedule=schedule):
                options = (*pipeline, f"--pipeline.schedule={schedule}")
                simulated = self.replayed(self.trace(*options, ranks=2, nodes=2))
                planned = self.planned(*options, ranks=2, nodes=2)["step_time"]["step_s"]
                self.assertAlmostEqual(simulated / planned, 1, delta=0.02)


class Studies(Simulation):
    def test_a_study_is_simulated_instead_of_run(self):
        if shutil.which("smpirun") is None:
            skip("SimGrid is not installed: no smpirun (Debian: libsimgrid-dev)")
        strategies = "stage 1, localsgd, stage 1 pipeline.size=2"
        study = self.deck(SMALL, batch={"micro": 1, "global": 8}, study={"nodes": "2,4", "ranks_per_node": 1, "strategies": strategies,
                          "scaling": "strong", "network": self.network()}, sync={"localsgd_frequency": 2}, model={"tied": "false"})  # fmt: skip
        out = self.dir / "study"
        mine = out / "replay/mine.txt"
        mine.parent.mkdir(parents=True)
        mine.write_text("of somebody else")
        both = ("--simulate", "--dry-run")
        self.refused("study", study, f"--output.dir={out}", *both, contains=("--dry-run has no effect",))
        done = self.shoal("study", study, f"--output.dir={out}", "--simulate", "--platform=fat-tree")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads((out / "simulation.json").read_text())
        self.assertEqual(result["platform"], "fat-tree")
        for point in result["points"]:
            self.assertGreater(point["step_s"], 0)
            self.assertAlmostEqual(point["tokens_per_s"] * point["step_s"] / point["tokens_per_step"], 1)
        self.assertEqual({(p["strategy"], p["ranks"]) for p in result["points"]},
                         {(strategy, ranks) for strategy in strategies.split(", ") for ranks in (2, 4)})  # fmt: skip
        left = [file.name for file in out.iterdir() if file.is_dir()]
        self.assertEqual(left, ["replay"], "traces are removed, no run was made")
        self.assertEqual(mine.read_text(), "of somebody else")


if __name__ == "__main__":
    main()
