# SPDX-License-Identifier: Apache-2.0
"""shoal bench comm: correct results, bytes as in theory, a fitted model and a file; bad input gives one line."""

import json

from program import SMALL, Program, main

QUICK = ("--min", "4KiB", "--max", "64KiB", "--repetitions", "2")


class Bench(Program):
    def bench(self, *args, ranks):
        """Returns the printed table and the JSON file."""
        file = self.dir / f"bench-{len(list(self.dir.glob('bench-*')))}.json"
        done = self.shoal("bench", "comm", *args, "--output", file, ranks=ranks, timeout=400)
        self.assertEqual(done.returncode, 0, f"{args}\n{done.stdout}\n{done.stderr}")
        return done.stdout, json.loads(file.read_text())

    def test_every_collective_of_every_group(self):
        said, bench = self.bench(*QUICK, "--comm.ranks_per_node=2", ranks=4)
        self.assertEqual(
            (bench["topology"]["ranks"], bench["topology"]["nodes"], bench["topology"]["ranks_per_node"]), (4, 2, 2)
        )
        self.assertEqual(bench["topology"]["node_of"], [0, 0, 1, 1])
        sized = {(row["collective"], row["how"]) for row in bench["rows"]} - {("barrier", "native")}
        quantized = {(name, how) for name in ("all_gather", "reduce_scatter") for how in ("int8", "int4")}
        self.assertLessEqual(quantized, sized)
        self.assertGreaterEqual(len(sized), 12)
        for group, ranks in (("node", 2), ("across", 2), ("all", 4)):
            for collective, how in sized:
                rows = [
                    row
                    for row in bench["rows"]
                    if (row["group"], row["collective"], row["how"]) == (group, collective, how)
                ]
                self.assertEqual([row["bytes"] for row in rows], [4096, 16384, 65536], f"{group} {collective} {how}")
                self.assertEqual({row["ranks"] for row in rows}, {ranks})
        shown = [line for line in said.splitlines() if line.startswith(" ")]
        self.assertEqual(len(shown), len(bench["rows"]))
        for row, line in zip(bench["rows"], shown, strict=True):
            self.assertEqual(line.split()[:3], [row["collective"], row["how"], row["group"]])
            self.assertEqual(row["wrong"], 0, line)
            self.assertTrue(0 < row["min_s"] <= row["median_s"] <= row["max_s"], line)
        model = bench["model"]
        for level in ("node", "across"):
            for number in ("latency_s", "s_per_byte"):  # either may be 0 for messages this small, with noise
                self.assertGreaterEqual(model[level][number], 0)
        self.assertGreater(model["sum_s_per_byte"], 0)
        self.assertGreater(min(model["gflops"].values()), 0)
        self.assertGreater(min(seconds for codec in model["quantization"].values() for seconds in codec.values()), 0)
        for rates in model["training"].values():
            self.assertGreater(min(rate["gflops"] for rate in rates["by_width"]), 0)
            self.assertGreater(rates["update_s"], 0)
            self.assertGreater(min(rates["speedup"][who] for who in ("node_alone", "rank_alone")), 0)

    def test_a_disk(self):
        file = self.dir / "tiers.json"
        done = self.shoal("bench", "tiers", f"--nvme.dir={self.dir}", "--size", "3MiB", "--output", file, ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = json.loads(file.read_text())
        shown = [line.split() for line in done.stdout.splitlines() if line.startswith(" ")]
        self.assertEqual(len(shown), len(measured["rows"]))
        self.assertEqual({(row["request_bytes"], row["depth"]) for row in measured["rows"]},
                         {(2**power, depth) for power in (18, 20, 22) for depth in (1, 8, 32)})  # fmt: skip
        for row, line in zip(measured["rows"], shown, strict=True):
            self.assertGreater(min(row["read_bytes_per_s"], row["write_bytes_per_s"]), 0)
            self.assertAlmostEqual(float(line[-1]), row["read_bytes_per_s"] * 1e-6, delta=0.51)
        self.assertIn("needs a directory there in --nvme.dir", self.refused("bench", "tiers").stderr)
        self.refused("bench", "tiers", f"--nvme.dir={self.dir}", "--only=barrier", contains=["--only has no effect"])
        self.refused(
            "bench", "tiers", f"--nvme.dir={self.dir / 'none'}", code=1, contains=["none: no file can be created"]
        )

    def test_the_trees_bytes_are_those_of_theory(self):
        for ranks, per_node in ((4, 2), (6, 2)):
            only = (
                "--only",
                "reduce_scatter:tree,all_gather:tree",
                "--groups",
                "all",
                "--min",
                "48KiB",
                "--max",
                "48KiB",
            )
            _, bench = self.bench(*only, "--repetitions", "1", f"--comm.ranks_per_node={per_node}", ranks=ranks)
            self.assertEqual(len(bench["rows"]), 2)
            for row in bench["rows"]:
                size, nodes = row["bytes"], ranks // per_node
                self.assertEqual(row["sent"]["inter"], size * (nodes - 1), f"a node sends M (N-1)/N: {row}")
                self.assertEqual(row["sent"]["intra"], ranks * size * (per_node - 1) // per_node, row)

    def test_quantized_collectives_send_codes_and_scales(self):
        only = ("--only", "all_gather:int8,all_gather:int4,reduce_scatter:int8,reduce_scatter:int4", "--groups", "all")
        size, repeat = ("--min", "64KiB", "--max", "64KiB"), ("--repetitions", "1")
        _, bench = self.bench(*only, *size, *repeat, "--comm.ranks_per_node=2", ranks=4)
        elements = 16384
        int8, int4 = elements + elements // 256 * 4, elements // 2 + elements // 256 * 4
        sent = {(row["collective"], row["how"]): row["sent"] for row in bench["rows"]}
        self.assertEqual(sent["all_gather", "int8"], {"intra": 2 * int8, "inter": int8})
        self.assertEqual(sent["all_gather", "int4"], {"intra": 2 * int4, "inter": int4})
        self.assertEqual(sent["reduce_scatter", "int8"], {"intra": 2 * int8, "inter": int8})
        self.assertEqual(sent["reduce_scatter", "int4"], {"intra": 2 * int8, "inter": int4}, "INT8 within nodes")

    def test_one_node_has_one_kind_of_groups(self):
        _, bench = self.bench(*QUICK, "--only", "all_gather:tree,barrier", ranks=2)
        self.assertEqual({row["group"] for row in bench["rows"]}, {"node"})
        self.assertIsNone(bench["model"]["across"])

    def test_without_a_link_there_is_no_model(self):
        said, bench = self.bench(*QUICK, "--only", "all_reduce,barrier", ranks=2)
        self.assertIsNone(bench["model"])
        self.assertIn("no model for `shoal plan`", said)
        (file,) = self.dir.glob("bench-*.json")
        self.refused(
            "plan", self.deck(SMALL), "--network", file, contains=[str(file), "has no model", "all_gather:tree"]
        )

    def test_bad_input(self):
        self.refused("bench", "comm", contains=["there is one"])
        self.refused("bench", "kernels", ranks=2, contains=["bench kernels", "allowed: comm"])
        self.refused("bench", "comm", "--min", "1MiB", "--max", "1kB", ranks=2, contains=["--min 1MiB", "--max 1kB"])
        self.refused("bench", "comm", "--max", "12", ranks=2, contains=["--max 12"])
        self.refused(
            "bench", "comm", "--only", "all_reduce,gossip", ranks=2, contains=["--only gossip", "all_gather:tree"]
        )
        self.refused(
            "bench", "comm", "--groups", "rack", ranks=2, contains=["--groups rack", "allowed: node, across, all"]
        )
        self.refused("bench", "comm", "--output", "/dev", ranks=2, contains=["--output /dev", "exists"])


if __name__ == "__main__":
    main()
