# SPDX-License-Identifier: Apache-2.0
"""shoal doctor: what it finds on this machine, and in a directory that cannot be used."""

import json
import os
import subprocess

from program import MPIEXEC, Program, main

CHECKS = ["ranks", "cores", "threads", "links within nodes", "links between nodes", "clocks", "memory", "disk", "MPI-IO",
          "file locks", "HDF5", "GPUs"]  # fmt: skip


class Doctor(Program):
    def test_four_ranks_as_two_nodes(self):
        done = self.shoal("doctor", "--dir", self.dir, "--comm.ranks_per_node=2", "--json", "-", ranks=4)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((found["ranks"], found["nodes"], found["ok"]), (4, 2, True))
        checks = {check["name"]: check for check in found["checks"]}
        self.assertEqual(list(checks), CHECKS)
        for name, check in checks.items():
            with self.subTest(check=name):
                self.assertIn(check["verdict"], ("ok", "warn"), check)
                self.assertTrue(check["found"])
                if check["verdict"] == "warn":
                    self.assertTrue(check["advice"], "a warning says what to change")
        for name in ("links within nodes", "links between nodes"):
            values = checks[name]["values"]
            self.assertEqual(values["pairs"], 2 if "within" in name else 1)
            self.assertTrue(0 < values["latency_s"] < 0.1, values)
            self.assertTrue(1e6 < values["bytes_per_s"] < 1e12, values)
        self.assertLess(checks["clocks"]["values"]["skew_s"], 0.1)
        self.assertEqual(checks["file locks"]["values"], {"created": 1, "blind": 0, "double_locks": 0})
        self.assertEqual(checks["HDF5"]["values"], {"parallel": 1})
        for name in ("disk", "MPI-IO"):
            self.assertGreater(checks[name]["values"]["bytes_per_s"], 1e5)
        for name in CHECKS:
            self.assertIn(f"\n  {name} ", done.stderr, "the table")
        self.assertEqual(list(self.dir.iterdir()), [], "no file is left")

    def test_ranks_that_share_a_core_are_named(self):
        """Two ranks, both bound to one core."""
        file = self.dir / "found.json"
        core = min(os.sched_getaffinity(0))
        program = f"sh -c 'exec taskset -c {core} {self.binary} doctor --dir {self.dir} --json {file}'"
        done = self.shell(program, ranks=2)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        cores = {check["name"]: check for check in json.loads(file.read_text())["checks"]}["cores"]
        self.assertEqual(cores["verdict"], "warn")
        self.assertEqual(cores["values"]["cores_per_rank_min"], 0.5)
        self.assertIn("rank 0 (", cores["advice"])
        again = self.shoal("doctor", "--dir", self.dir, "--json", file)
        self.assertEqual(again.returncode, 2, "it is not replaced unasked")

    def test_a_directory_that_cannot_be_used_is_a_failure(self):
        wrong = self.dir / "a_file"
        wrong.write_text("")
        done = self.shoal("doctor", "--dir", wrong / "below", "--json", "-", ranks=2)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        verdicts = {check["name"]: check["verdict"] for check in found["checks"]}
        self.assertFalse(found["ok"])
        self.assertEqual((verdicts["disk"], verdicts["MPI-IO"], verdicts["HDF5"]), ("fail", "fail", "ok"))
        disk = {check["name"]: check for check in found["checks"]}["disk"]
        self.assertIn("rank 0 (", disk["found"])
        self.assertIn("--dir", disk["advice"])

    def shell(self, program, ranks):
        return subprocess.run(
            f"{MPIEXEC} -n {ranks} {program}", shell=True, capture_output=True, text=True, timeout=120,
            env=self.environment(ranks), cwd=self.dir,
        )  # fmt: skip


if __name__ == "__main__":
    main()
