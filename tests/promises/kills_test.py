# SPDX-License-Identifier: Apache-2.0
"""Runs are killed with -9 at random moments, resumed, and killed again, until one is left alone. It ends with the bits
of an undisturbed run. SHOAL_KILLS: number of kills (20), with another seed each time. SHOAL_SEED: repeats the draws of an
earlier run, which prints its seed."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from program import BINARY, MPIEXEC, QUICKSTART, SMALL, Program, main
from seeds import seed

KILLS = int(os.environ.get("SHOAL_KILLS", "20"))
SEED = seed(nightly="SHOAL_KILLS" in os.environ)
RANKS = 2
DECK = {
    **SMALL,
    "model": {**SMALL["model"], "n_layer": 1, "dropout": 0.1},
    "data": {"source": "synthetic", "val_fraction": 0},
    "train": {"steps": 60, "seed": 3},
    "checkpoint": {"every": 3, "keep": 2},
    "trace": {"level": "steps", "interval": 7},
    # A resumed run waits this long if the lock of a killed run does not show yet whose it is.
    "comm": {"timeout": 10},
}
USERS_DECK = (
    *(QUICKSTART, "--train.steps=6", "--train.eval_every=0", "--data.val_fraction=0", "--checkpoint.every=2"),
    *("--batch.global=16", "--comm.timeout=10"),
)
SAVES = {"at once": "--checkpoint.async=false", "in the background": "--checkpoint.async=true"}
RESUMES = "--checkpoint.resume=latest"  # never refused, even if no checkpoint is complete yet
SHORTER = 0.8  # factor on later delays after one that was longer than the run
KILLED_AGAIN = 0.6  # probability that a resumed run is killed again
ALL_GONE_S = 30  # when one rank dies, the launcher ends the others
# Each rank writes down its process number before it becomes the program.
TELLS_ITS_NUMBER = 'echo $$ >>"$0"; exec "$@"'


class Launched:
    """A run whose processes are known."""

    def __init__(self, out, command, environment):
        self.out = out
        self.told, self.log = (out.with_suffix(f".{time.monotonic_ns()}.{kind}") for kind in ("ranks", "log"))
        words = [MPIEXEC, "-n", str(RANKS), "sh", "-c", TELLS_ITS_NUMBER, self.told, *command, f"--output.dir={out}"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(list(map(str, words)), env=environment, stdout=log, stderr=log)

    def numbers(self):
        return list(map(int, self.told.read_text().split())) if self.told.exists() else []

    def await_ranks(self):
        bound = time.monotonic() + ALL_GONE_S
        while len(self.numbers()) < RANKS and self.process.poll() is None and time.monotonic() < bound:
            time.sleep(0.001)

    def alive(self):
        """The ranks that still exist. A process number may belong to another process by now."""
        found = []
        for number in self.numbers():
            try:
                words = pathlib.Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"--output.dir={self.out}".encode() in words:
                found.append(number)
        return found


class Kills(Program):
    def launch(self, out, *options):
        run = Launched(out, [BINARY, "train", *options], self.environment(RANKS))
        self.addCleanup(run.process.kill)
        return run

    def kill(self, run, delay, one):
        """Kills all ranks, or one of them (`one`: its position, as a fraction). Returns False if all ranks had already
        ended."""
        time.sleep(delay)
        run.await_ranks()
        ranks = run.alive()
        hit = False
        for rank in ranks if one is None else ranks[int(one * len(ranks)) :][:1]:
            try:
                os.kill(rank, signal.SIGKILL)
                hit = True
            except ProcessLookupError:  # it has just ended by itself
                pass
        code = run.process.wait(timeout=ALL_GONE_S)
        bound = time.monotonic() + ALL_GONE_S
        while run.alive() and time.monotonic() < bound:
            time.sleep(0.01)
        self.assertEqual(run.alive(), [], "ranks that outlive the others")
        if not hit:
            self.assertEqual(code, 0, run.log.read_text())
        return hit

    def complete(self, out):
        """The steps of the complete checkpoints."""
        return sorted(int(file.stem.removeprefix("step_")) for file in (out / "checkpoints").glob("step_*.h5"))

    def trial(self, draw, name, deck, straight, seconds):
        """Kills one run until it is left alone. Returns the number of kills."""
        saves = draw.choice(list(SAVES))
        out = self.dir / name
        run, kills, log = self.launch(out, *deck, SAVES[saves]), 0, []
        while True:
            delay, one = draw.uniform(0, seconds[saves]), draw.choice((None, draw.random()))
            log.append(f"{'all ranks' if one is None else 'a rank'} after {delay:.3f} s")
            hit = self.kill(run, delay, one)
            kills += hit
            if not hit:  # the machine has become faster: less of it is used by others
                seconds[saves] *= SHORTER
            if not hit or draw.random() > KILLED_AGAIN:
                break
            run = self.launch(out, *deck, SAVES[saves], RESUMES)
        with self.subTest(saves=saves, kills=log):
            newest = max(self.complete(out), default=0)
            again = self.train(*deck, SAVES[saves], RESUMES, ranks=RANKS, out=name)
            self.assertEqual(again["losses"], straight["losses"][newest:])
            self.assertEqual(again["params_checksum"], straight["params_checksum"])
            self.assertEqual([path.name for path in out.rglob("*.partial")], [], "temporary files at the end")
        return kills

    def undisturbed(self, *deck):
        """The summary of a run that nobody kills, and how many seconds it takes with each kind of saves."""
        seconds = {}
        for saves, option in SAVES.items():
            begin = time.monotonic()
            straight = self.train(*deck, option, ranks=RANKS)
            seconds[saves] = time.monotonic() - begin
        return straight, seconds

    def test_whoever_is_killed_goes_on_as_if_nothing_had_been(self):
        print(f"SHOAL_SEED={SEED}", flush=True)
        draw = random.Random(SEED)
        decks = [((self.deck(DECK),), *self.undisturbed(self.deck(DECK))), (USERS_DECK, *self.undisturbed(*USERS_DECK))]
        kills = [0, 0]
        trials = 0
        while sum(kills) < KILLS and trials < 2 * KILLS:
            trials += 1
            users = 2 * kills[1] < kills[0]  # at least a third of all kills
            kills[users] += self.trial(draw, f"trial-{trials}", *decks[users])
        kills = sum(kills)
        print(f"{kills} kills in {trials} runs", flush=True)
        self.assertGreaterEqual(kills, KILLS, "most delays were longer than the runs, although they became shorter")


if __name__ == "__main__":
    main()
