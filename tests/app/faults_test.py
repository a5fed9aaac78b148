# SPDX-License-Identifier: Apache-2.0
"""System calls on files fail, one at a time: the run ends with one line and an exit code, or it goes on and reports what
it left out.

The calls that a run makes are recorded first (tests/support/failing_calls.cpp); then one of them is made to fail. `make
test` draws the same few calls each time. SHOAL_FAULTS=300 draws 300, others each time, and prints the seed;
SHOAL_FAULTS_SEED=n repeats a draw.
"""

import collections
import errno
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import time

from program import BINARY, LEAKS, QUICKSTART, SOURCE, Program, main, preloaded, processes

LIBRARY = os.environ.get("SHOAL_FAILING_CALLS", str(SOURCE / "build/tests/support/libshoal_failing_calls.so"))
CASES = int(os.environ.get("SHOAL_FAULTS", "12"))
SEED = int(os.environ.get("SHOAL_FAULTS_SEED", time.time_ns() % 1_000_000 if "SHOAL_FAULTS" in os.environ else 1))
BOUND = 60  # seconds for a run that takes one: for comm.timeout, and for a busy machine

DECK = {
    "model": {"kind": "gpt", "n_layer": 2, "n_head": 2, "n_embd": 32, "block_size": 16, "vocab_size": 64},
    "data": {"source": "synthetic"},
    "batch": {"micro": 1, "global": 4},
    "train": {"steps": 4, "seed": 3, "eval_batches": 1},
    "comm": {"timeout": 10},
}
ERRORS = {
    "open": (errno.EACCES, errno.ENOSPC, errno.EMFILE, errno.EIO),
    "opendir": (errno.EACCES, errno.EMFILE, errno.EIO),
    "mkdir": (errno.EACCES, errno.ENOSPC),
    "rename": (errno.EACCES, errno.ENOSPC, errno.EIO),
    "write": (errno.ENOSPC, errno.EDQUOT, errno.EIO),
    "fallocate": (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EOPNOTSUPP),
    "ftruncate": (errno.ENOSPC, errno.EIO),
}
OTHERWISE = (errno.EIO,)

# Failures that a run once did not survive: (scenario, call, file, error, whether all later calls fail, too).
KNOWN = (("resume", "open", "metrics.jsonl", errno.EMFILE, 0),)  # the run went on without its earlier lines

Call = collections.namedtuple("Call", "scenario rank call at path")
# What differs from run to run in the names of files: a lock's token, a process's number. They are numbered in their order, so
# that a seed draws the same calls each time.
TOKEN = re.compile(r"(?<=shoal\.lock\.new\.)\w+|(?<=\.shoal-probe\.)\d+")


