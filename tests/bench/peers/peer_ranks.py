#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a data-parallel training in Python on an exported work; rank 0 prints one JSON object.

usage: RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... peer_ranks.py WORK_DIR W1|W2|W3 fp32|bf16 PEER --steps 8
--warmup 2

PEER: ddp, oss (FairScale's sharded optimizer), fsdp2-zero2, fsdp2-zero3 (which frees parameters after forward),
deepspeed-zero0 to deepspeed-zero3. All use gloo. bf16: as in peer.py, with what the peer itself offers for it; OSS has
no bf16.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import work as definition
from peer import GPT, Training, forget_peak, peak_rss_bytes, read_samples
from torch import nn
from work import WORKS, Work

Step = Callable[[torch.Tensor, torch.Tensor, int], float]


def rate(number: int) -> float:
    return definition.LEARNING_RATE * min(1.0, (number + 1) / definition.WARMUP_STEPS)


def groups(model: nn.Module) -> list[dict]:
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": definition.WEIGHT_DECAY},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]


def set_rate(optimizer, value: float) -> None:
    """Sets the rate also in wrapped optimizers: DeepSpeed's wrappers may keep parameter groups of their own."""
    while optimizer is not None:
        for group in optimizer.param_groups:
            group["lr"] = value
        optimizer = getattr(optimizer, "optimizer", None)


def forget_steps(optimizer) -> None:
    """Sets the number of updates back to 0: to make the moments, DeepSpeed's optimizer of 16-bit weights at stage 0 makes an
    update without gradients, which would count in Adam's bias correction."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    for state in optimizer.state.values():
        if "step" in state:
            state["step"] = 0


ADAMW = {"lr": definition.LEARNING_RATE, "betas": definition.BETAS, "eps": definition.EPSILON, "fused": True}


def ddp(model: GPT, dtype: str, work: Work, variant: str) -> Step:
    from torch.nn.parallel import DistributedDataParallel

    training = Training(model, dtype)
    training.model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    return training.step


def plain(model: nn.Module, optimizer, clip: Callable[[], object]) -> Step:
    def step(inputs, targets, number: int) -> float:
        set_rate(optimizer, rate(number))
        optimizer.zero_grad()
        loss = model(inputs, targets)
        loss.backward()
        clip()
        optimizer.step()
        return float(loss.detach())

    return step


def oss(model: GPT, dtype: str, work: Work, variant: str) -> Step:
    from fairscale.optim.oss import OSS
    from torch.nn.parallel import DistributedDataParallel

    optimizer = OSS(groups(model), optim=torch.optim.AdamW, **ADAMW)
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    return plain(parallel, optimizer, lambda: optimizer.clip_grad_norm(definition.CLIP))


def fsdp2(model: GPT, dtype: str, work: Work, variant: str) -> Step:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    more = {"mesh": init_device_mesh("cpu", (dist.get_world_size(),)), "reshard_after_forward": variant != "zero2"}
    if dtype == "bf16":
        more["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for block in model.h:
        fully_shard(block, **more)
    fully_shard(model, **more)
    optimizer = torch.optim.AdamW(groups(model), **ADAMW)
    return plain(model, optimizer, lambda: nn.utils.clip_grad_norm_(model.parameters(), definition.CLIP))


def deepspeed(model: GPT, dtype: str, work: Work, variant: str) -> Step:
    import deepspeed as library

    parameters = {"lr": definition.LEARNING_RATE, "betas": definition.BETAS, "eps": definition.EPSILON,
                  "weight_decay": definition.WEIGHT_DECAY}  # fmt: skip
    configuration = {
        "train_micro_batch_size_per_gpu": work.batch, "gradient_accumulation_steps": 1, "steps_per_print": 10**9,
        "gradient_clipping": definition.CLIP, "zero_optimization": {"stage": int(variant.removeprefix("zero"))},
        "optimizer": {"type": "AdamW", "params": parameters}, "bf16": {"enabled": dtype == "bf16"},
    }  # fmt: skip
    library.init_distributed("gloo", verbose=False)
    engine, optimizer, _, _ = library.initialize(model=model, model_parameters=groups(model), config=configuration)
    forget_steps(optimizer)

    def step(inputs, targets, number: int) -> float:
        set_rate(optimizer, rate(number))
        loss = engine(inputs, targets)
        engine.backward(loss)
        engine.step()
        return float(loss.detach())

    return step


ENGINES = {"ddp": ddp, "oss": oss, "fsdp2": fsdp2, "deepspeed": deepspeed}
PEERS = ("ddp", "oss", "fsdp2-zero2", "fsdp2-zero3", *(f"deepspeed-zero{stage}" for stage in range(4)))


def gathered(value: float) -> list[float]:
    """The values of all ranks."""
    values = [torch.zeros(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(values, torch.tensor([value], dtype=torch.float64))
    return [float(v) for v in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("dtype", choices=("fp32", "bf16"))
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    work, rank, ranks = WORKS[arguments.work], dist.get_rank(), dist.get_world_size()
    samples = read_samples(arguments.directory)
    model = GPT(work)
    model.load(arguments.directory / "init" / "model.safetensors")
    name, _, variant = arguments.peer.partition("-")
    step = ENGINES[name](model, arguments.dtype, work, variant)
    seconds, losses = [], []
    for number in range(arguments.warmup + arguments.steps):
        if number == arguments.warmup:
            forget_peak()
            dist.barrier()
        first = (number * ranks + rank) * work.batch
        rows = samples[first : first + work.batch]
        inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        begin = time.perf_counter()
        losses.append(step(inputs, targets, number))
        seconds.append(time.perf_counter() - begin)
    losses = [statistics.mean(gathered(loss)) for loss in losses]
    peaks = gathered(peak_rss_bytes())
    if rank == 0:
        timed = seconds[arguments.warmup :]
        print(json.dumps({
            "tokens_per_s": ranks * work.tokens_per_step / statistics.median(timed), "step_s": seconds, "losses": losses,
            "peak_rss_bytes": max(peaks), "torch": torch.__version__,
        }))  # fmt: skip
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)  # some peers hang in their exit handlers


if __name__ == "__main__":
    main()
