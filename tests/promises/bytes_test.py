# SPDX-License-Identifier: Apache-2.0
"""The bytes in a run's summary, and those that `shoal plan` predicts, are the bytes that the run hands to MPI. A
library between the program and MPI counts them (tests/support/mpi_counter.cpp) without knowing any formula."""

import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
import mpi_count
from networks import written
from program import BINARY, MPIEXEC, SMALL, Program, main
from turns import chosen

STEPS = 4  # one period of the strategies below
DECK = {
    **SMALL,
    "data": {"source": "synthetic", "val_fraction": 0},
    "train": {"steps": STEPS, "dtype": "bf16", "seed": 3, "log_every": 10},
    "trace": {"level": "off"},
    "checkpoint": {"last": "false"},
}
SYNC = {"kind": "slowmo", "localsgd_frequency": 2, "slowmo_frequency": 4, "slowmo_base": "localsgd"}
EXACT = ["stage 0", "stage 1", "stage 2", "stage 3", "hpZ"]
STRATEGIES = [*EXACT, "hpZ+qwZ", "hpZ+qwZ+qgZ", "localsgd", "slowmo", "sgp", "diloco"]
PLACES = ("intra", "inter")
SUBJECT = ("src/comm", "src/plan", "tests/support/mpi_counter", "tests/app/mpi_count")
# Collectives of the MPI library that a rank calls per step in these runs: losses, sums for the norm, stop flags,
# reports.
CONTROL_CALLS, CONTROL_BYTES = 4, 512
# Other MPI functions that the program may call. They only receive, wait, or send what MPI itself needs for groups and
# files.
SENDS_NO_DATA = re.compile(
    "MPI_(Abort|Cancel|Comm_.*|Error_.*|File_.*|Finalize|Get_.*|Group_.*|I?m?probe|Info_.*|Init_thread|I?m?recv|Mrecv"
    "|Request_.*|Test.*|Type_.*|Wait.*)",
    re.IGNORECASE,
)


