#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""analysis/tokenize.py: a byte-level BPE that is trained here, the tokens in the file, the bytes of the vocabulary, and
refusals."""

import itertools
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import h5py
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError as missing:
    print(f"SKIPPED: analysis/tokenize.py is not tested: {missing} (make python)")
    sys.exit(77)  # CTest's code for skipped tests

SOURCE = Path(os.environ.get("SHOAL_SOURCE", Path(__file__).resolve().parents[2]))
LINES = ["The quick brown fox", "", "  jumps over  ", "the lazy dög € \U0001f600", "\tthe end", "fox fox fox"]
TEXT = "\n".join(LINES * 40)
END = "<|endoftext|>"


def byte_level(directory: Path) -> Path:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [TEXT],
        trainers.BpeTrainer(vocab_size=300, special_tokens=[END], initial_alphabet=alphabet, show_progress=False),
    )
    path = directory / "tokenizer.json"
    tokenizer.save(str(path))
    return path


class TokenizePy(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tokenizer = byte_level(self.directory)
        self.text = self.write("text.txt", TEXT.encode())
        self.output = self.directory / "tokens.h5"

    def write(self, name: str, content: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(content)
        return path

    def run_script(self, *arguments: object) -> subprocess.CompletedProcess:
        command = [sys.executable, SOURCE / "analysis" / "tokenize.py", *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)

    def tokenize(self, *arguments: object) -> subprocess.CompletedProcess:
        return self.run_script("--tokenizer", self.tokenizer, "--output", self.output, *arguments)

    def read(self) -> tuple[list[int], list[bytes], int]:
        with h5py.File(self.output) as file:
            content, offsets = file["vocabulary_bytes"][:].tobytes(), file["vocabulary_offsets"][:]
            vocabulary = [content[begin:end] for begin, end in itertools.pairwise(offsets)]
            return file["tokens"][:].tolist(), vocabulary, int(file.attrs["vocab_size"])

    def refused(self, message: str, *arguments: object) -> None:
        result = self.run_script(*arguments)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn(message, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertEqual(list(self.directory.glob("*.partial")), [])

    def test_tokens_are_the_tokenizers_wherever_the_text_is_cut(self) -> None:
        expected = Tokenizer.from_file(str(self.tokenizer)).encode(TEXT).ids
        for size in (1, 7, 100, 1 << 20):
            result = self.tokenize(self.text, "--block-size", size)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"{len(expected)} tokens, 300 symbols", result.stdout)
            self.assertEqual(self.read()[0], expected, f"blocks of {size}")
            self.output.unlink()

    def test_vocabulary_is_the_text_in_bytes(self) -> None:
        self.assertEqual(self.tokenize(self.text).returncode, 0)
        tokens, vocabulary, vocab_size = self.read()
        self.assertEqual(vocab_size, 300)
        self.assertEqual(len(vocabulary), 300)
        self.assertEqual(b"".join(vocabulary[token] for token in tokens), TEXT.encode())
        self.assertEqual({entry[0] for entry in vocabulary if len(entry) == 1}, set(range(256)))

    def test_the_program_reads_it_and_finds_what_changed(self) -> None:
        self.assertEqual(self.tokenize(self.text, "--block-size", 100).returncode, 0)
        self.assertIn("read back, all agree", self.info().stdout)
        for name in ("tokens", "vocabulary_bytes", "vocabulary_offsets"):
            with h5py.File(self.output, "r+") as file:
                before = file[name][5]
                file[name][5] = before + 1
            self.assertRegex(
                self.info().stderr, f"/{name}: checksum [0-9a-f]+, expected [0-9a-f]+; the file is damaged"
            )
            with h5py.File(self.output, "r+") as file:
                file[name][5] = before

    def info(self) -> subprocess.CompletedProcess:
        command = [os.environ.get("SHOAL_BINARY", str(SOURCE / "build/shoal")), "info", "--verify", str(self.output)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_files_are_ended_where_asked_for(self) -> None:
        self.assertEqual(self.tokenize(self.text, self.text, "--end-of-text", END, "--whole-files").returncode, 0)
        tokens, vocabulary, _ = self.read()
        self.assertEqual(b"".join(vocabulary[token] for token in tokens), 2 * (TEXT + END).encode())
        with h5py.File(self.output) as file:
            self.assertEqual(file["tokens"].dtype, "<u2")

    def test_bad_input_is_refused_by_name(self) -> None:
        arguments = ("--tokenizer", self.tokenizer, "--output", self.output)
        self.refused("missing.txt: no such file", *arguments, self.directory / "missing.txt")
        self.refused("empty.txt: empty", *arguments, self.write("empty.txt", b""))
        self.refused("latin.txt: not UTF-8 text", *arguments, self.write("latin.txt", b"caf\xe9 " * 10))
        self.refused("not a tokenizer.json", "--tokenizer", self.text, "--output", self.output, self.text)
        self.refused("--end-of-text <none>: no token of", *arguments, self.text, "--end-of-text", "<none>")
        self.refused("exists already", "--tokenizer", self.tokenizer, "--output", self.text, self.text)
        self.refused(
            "no such directory", "--tokenizer", self.tokenizer, "--output", self.directory / "no/a.h5", self.text
        )
        self.assertFalse(self.output.exists())

    def test_the_standard_librarys_module_of_this_name_is_not_hidden(self) -> None:
        program = "import inspect, linecache, tokenize; print(tokenize.open, tokenize.__file__)"
        environment = os.environ | {"PYTHONPATH": str(SOURCE / "analysis")}
        result = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("analysis", result.stdout)

    def test_help(self) -> None:
        result = self.run_script("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--end-of-text", result.stdout)


if __name__ == "__main__":
    unittest.main()
