# SPDX-License-Identifier: Apache-2.0
"""Compares what links_bench.sh measured with theory: links.py DIRECTORY RATE (Gbit/s). Exits with 1 if a target is
missed.

Theory: in a reduce-scatter or an all-gather of M bytes, each of N nodes sends M (N-1)/N to others, whatever its number
of ranks (comm/tree_reduce.hpp). The counters of virtual links see segments of up to 64 KiB before they are cut into
frames, each with 66 bytes of headers (Ethernet, IP, TCP). They also count acknowledgements (66 bytes for several
segments in the other direction), and what the launcher, the start of MPI and the barriers between repetitions send. A
real link carries 1514 bytes for 1448 of payload, and the rate of virtual links is defined in the same way: at most
0.956 of it is payload.
"""

import json
import os
import pathlib
import sys

BESIDES = 0.03  # fraction of the theory: headers, acknowledgements, and messages that are not the collective's
FILLED = 0.90


def main(directory, rate):
    print(
        f"# links of {rate} Gbit/s = {rate * 125:.1f} MB/s in each direction; best of the repetitions, because other work slows some of them"
    )
    print("# nodes x ranks, collective   theory MiB  link MiB  link/theory  payload/rate: best  median")
    missed = []
    for file in sorted(pathlib.Path(directory).glob("*.json")):
        bench = json.loads(file.read_text())
        (row,) = bench["rows"]
        nodes = bench["topology"]["nodes"]
        counts = [[int(line) for line in file.with_suffix(end).read_text().split()] for end in (".before", ".after")]
        counted = [after - before for before, after in zip(*counts, strict=True)]
        once = row["bytes"] * (nodes - 1) / nodes
        theory = once * row["operations"]
        own = row["sent"]["inter"] / nodes
        filled = [once / row[seconds] / (rate * 125e6) for seconds in ("min_s", "median_s")]
        over = max(counted) / theory
        print(
            f"  {file.stem:26}  {theory / 2**20:10.2f}  {max(counted) / 2**20:8.2f}  {over:11.3f}"
            f"  {filled[0]:18.3f}  {filled[1]:6.3f}"
        )
        if own != once:
            missed.append(f"{file.stem}: the program counted {own} bytes per node, theory predicts {once}")
        if not 1 <= over <= 1 + BESIDES:
            missed.append(f"{file.stem}: the links carried {over:.3f} of theory, not 1 to {1 + BESIDES}")
        crowded = (
            bench["topology"]["ranks"] > 2 * os.cpu_count()
        )  # then the ranks' own copying takes a part of the time
        if filled[0] < FILLED and not crowded:
            missed.append(f"{file.stem}: {filled[0]:.3f} of the link's rate, not {FILLED}")
    print(
        f"# targets: link/theory 1 to {1 + BESIDES}; payload/rate {FILLED}, unless there are more than two ranks per core"
    )
    for line in missed:
        print(f"MISSED: {line}")
    print("verdict:", "missed" if missed else "all met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
