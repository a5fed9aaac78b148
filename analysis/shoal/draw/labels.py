# SPDX-License-Identifier: Apache-2.0
"""Words that the report shows in place of the short names in traces and summary.json, which scripts rely on and which
stay."""

from __future__ import annotations

PARTS = {
    "publish": "gather updated parameters",
    "losses": "sum of losses",
    "clip": "gradient norm and clipping",
    "device": "waiting for the device",
    "release": "free gathered parameters",
    "synchronise": "synchronize nodes",
    "wait": "waiting for messages",
    "rest": "other",
}
STATES = {"master": "fp32 master parameters"}
GROUPS = {"all": "all ranks", "node": "within a node", "across": "between nodes", "neighbours": "consecutive ranks",
          "pipeline": "stages of a pipeline", "data": "data-parallel ranks", "model": "ranks with one copy of the model",
          "data/node": "data-parallel ranks within a node", "data/across": "data-parallel ranks between nodes"}  # fmt: skip
MEMORY = {"resident": "whole process", "arenas": "planned buffers"}


def part(name: str) -> str:
    """A part of a step, or an operation on one unit."""
    return PARTS.get(name, name)


def state(name: str) -> str:
    return STATES.get(name, name)


def group(name: str) -> str:
    return GROUPS.get(name, name)


def memory(name: str) -> str:
    return MEMORY.get(name, name)
