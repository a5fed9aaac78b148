# SPDX-License-Identifier: Apache-2.0
"""No run writes over a message in flight, or reads one before it is told that it has arrived: runs under a library that makes
MPI as unforgiving as its standard allows (tests/support/mpi_checker.cpp) end well, with the bits of runs without it."""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from program import BINARY, MPIEXEC, Program, main, preloaded, trajectory

SUPPORT = pathlib.Path(BINARY).parent / "tests" / "support"
CHECKER = os.environ.get("SHOAL_MPI_CHECKER", str(SUPPORT / "libshoal_mpi_checker.so"))
FAULTY = os.environ.get("SHOAL_FAULTY_MESSAGES", str(SUPPORT / "shoal_faulty_messages"))
SIMULATED = os.environ.get("SHOAL_SIMULATED", str(pathlib.Path(BINARY).parent / "shoal_simulated"))
CHECKED = preloaded(CHECKER)
# Other MPI functions that the program may call. When they return, MPI uses none of their buffers any more.
RETURNS_WHEN_DONE = re.compile(
    "MPI_(Abort|Comm_.*|Error_.*|File_(close|open|set_view|sync|write_at_all)|Get_.*|Improbe|Info_.*|Init_thread|Mrecv"
    "|Pcontrol|Type_.*)"
)

DECK = {
    "model": {"kind": "gpt", "n_layer": 6, "n_head": 2, "n_embd": 32, "block_size": 16, "vocab_size": 64},
    "data": {"source": "synthetic"},
    "batch": {"micro": 1, "global": 8},
    "optimizer": {"lr": 0.01},
    "train": {"steps": 3, "seed": 3, "grad_clip": 0.5, "eval_every": 2, "eval_batches": 1},
    "comm": {"bucket_mb": 0.05},
}


class Messages(Program):
    def setUp(self):
        super().setUp()
        self.file = self.deck(DECK)

    def run_of(self, *options, ranks=1, out=None, env=None):
        """Trains without the checker. Returns the trajectory."""
        return trajectory(self.train(self.file, *options, ranks=ranks, out=out, env=env))

    def checked(self, *options, ranks, out=None, env=None):
        return self.run_of(*options, ranks=ranks, out=out, env={**CHECKED, **(env or {})})

    def shoal(self, *args, ranks=1, env=None, **others):
        """Under the checker, each rank must have said that it was checked."""
        done = super().shoal(*args, ranks=ranks, env=env, **others)
        seen = re.findall(r"^mpi_checker: rank \d+: (\d+) messages, (\d+) collectives$", done.stderr, re.MULTILINE)
        if done.returncode == 0:
            self.assertEqual(len(seen), ranks if env and "LD_PRELOAD" in env else 0, done.stderr)
            self.assertTrue(all(int(messages) + int(collectives) > 20 for messages, collectives in seen), seen)
        return done

    def same(self, ranks, *options):
        """A run under the checker must have the bits of a run without it."""
        plain = self.run_of(*options, ranks=ranks)
        self.assertEqual(self.checked(*options, ranks=ranks), plain, f"{options} on {ranks} ranks")


class Stages(Messages):
    def test_every_way_has_the_bits_of_one_rank(self):
        one = self.run_of()
        early = "--zero.prefetch_units=3"
        for ranks, *options in (
            *((ranks, f"--zero.stage={stage}") for ranks in (2, 4) for stage in (0, 1, 2)),
            (2, "--zero.stage=3", early),
            (4, "--zero.stage=3", early),
            (4, "--zero.stage=3", "--zero.prefetch_units=0", "--zero.persist_below=4000"),
            (2, "--zero.stage=2", "--comm.overlap=false"),
            (4, "--zero.stage=3", early, "--zero.hpz_size=node", "--comm.ranks_per_node=2"),
            (2, "--zero.stage=3", early, "--activation.checkpoint_interval=1"),
        ):
            with self.subTest(ranks=ranks, options=options):
                self.assertEqual(self.checked(*options, ranks=ranks), one)

    def test_native_collectives(self):
        for stage in (1, 2, 3):
            with self.subTest(stage=stage):
                self.same(2, "--comm.collectives=native", f"--zero.stage={stage}")

    def test_quantized(self):
        nodes = ("--comm.ranks_per_node=2", "--zero.stage=3", "--zero.prefetch_units=3")
        self.same(4, *nodes, "--zero.hpz_size=node", "--zero.qwz=8", "--zero.qgz=4")
        self.same(4, *nodes, "--train.dtype=bf16", "--zero.qgz=8", "--zero.quant_feedback=true")


