# SPDX-License-Identifier: Apache-2.0
"""Runs strategies on virtual nodes and compares three counts of the bytes that cross each node's link: the link's own
counter, what the ranks handed to MPI (tests/support/mpi_counter.cpp), and the program's figures. Called by
bytes_test.sh.

Two runs that differ only in length are compared, so that the launcher, the start of MPI, and messages before the first
and after the last step cancel. Links carry more than messages: headers of frames (66 bytes of Ethernet, IP and TCP for
1448 of payload; fewer if frames are larger until the network card cuts them), acknowledgements (at most 66 bytes for a
frame in the other direction), and UCX's own messages. What TCP sends again has its own counter and is subtracted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "app"))
import mpi_count
from program import BINARY

GRIDS = {"2x2": (2, 2), "4x1": (4, 1)}  # nodes x ranks per node
SHORT, LONG = 4, 8  # steps: whole periods of all strategies
DECK = """
[model]
n_layer    = 2
n_head     = 4
n_embd     = 128
block_size = 32
vocab_size = 64
[data]
val_fraction = 0
[batch]
global     = 8
micro      = 1
[train]
log_every  = 1000
[trace]
level      = off
[checkpoint]
last       = false
"""
STAGE_3 = {"zero.stage": 3}
HPZ = {**STAGE_3, "zero.hpz_size": "node"}
LOCALSGD = {"sync.kind": "localsgd", "sync.localsgd_frequency": 2}
SLOWMO = {"sync.kind": "slowmo", "sync.localsgd_frequency": 2, "sync.slowmo_frequency": 4}
LATE = {"sync.average_overlap": "true", "sync.average_delay": 1, "sync.average_dtype": "int8"}
SGP = {"sync.kind": "sgp"}
STRATEGIES = {
    "stage 0": {"zero.stage": 0},
    "stage 1": {"zero.stage": 1},
    "stage 2": {"zero.stage": 2},
    "stage 3": STAGE_3,
    "hpZ": HPZ,
    "qwZ": {**STAGE_3, "zero.qwz": 8},
    "qgZ": {**STAGE_3, "zero.qgz": 4},
    "hpZ+qwZ+qgZ": {**HPZ, "zero.qwz": 8, "zero.qgz": 4},
    "localsgd": LOCALSGD,
    "localsgd late": {**LOCALSGD, **LATE},
    "slowmo": SLOWMO,
    "sgp": SGP,
    "sgp overlapped": {**SGP, "sync.sgp_overlap": "true"},
    "diloco": {"sync.kind": "diloco", "sync.slowmo_frequency": 4},
}
# The difference between these two runs is steps in which the nodes do not synchronize: they have done so after step 8.
APART = {"sync.kind": "localsgd", "sync.localsgd_frequency": 8}
APART_SHORT, APART_LONG = 9, 15
FRAME, PAYLOAD, HEADS = 1514, 1448, 66  # bytes
PER_MESSAGE = 1000  # bytes at most, in addition to a message's own: UCX sends request, clear-to-send and confirmation in frames of their own
NOISE = 20_000  # bytes that differ between two starts (the launcher's output, address resolution)


class Cluster:
    def __init__(self, work: Path):
        self.vcluster, self.work, self.runs = os.environ["VCLUSTER"], work, 0
        self.guard = Path(os.environ["VCLUSTER_STATE"]) / "bin" / "guard.so"
        self.deck = work / "deck.cfg"
        self.deck.write_text(DECK)

    def sent(self, nodes: int) -> list[int]:
        """Bytes that have left each node, without TCP's retransmissions."""
        counters = ("/sys/class/net/eth0/statistics/tx_bytes", "/proc/net/snmp")
        readers = [
            subprocess.Popen(
                [self.vcluster, "exec", f"node{n + 1}", "cat", *counters], stdout=subprocess.PIPE, text=True
            )
            for n in range(nodes)
        ]
        found = []
        for reader in readers:
            on_link, *snmp = reader.communicate()[0].splitlines()
            names, values = (line.split() for line in snmp if line.startswith("Tcp: "))
            repeated = int(dict(zip(names, values, strict=True))["RetransSegs"])
            found.append(int(on_link) - FRAME * repeated)
        return found

    def run(self, grid: str, options: dict, steps: int):
        """Returns the summary, the ranks' counts, and the bytes that left each node."""
        nodes, each = GRIDS[grid]
        self.runs += 1
        out, counts = self.work / f"run-{self.runs}", self.work / f"counts-{self.runs}"
        counts.mkdir()
        names = ",".join(f"node{node + 1}" for node in range(nodes))
        command = [self.vcluster, "run", "-n", str(nodes * each), "--nodes", names, "--timeout", "60", "--"]
        command += [*mpi_count.counted(counts, self.guard), BINARY, "train", str(self.deck), f"--output.dir={out}"]
        command += [f"--{name}={value}" for name, value in {**options, "train.steps": steps}.items()]
        before = self.sent(nodes)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        on_links = [after - then for then, after in zip(before, self.sent(nodes), strict=True)]
        return json.loads((out / "summary.json").read_text()), mpi_count.read(counts, nodes * each, each), on_links


