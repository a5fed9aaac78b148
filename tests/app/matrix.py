# SPDX-License-Identifier: Apache-2.0
"""The matrix of the promise of one trajectory: what decides a trajectory, and what must not change a bit of it.

Rows are drawn so that every choice of some factors that have an effect together is in one of them: a generator with a seed,
the same rows on every machine.
"""

import itertools
import random

from program import Program, trajectory

MODEL = {"kind": "gpt", "n_layer": 4, "n_head": 2, "n_embd": 32, "block_size": 32, "vocab_size": 64}
DECK = {
    "model": MODEL,
    "data": {"source": "synthetic"},
    "batch": {"micro": 1},
    "optimizer": {"lr": 0.01},
    "train": {"steps": 3, "seed": 3, "grad_clip": 0.5, "eval_batches": 1},
    "trace": {"level": "off"},
}
# Another value here is another trajectory.
DECIDES = {
    "micro_batches": (8, 12),
    "train.dtype": ("fp32", "bf16", "fp16"),
    "comm.reduce_dtype": ("fp32", "bf16"),
    "optimizer.kind": ("adamw", "sgd"),
    "model.dropout": (0, 0.1),
    "model.tied": ("true", "false"),
}
# Another value here is the same trajectory, bit by bit.
CHANGES_NOTHING = {
    "zero.stage": (0, 1, 2, 3),
    "ranks": (1, 2, 4, 8),
    "train.threads": (1, 2),
    "comm.overlap": ("true", "false"),
    "comm.bucket_mb": (25, 0.05, 0.003),
    "activation.checkpoint_interval": (0, 1, 2, "auto"),
    "zero.prefetch_units": (0, 1, 2, 3),
    "zero.reshard_after_forward": ("true", "false"),
    "zero.hpz_size": ("off", "node", 1, 2),  # on nodes of two ranks, where there are several
    "zero.persist_below": (0, 4000),  # elements: between the embedding's and a block's
}
FACTORS = {**DECIDES, **CHANGES_NOTHING}
OF_STAGE_3 = ("zero.prefetch_units", "zero.reshard_after_forward", "zero.persist_below", "zero.hpz_size")
OF_MESSAGES = ("comm.overlap", "comm.bucket_mb", *OF_STAGE_3)


def allowed(row):
    """A number of ranks that is a power of two and divides the micro-batches."""
    return row["micro_batches"] % row["ranks"] == 0


def in_effect(row):
    """The factors that the row tries: one rank sends nothing, and only stage 3 gathers."""
    idle = OF_MESSAGES if row["ranks"] == 1 else OF_STAGE_3 if row["zero.stage"] != 3 else ()
    return [name for name in FACTORS if name not in idle]


def choices(row, strength):
    """Which values of `strength` factors meet in this row."""
    return {tuple((name, row[name]) for name in names) for names in itertools.combinations(in_effect(row), strength)}


def drawn(generator, **given):
    while True:
        row = {name: generator.choice(values) for name, values in FACTORS.items()} | given
        if allowed(row):
            return row


def can_meet(choice):
    """Whether there is a row that tries these values together."""
    given = dict(choice)
    row = {"micro_batches": 8, **{name: values[0] for name, values in FACTORS.items() if name != "micro_batches"}}
    row |= {"ranks": 2, "zero.stage": 3} | given
    return allowed(row) and set(given) <= set(in_effect(row))


def covering(strength, seed=1, tries=60):
    """Rows that together have all values of any `strength` factors."""
    generator = random.Random(seed)
    left = {
        choice
        for names in itertools.combinations(FACTORS, strength)
        for values in itertools.product(*(FACTORS[name] for name in names))
        if can_meet(choice := tuple(zip(names, values)))
    }
    rows = []
    while left:
        wanted = dict(min(left, key=repr))
        candidates = []
        while len(candidates) < tries:
            row = drawn(generator, **wanted)
            if set(wanted) <= set(in_effect(row)):
                candidates.append(row)
        rows.append(max(candidates, key=lambda row: len(choices(row, strength) & left)))
        left -= choices(rows[-1], strength)
    return rows


def sample(count, seed=2):
    """So many rows more, drawn evenly from all."""
    generator = random.Random(seed)
    return [drawn(generator) for _ in range(count)]


class Matrix(Program):
    def trajectory_of(self, row):
        options = [f"--{name}={row[name]}" for name in in_effect(row) if "." in name]
        options += [f"--batch.global={row['micro_batches'] * DECK['batch']['micro']}", "--output.overwrite"]
        if row["ranks"] > 2:
            options.append("--comm.ranks_per_node=2")
        if row["train.dtype"] == "fp16":
            options.append("--train.loss_scale_power=10")  # no step of three is lost to an overflow
        # More threads than cores: those that wait for others must not spin.
        threads = {"OMP_NUM_THREADS": str(row["train.threads"]), "OMP_WAIT_POLICY": "passive"}
        deck = self.dir / "deck.cfg"
        return trajectory(self.train(deck, *options, ranks=row["ranks"], out="out", timeout=200, env=threads))

    def walk(self, rows):
        """Every row against one rank and stage 0 with the first of all other choices."""
        self.deck(DECK)
        plain = {name: values[0] for name, values in CHANGES_NOTHING.items()}
        references = {}
        for row in rows:
            with self.subTest(**row):
                decided = tuple(row[name] for name in DECIDES)
                if decided not in references:
                    references[decided] = self.trajectory_of({**row, **plain})
                self.assertEqual(self.trajectory_of(row), references[decided])
        self.assertEqual(len(set(map(str, references.values()))), len(references), "each is a trajectory of its own")
