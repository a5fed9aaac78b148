#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One of two ranks of a pipeline of torch.distributed.pipelining over gloo on an exported work; rank 0 prints one JSON object.

usage: RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... peer_pipeline.py WORK_DIR W1|W2|W3 fp32|bf16
GPipe|1F1B|Interleaved1F1B --balance 3,3 --turns 8 --steps 8 --warmup 2

The model is cut into parts as --balance says: part k is on rank k modulo the number of ranks. A step has --turns
micro-batches. The head's weights are those of the token embedding, which is on another rank: each has a copy, and the two
add their gradients once a step, so that the copies stay equal. They count once in the norm. bf16: as in peer.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import work as definition
from peer import GPT, Training, forget_peak, peak_rss_bytes, read_samples
from peer_ranks import gathered
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.nn import functional as F
from work import WORKS

SCHEDULES = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B}


class Part(nn.Module):
    """Blocks [begin, end) of a model; with the first one the embedding, and with the last one the head."""

    def __init__(self, model: GPT, begin: int, end: int):
        super().__init__()
        self.vocabulary = model.vocabulary
        self.wte, self.wpe = (model.wte, model.wpe) if begin == 0 else (None, None)
        self.h = nn.ModuleList(model.h[begin:end])
        self.ln_f, self.head = None, None
        if end == len(model.h):
            self.ln_f, self.head = model.ln_f, nn.Parameter(model.wte.weight.detach().clone())

    def forward(self, x):
        if self.wte is not None:
            x = self.wte(x) + self.wpe.weight
        for block in self.h:
            x = block(x)
        if self.head is None:
            return x
        return F.linear(self.ln_f(x), self.head).float()[..., : self.vocabulary]


def loss_of(logits, targets):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


class Pipeline:
    """The parts of this rank, and the optimizer of their weights."""

    def __init__(self, model: GPT, dtype: str, schedule: str, balance: list[int], turns: int):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        begins = [sum(balance[:part]) for part in range(len(balance) + 1)]
        own = range(rank, len(balance), ranks)
        self.parts = nn.ModuleList(Part(model, begins[part], begins[part + 1]) for part in own)
        self.training = Training(self.parts, dtype)
        # The master weights of the token embedding and of its copy, where they are on this rank.
        by_name = dict(zip((name for name, _ in self.parts.named_parameters()), self.training.master, strict=True))
        self.embedding = next((p for name, p in by_name.items() if name.endswith("wte.weight")), None)
        self.copy = next((p for name, p in by_name.items() if name.endswith("head")), None)
        stages = [
            PipelineStage(part, number, len(balance), torch.device("cpu"))
            for part, number in zip(self.parts, own, strict=True)
        ]
        self.has_first, self.has_last = 0 in own, len(balance) - 1 in own
        made = SCHEDULES[schedule]
        self.schedule = made(stages if made is ScheduleInterleaved1F1B else stages[0], turns, loss_fn=loss_of)

    def step(self, inputs, targets, number: int) -> float:
        self.training.begin(number)
        losses: list[torch.Tensor] = []
        given = (inputs,) if self.has_first else ()
        more = {"target": targets, "losses": losses} if self.has_last else {}
        self.schedule.step(*given, **more, return_outputs=False)
        self.training.widen_gradients()
        self.add_tied_gradients()
        self.clip()
        self.training.update()
        return float(torch.stack(losses).detach().mean()) if self.has_last else 0.0

    def add_tied_gradients(self) -> None:
        for weights in (self.embedding, self.copy):
            if weights is not None:
                dist.all_reduce(weights.grad)

    def clip(self) -> None:
        """As torch's clip_grad_norm_(), with the norm over all ranks."""
        squares = [p.grad.norm() ** 2 for p in self.training.master if p is not self.copy]
        square = torch.stack(squares).sum()
        dist.all_reduce(square)
        factor = torch.clamp(definition.CLIP / (square.sqrt() + 1e-6), max=1.0)
        for p in self.training.master:
            p.grad.mul_(factor)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("dtype", choices=("fp32", "bf16"))
    parser.add_argument("schedule", choices=SCHEDULES)
    parser.add_argument("--balance", type=lambda text: [int(blocks) for blocks in text.split(",")], required=True)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    work = WORKS[arguments.work]
    samples = read_samples(arguments.directory)
    model = GPT(work)
    model.load(arguments.directory / "init" / "model.safetensors")
    pipeline = Pipeline(model, arguments.dtype, arguments.schedule, arguments.balance, arguments.turns)
    del model
    sequences = arguments.turns * work.batch
    seconds, losses = [], []
    for number in range(arguments.warmup + arguments.steps):
        if number == arguments.warmup:
            forget_peak()
            dist.barrier()
        rows = samples[number * sequences : (number + 1) * sequences]
        inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        begin = time.perf_counter()
        losses.append(pipeline.step(inputs, targets, number))
        seconds.append(time.perf_counter() - begin)
    losses = [sum(gathered(loss)) for loss in losses]
    peaks = gathered(peak_rss_bytes())
    if dist.get_rank() == 0:
        timed = seconds[arguments.warmup :]
        print(json.dumps({
            "tokens_per_s": arguments.turns * work.tokens_per_step / statistics.median(timed), "step_s": seconds,
            "losses": losses, "peak_rss_bytes": max(peaks), "torch": torch.__version__,
        }))  # fmt: skip
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)  # as peer_ranks.py


if __name__ == "__main__":
    main()
