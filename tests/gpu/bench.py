# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of GPT-2 (124M, 350M, 1.5B; bf16, 1024 tokens) on one GPU, beside the PyTorch of the same machine:
torch.compile, autocast, fused AdamW, scaled_dot_product_attention. Lines that begin with # are results.

Before that, every kernel that is no matrix product and no attention, by the rate at which it moves its bytes, beside the rate
of a copy (kernel_rates.cpp).

bench.py --program build-gpu/shoal [--works W5,W6,W7] [--steps 10] [--json FILE]
bench.py --rates build-gpu/tests/gpu/gpu_kernel_rates    only the kernels
bench.py --rates-of FILE                                 only the kernels, from what that program has printed

Exit code: 0 all targets are met, 1 one is not, or a run failed; 77 there is no GPU."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BLOCK, VOCABULARY = 1024, 50304
# layers, heads, width, sequences of a step
WORKS = {"W5": (12, 12, 768, 16), "W6": (24, 16, 1024, 8), "W7": (48, 25, 1600, 4), "W0": (2, 2, 64, 2)}
WARM_UP = 3
SPEED, MEMORY = 1.15, 0.8  # targets: shoal's tokens/s over torch.compile's at least, its memory over torch's at most
KERNEL, QUANTIZATION = 0.85, 0.80  # targets: a kernel's bytes per second over a copy's at least
PEAKS = {
    "H100 PCIe": 756,
    "H100 NVL": 835,
    "H100": 989.4,
    "H200": 989.4,
    "A100": 312,
}  # dense bf16 TFLOP/s, data sheets


def flops_per_token(layers, width):
    """As tests/bench/peers/README.md counts them: attention in full."""
    return 6 * (12 * layers * width**2 + VOCABULARY * width) + 12 * layers * width * BLOCK


