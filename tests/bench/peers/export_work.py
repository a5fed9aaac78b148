#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes W1, W2 or W3 (README.md) as files: weights in Hugging Face's form, a samples file and a deck.

usage: export_work.py W1 OUT_DIR [--seed 1] [--steps 20] [--ranks 1] [--text FILE | --random]
       mpiexec -n RANKS shoal train OUT_DIR/W1.cfg

Row k of /samples is sequence k. Step t uses ranks x batch rows, beginning at row t x ranks x batch; rank r uses the r-th part
of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import h5py
import numpy as np
import safetensors_file
import work as definition
from work import WORKS, Sequences, Work

DECK = """\
# {work.name} of tests/bench/peers/README.md: seed {seed}, ranks: {ranks}.
[model]
kind         = gpt
n_layer      = {work.layers}
n_head       = {work.heads}
n_embd       = {work.width}
block_size   = {work.block}
vocab_size   = {work.rows}
dropout      = 0
tied         = true
init_from    = {init}
[data]
source       = {samples}
shuffle      = false
val_fraction = 0
[batch]
micro        = {work.batch}
global       = {global_batch}
[train]
steps        = {steps}
dtype        = fp32
grad_clip    = {d.CLIP}
[optimizer]
kind         = adamw
lr           = {d.LEARNING_RATE}
beta1        = {d.BETAS[0]}
beta2        = {d.BETAS[1]}
epsilon      = {d.EPSILON}
weight_decay = {d.WEIGHT_DECAY}
decay_1d     = false
[schedule]
kind         = linear
warmup_steps = {d.WARMUP_STEPS}
[checkpoint]
last         = false
"""


def hugging_face_config(work: Work) -> dict:
    return {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": work.layers, "n_head": work.heads,
        "n_embd": work.width, "n_positions": work.block, "vocab_size": work.rows, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    }  # fmt: skip


def file_shapes(work: Work) -> dict[str, tuple[int, ...]]:
    turned = ("matrix", "residual")
    return {name: shape[::-1] if what in turned else shape for name, shape, what in definition.shapes(work)}


def export(work: Work, directory: Path, seed: int, steps: int, ranks: int, text: Path | None) -> Path:
    """Returns the path of the deck. text None: random tokens if the work reads text."""
    directory = directory.resolve()
    init, samples, deck = directory / "init", directory / "samples.h5", directory / f"{work.name}.cfg"
    init.mkdir(parents=True, exist_ok=True)
    safetensors_file.write(init / "model.safetensors", file_shapes(work), definition.weights(work, seed))
    (init / "config.json").write_text(json.dumps(hugging_face_config(work), indent=1))
    sequences = Sequences(work, seed, text)
    with h5py.File(samples, "w") as file:
        rows = [sequences.rows(step, rank, ranks) for step in range(steps) for rank in range(ranks)]
        file["samples"] = np.concatenate(rows)
        file.attrs["vocab_size"] = work.rows
    deck.write_text(DECK.format(work=work, seed=seed, ranks=ranks, steps=steps, init=init, samples=samples,
                                global_batch=work.batch * ranks, d=definition))  # fmt: skip
    return deck


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--text", help="tinyshakespeare (default: see README.md)")
    parser.add_argument(
        "--random", action="store_true", help="random tokens instead of the text, to measure speed only"
    )
    arguments = parser.parse_args()
    work, text = WORKS[arguments.work], None
    if work.reads_text and not arguments.random:
        text = definition.find_text(arguments.text)
        if text is None:
            print(
                f"export_work.py: {arguments.text or 'tinyshakespeare.txt'}: no such file (--text, SHOAL_TEXT)",
                file=sys.stderr,
            )
            sys.exit(2)
    print(export(work, arguments.out, arguments.seed, arguments.steps, arguments.ranks, text))


if __name__ == "__main__":
    main()
