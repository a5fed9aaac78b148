# SPDX-License-Identifier: Apache-2.0
"""Files that a run finds, uses together with other runs, or loses: nothing of others is overwritten, a directory has
one run at a time, and if something cannot be written, the run reports it before it computes anything."""

import errno
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess

from program import BINARY, MPIEXEC, SMALL, SOURCE, Program, main, preloaded

FAILING_CALLS = os.environ.get("SHOAL_FAILING_CALLS", str(SOURCE / "build/tests/support/libshoal_failing_calls.so"))
TINY = {**SMALL, "model": {**SMALL["model"], "n_layer": 1, "n_embd": 16}, "train": {**SMALL["train"], "steps": 4}}


class Files(Program):
    def one_line(self, *args, ranks=1, code=2, contains=(), env=None):
        done = self.refused(*args, ranks=ranks, code=code, contains=contains, env=env)
        self.assertEqual(done.stderr.count("shoal: "), 1, done.stderr)
        return done

    def test_a_trace_is_never_lost(self):
        deck, out = self.deck(TINY, trace={"file": "study.h5"}), self.dir / "out"
        self.train(deck, "--checkpoint.every=2", out="out")
        first = (self.dir / "study.h5").read_bytes()
        middle = f"--checkpoint.resume={out}/checkpoints/step_00000002.h5"
        for _ in range(2):
            self.train(deck, middle, out="out")
        self.assertEqual(
            sorted(path.name for path in self.dir.glob("study*")),
            ["study.h5", "study_from_2.h5", "study_from_2_2.h5"],
        )
        self.assertEqual((self.dir / "study.h5").read_bytes(), first)
        self.train(self.deck(TINY, name="unnamed.cfg"), middle, out="out")
        self.assertTrue((out / "trace_from_2.h5").exists())

        thesis, checkpoint = self.dir / "thesis.txt", out / "checkpoints" / "step_00000004.h5"
        thesis.write_text("years of work")
        shutil.copyfile(checkpoint, self.dir / "mine.h5")
        (self.dir / "link.h5").symlink_to(self.dir / "study.h5")
        for name in ("thesis.txt", "mine.h5", "link.h5"):
            before = (self.dir / name).read_bytes()
            self.one_line(
                "train", deck, "--output.overwrite", f"--trace.file={name}", ranks=2, contains=[name, "is not a trace"]
            )
            self.assertEqual((self.dir / name).read_bytes(), before)
        self.one_line("train", deck, "--output.dir=new", contains=["study.h5: exists", "--output.overwrite"])
        self.train(deck, "--output.overwrite", "--checkpoint.last=false", out="out")
        self.assertNotEqual((self.dir / "study.h5").read_bytes(), first)
        self.assertFalse(checkpoint.exists(), "the run that was replaced")

    def test_overwrite_leaves_what_no_run_wrote(self):
        out, deck = self.dir / "out", self.deck(TINY)
        self.train(deck, "--checkpoint.every=4", out="out")
        kept = {"traceability.h5": "x", "notes.txt": "x", "checkpoints/best.h5": "x"}
        for name, content in kept.items():
            (out / name).write_text(content)
        target = self.dir / "target"
        target.write_text("not to be written through")
        for name in ("summary.json.partial", "metrics.jsonl.partial", "trace.h5.partial"):
            (out / name).symlink_to(target)
        (out / "checkpoints" / "step_00000004.h5.partial").symlink_to(target)
        self.train(deck, "--checkpoint.every=4", "--output.overwrite", out="out")
        self.assertEqual({name: (out / name).read_text() for name in kept}, kept)
        self.assertEqual(target.read_text(), "not to be written through")
        self.assertEqual(list(out.rglob("*.partial")), [])
        self.assertFalse((out / "shoal.lock").exists())

        (out / "summary.json").write_text('{"of": "another program"}')
        self.one_line("train", deck, f"--output.dir={out}", "--output.overwrite", contains=["summary.json", "is no"])
        self.assertEqual((out / "summary.json").read_text(), '{"of": "another program"}')

    def test_only_checkpoints_are_replaced_by_checkpoints(self):
        deck, kept = self.deck(TINY), self.dir / "kept"
        options = ("--checkpoint.dir=kept", "--checkpoint.every=2")
        self.train(deck, *options, out="out")
        self.train(deck, *options, out="second")  # replaces whole ones, with a note
        first, last = kept / "step_00000002.h5", kept / "step_00000004.h5"
        whole = last.read_bytes()
        unsealed = whole[:-1] + bytes([whole[-1] ^ 1])
        for content in (b"years of work", unsealed, whole[: len(whole) // 2]):
            last.write_bytes(content)
            summary = (self.dir / "out" / "summary.json").read_bytes()
            refusals = [("--output.dir=new",), ("--output.dir=out", "--output.overwrite")]
            if content == b"years of work":
                refusals.append(("--output.dir=new", f"--checkpoint.resume={first}"))
            elif content != unsealed:
                refusals.pop()  # a killed run may have left it, and the user allows to replace that
            for more in refusals:
                said = ["checkpoint.dir = kept: kept/step_00000004.h5: exists and is not a checkpoint"]
                self.one_line("train", deck, *options, *more, ranks=2, contains=said)
            self.assertEqual(last.read_bytes(), content)
            self.assertEqual((self.dir / "out" / "summary.json").read_bytes(), summary, "nothing was removed before")
            self.train(deck, *options, "--train.steps=3", out=f"new-{len(content)}")  # does not reach step 4
            self.assertEqual(last.read_bytes(), content)
        self.train(deck, *options, f"--checkpoint.resume={first}", out="resumed")
        self.assertEqual(self.shoal("info", last, "--verify").returncode, 0)
        last.write_bytes(unsealed)
        self.train(deck, *options, "--checkpoint.resume=latest", out="resumed")
        self.assertEqual(self.shoal("info", last, "--verify").returncode, 0)

    def test_what_is_in_the_way_of_a_checkpoint_is_found_at_the_start(self):
        deck, saves = self.deck(TINY), "--checkpoint.every=2"
        self.train(deck, saves, out="first")
        first = self.dir / "first/checkpoints/step_00000002.h5"
        (self.dir / "out/checkpoints").mkdir(parents=True)
        last = self.dir / "out/checkpoints/step_00000004.h5"
        said = ["output.dir = out: out/checkpoints/step_00000004.h5: exists and is not a checkpoint"]
        last.write_text("years of work")
        resumed = f"--checkpoint.resume={first}"
        self.one_line("train", deck, saves, "--output.dir=out", resumed, ranks=2, contains=said)
        self.assertEqual(last.read_text(), "years of work")
        last.unlink()
        last.mkdir()
        for more in ((), ("--output.overwrite",), (resumed,), ("--checkpoint.resume=latest",)):
            self.one_line("train", deck, saves, "--output.dir=out", *more, ranks=2, contains=said)
        self.assertEqual([path.name for path in (self.dir / "out").iterdir()], ["checkpoints"], "nothing was begun")
        self.train(deck, saves, "--train.steps=3", out="out")

    @staticmethod
    def holder(lock):
        try:
            words = dict(line.split(" ", 1) for line in lock.read_text().splitlines())
        except OSError:
            return 0
        return int(words.get("process", 0))

    def test_one_run_in_a_directory(self):
        deck, out = self.deck(TINY, train={"steps": 100000000}), self.dir / "out"
        saves = self.dir / "host/checkpoints"
        saves_in = f"--checkpoint.dir={saves.relative_to(self.dir)}"
        options = ["--output.dir=out", saves_in, "--checkpoint.every=500", "--checkpoint.keep=2"]
        run = self.start("train", deck, *options)
        self.wait_for(lambda: list(saves.glob("step_*.h5")), run)
        process = self.holder(out / "shoal.lock")
        self.assertEqual(self.holder(saves / "shoal.lock"), process)
        busy = ["in use by another run", f"process {process}, since 20"]
        others = [
            (["--output.dir=out", "--output.overwrite"], ["output.dir = out"]),
            (["--output.dir=out", "--checkpoint.resume=latest"], ["output.dir = out"]),
            (["--output.dir=other", saves_in, "--checkpoint.resume=latest"], ["checkpoint.dir = host/checkpoints"]),
            (["--output.dir=host", "--output.overwrite"], ["checkpoint.dir = host/checkpoints"]),
            (
                ["--output.dir=host", "--output.overwrite", "--checkpoint.last=false"],
                ["output.dir = host: its checkpoints"],
            ),
        ]
        for arguments, contains in others:
            self.one_line("train", deck, *arguments, ranks=2, contains=[*contains, *busy])
        self.assertTrue((out / "metrics.jsonl").read_text(), "what the run writes is still there")
        self.assertTrue(list(saves.glob("step_*.h5")))

        os.kill(process, signal.SIGKILL)
        run.wait(timeout=60)
        done = self.shoal("train", deck, *options, "--train.steps=4", "--output.overwrite", ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"process {process}", done.stdout)
        self.assertIn("taking over the lock", done.stdout)
        self.assertFalse((out / "shoal.lock").exists() or (saves / "shoal.lock").exists(), "released at the end")

    def test_a_directory_that_cannot_be_listed_is_not_empty(self):
        deck, out = self.deck(TINY), self.dir / "out"
        self.train(deck, out="out")
        metrics = (out / "metrics.jsonl").read_bytes()
        fails = {**preloaded(FAILING_CALLS), "SHOAL_FAIL_CALL": "opendir", "SHOAL_FAIL_ERRNO": str(errno.EMFILE)}
        fails["SHOAL_FAIL_BELOW"] = str(out)
        for at, place in enumerate((out / "checkpoints", out), start=1):
            said = [f"shoal: {place}: cannot be listed: {os.strerror(errno.EMFILE)}"]
            again = {**fails, "SHOAL_FAIL_AT": str(at)}
            self.one_line("train", deck, f"--output.dir={out}", code=1, contains=said, env=again)
            self.assertEqual((out / "metrics.jsonl").read_bytes(), metrics)

    def test_tokens_that_cannot_be_read_now_are_not_bad_input(self):
        (self.dir / "text.txt").write_text("to be or not to be")
        tokens, log = self.dir / "tokens.h5", self.dir / "calls"
        self.assertEqual(self.shoal("tokenize", "text.txt", tokens).returncode, 0)
        fails = {**preloaded(FAILING_CALLS), "SHOAL_FAIL_BELOW": str(tokens)}
        self.assertEqual(self.shoal("info", tokens, env={**fails, "SHOAL_FAIL_LOG": str(log)}).returncode, 0)
        opens = sum(line.split()[1] == "open" for line in log.read_text().splitlines())
        self.assertGreater(opens, 1)
        fails |= {"SHOAL_FAIL_CALL": "open", "SHOAL_FAIL_ERRNO": str(errno.EIO)}
        for at in range(1, opens + 1):
            said = [f"{tokens}: cannot be opened: {os.strerror(errno.EIO)}"]
            self.one_line("info", tokens, code=1, contains=said, env={**fails, "SHOAL_FAIL_AT": str(at)})

    def test_a_run_that_cannot_write_its_metrics_saves_its_state(self):
        deck, out = self.deck(TINY, train={"steps": 100000000}), self.dir / "out"
        fails = {**preloaded(FAILING_CALLS), "SHOAL_FAIL_CALL": "write", "SHOAL_FAIL_ERRNO": str(errno.EDQUOT)}
        fails |= {"SHOAL_FAIL_BELOW": str(out / "metrics.jsonl"), "SHOAL_FAIL_AT": "5", "SHOAL_FAIL_LASTS": "1"}
        said = ["metrics.jsonl", os.strerror(errno.EDQUOT)]
        self.one_line(
            "train", deck, "--output.dir=out", "--checkpoint.async=true", ranks=2, code=1, contains=said, env=fails
        )
        (saved,) = (out / "checkpoints").glob("step_*.h5")
        step = int(saved.stem.removeprefix("step_"))
        self.assertGreaterEqual(step, 5)
        resumed = [deck, f"--output.dir={out}", "--checkpoint.resume=latest", f"--train.steps={step + 1}"]
        done = self.shoal("train", *resumed, ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"metrics.jsonl has no lines of steps 5 to {step}, which are in the checkpoint", done.stdout)
        steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, [1, 2, 3, 4, step + 1])
        metrics, resumed[-1] = out / "metrics.jsonl", f"--train.steps={step + 2}"
        metrics.write_text("")  # none of its lines could be written
        self.assertIn(
            f"metrics.jsonl has no lines of steps 1 to {step + 1}, which", self.shoal("train", *resumed).stdout
        )
        metrics.unlink()
        resumed[-1] = f"--train.steps={step + 3}"
        self.assertNotIn("has no lines of steps", self.shoal("train", *resumed).stdout)
        self.assertEqual([json.loads(line)["step"] for line in metrics.read_text().splitlines()], [step + 3])

    def test_a_directory_that_goes_ends_the_run(self):
        deck = self.deck(TINY, train={"steps": 100000000}, comm={"timeout": 4})
        run = self.start("train", deck, "--output.dir=gone")
        metrics = self.dir / "gone" / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.read_text(), run)  # by then it has opened all its files
        (self.dir / "gone").rename(self.dir / "removed")  # at once, so that the run never sees a part of it
        shutil.rmtree(self.dir / "removed")
        said, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1, said + errors)
        self.assertIn("output.dir = gone: was removed while this run wrote to it", errors)
        self.assertFalse((self.dir / "gone").exists())

    def test_records_that_go_are_an_error_at_the_end(self):
        deck = self.deck(TINY, train={"steps": 100000000, "stop_after": 4})
        run = self.start("train", deck, "--output.dir=out")
        self.wait_for(lambda: (self.dir / "out" / "metrics.jsonl").exists(), run)
        (self.dir / "out" / "metrics.jsonl").unlink()
        said, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1, said + errors)
        self.assertIn("metrics.jsonl: was removed", errors)

    def test_what_cannot_be_written_is_found_at_the_start(self):
        (self.dir / "file").write_text("")
        deck = self.deck(TINY)
        places = ("--output.export=file/weights", "--checkpoint.dir=file/saves", "--trace.file=file/trace.h5")
        for place in places:
            for more in (["--checkpoint.every=1"], ["--checkpoint.every=1", "--dry-run"]):
                wanted = [place[2:].replace("=", " = "), "file"]
                done = self.one_line("train", deck, "--output.dir=out", place, *more, contains=wanted)
                self.assertNotIn("# shoal", done.stdout, "said before there is a model")
        self.assertFalse((self.dir / "out" / "metrics.jsonl").exists())
        self.shoal("train", deck, "--output.dir=tried", "--checkpoint.dir=tried/c", "--dry-run")
        self.assertFalse((self.dir / "tried").exists(), "a dry run makes nothing")

    def test_a_limit_on_file_sizes_is_an_error(self):
        deck = self.deck(TINY, model={"n_embd": 256})  # a checkpoint of 9 MB; MPI itself needs files of 4 MB
        command = [MPIEXEC, "-n", "2", BINARY, "train", deck, "--output.dir=out", "--checkpoint.every=2"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment(2),
            cwd=self.dir,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000000, 6000000)),
        )
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("File too large", done.stderr)

    def test_more_files_of_data_than_a_process_may_open_at_first(self):
        """Many systems have a limit of 1024 that a process may raise itself."""
        text = self.dir / "text.txt"
        text.write_text("some words to learn, over and over\n" * 4)
        made = self.shoal("tokenize", "--tokenizer=bytes", text, self.dir / "part_000.h5")
        self.assertEqual(made.returncode, 0, made.stderr)
        for part in range(1, 300):
            shutil.copyfile(self.dir / "part_000.h5", self.dir / f"part_{part:03}.h5")
        deck = self.deck(TINY, data={"source": self.dir / "part_*.h5"}, model={"vocab_size": 0})
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        done = subprocess.run(
            [BINARY, "train", deck, "--output.dir=out"],
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment(1),
            cwd=self.dir,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, most)),
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_damaged_record_is_named(self):
        deck, out = self.deck(TINY), self.dir / "out"
        self.train(deck, "--checkpoint.every=2", out="out")
        record = out / "metrics.jsonl"
        good = record.read_text().splitlines()
        again = ["train", deck, f"--output.dir={out}", f"--checkpoint.resume={out}/checkpoints/step_00000002.h5"]
        for bad in ("[1, 2]", "7", '{"step": "two"}', "{"):
            record.write_text("\n".join([good[0], bad, *good[2:]]) + "\n")
            self.one_line(*again, contains=["metrics.jsonl:2: "])
        record.write_text("\n".join(good) + '\n{"step": 5, "lo')  # as a killed run leaves it
        done = self.shoal(*again)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(line)["step"] for line in record.read_text().splitlines()], [1, 2, 3, 4])

    def test_results_are_replaced_where_it_is_said(self):
        deck = self.deck(TINY, checkpoint={"every": 4})
        self.train(deck, "--output.export=weights", out="out")
        checkpoint = self.dir / "out" / "checkpoints" / "step_00000004.h5"
        weights, config = self.dir / "weights" / "model.safetensors", self.dir / "weights" / "config.json"
        exported = weights.read_bytes()
        self.one_line("export", checkpoint, "weights", contains=["weights/model.safetensors: exists"])
        self.one_line("train", deck, "--output.dir=b", "--output.export=weights", contains=["output.export", "exists"])
        weights.unlink()
        self.one_line("export", checkpoint, "weights", "--output.overwrite", contains=["config.json", "is no"])
        config.unlink()
        for more in ([], ["--output.overwrite"]):
            done = self.shoal("export", checkpoint, "weights", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(weights.read_bytes(), exported)
        weights.write_bytes(b"somebody's weights")
        self.one_line("export", checkpoint, "weights", "--output.overwrite", contains=["model.safetensors", "is no"])
        self.assertEqual(weights.read_bytes(), b"somebody's weights")

        (self.dir / "text.txt").write_text("to be or not to be")
        tokens = ["tokenize", "text.txt", "tokens.h5"]
        self.assertEqual(self.shoal(*tokens).returncode, 0)
        self.one_line(*tokens, contains=["tokens.h5: exists", "--output.overwrite"])
        self.assertEqual(self.shoal(*tokens, "--output.overwrite").returncode, 0)
        self.one_line(
            "tokenize", "text.txt", "deck.cfg", "--output.overwrite", contains=["deck.cfg", "is not a tokens file"]
        )
        self.assertIn("[model]", pathlib.Path(deck).read_text())


if __name__ == "__main__":
    main()
