# SPDX-License-Identifier: Apache-2.0
"""The runs that test that pipelines change no bit of a trajectory (rows as in matrix.py)."""

import random

import matrix
from covering import Rows, Space
from program import trajectory

MODEL = {"n_layer": 8, "n_embd": 16, "block_size": 8, "vocab_size": 64}
DECK = matrix.DECK | {"model": MODEL}
DECIDES = {
    "micro_batches": (8, 12),
    "model.kind": ("gpt", "mlp"),
    "train.dtype": ("fp32", "bf16", "fp16"),
    "comm.reduce_dtype": ("fp32", "bf16"),
    "model.dropout": (0, 0.1),
    "model.direct": ("false", "true"),
}
CHANGES_NOTHING = {
    "pipeline.size": (1, 2, 3, 4),
    "data_ranks": (1, 2),
    "pipeline.schedule": ("1f1b", "gpipe", "interleaved"),
    "pipeline.parts": (1, 2),
    "balance": ("auto", "uneven"),
    "pipeline.checkpoint": ("never", "except_last", "always"),
    "activation.checkpoint_interval": (0, 1),
    "zero.stage": (0, 1, 2, 3),
    "comm.bucket_mb": (25, 0.003),
    "comm.overlap": ("true", "false"),
}
FACTORS = {**DECIDES, **CHANGES_NOTHING}
OF_PIPELINES = ("pipeline.schedule", "pipeline.parts", "pipeline.checkpoint", "balance")
# Of the long version.
OF_STAGE_3 = {
    "zero.prefetch_units": (1, 0, 3),
    "zero.reshard_after_forward": ("true", "false"),
    "zero.persist_below": (0, 2000),  # elements; 2000 is between the sizes of the embedding and of a block
    "zero.hpz_size": ("off", 1),
}


def allowed(row):
    of_gpt = row["model.dropout"] != 0 or row["model.direct"] == "true"
    if row["micro_batches"] % row["data_ranks"] != 0 or (row["model.kind"] == "mlp" and of_gpt):
        return False
    if row["pipeline.size"] == 1:
        return True
    turns = row["micro_batches"] // row["data_ranks"]
    if row["pipeline.schedule"] == "interleaved" and turns % row["pipeline.size"] != 0:
        return False
    return row["pipeline.schedule"] != "1f1b" or row["pipeline.parts"] == 1


def in_effect(row):
    idle = () if row["pipeline.size"] > 1 else OF_PIPELINES
    if row["zero.stage"] != 3 or row["data_ranks"] == 1:
        idle = (*idle, *OF_STAGE_3)
    return [name for name in row if name not in idle]


def space_of(factors):
    def can_meet(choice):
        given = dict(choice)
        generator = random.Random(0)
        for _ in range(500):
            row = {name: generator.choice(values) for name, values in factors.items()} | given
            if allowed(row) and set(given) <= set(in_effect(row)):
                return True
        return False

    return Space(factors, allowed, in_effect, can_meet)


SPACE = space_of(FACTORS)
WITH_STAGE_3_CHANGES_NOTHING = {**CHANGES_NOTHING, **OF_STAGE_3}
LONG_SPACE = space_of({**DECIDES, **WITH_STAGE_3_CHANGES_NOTHING})


def balance_of(row):
    """All layers that no other part needs go to the first one."""
    parts = row["pipeline.size"] * row["pipeline.parts"]
    return (
        "auto" if row["balance"] == "auto" else ",".join(map(str, [MODEL["n_layer"] - parts + 1] + [1] * (parts - 1)))
    )


class PipelineMatrix(Rows):
    deck_of_rows, decides, changes_nothing = DECK, DECIDES, CHANGES_NOTHING

    def trajectory_of(self, row):
        effective = in_effect(row)
        options = [f"--{name}={row[name]}" for name in effective if "." in name]
        if "balance" in effective:
            options.append(f"--pipeline.balance={balance_of(row)}")
        if row["model.kind"] == "gpt":
            options += ["--model.n_head=2", "--model.tied=false"]
        if row["train.dtype"] == "fp16":
            options.append("--train.loss_scale_power=10")  # so that none of the three steps overflows
        ranks = row["pipeline.size"] * row["data_ranks"]
        options += [f"--batch.global={row['micro_batches']}", "--output.overwrite"]
        return trajectory(self.train(self.dir / "deck.cfg", *options, ranks=ranks, out="out", timeout=200))