class Faults(Program):
    SCENARIOS = ("train", "async", "collective", "resume", "export", "tokenize")
    CASES = CASES - CASES // 3

    def options(self):
        return (self.deck(DECK),)

    def setUp(self):
        super().setUp()
        self.run_options = self.options()
        self.text = self.dir / "text.txt"
        self.text.write_text("a line of text that is read by the program\n" * 50)
        self.base = self.dir / "base"
        self.straight = self.dir / "straight"
        for out, more in ((self.straight, []), (self.base, ["--train.steps=2"])):
            self.train(
                *self.run_options, "--checkpoint.every=2", f"--output.export={out / 'export'}", *more, ranks=2, out=out
            )
        self.wanted = json.loads((self.straight / "summary.json").read_text())

    def command(self, scenario, out):
        trained = ["train", *self.run_options, f"--output.dir={out}", "--checkpoint.every=2", "--trace.interval=1",
                   f"--output.export={out / 'export'}"]  # fmt: skip
        return {
            "train": trained,
            "async": [*trained, "--checkpoint.async=true"],
            "collective": [*trained, "--checkpoint.io=collective"],
            "resume": [*trained, "--checkpoint.resume=latest"],
            "export": ["export", out / "checkpoints/step_00000002.h5", out / "weights"],
            "tokenize": ["tokenize", self.text, out / "tokens.h5"],
        }[scenario]

    def start(self, scenario, out, **failure):
        """Runs the scenario in a directory of its own with a failing call. Returns the finished process."""
        shutil.rmtree(out, ignore_errors=True)
        if scenario in ("resume", "export"):
            shutil.copytree(self.base, out)
            shutil.rmtree(out / "export")
        elif scenario == "tokenize":
            out.mkdir()
        given = {**preloaded(LIBRARY), "SHOAL_FAIL_BELOW": out, **LEAKS}
        given |= {f"SHOAL_FAIL_{name.upper()}": value for name, value in failure.items()}
        set_by = [word for name, value in given.items() for word in ("-genv", name, str(value))]
        ranks = 1 if scenario in ("export", "tokenize") else 2
        return self.shoal(*self.command(scenario, out), ranks=ranks, mpiexec=set_by, timeout=BOUND)

    def record(self, scenario):
        """The calls that the scenario makes, in order for each rank."""
        log = self.dir / f"calls of {scenario}"
        done = self.start(scenario, self.dir / "recorded", log=log)
        self.assertEqual(done.returncode, 0, done.stderr)
        calls, seen = [], collections.Counter()
        for line in log.read_text().splitlines():
            rank, call, path = line.split(" ", 2)
            seen[rank, call] += 1
            calls.append(Call(scenario, int(rank), call, seen[rank, call], path))
        return calls

    def draw(self, choose, recorded):
        """Draws a call. Each kind of call on each kind of file is equally likely, so that a single write of a summary
        is drawn as often as one of the many writes of a trace."""
        scenario = choose.choice(self.SCENARIOS)
        if scenario not in recorded:
            recorded[scenario] = self.record(scenario)
        kinds, tokens = collections.defaultdict(list), {}

        def number(found):
            return f"{tokens.setdefault(found[0], len(tokens)):03}"

        for call in recorded[scenario]:
            kinds[call.rank, call.call, TOKEN.sub(number, pathlib.Path(call.path).name)].append(call)
        return choose.choice(kinds[choose.choice(sorted(kinds))])

    def test_failures_that_were_once_not_survived(self):
        recorded = {}
        for scenario, name, file, error, lasts in KNOWN:
            if scenario not in recorded:
                recorded[scenario] = self.record(scenario)
            calls = [
                call
                for call in recorded[scenario]
                if (call.rank, call.call, pathlib.Path(call.path).name) == (0, name, file)
            ]
            self.assertTrue(calls, f"{scenario} makes no call of {name} on {file}")
            for call in calls:
                with self.subTest(call=call, error=errno.errorcode[error], lasts=lasts):
                    self.check(call, error, lasts)

    def test_every_failing_call_is_survived(self):
        if not pathlib.Path(LIBRARY).exists():
            self.fail(f"{LIBRARY} is not built")
        print(f"faults: SHOAL_FAULTS_SEED={SEED}")
        choose, recorded = random.Random(SEED), {}
        for number in range(self.CASES):
            call = self.draw(choose, recorded)
            error = choose.choice(ERRORS.get(call.call, OTHERWISE))
            lasts = choose.randrange(2)
            with self.subTest(number=number, call=call, error=errno.errorcode[error], lasts=lasts):
                self.check(call, error, lasts)

    def check(self, call, error, lasts):
        out, log = self.dir / "recorded", self.dir / "log"
        log.unlink(missing_ok=True)
        done = self.start(
            call.scenario, out, call=call.call, rank=call.rank, at=call.at, errno=error, lasts=lasts, log=log
        )
        self.assertTrue(log.exists() and log.read_text(), "the call did not fail")
        said = f"\n{done.stdout}\n{done.stderr}"
        self.assertIn(done.returncode, (0, 1, 2), f"a code of the program's own{said}")
        for word in ("SIGNAL", "terminate", "Sanitizer", "Fatal error", "Assertion"):
            self.assertNotIn(word, done.stderr, said)
        self.assertEqual(self.processes_in(out), [], "all ranks have ended")
        lines = [line for line in done.stderr.splitlines() if line.startswith("shoal: ")]
        # A trace that cannot be written is left out, with a message. So is a damaged checkpoint if there is an older
        # one.
        errors = [line for line in lines if not line.startswith(("shoal: trace: ", "shoal: warning: "))]
        if done.returncode != 0:
            self.assertEqual(len(errors), 1, f"one line says why{said}")
            # A collective write of MPI-IO hangs if one of its calls fails; then the watchdog prints the line.
            reasons = [pathlib.Path(call.path).name.removesuffix(".partial"), os.strerror(error)]
            reasons += ["no sign of life"] if call.scenario == "collective" else []
            self.assertTrue(any(reason in line for reason in reasons for line in lines), said)
        else:
            self.assertEqual(errors, [], said)
            self.assert_complete(call.scenario, out, lines)
        self.assert_valid_checkpoints(call.scenario, out)

    def assert_complete(self, scenario, out, lines):
        """Checks the files that a run with exit code 0 must leave."""
        if scenario == "tokenize":
            self.assertEqual(self.info("--verify", out / "tokens.h5").returncode, 0)
            return
        weights = out / ("weights" if scenario == "export" else "export") / "model.safetensors"
        reference = self.base if scenario == "export" else self.straight
        self.assertEqual(weights.read_bytes(), (reference / "export/model.safetensors").read_bytes())
        if scenario == "export":
            return
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["params_checksum"], self.wanted["params_checksum"])
        steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, [1, 2, 3, 4])
        self.assertEqual(
            sorted(path.name for path in (out / "checkpoints").iterdir()), ["step_00000002.h5", "step_00000004.h5"]
        )
        if not any(line.startswith("shoal: trace: ") for line in lines):
            traces = [self.info(path).stdout for path in out.glob("trace*.h5")]
            self.assertTrue(any(re.search("complete +yes", trace) for trace in traces), traces)

    def assert_valid_checkpoints(self, scenario, out):
        """Checks that every file with a final name is complete, and that files from before are unchanged."""
        for path in (out / "checkpoints").glob("*.h5") if (out / "checkpoints").exists() else ():
            found = self.info("--verify", path)
            self.assertEqual(found.returncode, 0, f"{path}: {found.stderr}")
        if scenario in ("resume", "export"):
            name = "checkpoints/step_00000002.h5"
            self.assertEqual((out / name).read_bytes(), (self.base / name).read_bytes(), "an earlier checkpoint")
        tokens = out / "tokens.h5"
        if tokens.exists():
            self.assertEqual(self.info("--verify", tokens).returncode, 0)

    def info(self, *args):
        return subprocess.run(
            [BINARY, "info", *map(str, args)], capture_output=True, text=True, timeout=60, env=self.environment(1)
        )

    def processes_in(self, out):
        """Numbers of processes of this run that still exist, after they had a moment to end."""
        deadline = time.time() + 5
        while True:
            found = processes(lambda words: any(str(out).encode() in word for word in words))
            if not found or time.time() > deadline:
                return found
            time.sleep(0.05)


class FaultsOfAUsersRun(Faults):
    """A third of the calls are those of a deck that users run, in its size."""

    SCENARIOS = ("train", "async", "collective", "resume")
    CASES = CASES // 3
    test_failures_that_were_once_not_survived = None  # those of the small deck

    def options(self):
        deck = self.dir / "deck.cfg"
        words = {r"^steps .*": "steps = 4", r"^eval_every .*": "", r"^every .*": "", r"^interval .*": ""}
        text = QUICKSTART.read_text()
        for before, after in words.items():
            text, found = re.subn(before, after, text, flags=re.MULTILINE)
            self.assertEqual(found, 1, before)
        deck.write_text(text)
        return (deck,)


if __name__ == "__main__":
    main()
