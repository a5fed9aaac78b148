#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on an exported work (export_work.py), one process; prints one JSON object.

usage: peer.py WORK_DIR W1|W2|W3 fp32|bf16 --steps 8 --warmup 2

bf16: weights, activations and gradients are bf16, master weights and moments fp32. The time of a step includes forward,
backward, clipping and optimizer, but not the preparation of the batch. Needs torch, numpy and h5py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import h5py
import safetensors_file
import torch
import work as definition
from torch import nn
from torch.nn import functional as F
from work import WORKS, Work


class Block(nn.Module):
    def __init__(self, work: Work):
        super().__init__()
        c = work.width
        self.heads = work.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(c, 3 * c), "c_proj": nn.Linear(c, c)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(c, 4 * c), "c_proj": nn.Linear(4 * c, c)})

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = self.attn["c_attn"](x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn["c_proj"](y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, work: Work):
        super().__init__()
        self.vocabulary = work.vocabulary
        self.wte, self.wpe = nn.Embedding(work.rows, work.width), nn.Embedding(work.block, work.width)
        self.h = nn.ModuleList(Block(work) for _ in range(work.layers))
        self.ln_f = nn.LayerNorm(work.width)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight).float()[..., : self.vocabulary]
        return F.cross_entropy(logits.reshape(-1, self.vocabulary), targets.reshape(-1))

    @torch.no_grad()
    def load(self, path: Path) -> None:
        tensors = safetensors_file.read(path)
        for name, parameter in self.named_parameters():
            values = torch.from_numpy(tensors["transformer." + name].copy())
            linear = values.dim() == 2 and not name.startswith("w")  # Hugging Face's linear layers are [in, out]
            parameter.copy_(values.T if linear else values)


class Training:
    """The model, its AdamW and, in bf16, the fp32 master weights that the optimizer updates."""

    def __init__(self, model: GPT, dtype: str):
        self.model, self.mixed = model, dtype == "bf16"
        self.master = list(model.parameters())
        if self.mixed:
            self.master = [nn.Parameter(p.detach().clone()) for p in self.master]
            model.to(torch.bfloat16)
        matrices, vectors = [p for p in self.master if p.dim() >= 2], [p for p in self.master if p.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": definition.WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}],
            lr=definition.LEARNING_RATE, betas=definition.BETAS, eps=definition.EPSILON, fused=True,
        )  # fmt: skip

    def step(self, inputs, targets, number: int) -> float:
        self.begin(number)
        loss = self.model(inputs, targets)
        loss.backward()
        self.widen_gradients()
        nn.utils.clip_grad_norm_(self.master, definition.CLIP)
        self.update()
        return float(loss.detach())

    def begin(self, number: int) -> None:
        """Sets the learning rate of this step, and forgets the gradients of the step before."""
        for group in self.optimizer.param_groups:
            group["lr"] = definition.LEARNING_RATE * min(1.0, (number + 1) / definition.WARMUP_STEPS)
        self.model.zero_grad(set_to_none=True)

    def widen_gradients(self) -> None:
        """Gives the master weights the gradients of the model."""
        if self.mixed:
            for high, low in zip(self.master, self.model.parameters(), strict=True):
                high.grad = low.grad.float()

    def update(self) -> None:
        self.optimizer.step()
        if self.mixed:
            with torch.no_grad():
                for high, low in zip(self.master, self.model.parameters(), strict=True):
                    low.copy_(high)
                    high.grad = None


def peak_rss_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def forget_peak() -> None:
    """Resets the peak, so that the memory for building the model does not count; this favours the peers."""
    Path("/proc/self/clear_refs").write_text("5")


def read_samples(directory: Path) -> torch.Tensor:
    with h5py.File(directory / "samples.h5") as file:
        return torch.from_numpy(file["samples"][()].astype("int64"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("dtype", choices=("fp32", "bf16"))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    work = WORKS[arguments.work]
    samples = read_samples(arguments.directory)
    model = GPT(work)
    model.load(arguments.directory / "init" / "model.safetensors")
    training = Training(model, arguments.dtype)
    seconds, losses = [], []
    for number in range(arguments.warmup + arguments.steps):
        if number == arguments.warmup:
            forget_peak()
        rows = samples[number * work.batch : (number + 1) * work.batch]
        inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        begin = time.perf_counter()
        losses.append(training.step(inputs, targets, number))
        seconds.append(time.perf_counter() - begin)
    timed = seconds[arguments.warmup :]
    print(json.dumps({
        "tokens_per_s": work.tokens_per_step / statistics.median(timed), "step_s": seconds, "losses": losses,
        "peak_rss_bytes": peak_rss_bytes(), "torch": torch.__version__,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
