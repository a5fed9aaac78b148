# SPDX-License-Identifier: Apache-2.0
"""budget.py CPU_LOG [BASE]: the price of the tests. Prints the CPU seconds of each folder and of the dearest CTest entries, from
what tests/support/measured.sh wrote, and fails if a file of whole runs takes more than its budget.

The budget is 20 CPU seconds on a Zen 4 core. The files in .ci/above_budget may take what stands there; a line must go when it
is not needed any more, and none may be added or raised beyond the file of the commit BASE, except that a line goes with its file
to another folder. Other processors get as much more as a loop takes longer there."""

import collections
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BUDGET = 20.0
LOOP_ON_ZEN_4 = 0.43  # CPU seconds of loop()
# CPU seconds of whole runs vary by a third with what else the machine, or its host, does, and with the seed.
NOISE = 1.5
WHOLE_RUNS = r"(app|house|promises|analysis|contract|cluster|data)/\w+(@\w+)?"  # scripts; the programs of app/ have a number or are below


def loop(_=None):
    """CPU seconds of work that depends on the processor alone."""
    begin = time.process_time()
    x = 1
    for _ in range(6_000_000):
        x = (x * 69069 + 1) & 0xFFFFFFFF
    return time.process_time() - begin


def loops():
    """The same while all cores work, as they do in tests: two cores may be one that is shared."""
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(cores) as pool:
        return sorted(pool.map(loop, range(3 * cores), chunksize=3))


def allowed(text):
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return {words[0]: float(words[1]) for words in lines if words}


def raised(above, old):
    """The names that may take more than before. A file that has moved to another folder may take what it could."""
    gone = {
        name.split("/")[-1]: most for name, most in old.items() if name not in above
    }
    return [
        name
        for name, most in above.items()
        if most > old.get(name, gone.get(name.split("/")[-1], 0))
    ]


def spent(path):
    """CPU seconds by entry, from lines `user system real name`."""
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split()
        if len(words) == 4 and re.fullmatch(r"[\d.]+", words[0]):
            found[words[3]] = float(words[0]) + float(words[1])
    return found


def main(log, base=None):
    cpu = spent(log)
    if not cpu:
        print(f"{log} has no CPU seconds", file=sys.stderr)
        return 1
    times = loops()
    scale = max(1.0, times[len(times) // 2] / LOOP_ON_ZEN_4)
    above = allowed((HERE / "above_budget").read_text())
    problems = []
    if base:
        before = subprocess.run(
            ["git", "show", f"{base}:.ci/above_budget"],
            capture_output=True,
            text=True,
            cwd=HERE,
        )
        if before.returncode == 0:
            problems += [
                f".ci/above_budget allows {name} more than {base} did"
                for name in raised(above, allowed(before.stdout))
            ]
    folders = collections.Counter()
    for name, seconds in cpu.items():
        folders[name.split("/")[0]] += seconds
    print(
        f"== CPU seconds: {sum(cpu.values()):.0f} in {len(cpu)} entries; this processor's scale is {scale:.2f}"
    )
    print(
        ", ".join(
            f"{folder} {seconds:.0f}" for folder, seconds in folders.most_common()
        )
    )
    for name, seconds in sorted(cpu.items(), key=lambda item: -item[1])[:30]:
        whole = re.fullmatch(WHOLE_RUNS, name) is not None
        most = above.get(name, BUDGET) if whole else None
        print(f"{seconds:8.1f}  {name}" + (f"  (budget {most:.0f})" if most else ""))
        if most and seconds > most * scale * NOISE:
            problems.append(
                f"{name} took {seconds:.1f} CPU seconds; {most:.0f} x {scale:.2f} x {NOISE} are allowed"
            )
    for problem in problems:
        print(f"budget: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