class Bytes(Program):
    takes_turns = SUBJECT

    def counted_run(self, ranks, per_node, *options, **changes):
        """Returns the summary and what each rank handed to MPI."""
        self.runs = getattr(self, "runs", 0) + 1
        out, counts = self.dir / f"run-{self.runs}", self.dir / f"counts-{self.runs}"
        counts.mkdir()
        command = [MPIEXEC, "-n", str(ranks), *mpi_count.counted(counts), BINARY, "train"]
        command += [
            str(self.deck(DECK, "run.cfg", **changes)),
            f"--output.dir={out}",
            f"--comm.ranks_per_node={per_node}",
        ]
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=120, env=self.environment(ranks)
        )
        self.assertEqual(done.returncode, 0, f"{options}\n{done.stdout}\n{done.stderr}")
        return json.loads((out / "summary.json").read_text()), mpi_count.read(counts, ranks, per_node)

    def most(self, sums):
        """Bytes per step of the rank that sends most, as in summaries and plans."""
        most = max(sums, key=lambda sent: sum(sent.values()))
        return {place: most[place] / STEPS for place in PLACES}

    def check_summary(self, summary, ranks):
        said = {place: sum(sent[place] for sent in summary["comm_bytes_per_step"].values()) for place in PLACES}
        parts = [(rank.messages_begun_in_steps(), rank.collectives_in_steps()) for rank in ranks]
        found = self.most([{place: sum(part[place] for part in both) for place in PLACES} for both in parts])
        self.assertEqual(said, found)
        self.assertGreater(sum(found.values()), 0)

    def check_control(self, ranks):
        """In addition to the strategy's own messages there are few others."""
        for rank in ranks:
            for step in range(1, STEPS + 1):
                control = [c for c in rank.collectives if c.region == step and len(c.ranks) > 1]
                self.assertLessEqual(len(control), CONTROL_CALLS, control)
                self.assertLessEqual(sum(c.bytes for c in control), CONTROL_BYTES, control)
            between = range(-STEPS + 1, 0)
            self.assertEqual([m for m in rank.messages if m.region in between and m.begun <= 0], [])
            self.assertEqual([c for c in rank.collectives if c.region in between and len(c.ranks) > 1], [])

    def check_plan(self, planned, ranks):
        """The plan counts the strategy's messages only."""
        sent = planned["step_time"]["sent"].values()
        said = {place: sum(operation[place] for operation in sent) for place in PLACES}
        self.assertEqual(said, self.most([rank.messages_begun_in_steps() for rank in ranks]))

    def plan(self, network, ranks, nodes, **changes):
        file = self.dir / f"plan-{ranks}-{nodes}.json"
        deck = self.deck(DECK, **{"sync": SYNC, **changes})
        at = ("--network", network, "--ranks", ranks, "--nodes", nodes, f"--comm.ranks_per_node={ranks // nodes}")
        done = self.shoal("plan", deck, *at, "--json", file, "--output.overwrite")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {run["strategy"]: run for run in json.loads(file.read_text())["strategies"]}

    def check_strategies(self, ranks, nodes, strategies, network, **changes):
        plans = self.plan(network, ranks, nodes, **changes)
        for name in chosen(strategies, SUBJECT, lambda name: f"{name} on {ranks} ranks, {nodes} nodes {changes or ''}"):
            with self.subTest(strategy=name, ranks=ranks, nodes=nodes):
                options = dict(plans[name]["options"])
                if options["sync.kind"] in ("localsgd", "slowmo"):
                    options["sync.localsgd_frequency"] = SYNC["localsgd_frequency"]
                if options["sync.kind"] in ("slowmo", "diloco"):
                    options["sync.slowmo_frequency"] = SYNC["slowmo_frequency"]
                given = (f"--{option}={value}" for option, value in options.items())
                summary, counts = self.counted_run(ranks, ranks // nodes, *given, **changes)
                self.check_summary(summary, counts)
                self.check_control(counts)
                self.check_plan(plans[name], counts)
                self.assertEqual(plans[name]["memory_bytes"], sum(summary["state_bytes"]["taken"].values()))


class Strategies(Bytes):
    with_rows = ("test_every_strategy_sends_what_the_summary_and_the_plan_say",)

    def test_every_strategy_sends_what_the_summary_and_the_plan_say(self):
        network = written(self.dir)
        self.check_strategies(4, 2, STRATEGIES, network)
        self.check_strategies(2, 1, EXACT[:4], network)
        self.check_strategies(2, 2, ["hpZ+qwZ+qgZ", "localsgd", "slowmo", "sgp"], network)
        apart = {**DECK["model"], "tied_gradient": "apart"}
        self.check_strategies(2, 1, EXACT[:4], network, model=apart, sync={})

    def test_other_ways_of_sending(self):
        """Only the summary is checked, not the plan: many small messages, an odd number of nodes, fewer bits, delayed
        averages, the MPI library's own collectives."""
        late = ("--sync.average_overlap=true", "--sync.average_delay=1", "--sync.average_dtype=int8")
        for ranks, per_node, *options in (
            (4, 2, "--zero.stage=2", "--comm.bucket_mb=0.003", "--comm.overlap=false"),
            (3, 1, "--zero.stage=3", "--batch.global=12", "--zero.persist_below=4000"),
            (4, 2, "--zero.stage=3", "--zero.qwz=4", "--zero.qgz=8", "--zero.qgz_node=4"),
            (4, 2, "--sync.kind=localsgd", "--sync.localsgd_frequency=2", *late),
            (4, 2, "--sync.kind=sgp", "--sync.sgp_overlap=true"),
            (4, 2, "--zero.stage=1", "--comm.collectives=native"),
        ):
            with self.subTest(options=options):
                self.check_summary(*self.counted_run(ranks, per_node, *options))

    def test_pipelines(self):
        """Borders between stages, what a skip connection sends past those in the middle, what stages send each other of a tied
        embedding, and the reductions of each stage's units among its ranks."""
        network = written(self.dir)
        for size, schedule, parts, ranks, nodes, stage, head in (
            (2, "gpipe", 2, 2, 1, 0, {"tied": "false"}),
            (2, "1f1b", 1, 4, 2, 0, {"tied_gradient": "apart"}),
            (2, "interleaved", 2, 4, 4, 1, {"tied_gradient": "apart"}),
            (4, "1f1b", 1, 4, 2, 0, {"tied": "false", "direct": "true"}),
            (2, "interleaved", 2, 4, 2, 1, {"tied_gradient": "apart", "direct": "true"}),
            (2, "1f1b", 1, 4, 2, 2, {"tied_gradient": "apart"}),
            (2, "gpipe", 2, 4, 1, 3, {"tied_gradient": "apart"}),
            (2, "interleaved", 2, 4, 2, 3, {"tied": "false"}),
        ):
            with self.subTest(size=size, schedule=schedule, parts=parts, ranks=ranks, nodes=nodes, stage=stage):
                changes = {
                    "model": {"n_layer": 4, **head},
                    "pipeline": {"size": size, "schedule": schedule, "parts": parts},
                }
                file = self.dir / f"plan-{size}-{schedule}-{ranks}-{nodes}-{stage}.json"
                at = ("--network", network, "--ranks", ranks, "--nodes", nodes, "--json", file)
                done = self.shoal("plan", self.deck(DECK, **changes), *at)
                self.assertEqual(done.returncode, 0, done.stderr)
                plans = {run["strategy"]: run for run in json.loads(file.read_text())["strategies"]}
                plan = plans[f"P={size}, stage {stage}"]
                summary, counts = self.counted_run(ranks, ranks // nodes, f"--zero.stage={stage}", **changes)
                self.check_summary(summary, counts)
                self.check_control(counts)
                self.check_plan(plan, counts)
                self.assertEqual(summary["comm_bytes_per_step"]["send"], plan["step_time"]["sent"]["send"])
                for place in PLACES:
                    first = [rank.messages_begun_in_steps()[place] / STEPS for rank in counts[:: ranks // size]]
                    by_stage = plan["pipeline"]["sent_by_stage"]
                    self.assertEqual([row["borders"][place] + row["reductions"][place] for row in by_stage], first)
                self.assertEqual(plan["memory_bytes"], sum(summary["state_bytes"]["taken"].values()))


class Silence(Bytes):
    def test_nodes_say_nothing_between_synchronizations(self):
        """No message and no collective goes between ranks of different nodes, neither in these steps nor after them."""
        every_two = ("--sync.localsgd_frequency=2",)
        for per_node, *options in (
            (1, "--sync.kind=localsgd", *every_two),
            (2, "--sync.kind=slowmo", *every_two, "--sync.slowmo_frequency=4"),
            (1, "--sync.kind=diloco", "--sync.slowmo_frequency=4"),
        ):
            with self.subTest(options=options):
                _, counts = self.counted_run(2 * per_node, per_node, *options)
                meet = {4} if "--sync.kind=diloco" in options else {2, 4}
                for rank in counts:
                    regions = {region for region in rank.across_nodes() if region not in (0, -STEPS)}
                    self.assertEqual(regions, meet, "0: before the first step; -s: after step s")

    def test_every_function_that_sends_is_counted(self):
        """If the program calls a new MPI function, add it to the counter, or to the functions that send no data."""
        symbols = subprocess.run(
            ["nm", "-D", "--undefined-only", BINARY], capture_output=True, text=True, check=True
        ).stdout
        used = set(re.findall(r"\bU (P?MPI_\w+)", symbols))
        symbols = subprocess.run(["nm", "-D", mpi_count.COUNTER], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"\bT (MPI_\w+)", symbols))
        self.assertIn("MPI_Isend", used)
        self.assertEqual([name for name in sorted(used - known) if not SENDS_NO_DATA.fullmatch(name)], [])


if __name__ == "__main__":
    main()
