# SPDX-License-Identifier: Apache-2.0
"""Each command as a user calls it: help, versions, decks in and out, tokenize -> train -> eval -> generate -> export ->
info."""

import json
import os
import pathlib
import re
import subprocess

from program import SMALL, Program, main, skip


def cores():
    """Number of cores that this process may use; hyperthreads of one core count as one."""
    siblings = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    files = (pathlib.Path(siblings.format(cpu)) for cpu in os.sched_getaffinity(0))
    return len({file.read_text() if file.exists() else str(file) for file in files})


class Commands(Program):
    def ok(self, *args, **more):
        done = self.shoal(*args, **more)
        self.assertEqual(done.returncode, 0, f"{args}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_help_and_versions(self):
        for command in (
            "train",
            "plan",
            "bench",
            "eval",
            "generate",
            "tokenize",
            "export",
            "info",
            "jobscript",
            "study",
            "doctor",
        ):
            self.assertIn(command, self.ok("--help"))
            self.assertIn("usage", self.ok(command, "--help"))
        versions = self.ok("--version", ranks=2)
        for library in ("MPI", "HDF5", "Kokkos", "oneDNN", "Boost.Program_options", "nlohmann-json"):
            self.assertEqual(versions.count(f"  {library} "), 1, versions)
        self.refused("trian", contains=["trian", "train"])

    def test_one_version_in_every_file(self):
        program = self.ok("--version").splitlines()[0]
        self.assertRegex(program, r"^shoal \d+\.\d+\.\d+\+(g[0-9a-f]{8})?\.?(s[0-9a-f]{8})?$")
        done = self.ok(
            "train", self.deck(SMALL, train={"steps": 2}), "--checkpoint.every=2", "--output.dir=out", ranks=2
        )
        self.assertIn(f"# {program}\n", done)
        for file in ("summary.json", "run.json"):
            self.assertEqual("shoal " + json.loads((self.dir / "out" / file).read_text())["version"], program)
        self.assertIn(program, self.ok("info", "out/checkpoints/step_00000002.h5"))
        self.assertIn(program.split()[1], self.ok("info", "out/trace.h5"))

    def test_a_printed_deck_gives_the_same_run(self):
        deck = self.deck(SMALL, train={"steps": 3}, optimizer={"lr": 0.0123})
        printed = self.ok("train", deck, "--print-config")
        (self.dir / "printed.cfg").write_text(printed)
        self.assertEqual(self.ok("train", self.dir / "printed.cfg", "--print-config"), printed)
        first, second = self.train(deck), self.train(self.dir / "printed.cfg")
        self.assertEqual(first["params_checksum"], second["params_checksum"])

    def test_dry_run(self):
        deck = self.deck(SMALL)
        plan = self.ok("train", deck, "--dry-run", "--ranks", "4", f"--output.dir={self.dir / 'dry'}")
        self.assertIn("total", plan)
        self.assertFalse((self.dir / "dry").exists())
        self.refused("train", deck, "--dry-run", "--ranks", "3", contains=["batch.global"])
        self.ok("train", deck, "--dry-run", "--ranks", "4", "--comm.ranks_per_node=2")
        self.refused(
            "train",
            deck,
            "--dry-run",
            "--ranks",
            "4",
            "--comm.ranks_per_node=3",
            contains=["divide the number of ranks (4)"],
        )
        done = self.shoal("train", deck, "--dry-run", "--zero.tile_linear=2")
        self.assertEqual(done.returncode, 2, done.stderr)  # as the run that it stands for
        self.assertIn("not built yet: zero.tile_linear", done.stderr)
        self.assertIn("# dry run failed: not built yet: zero.tile_linear; the memory", done.stdout)
        self.assertNotIn("passed", done.stdout)

    def test_one_process_of_a_job_may_run_what_needs_no_more(self):
        """In a job of SLURM, but not as a task of a launcher that started more."""
        deck, tasks = self.deck(SMALL), {"SLURM_NTASKS": "4"}
        text = self.dir / "text.txt"
        text.write_text("a few words\n" * 20)
        self.ok("tokenize", text, self.dir / "tokens.h5", env=tasks)
        self.ok("info", self.dir / "tokens.h5", env=tasks)
        self.ok("train", deck, "--dry-run", "--ranks", "8", env=tasks)
        self.ok("train", deck, "--print-config", env=tasks)
        self.refused("train", deck, env=tasks, contains=("SLURM_NTASKS = 4",))
        for args in (("train", deck), ("doctor",), ("bench", "comm")):
            self.refused(*args, env={"OMPI_COMM_WORLD_SIZE": "4"}, contains=("OMPI_COMM_WORLD_SIZE = 4 tasks", "a world of 1 rank"))  # fmt: skip

    def test_from_text_to_weights(self):
        text = self.dir / "text.txt"
        text.write_text("".join(f"{i} and {i} make {2 * i}.\n" for i in range(2000)))
        tokens = self.dir / "tokens.h5"
        self.ok("tokenize", "--tokenizer", "chars", text, tokens)
        self.assertIn("vocab", self.ok("info", tokens))
        deck = self.deck(
            SMALL,
            data={"source": tokens},
            model={"vocab_size": 0},
            train={"steps": 30, "eval_batches": 0},
            optimizer={"lr": 0.003},
            checkpoint={"every": 30},
        )
        out = self.dir / "run"
        summary = self.train(deck, out="run", ranks=2)
        self.assertLess(summary["final_loss"], summary["losses"][0][1])
        self.assertEqual(len(summary["val_losses"]), 1)
        checkpoint = out / "checkpoints" / "step_00000030.h5"
        evaluated = self.ok("eval", checkpoint, ranks=2)
        self.assertAlmostEqual(
            float(evaluated.split("validation loss")[1].split()[0]), summary["val_losses"][0][1], delta=1e-4
        )
        self.assertEqual(self.ok("eval", checkpoint), evaluated.replace(" 2 ranks", " 1 rank"))
        generated = self.ok("generate", checkpoint, "--prompt", "12 and", "--tokens", "20", "--temperature", "0")
        self.assertIn("12 and", generated)
        self.assertEqual(
            generated, self.ok("generate", checkpoint, "--prompt", "12 and", "--tokens", "20", "--temperature", "0")
        )
        self.ok("export", checkpoint, self.dir / "hf")
        self.assertEqual(json.loads((self.dir / "hf" / "config.json").read_text())["n_layer"], 2)
        self.assertIn("transformer.wte.weight", self.ok("info", checkpoint, "--verify", "--all"))
        self.assertIn("events", self.ok("info", out / "trace.h5"))
        whole = (out / "trace.h5").read_bytes()
        # A run may be in the middle of a flush, so a file without a seal is looked at twice.
        (out / "cut.h5").write_bytes(whole[: len(whole) // 2])
        self.refused("info", out / "cut.h5", code=1, contains=("truncated", "does not change, so no run is writing it"))
        # With the characters of another text the same ids are other characters.
        other = self.dir / "other.txt"
        other.write_text("a few other words\n" * 200)
        said = ("other.txt", "its vocabulary is not that of the text", "data.vocabulary")
        for command in (("eval", checkpoint), ("generate", checkpoint, "--prompt", "a")):
            self.refused(*command, f"--data.source={other}", "--data.tokenizer=chars", contains=said)
        self.ok("eval", checkpoint, f"--data.source={text}", "--data.tokenizer=chars", f"--data.vocabulary={tokens}")
        sized = self.deck(SMALL, data={"source": tokens}, model={"vocab_size": 64}, train={"steps": 1})
        self.ok("train", sized, "--checkpoint.every=1", f"--output.dir={self.dir / 'sized'}")
        resumed = self.ok("train", sized, f"--data.source={other}", "--data.tokenizer=chars", "--train.steps=2",
                          "--checkpoint.resume=latest", f"--output.dir={self.dir / 'sized'}")  # fmt: skip
        self.assertIn("# warning: the vocabulary of the data is not that of the checkpoint", resumed)

    def test_an_evaluation_is_the_mean_of_all_samples(self):
        """Also if the last batch is not full, and if ranks have no batch left."""
        text = self.dir / "text.txt"
        text.write_text("".join(f"{i} times {i} is {i * i}.\n" for i in range(300)))
        deck = self.deck(
            SMALL, data={"source": text, "tokenizer": "bytes"}, model={"vocab_size": 0}, train={"steps": 1}
        )
        self.train(deck, "--checkpoint.every=1", out="run")
        checkpoint, said = self.dir / "run/checkpoints/step_00000001.h5", set()
        for micro, ranks in ((1, 1), (2, 1), (4, 2), (5, 4)):
            options = (f"--batch.micro={micro}", f"--batch.global={micro * ranks}", "--train.eval_batches=0")
            said.add(self.ok("eval", checkpoint, *options, ranks=ranks).splitlines()[-1])
        self.assertEqual(len(said), 1, said)
        self.assertIn("samples 21", said.pop())

    def test_a_checkpoint_is_used_where_it_was_not_trained(self):
        """Neither the faults nor the limits of the training job's machine matter to other commands, nor its hpZ."""
        deck = self.deck(SMALL, train={"steps": 3}, checkpoint={"every": 1})
        options = ("--fault.kind=kill@3:3", "--memory.limit=3", "--zero.stage=3", "--zero.hpz_size=2")
        killed = self.shoal("train", deck, *options, f"--output.dir={self.dir / 'run'}", ranks=4)
        self.assertNotEqual(killed.returncode, 0)
        checkpoint = self.dir / "run/checkpoints/step_00000002.h5"
        self.ok("export", checkpoint, self.dir / "weights")
        self.ok("eval", checkpoint, ranks=3)
        self.refused("export", checkpoint, self.dir / "again", "--memory.limit=0.00001", contains=("a rank may take",))

    def test_what_a_terminal_would_obey_is_shown(self):
        evil = "\x1b]0;evil\x07\u202e" + os.fsdecode(b"\xff")  # the last character is not UTF-8
        text = self.dir / f"{evil}.txt"
        text.write_text("some words to learn, over and over\n" * 20)
        deck = self.deck(SMALL, model={"vocab_size": 0}, train={"steps": 1})
        out = self.dir / "out"
        options = [f"--data.source={text}", f"--output.dir={out}", "--checkpoint.every=1", "--trace.level=steps"]
        said = [self.ok("train", deck, *options)]
        for file in (out / "checkpoints/step_00000001.h5", out / "trace.h5"):
            said.append(self.ok("info", file, "--all"))
        said += [self.ok("eval", out), self.shoal("info", text).stderr]
        for words in said:
            self.assertNotRegex(words, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
        self.assertIn("\\x1b]0;evil\\x07\\u{202e}\\xff.txt", said[1])
        self.assertIn("\\x1b]0;evil\\x07\\u{202e}\\xff.txt: not an HDF5 file", said[-1])
        # A directory of such a name, whose path is kept in run.json.
        named = f"--output.dir={self.dir / evil}"
        self.ok("train", deck, options[0], named, "--checkpoint.every=1")
        self.ok("train", deck, options[0], named, "--train.steps=2", "--checkpoint.resume=latest")

    def test_the_log_shows_what_matters(self):
        deck = self.deck(SMALL, train={"steps": 4, "log_every": 2})
        out = self.dir / "log"
        log = self.ok("train", deck, f"--output.dir={out}", ranks=2)
        record = json.loads((out / "run.json").read_text())
        summary = json.loads((out / "summary.json").read_text())
        about = {"world_size": 2, "nodes": 1, "options": summary["options"]}
        self.assertEqual({name: record[name] for name in about}, about)
        self.assertIn(f"{record['parameters']:,} parameters".replace(",", " "), log)
        self.assertIn(record["data"], log)
        self.assertIn(record["device"], log)
        rows = re.findall(r"^#   (\w+\.\w+) ", log.split("options that differ from their defaults")[1], re.M)
        self.assertEqual(record["changed"], rows)
        for part in (
            "shoal 0.",
            "ranks",
            "device",
            "libraries",
            "parameters",
            "best possible loss",
            "% peak",
            "tokens/s",
            "ETA",
            "# OK: 4 of 4 steps, every update applied\n",
        ):
            self.assertIn(part, log)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["state_bytes"]["planned"], summary["state_bytes"]["taken"])
        self.assertGreater(summary["comm_bytes_per_step"]["reduce_scatter"]["intra"], 0)

    def test_commands_in_the_log_can_be_pasted(self):
        """From where the run was started, with any name of output.dir."""
        deck = self.deck(SMALL, train={"steps": 1})
        for name in ("plain", "my run; it's $HOME", "-x"):
            with self.subTest(name=name):
                words = re.search(r"^#   next +(.*)$", self.ok("train", deck, f"--output.dir={name}"), re.M)[1]
                shell = subprocess.run(
                    ["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, text=True, timeout=60, check=True
                )
                python, script, out = shell.stdout.split("\0")[:-1]
                self.assertEqual(
                    (python, pathlib.Path(script).name, pathlib.Path(out)), ("python3", "report.py", pathlib.Path(name))
                )
                self.assertTrue((self.dir / script).is_file(), script)
                self.assertFalse(out.startswith("-"))

    def test_the_log_shows_which_cores_a_rank_may_use(self):
        mine = sorted(os.sched_getaffinity(0))
        if len(mine) < 2:
            skip("one core: ranks cannot have cores of their own")
        deck = self.deck(SMALL, train={"steps": 1})

        def shown(number, *mpiexec, options=()):
            done = self.shoal(
                "train", deck, f"--output.dir={self.dir / str(number)}", *options, ranks=2, mpiexec=mpiexec
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            return re.search(r"^#   cores +(.*)$", done.stdout, re.M)[1]

        free = shown(0, "-bind-to", "none")
        self.assertRegex(free, r"^not bound: 2 ranks share [0-9,-]+$")
        first, last = mine[0], mine[-1]
        bound = ("-bind-to", f"user:{first},{last}")
        self.assertRegex(shown(1, *bound), rf"^rank 0: {first}, rank 1: {last}(, .*NUMA domain)?$")
        one_each = shown(2, *bound, options=("--comm.ranks_per_node=1",))
        self.assertRegex(one_each, rf"^rank 0: {first}(, .*NUMA domain)? \(other nodes differ\)$")
        same = shown(3, "-bind-to", "none", options=("--comm.ranks_per_node=1",))
        self.assertRegex(same, r"^rank 0: [0-9,-]+(, .*NUMA domain)? \(the same on all 2 nodes\)$")

    def test_utilisation_is_of_all_the_threads(self):
        if cores() < 2:
            skip("one core: two threads cannot do more than one")
        deck = self.deck(SMALL, model={"n_embd": 128}, train={"steps": 3, "log_every": 1})
        most = {1: 0.0, 2: 0.0}  # of several runs: another program may have a core while the peak is measured
        for number in range(8):
            if most[2] > 1.3 * most[1] > 0:
                break
            threads = 1 + number % 2
            out = self.dir / f"threads-{number}"
            # If another program has a core, a thread that spins keeps this one from the other core.
            env = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
            done = self.shoal("train", deck, f"--output.dir={out}", env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            measured = float(re.search(r"at most ([0-9.]+) GFLOP/s per rank", done.stdout)[1])
            most[threads] = max(most[threads], measured)
            lines = [line.split() for line in done.stdout.splitlines() if re.match(r" +[123] ", line)]
            self.assertEqual(len(lines), 3, done.stdout)
            for step in lines:
                self.assertLessEqual(float(step[5]), 100.0, step)
        self.assertGreater(most[2], 1.3 * most[1])


if __name__ == "__main__":
    main()
