# SPDX-License-Identifier: Apache-2.0
"""The decks that users run, in their real sizes, are stopped by signals at random moments. Each run must end with 75 and a
checkpoint, from which it resumes with the bits of an undisturbed run. Kernels of tiny models never reach the generated
code in which a signal once destroyed memory. SHOAL_STOPS: how many runs are stopped (8)."""

import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from program import QUICKSTART, SOURCE, Program, main
from seeds import seed
from signalled import SIGNALS, STOPPED, Run

STOPS = int(os.environ.get("SHOAL_STOPS", "8"))
SEED = seed(nightly="SHOAL_STOPS" in os.environ)
GPT2 = SOURCE / "inputs/gpt2_124m.cfg"
# A deck, and what is changed in it. Sums of validation take seconds, and are not the subject.
DECKS = {
    "quickstart, fp32": (QUICKSTART, "--train.eval_batches=1"),
    "quickstart, bf16": (QUICKSTART, "--train.eval_batches=1", "--train.dtype=bf16"),
}
LARGE = {  # 124 million parameters; steps of a second instead of hours
    "gpt2_124m, cut short": (
        *(GPT2, "--data.source=synthetic", "--data.val_fraction=0", "--train.eval_every=0", "--model.block_size=128"),
        *("--batch.global=4", "--batch.micro=1", "--activation.checkpoint_interval=1", "--train.log_every=1"),
    )
}
# Ctrl-C is sent to all processes of a terminal's job; a batch system signals mpiexec or all ranks.
RANKS = (1, 2, 2, 4)  # as often as they stand here, so that the test costs the same whatever the seed
TARGETS = ("one rank", "all ranks", "mpiexec", "Ctrl-C, piped into tee")
MORE_STEPS = 2


class Stops(Program):
    def stop(self, choose, deck, target, ranks):
        """Returns the step after which a run stopped, and the losses of the steps that it made after it was resumed."""
        how = signal.SIGINT if "Ctrl-C" in target else choose.choice(SIGNALS)
        if target == "mpiexec" and how == signal.SIGUSR2:
            how = signal.SIGUSR1  # mpiexec ends by the other one instead of forwarding it
        run = Run(self, *deck, ranks=ranks, piped="tee log" if "piped" in target else None).in_step(2)
        time.sleep(choose.uniform(0, 0.5))
        if target == "mpiexec":
            run.launcher.send_signal(how)
        elif "Ctrl-C" in target:
            os.killpg(run.launcher.pid, how)
        else:
            run.send(how, {choose.randrange(ranks)} if target == "one rank" else None)
        code, said, errors = run.ended()
        self.assertEqual(code, 75, said + errors)
        if "piped" not in target:  # tee has ended before the last line
            self.assertRegex(said, STOPPED.replace(r"(\S+) after", f"{how.name} after"))
        step = run.left_whole(how)
        again = ("--checkpoint.resume=latest", f"--train.steps={step + MORE_STEPS}")
        summary = self.train(*deck, *again, ranks=ranks, out=run.out.name)
        return step, summary["losses"]

    def test_users_decks_at_random_moments(self):
        choose = random.Random(SEED)
        print(f"SHOAL_SEED={SEED}")
        decks = {**DECKS, **(LARGE if STOPS > 8 else {})}
        stopped = {name: [] for name in decks}
        ranks_of = [*RANKS] * -(-STOPS // len(RANKS))
        choose.shuffle(ranks_of)
        for number in range(STOPS):
            name = list(decks)[number % len(decks)]
            target, ranks = TARGETS[number // len(decks) % len(TARGETS)], ranks_of[number]
            with self.subTest(number=number, deck=name, target=target, ranks=ranks):
                stopped[name].append(self.stop(choose, decks[name], target, ranks))
        for name, runs in stopped.items():
            with self.subTest(deck=name, of=len(runs)):
                self.compare(decks[name], runs)

    def compare(self, deck, runs):
        """The number of ranks changes no bit, so one undisturbed run is enough."""
        straight = self.train(*deck, f"--train.steps={max(step for step, _ in runs) + MORE_STEPS}", ranks=2)["losses"]
        for step, losses in runs:
            self.assertEqual(losses, straight[step : step + MORE_STEPS])


if __name__ == "__main__":
    main()
