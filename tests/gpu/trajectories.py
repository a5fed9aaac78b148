# SPDX-License-Identifier: Apache-2.0
"""Trainings of a small model on one GPU. All ways to train that must not change a bit are compared with the first one, and
losses with those of a processor, within a tolerance. Prints a line for each run; exit code 1 if any is wrong.

trajectories.py --program build-gpu/shoal [--reference FILE]     runs and compares
trajectories.py --program build-gpu/shoal --nccl                 two ranks that share the GPU, by NCCL
trajectories.py --program build-gpu/shoal --mpi                  the same by MPI, through memory of the host
trajectories.py --program build/shoal --write FILE               writes what --reference reads"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DECK = """[model]
kind = gpt
n_layer = 4
n_head = 2
n_embd = 64
block_size = 64
vocab_size = 256
[data]
source = synthetic
[batch]
micro = 2
global = 8
[optimizer]
lr = 0.001
[train]
steps = 6
seed = 3
"""
STEPS = 6
DTYPES = {"fp32": 1e-4, "bf16": 3e-2, "fp16": 3e-2}  # largest relative difference of a loss from a processor's
OF_DTYPE = {"fp16": ["--train.loss_scale_power=10"]}
# Ways to train that must not change a bit.
WAYS = [
    ["--zero.stage=0"],
    ["--zero.stage=0"],  # once more
    ["--zero.stage=1"],
    ["--zero.stage=2"],
    ["--zero.stage=3"],
    ["--zero.stage=3", "--zero.prefetch_units=0"],
    ["--zero.stage=3", "--zero.prefetch_units=2"],
    ["--zero.stage=2", "--comm.overlap=false"],
    ["--zero.stage=1", "--comm.bucket_mb=0.05"],
    ["--zero.stage=2", "--activation.checkpoint_interval=1"],
    ["--zero.stage=3", "--activation.checkpoint_interval=2"],
]


class Runs:
    def __init__(self, program, launcher, directory):
        self.program, self.launcher, self.dir = program, launcher, pathlib.Path(directory)
        self.deck = self.dir / "deck.cfg"
        self.deck.write_text(DECK)
        self.failed = self.count = 0

    def train(self, *options, out=None, before=(), launch=None):
        """Returns the summary, or the program's message if it fails."""
        self.count += 1
        out = self.dir / (out or f"out-{self.count}")
        words = ["train", str(self.deck), f"--output.dir={out}", *options]
        command = launch(words) if launch else [*before, self.program, *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="backslashreplace", timeout=120)
        except subprocess.TimeoutExpired:
            return None, "no end after 120 s"
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            return None, f"exit code {done.returncode}: {lines[0] if lines else done.stdout[-200:]}"
        return json.loads((out / "summary.json").read_text()), ""

    def tell(self, ok, what, detail=""):
        self.failed += not ok
        print(f"{'passed' if ok else 'FAILED'}  {what}{': ' + detail if detail else ''}", flush=True)


def trajectory(run):
    return run["losses"], run["params_checksum"]


def losses_of(run):
    return [loss for _, loss in run["losses"]]


def resumed(runs, name, options, first):
    """Stops in the middle and goes on."""
    half, error = runs.train(
        *options, f"--train.steps={STEPS // 2}", f"--checkpoint.every={STEPS // 2}", out=f"r-{name}"
    )
    if half is not None:
        half, error = runs.train(
            *options, f"--checkpoint.every={STEPS // 2}", "--checkpoint.resume=latest", out=f"r-{name}"
        )
    same = half is not None and (half["losses"], half["params_checksum"]) == (
        first["losses"][STEPS // 2 :],
        first["params_checksum"],
    )
    runs.tell(same, f"{name}, resumed {' '.join(options)}", error or ("" if same else "other bits"))


def compare(runs, dtype, reference):
    common = [f"--train.dtype={dtype}", *OF_DTYPE.get(dtype, [])]
    first = None
    for way in WAYS:
        run, error = runs.train(*common, *way)
        if run is None:
            runs.tell(False, f"{dtype} {' '.join(way)}", error)
            continue
        if first is None:
            first = run
            runs.tell(True, f"{dtype} {' '.join(way)}", "losses " + " ".join(f"{v:.5f}" for v in losses_of(run)))
            continue
        same = trajectory(run) == trajectory(first)
        runs.tell(same, f"{dtype} {' '.join(way)}", "" if same else f"other bits: {run['losses']}, {first['losses']}")
    if first is None:
        return
    native = [runs.train(*common, "--zero.stage=3", "--comm.collectives=native") for _ in range(2)]  # bits of its own
    same = (
        native[0][0] is not None and native[1][0] is not None and trajectory(native[0][0]) == trajectory(native[1][0])
    )
    runs.tell(
        same,
        f"{dtype} --comm.collectives=native, twice",
        native[0][1] or native[1][1] or ("" if same else "other bits"),
    )
    resumed(runs, dtype, [*common, "--zero.stage=1"], first)
    if reference:
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses_of(first), reference[dtype], strict=True))
        runs.tell(worst <= DTYPES[dtype], f"{dtype} against a processor", f"losses differ by {worst:.1e} at most")