class Nodes(Messages):
    def test_nodes_that_train_locally(self):
        averaged, outer = "--sync.localsgd_frequency=2", "--sync.slowmo_frequency=2"
        for options in (
            ("--sync.kind=localsgd", averaged, "--sync.average_overlap=true", "--sync.average_delay=1"),
            ("--sync.kind=slowmo", "--sync.localsgd_frequency=1", outer),
            ("--sync.kind=sgp", "--sync.sgp_overlap=true"),
            ("--sync.kind=sgp",),
            ("--sync.kind=diloco", outer, "--sync.average_dtype=int8", "--zero.quant_block=64"),
        ):
            for ranks, *more in (
                (2, "--comm.ranks_per_node=1", "--model.n_embd=8"),  # messages that MPI would copy at once
                (4, "--comm.ranks_per_node=2", "--zero.stage=2"),
            ):
                with self.subTest(ranks=ranks, options=options):
                    self.same(ranks, *options, *more, "--train.steps=5")


class Checkpoints(Messages):
    def test_resuming(self):
        straight = self.run_of("--train.steps=4")
        for background in ("false", "true"):
            for stage in (2, 3):
                saved = (f"--zero.stage={stage}", f"--checkpoint.async={background}", "--checkpoint.every=2")
                with self.subTest(saved=saved):
                    out = f"run-{background}-{stage}"
                    self.checked(*saved, ranks=2, out=out)
                    again = self.checked(*saved, "--checkpoint.resume=latest", "--train.steps=4", ranks=2, out=out)
                    self.assertEqual(again[2], straight[2])


class Simulated(Messages):
    binary = SIMULATED

    def test_on_the_simulated_device(self):
        late = {"SHOAL_SIMULATE": "late"}
        one = self.run_of(env={"SHOAL_SIMULATE": "in-order"})
        for ranks, *options in (
            (2, "--zero.stage=1"),
            (2, "--zero.stage=2"),
            (4, "--zero.stage=3", "--zero.prefetch_units=3"),
        ):
            with self.subTest(options=options):
                self.assertEqual(self.checked(*options, ranks=ranks, env=late), one)
        for options in (
            ("--comm.ranks_per_node=1", "--sync.kind=sgp", "--sync.sgp_overlap=true"),
            ("--comm.collectives=native", "--zero.stage=2"),
        ):
            with self.subTest(options=options):
                plain = self.run_of(*options, ranks=2, env=late)
                self.assertEqual(self.checked(*options, ranks=2, env=late), plain)


class Checker(Program):
    def faulty(self, fault, env):
        command = [MPIEXEC, "-n", "2", FAULTY, fault]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=self.environment(2, env))

    def test_it_finds_faults_that_go_unnoticed_without_it(self):
        for fault in ("nothing", "send", "read"):
            with self.subTest(fault=fault):
                self.assertEqual(self.faulty(fault, {}).returncode, 0)
        self.assertEqual(self.faulty("nothing", CHECKED).returncode, 0)
        self.assertNotEqual(self.faulty("read", CHECKED).returncode, 0)
        for fault, said in (
            ("send", r"rank 0 changed \d bytes of a message to rank 1 \(tag 7\) while it was in flight"),
            ("write", r"rank 1 changed \d bytes of a message from rank 0 \(tag 7\) while it was in flight"),
            ("reduce", r"rank [01] changed \d bytes of an MPI_Iallreduce while it was in flight"),
        ):
            with self.subTest(fault=fault):
                done = self.faulty(fault, CHECKED)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, f"mpi_checker: {said}")

    def test_every_function_that_communicates_is_checked(self):
        """If the program calls a new MPI function, add it to the checker, or to the functions that return when done."""
        symbols = {}
        for file, kind in ((BINARY, "U"), (CHECKER, "T")):
            listed = subprocess.run(["nm", "-D", file], capture_output=True, text=True, check=True).stdout
            symbols[file] = set(re.findall(rf"\b{kind} (P?MPI_\w+)", listed))
        self.assertIn("MPI_Isend", symbols[BINARY])
        unknown = sorted(symbols[BINARY] - symbols[CHECKER])
        self.assertEqual([name for name in unknown if not RETURNS_WHEN_DONE.fullmatch(name)], [])


if __name__ == "__main__":
    main()
