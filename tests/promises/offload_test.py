# SPDX-License-Identifier: Apache-2.0
"""States that wait on a disk, or in memory of the host: no bit changes, any run resumes any other, the bytes are where the
plan has them, and a disk that fails or lies ends the run with a line, with the last checkpoint intact."""

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import Program, main, ranks_of, trajectory

# A block's shard has several tiles on one rank, and parts of tiles on two.
DECK = {
    "model": {"kind": "gpt", "n_layer": 2, "n_head": 2, "n_embd": 192, "block_size": 16, "vocab_size": 64},
    "data": {"source": "synthetic"},
    "batch": {"micro": 1, "global": 4},
    "optimizer": {"lr": 0.01},
    "train": {"steps": 7, "seed": 3, "eval_batches": 1},
    "trace": {"level": "comm"},
}


class Offload(Program):
    def options(self, where, stage=2):
        options = [f"--zero.stage={stage}", f"--offload.optimizer={where}"]
        options += [f"--offload.params={where}"] if stage == 3 else []
        return options + ([f"--nvme.dir={self.dir}"] if where == "nvme" else [])

    def test_no_bit_changes_and_any_run_resumes_any_other(self):
        for dtype in ("fp32", "bf16"):
            deck = self.deck(DECK, train={"dtype": dtype})
            whole = self.train(deck, "--zero.stage=1", ranks=2)
            self.train(
                deck, *self.options("nvme", 1), "--train.steps=3", "--checkpoint.every=3", ranks=2, out=f"parts-{dtype}"
            )
            for steps, ranks, options in (
                (4, 1, self.options("nvme", 3)),
                (5, 4, self.options("nvme", 3)),
                (6, 2, self.options("nvme", 2)),
                (7, 2, ["--zero.stage=0"]),
            ):
                last = self.train(deck, *options, f"--train.steps={steps}", "--checkpoint.resume=latest",
                                  "--checkpoint.every=1", ranks=ranks, out=f"parts-{dtype}")  # fmt: skip
            self.assertEqual(last["params_checksum"], whole["params_checksum"], dtype)
            ended = self.train(
                deck, *self.options("nvme", 2), "--offload.optimizer_ratio=0.6", ranks=2, out=f"ratio-{dtype}"
            )
            self.assertEqual(trajectory(ended), trajectory(whole))

    def test_bytes_are_where_the_plan_has_them(self):
        deck = self.deck(DECK)
        states = {}
        for where in ("none", "cpu", "nvme"):
            run = self.train(deck, *self.options(where), ranks=2, out=where)
            self.assertEqual(run["state_bytes"]["taken"], run["state_bytes"]["planned"])
            for tier in run["tiers"].values():
                self.assertEqual(tier["taken"], tier["planned"])
            states[where] = (run["state_bytes"]["taken"], run["tiers"])
        params = self.train(deck, *self.options("nvme", 3), ranks=2, out="params")
        self.assertGreaterEqual(params["tiers"]["nvme"]["taken"], states["nvme"][1]["nvme"]["taken"] * 1.4)
        self.assertLess(params["state_bytes"]["taken"]["parameters"], states["none"][0]["parameters"] * 0.01)
        moments = states["none"][0]["moments"]
        self.assertEqual(states["cpu"][0]["moments"], 0)
        self.assertGreaterEqual(states["cpu"][1]["cpu"]["taken"], moments)
        disk = states["nvme"][1]["nvme"]
        self.assertGreaterEqual(disk["taken"], moments)
        # Each state comes up and goes down once in a step, filled up to whole sectors; the first step finds nothing there.
        self.assertAlmostEqual(disk["down_bytes_per_step"], disk["taken"], delta=disk["taken"] * 0.001)
        self.assertAlmostEqual(disk["up_bytes_per_step"], disk["taken"], delta=disk["taken"] * 0.001)

    def test_the_banner_names_the_disk_and_the_way(self):
        deck = self.deck(DECK, train={"steps": 1})
        done = self.shoal("train", deck, *self.options("nvme"), f"--output.dir={self.dir / 'out'}")
        self.assertRegex(done.stdout, r"#   offload to nvme +moments: .* per rank in .*, by (io_uring|threads)")
        done = self.shoal("train", deck, *self.options("cpu"), f"--output.dir={self.dir / 'cpu'}")
        self.assertRegex(done.stdout, r"#   offload to cpu .*saves nothing")

    def test_a_disk_that_lies_or_fails_ends_the_run_with_a_line(self):
        deck = self.deck(DECK)
        for kind, what in (("tier_flip", "checksum differs"), ("tier_error", "Input/output error")):
            out = self.dir / kind
            done = self.shoal("train", deck, *self.options("nvme"), "--checkpoint.every=2", f"--fault.kind={kind}@4:1",
                              f"--output.dir={out}", ranks=2)  # fmt: skip
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"nvme.dir = {self.dir}", done.stderr)
            self.assertIn(what, done.stderr)
            resumed = self.train(deck, "--zero.stage=1", "--checkpoint.resume=latest", ranks=2, out=kind)
            self.assertEqual(resumed["resumed_from"]["step"], 2)
            whole = self.train(deck, "--zero.stage=1", "--output.overwrite", ranks=2, out="whole")
            self.assertEqual(resumed["params_checksum"], whole["params_checksum"])

    def test_directories_that_cannot_be_used(self):
        deck = self.deck(DECK)
        for directory, what in (
            (self.dir / "none", "No such file or directory"),
            ("/proc", "no file can be created there"),
        ):
            self.refused("train", deck, "--zero.stage=1", "--offload.optimizer=nvme", f"--nvme.dir={directory}",
                         f"--output.dir={self.dir / 'out'}", ranks=2, code=1,
                         contains=[f"nvme.dir = {directory}", what])  # fmt: skip

    def test_a_killed_run_leaves_no_space_taken(self):
        def free():
            status = os.statvfs(self.dir)
            return status.f_bavail * status.f_frsize

        large = {**DECK["model"], "n_layer": 12, "n_embd": 384}  # 170 MB of moments
        deck = self.deck(DECK, model=large, train={"steps": 1000})
        run = self.start("train", deck, *self.options("nvme"), f"--output.dir={self.dir / 'out'}")
        self.wait_for(lambda: (self.dir / "out" / "metrics.jsonl").exists(), run)
        taken = free()
        for process in ranks_of(self.dir / "out"):
            os.kill(process, signal.SIGKILL)
        run.wait(timeout=60)
        for _ in range(100):
            if free() > taken + 100e6:
                break
            time.sleep(0.1)
        self.assertGreater(free(), taken + 100e6)
        self.assertEqual([path.name for path in self.dir.iterdir() if path.name.startswith(".shoal")], [])


if __name__ == "__main__":
    main()
