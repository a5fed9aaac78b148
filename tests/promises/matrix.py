# SPDX-License-Identifier: Apache-2.0
"""The runs that test the promise of one trajectory: options that decide a trajectory, and options that must not change
a bit of it. A row is one run (covering.py)."""

from covering import Rows, Space
from program import trajectory

MODEL = {"kind": "gpt", "n_layer": 4, "n_head": 2, "n_embd": 32, "block_size": 32, "vocab_size": 64}
DECK = {
    "model": MODEL,
    "data": {"source": "synthetic"},
    "batch": {"micro": 1},
    "optimizer": {"lr": 0.01},
    "train": {"steps": 3, "seed": 3, "grad_clip": 0.5, "eval_batches": 1},
    "trace": {"level": "off"},
    "checkpoint": {"last": "false"},
}
# A different value here gives a different trajectory.
DECIDES = {
    "micro_batches": (8, 12),
    "train.dtype": ("fp32", "bf16", "fp16"),
    "comm.reduce_dtype": ("fp32", "bf16"),
    "optimizer.kind": ("adamw", "sgd"),
    "model.dropout": (0, 0.1),
    "model.tied": ("true", "false"),
    "model.direct": ("true", "false"),
}
# A different value here gives the same trajectory, bit for bit.
CHANGES_NOTHING = {
    "zero.stage": (0, 1, 2, 3),
    "ranks": (1, 2, 4, 8),
    "train.threads": (1, 2),
    "comm.overlap": ("true", "false"),
    "comm.bucket_mb": (25, 0.05, 0.003),
    "activation.checkpoint_interval": (0, 1, 2, "auto"),
    "zero.prefetch_units": (0, 1, 2, 3),
    "zero.reshard_after_forward": ("true", "false"),
    "zero.hpz_size": ("off", "node", 1, 2),  # on nodes of two ranks if there are several nodes
    "zero.persist_below": (0, 4000),  # elements; 4000 is between the sizes of the embedding and of a block
    "offload.optimizer": ("none", "cpu", "nvme"),
    "offload.optimizer_ratio": (1, 0.5),
    "offload.params": ("none", "cpu", "nvme"),
}
FACTORS = {**DECIDES, **CHANGES_NOTHING}
OF_STAGE_3 = ("zero.prefetch_units", "zero.reshard_after_forward", "zero.persist_below", "zero.hpz_size")
OF_MESSAGES = ("comm.overlap", "comm.bucket_mb", *OF_STAGE_3)


def allowed(row):
    """True if the number of ranks divides the micro-batches."""
    return row["micro_batches"] % row["ranks"] == 0


def in_effect(row):
    """The options that have an effect in this row: one rank sends nothing, and only stage 3 gathers."""
    idle = OF_MESSAGES if row["ranks"] == 1 else OF_STAGE_3 if row["zero.stage"] != 3 else ()
    if row["zero.stage"] == 0:
        idle = (*idle, "offload.optimizer")
    if row["zero.stage"] == 0 or row["offload.optimizer"] == "none":
        idle = (*idle, "offload.optimizer_ratio")
    if row["zero.stage"] != 3 or row["zero.hpz_size"] != "off":
        idle = (*idle, "offload.params")
    return [name for name in FACTORS if name not in idle]


def can_meet(choice):
    """True if some row has these values together, with all of them in effect."""
    given = dict(choice)
    row = {"micro_batches": 8, **{name: values[0] for name, values in FACTORS.items() if name != "micro_batches"}}
    row |= {"ranks": 2, "zero.stage": 3, "zero.hpz_size": "off", "offload.optimizer": "cpu"} | given
    return allowed(row) and set(given) <= set(in_effect(row))


SPACE = Space(FACTORS, allowed, in_effect, can_meet)


class Matrix(Rows):
    deck_of_rows, decides, changes_nothing = DECK, DECIDES, CHANGES_NOTHING

    def trajectory_of(self, row):
        options = [f"--{name}={row[name]}" for name in in_effect(row) if "." in name]
        options += [f"--batch.global={row['micro_batches'] * DECK['batch']['micro']}", "--output.overwrite"]
        if {"--offload.optimizer=nvme", "--offload.params=nvme"} & set(options):
            options.append(f"--nvme.dir={self.dir}")
        if row["ranks"] > 2:
            options.append("--comm.ranks_per_node=2")
        if row["train.dtype"] == "fp16":
            options.append("--train.loss_scale_power=10")  # so that none of the three steps overflows
        if self.only_one_thread():
            options.remove(f"--train.threads={row['train.threads']}")
        # There are more threads than cores, so threads that wait must not spin.
        threads = {"OMP_NUM_THREADS": str(row["train.threads"]), "OMP_WAIT_POLICY": "passive"}
        deck = self.dir / "deck.cfg"
        return trajectory(self.train(deck, *options, ranks=row["ranks"], out="out", timeout=200, env=threads))

    def only_one_thread(self):
        """Portable kernels on Debian's Kokkos have no threads. They refuse more than one."""
        return "(Serial)" in self.versions and "oneDNN" not in self.versions

    def setUp(self):
        super().setUp()
        self.versions = self.shoal("--version").stdout