def share_by_nccl(runs):
    """Two ranks on one GPU: NCCL takes them for ranks of two machines. Its authors do not promise that this works."""
    environment = [
        "-genv",
        "SHOAL_SHARE_GPU",
        "1",
        "-genv",
        "NCCL_IB_DISABLE",
        "1",
        "-genv",
        "NCCL_SOCKET_IFNAME",
        "lo",
    ]

    def launch(words):
        one = ["-n", "1", "-env", "NCCL_HOSTID"]
        return [
            runs.launcher, *environment, *one, "first", runs.program, *words,
            ":", *one, "second", runs.program, *words,
        ]  # fmt: skip

    alone, error = runs.train()
    if alone is None:
        runs.tell(False, "one rank", error)
        return
    supported = False
    for stage in range(4):
        run, error = runs.train(f"--zero.stage={stage}", "--comm.backend=nccl", launch=launch)
        if run is None:
            print(f"not supported  two ranks on one GPU by NCCL, stage {stage}: {error}", flush=True)
            continue
        supported = True
        same = trajectory(run) == trajectory(alone)
        runs.tell(same, f"two ranks on one GPU by NCCL, stage {stage}", "" if same else "other bits than one rank")
    if not supported:
        print("SKIPPED: not supported: two ranks on one GPU by NCCL")
        sys.exit(77)


def share_by_mpi(runs):
    """Two ranks on one GPU, with a model whose messages are longer than the pieces in which memory of the host is pinned."""
    wide = "--model.n_embd=256"
    launched = [runs.launcher, "-genv", "SHOAL_SHARE_GPU", "1", "-genv", "SHOAL_GPU_AWARE_MPI", "0", "-n", "2"]
    alone, error = runs.train(wide)
    if alone is None:
        runs.tell(False, "one rank", error)
        return
    for stage in (0, 3):
        run, error = runs.train(wide, f"--zero.stage={stage}", "--comm.backend=mpi", before=launched)
        same = run is not None and trajectory(run) == trajectory(alone)
        runs.tell(
            same, f"two ranks on one GPU by MPI, stage {stage}", error or ("" if same else "other bits than one rank")
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--reference")
    parser.add_argument("--write")
    parser.add_argument("--nccl", action="store_true")
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="only these")
    parser.add_argument("--mpiexec", default=os.environ.get("SHOAL_MPIEXEC", "mpiexec"))
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="shoal-gpu-") as directory:
        runs = Runs(str(pathlib.Path(arguments.program).resolve()), arguments.mpiexec, directory)
        if arguments.write:
            losses = {}
            for dtype in DTYPES:
                run, error = runs.train(f"--train.dtype={dtype}", *OF_DTYPE.get(dtype, []))
                if run is None:
                    sys.exit(error)
                losses[dtype] = losses_of(run)
            pathlib.Path(arguments.write).write_text(json.dumps(losses) + "\n")
        elif arguments.nccl:
            share_by_nccl(runs)
        elif arguments.mpi:
            share_by_mpi(runs)
        else:
            reference = json.loads(pathlib.Path(arguments.reference).read_text()) if arguments.reference else None
            for dtype in arguments.dtypes.split(","):
                compare(runs, dtype, reference)
        sys.exit(1 if runs.failed else 0)


if __name__ == "__main__":
    main()
