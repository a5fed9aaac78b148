# SPDX-License-Identifier: Apache-2.0
"""Reads what tests/support/mpi_counter.cpp recorded of a run: every message and every collective that was handed to
MPI."""

import os
import pathlib
from dataclasses import dataclass

from program import BINARY, preloaded

COUNTER = os.environ.get(
    "SHOAL_MPI_COUNTER", str(pathlib.Path(BINARY).parent / "tests" / "support" / "libshoal_mpi_counter.so")
)


def counted(directory, *besides):
    """The command-line words before the program's name that make its ranks write their counts. besides: more libraries
    to preload."""
    given = {**preloaded(COUNTER, *besides), "SHOAL_MPI_COUNT": directory}
    return ["env", *(f"{name}={value}" for name, value in given.items())]


@dataclass
class Message:
    region: int  # in step s: s; after it: -s; before the first step: 0
    begun: int  # the region in which the operation began that this message belongs to
    to: int
    bytes: int


@dataclass
class Collective:
    region: int
    name: str
    ranks: tuple  # of the group
    bytes: int  # bytes that this rank hands over

    def sent(self):
        """The least that this rank must send in total, defined as in the program's own counters."""
        others = len(self.ranks) - 1
        return {
            "all_reduce": 2 * self.bytes * others // len(self.ranks),
            "all_gather": self.bytes * others,
            "reduce_scatter": self.bytes,
            "broadcast": self.bytes,
            "barrier": 0,
        }[self.name]


class Rank:
    """Everything that one rank handed to MPI. Ranks are numbered node by node, so ranks_per_node determines which
    messages cross nodes."""

    def __init__(self, path, rank, ranks_per_node):
        self.rank, self.node = rank, rank // ranks_per_node
        self.ranks_per_node = ranks_per_node
        self.messages, self.collectives = [], []
        groups = {}
        for line in path.read_text().splitlines():
            kind, *fields = line.split()
            if kind == "group":
                groups[fields[0]] = tuple(map(int, fields[1:]))
            elif kind == "send":
                region, begun, _, to, _, size = map(int, fields)
                self.messages.append(Message(region, begun, to, size))
            else:
                region, group, name, size = fields
                self.collectives.append(Collective(int(region), name, groups[group], int(size)))

    def crosses(self, rank):
        return rank // self.ranks_per_node != self.node

    def messages_begun_in_steps(self):
        """Bytes within the node and between nodes."""
        sums = {"intra": 0, "inter": 0}
        for message in self.messages:
            if message.begun > 0:
                sums["inter" if self.crosses(message.to) else "intra"] += message.bytes
        return sums

    def collectives_in_steps(self):
        """The same, for collectives of the MPI library."""
        sums = {"intra": 0, "inter": 0}
        for collective in self.collectives:
            if collective.region <= 0 or len(collective.ranks) == 1:
                continue
            sent, others = collective.sent(), len(collective.ranks) - 1
            mates = sum(1 for rank in collective.ranks if rank != self.rank and not self.crosses(rank))
            sums["intra"] += sent * mates // others
            sums["inter"] += sent - sent * mates // others
        return sums

    def across_nodes(self):
        """The regions in which this rank sent anything to another node, or took part in a collective between nodes."""
        of_messages = {message.region for message in self.messages if self.crosses(message.to)}
        return of_messages | {c.region for c in self.collectives if any(map(self.crosses, c.ranks))}


def read(directory, ranks, ranks_per_node):
    return [Rank(pathlib.Path(directory) / f"rank_{rank}.txt", rank, ranks_per_node) for rank in range(ranks)]
