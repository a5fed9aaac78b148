# SPDX-License-Identifier: Apache-2.0
"""Bad input gives one clear line that names what is wrong, where, and what is allowed. All ranks end with a non-zero
exit code, and nothing is overwritten."""

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import BINARY, SMALL, Program, main, ranks_of, sanitized, skip

ATTEMPTS = 3  # other programs on the machine make the same work dearer, so the cheapest of several attempts counts


def processor_seconds():
    """Of all processes that this one has started, and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class BadInput(Program):
    def test_options(self):
        deck = self.deck(SMALL)
        begin = processor_seconds()
        self.assertEqual(self.shoal("train", deck, "--dry-run", ranks=2).returncode, 0)
        accepted = processor_seconds() - begin
        cases = [
            (["--train.stepz=3"], ["train.stepz", "train.steps"]),
            (["--train.steps=many"], ["train.steps", "many"]),
            (["--train.steps=-1"], ["train.steps", "-1"]),
            (["--train.step=3"], ["train.step", "train.steps"]),
            (["--train.dtype=fp8"], ["train.dtype", "fp32", "bf16"]),
            (["--model.n_head=3"], ["n_embd", "n_head"]),
            (["--batch.global=7"], ["batch.global", "7"]),
            (["--zero.tile_linear=2"], ["not built yet: zero.tile_linear"]),
            (["--zero.stage=4"], ["zero.stage", "4"]),
        ]
        for arguments, contains in cases:
            with self.subTest(arguments=arguments):
                for _ in range(ATTEMPTS):
                    begin = processor_seconds()
                    out = f"--output.dir={self.dir / 'no'}"
                    self.refused("train", deck, out, *arguments, ranks=2, contains=contains)
                    cost = processor_seconds() - begin
                    self.assertFalse((self.dir / "no").exists(), "nothing is written")
                    if cost < 3 * accepted:
                        break
                self.assertLess(cost, 3 * accepted, "it costs no more than an answer")

    def cost(self, *args):
        """Starts the program once without a launcher. Returns CPU seconds, resident MB, the exit code and the
        output. If it does not end by itself, it is killed."""
        with open(self.dir / "said", "w+") as said:
            run = subprocess.Popen([BINARY, *args], env=self.environment(1), cwd=self.dir, stdout=said, stderr=said)
            clock = threading.Timer(60, run.kill)
            clock.start()
            _, status, usage = os.wait4(run.pid, 0)
            clock.cancel()
            run.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            words = said.read()
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, run.returncode, words

    def test_absurd_sizes_are_answered_at_once(self):
        deck = str(self.deck(SMALL, batch={"micro": 1, "global": 8}, data={"val_fraction": 0.1}))
        seldom = ["--train.steps=4294967295", "--train.eval_every=2", "--sync.kind=localsgd"]
        micro = 4293787648
        cases = [
            ["--model.n_layer=1000000"],
            ["--model.n_layer=1024", "--model.n_embd=1024"],
            ["--model.n_embd=1000000000"],
            ["--model.n_embd=1048576"],
            ["--comm.bucket_mb=1e-9", "--model.n_embd=4096"],
            ["--model.vocab_size=1099511627776"],
            ["--model.vocab_size=16777216"],
            ["--batch.global=1000000000000"],
            ["--batch.global=4294967264"],
            [f"--batch.global={micro}", f"--batch.micro={micro}"],
            ["--ranks=1048576"],
            [*seldom, "--sync.localsgd_frequency=4294967294"],
        ]
        for command in (["train", deck, "--dry-run"], ["plan", deck]):
            usual_seconds, usual_resident, code, words = self.cost(*command)
            self.assertEqual(code, 0, words)
            for arguments in cases:
                with self.subTest(command=command[0], arguments=arguments):
                    for _ in range(ATTEMPTS):
                        seconds, resident, code, words = self.cost(*command, *arguments)
                        self.assertIn(code, (0, 2), words)
                        self.assertEqual(words.count("shoal: "), 1 if code == 2 else 0, words)
                        if sanitized() or seconds < 40 * usual_seconds:
                            break
                    if not sanitized():
                        # The dearest, a plan of 1024 layers, costs 15 times as much: it grows with the layers, not faster.
                        self.assertLess(seconds, 40 * usual_seconds)
                        self.assertLess(resident, usual_resident + 150)

    def test_a_deck_names_file_and_line(self):
        deck = self.dir / "bad.cfg"
        deck.write_text("[model]\nn_layer = 2\nn_embd = 33\nn_head = 2\n[train]\nstep = 3\n")
        done = self.refused("train", deck, contains=["bad.cfg:6:", "train.step"])
        self.assertNotIn("terminate", done.stderr)

    def test_a_missing_deck(self):
        self.refused("train", self.dir / "nowhere.cfg", contains=["nowhere.cfg"])

    def test_a_network_that_is_no_file(self):
        words = [f"--network {self.dir}: not a regular file", "`shoal bench comm --output FILE` makes one"]
        self.refused("plan", self.deck(SMALL), "--network", self.dir, contains=words)

    def test_data_files(self):
        deck = self.deck(SMALL, model={"vocab_size": 0})
        files = {"missing.txt": None, "empty.txt": b"", "short.txt": b"too short"}
        for name, content in files.items():
            with self.subTest(name):
                path = self.dir / name
                if content is not None:
                    path.write_bytes(content)
                self.refused(
                    "train", deck, f"--data.source={path}", f"--output.dir={self.dir / 'no'}", ranks=2, contains=[name]
                )
                self.assertFalse((self.dir / "no" / "summary.json").exists())
        binary = self.dir / "binary.txt"
        binary.write_bytes(os.urandom(1 << 16))
        self.refused(
            "train",
            deck,
            f"--data.source={binary}",
            "--data.tokenizer=chars",
            f"--output.dir={self.dir / 'no'}",
            contains=["binary.txt"],
        )

    def test_a_token_beyond_the_vocabulary(self):
        text = self.dir / "text.txt"
        text.write_text("hello world, this is text. " * 200)
        self.refused(
            "train",
            self.deck(SMALL, model={"vocab_size": 3}),
            f"--data.source={text}",
            "--data.tokenizer=chars",
            f"--output.dir={self.dir / 'no'}",
            contains=["text.txt", "vocab"],
        )

    def test_a_used_output_directory_keeps_what_it_has(self):
        deck = self.deck(SMALL)
        out = self.dir / "used"
        self.train(deck, out="used")
        before = (out / "summary.json").read_bytes()
        self.refused("train", deck, f"--output.dir={out}", ranks=2, contains=["output.dir", "overwrite"])
        self.assertEqual((out / "summary.json").read_bytes(), before)

    def test_an_output_directory_that_cannot_be_made(self):
        (self.dir / "file").write_text("")
        self.refused(
            "train", self.deck(SMALL), f"--output.dir={self.dir / 'file' / 'out'}", ranks=2, contains=["output.dir"]
        )

    def test_checkpoints(self):
        deck = self.deck(SMALL, train={"steps": 2})
        self.train(deck, "--checkpoint.every=2", out="good")
        good = self.dir / "good" / "checkpoints" / "step_00000002.h5"
        content = good.read_bytes()
        flipped = bytearray(content)
        flipped[len(content) * 2 // 3] ^= 4
        cases = {
            "truncated.h5": content[: len(content) // 2],
            "flipped.h5": bytes(flipped),
            "text.h5": b"no checkpoint at all\n" * 100,
        }
        for name, bad in cases.items():
            with self.subTest(name):
                (self.dir / name).write_bytes(bad)
                done = self.shoal(
                    "train", deck, f"--checkpoint.resume={self.dir / name}", f"--output.dir={self.dir / 'no'}", ranks=2
                )
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertIn(name, done.stderr)
        done = self.shoal(
            "train",
            deck,
            f"--checkpoint.resume={good}",
            "--model.n_embd=64",
            f"--output.dir={self.dir / 'no'}",
            ranks=2,
        )
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("transformer.", done.stderr, "the tensor is named")

    def test_nan_stops_or_skips(self):
        deck = self.deck(SMALL, optimizer={"kind": "sgd", "lr": 1e30}, train={"grad_clip": 0, "steps": 5})
        self.refused("train", deck, f"--output.dir={self.dir / 'nan'}", ranks=2, code=1, contains=["step", "unit"])
        summary = self.train(deck, "--train.on_nan=skip", "--train.eval_every=2", ranks=2, out="skip")
        self.assertEqual(len(summary["losses"]), 5)
        self.assertIn(None, [loss for _, loss in summary["losses"]])
        lines = (self.dir / "skip" / "metrics.jsonl").read_text().splitlines()
        skipped = [line for line in lines if "skipped" in line]
        self.assertEqual(["val_loss" in line for line in lines], [False, True, False, True, True], lines)
        self.assertTrue(0 < len(skipped) < 5)
        updates = "1 update" if len(skipped) == 1 else f"{len(skipped)} updates"
        said = f"OK: 5 of 5 steps, {updates} skipped (not finite)"
        self.assertEqual(summary["verdict"], {"ended": "done", "exit_code": 0, "steps_made": 5,
                                              "updates_skipped": len(skipped), "ok": True, "text": said})  # fmt: skip

    def test_a_unit_larger_than_what_mpi_counts(self):
        model = {"n_layer": 1, "n_head": 32, "n_embd": 4096, "vocab_size": 128000}
        deck = self.deck(SMALL, model=model, zero={"stage": 3}, comm={"collectives": "native"})
        said = ["comm.collectives = native", "unit embedding", "2097676288 bytes", "1073741824", "reproducible"]
        self.refused("train", deck, "--ranks", "2", "--dry-run", contains=said)
        options = ("--zero.stage=1", "--comm.bucket_mb=2000", "--ranks", "2", "--dry-run")
        self.refused("train", deck, *options, contains=["comm.bucket_mb = 2000", "native", "up to 1073"])

    def test_a_loss_scale_hides_no_loss_that_is_not_finite(self):
        """No scale mends it: neither a fixed one, nor one that shrinks until it is too small."""
        deck = self.deck(
            SMALL, optimizer={"kind": "sgd", "lr": 1e30}, train={"grad_clip": 0, "steps": 5, "dtype": "fp16"}
        )
        for number, scale in enumerate(("--train.loss_scale=16", "--train.loss_scale_power=4")):
            said = ["step 2: the loss is", "unit"]
            self.refused(
                "train", deck, scale, f"--output.dir={self.dir / f'nan-{number}'}", ranks=2, code=1, contains=said
            )
            summary = self.train(deck, scale, "--train.on_nan=skip", ranks=2, out=f"skip-{number}")
            self.assertEqual(summary["verdict"]["text"], "OK: 5 of 5 steps, 4 updates skipped (not finite)")

    def test_a_run_without_an_update_is_no_success(self):
        deck = self.deck(SMALL, train={"steps": 3, "dtype": "fp16", "loss_scale_power": 100})
        done = self.shoal("train", deck, f"--output.dir={self.dir / 'none'}", ranks=2)
        self.assertEqual(done.returncode, 1, done.stdout)
        said = "NO UPDATE: all 3 updates were skipped (loss scale overflow)"
        self.assertTrue(done.stdout.endswith(f"\n# {said}\n"), done.stdout)
        self.assertEqual(done.stderr, f"shoal: {said}\n")
        verdict = json.loads((self.dir / "none" / "summary.json").read_text())["verdict"]
        self.assertEqual((verdict["ok"], verdict["exit_code"], verdict["text"]), (False, 1, said))

    def test_a_full_disk(self):
        disk = self.small_disk("2500k")
        deck = self.deck(SMALL, model={"n_embd": 64}, train={"steps": 4}, batch={"micro": 2, "global": 4})
        # One checkpoint of this model takes 1.3 MB, so the second one fills the disk.
        done = self.shoal(
            "train",
            deck,
            f"--output.dir={self.dir / 'full'}",
            f"--checkpoint.dir={disk}",
            "--checkpoint.every=2",
            ranks=2,
        )
        left = sorted(p.name for p in disk.iterdir())
        self.assertEqual(left, ["step_00000002.h5"], done.stderr)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("step_00000004.h5", done.stderr)
        self.assertEqual(self.shoal("info", disk / left[0], "--verify").returncode, 0)
        # If not even one fits, the run does not begin.
        (disk / "other").write_bytes(b"x" * 500_000)
        begun = ("train", deck, f"--output.dir={self.dir / 'none'}", f"--checkpoint.dir={disk}")
        for more in ((), ("--checkpoint.every=2",), ("--dry-run",)):
            said = (f"{disk}: a checkpoint needs 1.22 MiB, the disk has ", "checkpoint.last = false")
            self.refused(*begun, *more, ranks=2, contains=said)
        self.assertFalse((self.dir / "none/metrics.jsonl").exists())
        self.train(deck, f"--checkpoint.dir={disk}", "--checkpoint.last=false", out="none")

    def test_what_a_killed_save_left_gives_its_space_to_the_next_save(self):
        disk = self.small_disk("3500k")
        deck = self.deck(SMALL, model={"n_embd": 64}, train={"steps": 2}, batch={"micro": 2, "global": 4})
        options = (f"--checkpoint.dir={disk}", "--checkpoint.keep=1", "--checkpoint.resume=latest")
        self.train(deck, *options, out="run")
        # One checkpoint of this model takes 1.3 MB, so there is space for two.
        for steps, checkpoint_async in ((4, "false"), (6, "true")):
            (whole,) = disk.glob("step_*.h5")
            shutil.copy(whole, disk / "step_00000003.h5.partial")
            self.train(deck, *options, f"--train.steps={steps}", f"--checkpoint.async={checkpoint_async}", out="run")
            self.assertEqual([file.name for file in disk.glob("step_*")], [f"step_{steps:08}.h5"])

    def small_disk(self, size):
        """Mounts a file system of this size for the test."""
        if os.geteuid() != 0:
            skip("a small file system needs root to mount")
        disk = self.dir / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)])
        return disk

    def test_a_full_disk_ends_the_trace_not_the_run(self):
        disk = self.small_disk("1400k")
        deck = self.deck(SMALL, train={"steps": 400})
        options = (f"--trace.file={disk / 'trace.h5'}", "--trace.level=kernels", "--trace.interval=1")
        done = self.shoal("train", deck, *options, f"--output.dir={self.dir / 'out'}", ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"shoal: trace: .*the disk has .*the run continues")
        summary = json.loads((self.dir / "out/summary.json").read_text())
        self.assertEqual(len(summary["losses"]), 400)

    def test_a_killed_rank_ends_the_others(self):
        # Hydra often kills the surviving ranks itself within milliseconds, even with this option; then only its own
        # message is printed. tests/comm/ending_test.cpp checks that the watchdog names the rank if it has time to.
        deck = self.deck(SMALL, train={"steps": 1000000})
        out = self.dir / "killed"
        run = self.start("train", deck, f"--output.dir={out}", ranks=2, mpiexec=("-disable-auto-cleanup",))
        metrics = out / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.read_text(), run)
        victims = ranks_of(out)
        self.assertEqual(len(victims), 2)
        os.kill(victims[-1], 9)
        said, errors = run.communicate(timeout=30)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(said + errors, r"shoal: rank \d|Killed \(signal 9\)|KILLED BY SIGNAL: 9")


if __name__ == "__main__":
    main()
