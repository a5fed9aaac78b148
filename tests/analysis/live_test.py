#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reading a trace while its run writes it. A flush reaches the file in several writes; here the file is caught between
any two of them: every mixture of the file before a flush and of the file after it."""

import shutil
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import h5py
import make_run
import numpy as np

from scripts import script  # isort: skip
from shoal.read import live
from shoal.read.bad_input import BadInput
from shoal.read.trace import Trace

RANKS = make_run.RANKS
BLOCK = 256  # bytes; a reader sees a write whole or in pieces


def states_of_a_flush(path):
    """Writes a trace with two flushes, the second of which brings a new name. Returns the bytes of the file before and
    after the second one reached the file, with the chunks of its events: those come first."""
    make_run.write_trace(path, {}, "comm", 3, complete=False)
    with h5py.File(path, "r+", libver=("v108", "v108")) as file:
        known = list(file["names"].asstr()[()])
        names = list(known)
        ranks = [make_run.record_rank(rank, "comm", 4, 9, names, False) for rank in range(RANKS)]
        file.flush()
        before = path.read_bytes()
        first = len(file["events"])
        for rank, rows in enumerate(ranks):
            append(file["flushes"], np.array([(1, rank, first, len(rows), 0)], make_run.FLUSH))
            rows += [make_run.FILLING] * (-len(rows) % make_run.CHUNK)
            append(file["events"], np.array(rows, make_run.EVENT))
            first += len(rows)
        append(file["names"], names[len(known) :])
        file.flush()
        chunks = [file["events"].id.get_chunk_info(i) for i in range(file["events"].id.get_num_chunks())]
        after = path.read_bytes()
    whole = bytearray(before.ljust(len(after), b"\0"))
    for chunk in chunks:
        place = slice(chunk.byte_offset, chunk.byte_offset + chunk.size)
        whole[place] = after[place]
    return bytes(whole), after, len(before)


def append(dataset, rows):
    dataset.resize((len(dataset) + len(rows),))
    dataset[-len(rows) :] = rows


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = Path(tempfile.mkdtemp(prefix="shoal-live-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.path = cls.directory / "trace.h5"
        cls.before, cls.after, cls.size_before = states_of_a_flush(cls.path)
        cls.path.write_bytes(cls.before)
        cls.fewer = Trace.read(cls.path).events
        cls.path.write_bytes(cls.after)
        cls.more = Trace.read(cls.path).events
        assert len(cls.fewer) < len(cls.more)

    def mixtures(self):
        """A file whose first part is from after the flush, or its last part; and that ends where it ended before."""
        places = [
            i for i in range(0, len(self.after), BLOCK) if self.before[i : i + BLOCK] != self.after[i : i + BLOCK]
        ]
        self.assertGreater(len(places), 4)
        for place in places:
            yield f"new up to {place}", self.after[:place] + self.before[place:]
            yield f"new from {place}", self.before[:place] + self.after[place:]
            only = self.before[:place] + self.after[place : place + BLOCK] + self.before[place + BLOCK :]
            yield f"new at {place}", only
            yield f"not yet long, new at {place}", only[: max(self.size_before, place)]

    def test_a_read_between_two_writes_is_repeated_until_it_is_whole(self):
        """The file becomes whole when the reader waits for the first time."""
        waited, results, torn = 0, set(), b""
        for name, content in self.mixtures():
            self.path.write_bytes(content)
            with self.subTest(name), unittest.mock.patch.object(live.time, "sleep", side_effect=self.finish) as sleep:
                events = Trace.read(self.path).events
                results.add(len(events))
                self.assertTrue(np.array_equal(events, self.fewer) or np.array_equal(events, self.more))
            waited += sleep.call_count
            torn = content if sleep.call_count else torn
        self.assertGreater(waited, 0, "some of them cannot be read")
        self.assertEqual(results, {len(self.fewer), len(self.more)})
        for program in ("report.py", "perfetto.py"):
            self.path.write_bytes(torn)
            with (
                self.subTest(program),
                unittest.mock.patch.object(live.time, "sleep", side_effect=self.finish) as sleep,
            ):
                done = script(program, self.path)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(sleep.call_count, 1)

    def finish(self, _):
        self.path.write_bytes(self.after)

    def test_a_file_that_stays_damaged_is_refused(self):
        self.path.write_bytes(self.after[: len(self.after) // 3])
        with unittest.mock.patch.object(live, "PATIENCE_S", 0.05), self.assertRaisesRegex(BadInput, "cannot be read"):
            Trace.read(self.path)

    def test_a_file_that_goes_on_changing_is_refused_in_the_end(self):
        def change(_):
            with self.path.open("ab") as file:
                file.write(b"x")

        self.path.write_bytes(self.after[: len(self.after) // 3])
        with (
            unittest.mock.patch.object(live.time, "sleep", change),
            unittest.mock.patch.object(live, "LONGEST_S", 0.05),
            self.assertRaisesRegex(BadInput, "cannot be read"),
        ):
            Trace.read(self.path)


if __name__ == "__main__":
    unittest.main()