def torch_run(work, steps, device):
    import torch
    from torch import nn
    from torch.nn import functional

    layers, heads, width, batch = WORKS[work]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(functional.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(BLOCK, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.last = nn.LayerNorm(width)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, x, y):
            h = self.token(x) + self.position.weight
            for block in self.blocks:
                h = block(h)
            logits = functional.linear(self.last(h), self.token.weight)
            return functional.cross_entropy(logits.float().view(-1, VOCABULARY), y.view(-1))

    torch.manual_seed(1)
    model = Model().to(device)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    net = torch.compile(model)
    cuda = device == "cuda"
    wait = torch.cuda.synchronize if cuda else (lambda: None)
    seconds = []
    for _ in range(WARM_UP + steps):
        tokens = torch.randint(0, VOCABULARY, (batch, BLOCK + 1), device=device)
        x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        wait()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            loss = net(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        wait()
        seconds.append(time.perf_counter() - begin)
    result = {
        "tokens_per_s": batch * BLOCK / statistics.median(seconds[WARM_UP:]),
        "peak_bytes": torch.cuda.max_memory_allocated() if cuda else 0,
        "torch": torch.__version__,
    }
    print(json.dumps(result))


def copy_bandwidth(device):
    """Bytes per second, read and written, of a copy within the GPU's memory."""
    import torch

    x = torch.empty(1 << 30, dtype=torch.uint8, device=device)
    y = torch.empty_like(x)
    y.copy_(x)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(20):
        y.copy_(x)
    end.record()
    end.synchronize()
    print(json.dumps({"bytes_per_s": 40 * x.numel() / (begin.elapsed_time(end) * 1e-3)}))


def shoal_run(program, work, steps, directory):
    layers, heads, width, batch = WORKS[work]
    out = pathlib.Path(directory) / work
    deck = pathlib.Path(directory) / f"{work}.cfg"
    deck.write_text(
        f"[model]\nkind = gpt\nn_layer = {layers}\nn_head = {heads}\nn_embd = {width}\nblock_size = {BLOCK}\n"
        f"vocab_size = {VOCABULARY}\n[data]\nsource = synthetic\n[batch]\nmicro = {batch}\nglobal = {batch}\n"
        f"[train]\ndtype = bf16\nsteps = {WARM_UP + steps}\ngrad_clip = 1.0\n[optimizer]\nlr = 1e-3\n[checkpoint]\nlast = false\n"
    )
    done = subprocess.run(
        [program, "train", str(deck), f"--output.dir={out}"], capture_output=True, text=True, errors="backslashreplace"
    )
    if done.returncode != 0:
        raise RuntimeError(f"shoal, {work}: exit code {done.returncode}: {done.stderr.strip().splitlines()[:1]}")
    run = json.loads((out / "summary.json").read_text())
    taken = run["state_bytes"]["taken"]
    return {
        "tokens_per_s": batch * BLOCK / run["step_s"]["median"],
        "peak_bytes": sum(taken.values()) - taken["staging"],
    }


def of_itself(*words):
    """Runs this file once more: a process of its own, so that memory is counted apart."""
    done = subprocess.run(
        [sys.executable, "-B", __file__, *words], capture_output=True, text=True, errors="backslashreplace"
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(f"torch, {' '.join(words)}: exit code {done.returncode}: {lines[-1] if lines else ''}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def gpu_name():
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def kernel_table(lines):
    """Prints a row for each kernel of kernel_rates' lines. Returns the rates by kernel, and how many missed their target."""
    measured = {row["kernel"]: row["bytes"] / row["seconds"] for row in map(json.loads, lines)}
    copy = measured.pop("copy")
    print(f"# a copy moves {copy / 1e12:.2f} TB/s; of that, each kernel reaches, in order of what it lacks:")
    missed = 0
    for kernel, rate in sorted(measured.items(), key=lambda item: item[1]):
        target = QUANTIZATION if "quantize" in kernel else KERNEL
        missed += rate < target * copy
        print(
            f"# {'missed' if rate < target * copy else 'passed'} {kernel:26s} {100 * rate / copy:5.1f} % "
            f"(target {100 * target:.0f} %)",
            flush=True,
        )
    return {kernel: rate / copy for kernel, rate in measured.items()}, missed


def kernel_lines(program):
    done = subprocess.run([program], capture_output=True, text=True, errors="backslashreplace", timeout=200)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def compare(arguments, gpu):
    results, failed = {"gpu": gpu}, 0
    rates = arguments.rates or os.path.join(os.path.dirname(arguments.program), "tests", "gpu", "gpu_kernel_rates")
    try:
        results["kernels"], failed = kernel_table(kernel_lines(os.path.abspath(rates)))
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"# FAILED the rates of kernels: {error}", flush=True)
        failed = 1
    if arguments.rates:
        return 1 if failed else 0
    peak = next((value for name, value in PEAKS.items() if name in gpu), None)
    results["copy_bytes_per_s"] = of_itself("--copy")["bytes_per_s"]
    print(f"# {gpu}: a copy moves {results['copy_bytes_per_s'] / 1e12:.2f} TB/s, reads and writes together", flush=True)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as directory:
        for work in arguments.works.split(","):
            layers, _, width, _ = WORKS[work]
            try:
                ours = shoal_run(os.path.abspath(arguments.program), work, arguments.steps, directory)
                theirs = of_itself("--torch", work, "--steps", str(arguments.steps))
            except RuntimeError as error:
                print(f"# FAILED {error}", flush=True)
                failed += 1
                continue
            speed = ours["tokens_per_s"] / theirs["tokens_per_s"]
            memory = ours["peak_bytes"] / theirs["peak_bytes"]
            share = ours["tokens_per_s"] * flops_per_token(layers, width) / 1e12 / peak if peak else None
            results[work] = {"shoal": ours, "torch": theirs, "speed": speed, "memory": memory, "share_of_peak": share}
            missed = speed < SPEED or memory > MEMORY
            failed += missed
            print(
                f"# {'missed' if missed else 'passed'} {work}: {ours['tokens_per_s']:.0f} tokens/s, torch.compile "
                f"{theirs['tokens_per_s']:.0f}: {speed:.2f} x (target {SPEED}); memory {memory:.2f} x (target {MEMORY}); "
                f"{'unknown' if share is None else f'{100 * share:.0f} %'} of the dense bf16 peak",
                flush=True,
            )
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build-gpu/shoal")
    parser.add_argument("--works", default="W5,W6,W7")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json")
    parser.add_argument("--rates", help="only the kernels: the program that times them")
    parser.add_argument("--rates-of", help="only the kernels: a file of what that program has printed")
    parser.add_argument("--torch", choices=list(WORKS), help="only torch's run of this work")
    parser.add_argument("--copy", action="store_true", help="only the copy")
    parser.add_argument("--device", default="cuda", help="of --torch")
    arguments = parser.parse_args()
    if arguments.torch:
        torch_run(arguments.torch, arguments.steps, arguments.device)
        return 0
    if arguments.copy:
        copy_bandwidth("cuda")
        return 0
    if arguments.rates_of:
        return 1 if kernel_table(pathlib.Path(arguments.rates_of).read_text().splitlines())[1] else 0
    gpu = gpu_name()
    if not gpu:
        print("bench.py: no GPU: not measured")
        return 77
    return compare(arguments, gpu)


if __name__ == "__main__":
    sys.exit(main())
