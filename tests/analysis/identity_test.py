#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first table of a report says which run it was: from its traces, from run.json, and after the options have changed."""

import shutil
import tempfile
import unittest
from pathlib import Path

import h5py
import make_run

from scripts import script  # isort: skip
from shoal.draw import report_identity
from shoal.read.run import Run

OPTIONS = {
    "model.kind": "gpt", "model.n_head": "2", "model.n_embd": "32", "model.vocab_size": "64", "train.dtype": "bf16",
    "comm.reduce_dtype": "fp32", "zero.stage": "3", "zero.hpz_size": "node", "zero.qwz": "8", "pipeline.size": "2",
}  # fmt: skip
EXPECTED = {
    "model": "gpt: 2 layers, 2 heads, width 32, context 64, vocabulary 64, 1,234,567 parameters",
    "data": "an invented text: 4096 bytes",
    "dtype": "bf16, gradients summed in fp32",
    "batch": "16 sequences of 64 tokens per step, in micro-batches of 4",
    "strategy": "stage 3 hpZ qwZ8 pipeline 2",
    "ran on": "4 ranks on 2 nodes",
    "device": "CPU, 1 thread per rank",
    "program": "shoal 0.1.0, started 2026-01-02T03:04:05Z (UTC)",
    "differs from the defaults": "batch.micro = 4, zero.stage = 3",
}


class Identity(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-identity-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def make(self, level="steps"):
        return make_run.make_run(self.directory / "run", level, options=OPTIONS)

    def rows(self, path):
        return dict(report_identity.rows(Run.read(path)))

    def test_it_is_the_first_table_of_the_page_and_the_first_lines(self):
        path = self.make()
        done = script("report.py", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = (path / "report/report.html").read_text()
        first = page[page.index("<table") : page.index("</table>")]
        for place, (name, value) in enumerate(EXPECTED.items()):
            self.assertIn(f"<td>{name}</td><td>{value}</td>", first)
            self.assertEqual(done.stdout.splitlines()[1 + place].split(None, 1)[0], name.split()[0])
        self.assertNotIn("training loss", first)

    def test_every_file_that_a_run_may_lack_has_it_in_another(self):
        path = self.make()
        self.assertEqual(self.rows(path), EXPECTED)
        self.assertEqual(self.rows(path / "trace.h5"), EXPECTED)
        (path / "run.json").rename(self.directory / "run.json")
        self.assertEqual(self.rows(path), EXPECTED)
        (path / "summary.json").unlink()  # it still goes on
        self.assertEqual(self.rows(path), EXPECTED)
        (path / "trace.h5").unlink()  # trace.level = off
        (self.directory / "run.json").rename(path / "run.json")
        self.assertEqual(self.rows(path), EXPECTED)

    def test_what_an_older_program_did_not_write_is_left_out(self):
        path = self.make()
        (path / "run.json").unlink()
        with h5py.File(path / "trace.h5", "r+") as file:
            del file["changed"], file.attrs["parameters"], file.attrs["data"]
        rows = self.rows(path)
        self.assertEqual(rows["model"], "gpt: 2 layers, 2 heads, width 32, context 64, vocabulary 64")
        self.assertEqual(EXPECTED.keys() - rows.keys(), {"data", "differs from the defaults"})

    def test_a_resumed_run_says_what_was_changed(self):
        path = self.make()
        for name, first, last, hour, stage in (("trace.h5", 1, 4, 3, "1"), ("trace_from_4.h5", 5, 8, 4, "2"),
                                               ("trace_from_8.h5", 9, 12, 5, "2")):  # fmt: skip
            options = {**OPTIONS, "zero.stage": stage, "output.dir": name, "batch.micro": "4"}
            make_run.write_trace(path / name, options, "steps", last, first, hour, nodes=1 if first == 1 else 2)
        rows = self.rows(path)
        self.assertEqual(rows["changed when resumed"], "zero.stage: 1, then 2")
        self.assertEqual(
            rows["ran on"],
            "steps 1 to 4: 4 ranks; steps 5 to 8: 4 ranks on 2 nodes; steps 9 to 12: 4 ranks on 2 nodes",
        )
        self.assertIn("started 2026-01-02T03:04:05Z", rows["program"])


if __name__ == "__main__":
    unittest.main()
