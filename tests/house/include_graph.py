# SPDX-License-Identifier: Apache-2.0
"""Who includes whom in src/, include/ and kernels/. A room is a folder of these; some rooms have sub-rooms. A header and its
source are one unit, wherever in the room they stand."""

import collections
import os
import re

from program import SOURCE

INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
PATTERNS = ("include/shoal/*/**/*.hpp", "src/*/**/*.?pp", "kernels/**/*.?*")


def files():
    """All sources and headers, as paths from the root of the tree."""
    found = [path for pattern in PATTERNS for path in SOURCE.glob(pattern)]
    return sorted(
        path.relative_to(SOURCE).as_posix()
        for path in found
        if path.suffix in (".hpp", ".cpp", ".cu") and path.is_file()
    )


def room_of(file):
    parts = file.split("/")
    return "kernels" if parts[0] == "kernels" else parts[2] if parts[0] == "include" else parts[1]


def subroom_of(file):
    """The sub-room of a file; empty at the top of its room, None for a public header."""
    if file.startswith("include/"):
        return None
    inner = file.split("/")[1:-1] if file.startswith("kernels/") else file.split("/")[2:-1]
    return "/".join(inner)


def unit_of(file):
    """In src/ the room and the name without suffix, which is unique in the room; in kernels/ the path without suffix, where
    what is common to all implementations is one unit with the public header of its name."""
    stem = os.path.splitext(file)[0].removeprefix("include/shoal/").replace("kernels/common/", "kernels/")
    return stem if stem.startswith("kernels/") else f"{room_of(file)}/{os.path.basename(stem)}"


def lines_of(file):
    """(header, text for messages) of each #include of a file."""
    for number, line in enumerate((SOURCE / file).read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield found.group(1), f"{file}:{number} includes {found.group(1)}"


def includes(all_files):
    """For each file the files of the tree that it includes, each with a text for messages. A header's name is relative to
    include/, to the file's folder, to src/, or in kernels/ to the root of the tree."""
    known, result = set(all_files), {}
    for file in all_files:
        result[file] = []
        for header, message in lines_of(file):
            paths = (
                os.path.normpath(os.path.join(folder, header))
                for folder in ("include", os.path.dirname(file), "src", "")
            )
            result[file] += [(path, message) for path in paths if path in known][:1]
    return result


def circles(uses):
    """The strongly connected components of more than one node (Tarjan 1972). uses: the set of nodes that each node uses."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for used in sorted(uses.get(node, ())):
            if used not in index:
                visit(used)
                low[node] = min(low[node], low[used])
            elif used in stack:
                low[node] = min(low[node], index[used])
        if low[node] == index[node]:
            circle = stack[stack.index(node) :]
            del stack[-len(circle) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(uses):
        if node not in index:
            visit(node)
    return sorted(found)


def units(all_files):
    """The units that each unit uses."""
    uses = collections.defaultdict(set)
    for file, included in includes(all_files).items():
        uses[unit_of(file)] |= {unit_of(path) for path, _ in included} - {unit_of(file)}
    return uses


if __name__ == "__main__":
    raise SystemExit("a module of the tests; run one of them")
