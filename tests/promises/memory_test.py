# SPDX-License-Identifier: Apache-2.0
"""The memory of a rank, as the kernel counts it, is what was planned plus what the program takes without a model: at
every stage, on one, two and four ranks, in fp32 and bf16. It falls with more ranks as the states do."""

import json
import pathlib
import subprocess
import sys
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from program import BINARY, MPIEXEC, SMALL, Program, main, sanitized, skip
from turns import chosen

MB = 10**6
RANKS, DTYPES = (1, 2, 4), ("fp32", "bf16")
ROWS = [(dtype, stage, (ranks,)) for dtype in DTYPES for stage in range(3) for ranks in RANKS]
ROWS += [(dtype, 3, RANKS) for dtype in DTYPES]
SUBJECT = ("src/base/memory", "include/shoal/base/memory", "src/zero", "src/plan/fit", "src/device/memory")
# 29 million parameters in a few wide layers, and little to compute: 500 MB of states on one rank.
LARGE = {
    "model": {"kind": "gpt", "n_layer": 3, "n_head": 7, "n_embd": 896, "block_size": 16, "vocab_size": 64},
    "data": {"source": "synthetic", "val_fraction": 0},
    "batch": {"micro": 1, "global": 4},
    "train": {"steps": 1},
    "trace": {"level": "off"},
    "checkpoint": {"last": "false"},
}
WIDE = {**LARGE, "model": {**LARGE["model"], "n_layer": 2, "n_embd": 1792}}
TINY = {**LARGE, "model": {**SMALL["model"], "n_layer": 1, "block_size": 16}}
# Allowed difference: a fraction of the plan, plus bytes. A run may use less, because a short run does not touch all
# parts of its buffers (space for the largest message, workspaces). What a run takes from its planned memory is compared
# with the plan to the byte, in measured() and in unit tests. So this bounds only what is taken outside of it, by the
# program's containers and by libraries: with 500 MB of states, up to 45 MB of that would not be noticed.
SHARE, LESS, MORE = 0.05, 60 * MB, 20 * MB
STATES = ("parameters", "master", "gradients", "moments")


@dataclass
class Taken:
    planned: int  # bytes of the rank that takes most
    states: int  # part of `planned`: what a rank keeps between steps
    peaks: list  # by rank: the largest resident set, as the kernel counts it


class Memory(Program):
    def measured(self, sections, ranks, *options):
        deck, out = self.deck(sections), self.dir / "out"
        peaks = self.dir / "peaks"
        peaks.mkdir(exist_ok=True)
        command = [MPIEXEC, "-n", str(ranks), sys.executable, "-B", str(pathlib.Path(__file__).with_name("peak.py"))]
        command += [str(peaks), BINARY, "train", str(deck), f"--output.dir={out}", "--output.overwrite", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=self.environment(ranks))
        self.assertEqual(done.returncode, 0, f"{options}\n{done.stdout}\n{done.stderr}")
        summary = json.loads((out / "summary.json").read_text())
        planned = summary["state_bytes"]["planned"]
        self.assertEqual(summary["state_bytes"]["taken"], planned)
        found = []
        for file in peaks.iterdir():
            found.append(int(file.read_text()))
            file.unlink()
        self.assertEqual(len(found), ranks)
        # The program's own figure is the kernel's, without the last moments of the process. It may be the larger one: each
        # processor counts up to 32 pages for itself before the kernel adds them, in either direction, to the sum it shows.
        for said, seen in zip(sorted(summary["peak_rss_bytes"]), sorted(found), strict=True):
            self.assertLess(abs(seen - said), 5 * MB, f"{said} said, {seen} seen")
        return Taken(sum(planned.values()), sum(planned[kind] for kind in STATES), found)

    def besides(self, ranks, dtype):
        """Memory of the program, its libraries and MPI with a tiny model."""
        tiny = self.measured(TINY, ranks, f"--train.dtype={dtype}")
        return max(tiny.peaks) - tiny.planned

    def check(self, taken, besides):
        for peak in taken.peaks:
            over = peak - besides - taken.planned
            allowed = SHARE * taken.planned
            self.assertGreaterEqual(over, -allowed - LESS, f"{taken}, besides {besides}")
            self.assertLessEqual(over, allowed + MORE, f"{taken}, besides {besides}")

    def check_fall(self, one, many, ranks):
        """Stage 3 splits all states among the ranks. Gathered parameters and workspaces do not get smaller."""
        self.assertAlmostEqual(many.states * ranks / one.states, 1, delta=0.01)
        fall, planned = one.peaks[0] - max(many.peaks), one.planned - many.planned
        self.assertAlmostEqual(fall, planned, delta=SHARE * one.planned + LESS)
        self.assertGreater(fall, 0.4 * one.states)

    def test_ranks_take_what_was_planned(self):
        if sanitized():
            skip("AddressSanitizer's own memory is many times the program's")
        print("# dtype  ranks  stage  planned MB  states MB  besides MB  resident MB of each rank")
        besides = {}
        # Stage 3 on all numbers of ranks is one row, since its runs are compared. Each run takes 4 CPU seconds.
        for dtype, stage, counts in chosen(ROWS, SUBJECT):
            taken = {}
            for ranks in counts:
                with self.subTest(dtype=dtype, ranks=ranks, stage=stage):
                    if (ranks, dtype) not in besides:
                        besides[ranks, dtype] = self.besides(ranks, dtype)
                    run = self.measured(LARGE, ranks, f"--train.dtype={dtype}", f"--zero.stage={stage}")
                    taken[ranks] = run
                    sizes = (run.planned, run.states, besides[ranks, dtype], *run.peaks)
                    print(dtype, ranks, stage, *(f"{size / MB:.0f}" for size in sizes))
                    self.check(run, besides[ranks, dtype])
            for ranks in counts[1:]:
                with self.subTest(dtype=dtype, ranks=ranks):
                    self.check_fall(taken[1], taken[ranks], ranks)

    def test_an_export_takes_what_was_planned(self):
        if sanitized():
            skip("AddressSanitizer's own memory is many times the program's")
        besides = self.besides(2, "fp32")
        for more in ((), ("--pipeline.size=2", "--model.tied=false")):
            with self.subTest(more):
                options = ("--zero.stage=3", *more)
                export = self.dir / f"weights-{len(more)}"
                without = self.measured(WIDE, 2, *options)
                exporting = self.measured(WIDE, 2, *options, f"--output.export={export}")
                self.assertEqual(exporting.planned - without.planned, 4 << 20, "a piece of a unit")
                self.check(exporting, besides)
                added = max(exporting.peaks) - max(without.peaks)
                self.assertLess(added, 30 * MB, "a unit has 150 MB")


if __name__ == "__main__":
    main()
