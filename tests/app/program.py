# SPDX-License-Identifier: Apache-2.0
"""Starts shoal as its users do, for tests of whole runs."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import turns

SOURCE = pathlib.Path(os.environ.get("SHOAL_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("SHOAL_BINARY", str(SOURCE / "build" / "shoal"))
MPIEXEC = os.environ.get("SHOAL_MPIEXEC", "mpiexec")
SHARED = pathlib.Path(os.environ.get("SHOAL_SHARED", SOURCE.parent / "shared"))
WARNING = "shoal: warning: "
# HDF5 and MPICH's input and output do not free everything when a read or a write fails, nor UCX if MPI cannot be ended.
# LeakSanitizer need not say so.
LEAKS = {"LSAN_OPTIONS": f"suppressions={SOURCE / 'tests/support/leaks_of_libraries.txt'}:print_suppressions=0"}
# The subject of tests that are run again with the portable kernels, for turns.chosen(): with the tuned ones all rows run.
ON_OTHER_KERNELS = ("kernels/portable", "kernels/rules") if BINARY.endswith("_portable") else None

# One batch of validation: all of the synthetic text takes half of a run of one rank.
QUICKSTART = SOURCE / "inputs/quickstart.cfg"  # a deck in the size that users run
SMALL = {
    "model": {"kind": "gpt", "n_layer": 2, "n_head": 2, "n_embd": 32, "block_size": 32, "vocab_size": 64},
    "data": {"source": "synthetic"},
    "batch": {"micro": 1, "global": 8},
    "train": {"steps": 6, "dtype": "fp32", "seed": 3, "eval_batches": 1},
}


def skip(reason):
    """Skips the test and prints the reason, which .ci/run collects."""
    print(f"SKIPPED: {reason}")
    raise unittest.SkipTest(reason)


def shared(*parts):
    """A reference file outside the repository; skips the test if it is missing."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        skip(f"{path} (shared reference data) is not there")
    return path


def preloaded(*libraries):
    """The environment of a program that loads these libraries before all others."""
    # AddressSanitizer complains if its library is not the first one to be loaded, which is harmless here.
    sanitizer = f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0"
    return {"LD_PRELOAD": ":".join(map(str, libraries)), "ASAN_OPTIONS": sanitizer}


def main():
    """unittest.main(), but if all tests were skipped it ends with 77, which CTest shows as skipped, not as passed."""
    result = unittest.main(exit=False, testLoader=turns.Loader()).result
    nothing = result.testsRun == len(result.skipped)
    sys.exit(1 if not result.wasSuccessful() or result.testsRun == 0 else 77 if nothing else 0)


def processes(accepts):
    """Process numbers of this program's processes whose command line, a list of words, `accepts` returns True for."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if words[0] == BINARY.encode() and accepts(words):
            found.append(int(process.name))
    return found


def ranks_of(out):
    """The processes of the run with this output.dir."""
    return processes(lambda words: f"--output.dir={out}".encode() in words)


def end(process):
    """Ends a launcher that may still run, and with it its ranks: they end when it is gone."""
    process.terminate()
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate(timeout=30)


@functools.cache
def sanitized():
    """True if the program is built with AddressSanitizer, which makes it several times slower and larger."""
    return b"__asan_init" in pathlib.Path(BINARY).read_bytes()


class Program(unittest.TestCase):
    """Each test has its own directory, which is removed afterwards."""

    binary = BINARY

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="shoal-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def deck(self, sections, name="deck.cfg", **more):
        """Writes a deck. more: changes, as section=dict(option=value)."""
        merged = {section: dict(values) for section, values in sections.items()}
        for section, values in more.items():
            merged.setdefault(section, {}).update(values)
        path = self.dir / name
        lines = (
            f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())
            for section, values in merged.items()
        )
        path.write_text("\n".join(lines))
        return path

    def environment(self, ranks, extra=None):
        wait = "sleep" if ranks > 1 else "auto"
        return {**os.environ, "OMP_NUM_THREADS": "1", "SHOAL_COMM_WAIT": wait, **(extra or {})}

    def shoal(self, *args, ranks=1, timeout=120, env=None, mpiexec=()):
        command = [MPIEXEC, *mpiexec, "-n", str(ranks), self.binary, *map(str, args)]
        timeout *= 3 if sanitized() else 1  # as CTest's time limits
        return subprocess.run(
            command, capture_output=True, text=True, errors="backslashreplace", timeout=timeout,
            env=self.environment(ranks, env), cwd=self.dir
        )  # fmt: skip

    def start(self, *args, ranks=1, mpiexec=(), **more):
        """Starts the program and returns its launcher, which is ended when the test is over. more: for Popen()."""
        launcher = subprocess.Popen(
            [MPIEXEC, *mpiexec, "-n", str(ranks), self.binary, *map(str, args)],
            **{"env": self.environment(ranks), "cwd": self.dir, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
            text=True,
        )  # fmt: skip
        self.addCleanup(end, launcher)
        return launcher

    def wait_for(self, what, process, seconds=60):
        """Waits until what() is true. The test fails if this takes longer, or if the process, unless it is None, ends before
        that."""
        deadline = time.monotonic() + seconds * (3 if sanitized() else 1)
        while not what():
            self.assertIsNone(process and process.poll(), "the program has ended")
            self.assertLess(time.monotonic(), deadline, f"it took more than {seconds} s")
            time.sleep(0.01)

    def train(self, deck, *args, ranks=1, out=None, timeout=120, env=None, codes=(0,)):
        """Trains. The run must end with one of these exit codes. Returns its summary."""
        out = self.dir / (out or f"out-{len(list(self.dir.glob('out-*')))}")
        done = self.shoal("train", deck, f"--output.dir={out}", *args, ranks=ranks, timeout=timeout, env=env)
        self.assertIn(done.returncode, codes, f"{args}\n{done.stdout}\n{done.stderr}")
        return json.loads((out / "summary.json").read_text())

    def bench_file(self):
        """Measures four ranks as two nodes of this machine, for `shoal plan --network`."""
        network = self.dir / "network.json"
        done = self.shoal(
            "bench", "comm", "--comm.ranks_per_node=2", "--only", "all_gather:tree", "--groups", "node,across",
            "--min", "4KiB", "--max", "1MiB", "--repetitions", "3", "--output", network, ranks=4,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return network

    def refused(self, *args, ranks=1, code=2, contains=(), lines=1, timeout=60, env=None):
        """The program must end with this exit code and print this number of lines to stderr, warnings not counted, one of which
        contains all of `contains`. Returns the process."""
        done = self.shoal(*args, ranks=ranks, timeout=timeout, env=env)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        said = [
            line for line in done.stderr.splitlines() if line.startswith("shoal: ") and not line.startswith(WARNING)
        ]
        self.assertTrue(
            any(all(part in line for part in contains) for line in said),
            f"wanted {contains}, got:\n{done.stderr}\n{done.stdout}",
        )
        self.assertEqual(len(said), lines, f"lines, of which one was to contain {contains}:\n{done.stderr}")
        return done


def trajectory(summary):
    """The results that must have the same bits on any number of ranks."""
    return summary["losses"], summary["grad_norms"], summary["params_checksum"]


if __name__ == "__main__":
    raise SystemExit("a module of the tests; run one of them")