def crossing(ranks, node: int) -> tuple[int, int]:
    """Bytes and messages that the ranks of a node sent to other nodes, including collectives of the MPI library between
    nodes."""
    payload = messages = 0
    for rank in ranks:
        if rank.node != node:
            continue
        over = [m.bytes for m in rank.messages if rank.crosses(m.to)]
        collectives = [c for c in rank.collectives if any(map(rank.crosses, c.ranks))]
        payload += sum(over) + sum(c.sent() for c in collectives)
        messages += len(over) + sum(len(c.ranks) for c in collectives)
    return payload, messages


def in_steps(ranks) -> int:
    """Bytes between nodes, within steps, of the rank that sends most: as in comm_bytes_per_step."""
    sums = []
    for rank in ranks:
        parts = rank.messages_begun_in_steps(), rank.collectives_in_steps()
        sums.append([sum(part[place] for part in parts) for place in ("intra", "inter")])
    return max(sums, key=sum)[1]


def compare(cluster: Cluster, grid: str, name: str, options: dict, short: int, long: int) -> list[str]:
    """Returns the differences that are too large."""
    faults, differences = [], []
    for steps in (short, long):
        summary, ranks, on_links = cluster.run(grid, options, steps)
        said = sum(sent["inter"] for sent in summary["comm_bytes_per_step"].values()) * steps
        if abs(said - in_steps(ranks)) > 0.5:  # the summary has a mean over steps, in decimal
            faults.append(f"{grid}, {name}: the summary has {said} bytes between nodes, MPI got {in_steps(ranks)}")
        differences.append([(*crossing(ranks, node), on_links[node]) for node in range(len(on_links))])
    changes = [[b - a for a, b in zip(*pair, strict=True)] for pair in zip(*differences, strict=True)]
    received = max(payload for payload, _, _ in changes)  # all nodes send the same amount
    print(f"  {grid}  {name:14}  {long - short} steps", end="")
    for payload, messages, on_link in changes:
        least = payload - NOISE
        most = payload + HEADS * (payload + received) / PAYLOAD + PER_MESSAGE * messages + NOISE
        print(f"  {payload} -> {on_link}", end="")
        if not least <= on_link <= most:
            faults.append(
                f"{grid}, {name}: {payload} bytes in {messages} messages, {on_link} on the link, not {least:.0f} to {most:.0f}"
            )
    print(flush=True)
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--grids", type=lambda text: text.split(","), default=list(GRIDS))
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=list(STRATEGIES))
    arguments = parser.parse_args()
    cluster, faults = Cluster(arguments.work), []
    print(
        "# nodes x ranks, strategy, additional steps: bytes handed to MPI for other nodes -> bytes on the link, by node"
    )
    for grid in arguments.grids:
        for name in arguments.strategies:
            faults += compare(cluster, grid, name, STRATEGIES[name], SHORT, LONG)
        faults += compare(cluster, grid, "no synchronization", APART, APART_SHORT, APART_LONG)
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
