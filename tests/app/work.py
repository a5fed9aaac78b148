# SPDX-License-Identifier: Apache-2.0
"""The work W1 (a character GPT of 10.8 M parameters) as files, and the losses of PyTorch 2.15 on it."""

import subprocess
import sys

from program import SOURCE, shared, skip

# Seed 1, one process, fp32 (PyTorch eager; AVX2 and AVX-512 kernels give the same digits).
LOSSES = [4.13991, 3.59318, 3.51413, 3.37945, 3.31938, 3.17338, 3.31238, 3.14015, 3.07597, 2.95883]
NORMS = [14.37424, 7.03758, 6.70591, 3.39946, 2.47462, 3.18959, 35.0116, 4.63812, 5.1282, 1.94769]
# Two ranks with twice the sequences: DDP, FSDP2, DeepSpeed 0-3 and FairScale's OSS agree to 4 decimal places.
LOSSES_TWO_RANKS = [4.1381, 3.6181, 3.5307, 3.3656, 3.3032, 3.2083, 3.1793, 3.0914]
# Later in that run, for seeds 1, 2, 3 (the last: seed 1 alone): means of the last ten losses after a step, and losses of
# validation. The runs of other seeds have other weights and batches.
MEANS = {200: (2.4689, 2.4753, 2.4701), 300: (2.3597, 2.3892, 2.4105)}
VALIDATION = {300: (2.3817, 2.4363, 2.4240), 1000: (1.8340,)}


def python_with_numpy():
    """A Python that has numpy and h5py: this one, or Debian's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy, h5py"], capture_output=True).returncode == 0:
            return python
    skip("no Python with numpy and h5py")


def export(directory, steps, ranks=1, seed=1):
    """Writes W1's weights, samples and deck. Returns the path of the deck."""
    text = shared("data", "tinyshakespeare.txt")
    script = SOURCE / "tests" / "bench" / "peers" / "export_work.py"
    subprocess.run(
        [
            python_with_numpy(),
            script,
            "W1",
            directory,
            "--steps",
            str(steps),
            "--ranks",
            str(ranks),
            "--seed",
            str(seed),
            "--text",
            text,
        ],
        check=True,
        capture_output=True,
    )
    return directory / "W1.cfg"
