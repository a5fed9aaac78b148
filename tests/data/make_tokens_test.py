#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""analysis/make_tokens.py: a byte-level BPE that is trained here, the tokens in the file, the bytes of the vocabulary, and
refusals."""

import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

try:
    import h5py
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError as missing:
    print(f"SKIPPED: analysis/make_tokens.py is not tested: {missing} (make python)")
    sys.exit(77)  # CTest's code for skipped tests

SOURCE = Path(os.environ.get("SHOAL_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "analysis"))
import make_tokens  # isort: skip

LINES = ["The quick brown fox", "", "  jumps over  ", "the lazy dög € \U0001f600", "\tthe end", "fox fox fox"]
TEXT = "\n".join(LINES * 40)
END = "<|endoftext|>"


# The expressions by which tokenizers divide text before they merge bytes. GPT-4's is Llama 3's, too; GPT-2's is built in.
GPT_4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
         r"|\s+")  # fmt: skip
GPT_4O = GPT_4.replace(r"+[\r\n]*", r"+[\r\n/]*")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK = (
    r"[\r\n]",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺΑ-ΡΣ-ωА-яЁё]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    r"[一-龥ࠀ-一가-퟿]+",
)


def pre_tokenizer(
    *expressions: str, built_in: bool = False, digits: bool = False, blank: bool = False
) -> pre_tokenizers.PreTokenizer:
    parts = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
    parts += [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    return pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=blank, use_regex=built_in)])


PRE_TOKENIZERS = {
    "GPT-2": pre_tokenizer(built_in=True),
    "GPT-4": pre_tokenizer(GPT_4),
    "GPT-4o": pre_tokenizer(GPT_4O),
    "BLOOM": pre_tokenizer(BLOOM),
    "DeepSeek": pre_tokenizer(*DEEPSEEK, digits=True),
    "StarCoder": pre_tokenizer(built_in=True, digits=True),
}
# This one puts a blank in front of what it encodes, so that its pieces are the same only if it sees what comes before.
WITH_A_BLANK = {"RoBERTa": pre_tokenizer(built_in=True, blank=True)}
# Texts of every form, with the number of blocks that they are cut into at least, if every character is read alone.
PARAGRAPHS = [
    "The quick brown fox's 12 eggs.",
    "Он видел 3 птицы (красные)!",
    "// a comment;",
    "end",
    "짧은 문장 하나.",
    "क ख ग।",
]
WORDS = ["fox", "12345", "/usr/bin", "лес", "字", "(a)|b"]
CHINESE = ["他来了，我走了。", "一、二、三。", "12，字。"]
FORMS = {
    "CRLF": ("\r\n".join(PARAGRAPHS * 50), 400),
    "paragraphs between empty lines": ("\n\n".join(PARAGRAPHS * 50), 400),
    "paragraphs, CRLF": ("\r\n\r\n".join(PARAGRAPHS * 50), 400),
    "words, CRLF": ("\r\n".join(WORDS * 50), 200),
    "words between empty lines": ("\n\n\n".join(WORDS * 50), 200),
    "rows, CRLF": ("\r\n".join(["a,b,1.5", "7,8;9,x"] * 100), 200),
    "objects in lines": ("\n".join(['{"a":[1,2]}', '{"b":"x."}'] * 100), 190),
    "program": ("\n".join(["f();", "// g", "/* h */", "{", "  (x)", "\treturn;", "}", "(y);", "<z>"] * 40), 100),
    "Chinese, CRLF": ("\r\n".join(CHINESE * 50), 150),
    "Chinese, empty lines": ("\n\n".join(CHINESE * 50), 150),
}
CHARACTERS = ([*"ab1éжωह가אس字か。，、.,!?'\"/(|<{[-_€½ा\u0301Ⅳ،।\t\u3000\x0b\x1c\xa0", "'s", "'ll", "12", "//"]
              + ["\n", " "] * 8 + ["\r\n"] * 6 + ["\n\n"] * 2)  # fmt: skip


def trained(name: str) -> Tokenizer:
    """A tokenizer of this kind, which merges what it may: its training text has line ends and punctuation that recur."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = {**PRE_TOKENIZERS, **WITH_A_BLANK}[name]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text for text, _ in FORMS.values()], trainer)
    return tokenizer


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


class MakeTokens(unittest.TestCase):
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
        command = [sys.executable, SOURCE / "analysis" / "make_tokens.py", *arguments]
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

    def blocks(self, text: str, characters: int) -> list[str]:
        return list(make_tokens.blocks(self.write("blocks.txt", text.encode()), characters))

    def test_no_cut_changes_a_token_of_any_byte_level_tokenizer(self) -> None:
        for name in [*PRE_TOKENIZERS, *WITH_A_BLANK]:
            tokenizer = trained(name)
            for form, (text, least) in FORMS.items():
                expected = tokenizer.encode(text).ids
                for size in (1, 7, 100, 1 << 20):
                    cut = self.blocks(text, size)
                    self.assertEqual("".join(cut), text)
                    ids = list(itertools.chain(*(part for _, part in make_tokens.encoded(tokenizer, iter(cut)))))
                    self.assertEqual(ids, expected, f"{name}: {form}, blocks of {size}")
                    self.assertGreaterEqual(len(cut), least if size == 1 else 2, f"{form}, blocks of {size}")

    def test_no_cut_is_within_a_piece_of_the_text(self) -> None:
        """Random texts of the characters that the expressions treat differently."""
        random.seed(1)
        cuts = 0
        for _ in range(3000):
            text = "".join(random.choices(CHARACTERS, k=random.randint(3, 14)))
            cut = make_tokens.LAST_CUT.match(text)
            if cut:
                cuts += 1
                for name, each in PRE_TOKENIZERS.items():
                    whole, left, right = (
                        [piece for piece, _ in each.pre_tokenize_str(part)]
                        for part in (text, text[: cut.end()], text[cut.end() :])
                    )
                    self.assertEqual(left + right, whole, f"{name}: {text!r} at {cut.end()}")
        self.assertGreater(cuts, 1000)

    def test_no_place_is_missed_between_two_reads(self) -> None:
        every = re.compile(make_tokens.LAST_CUT.pattern.removeprefix("(?s:.*)"))
        for form, (text, _) in FORMS.items():
            places = [match.start() for match in every.finditer(text)]
            self.assertEqual(list(itertools.accumulate(map(len, self.blocks(text, 1)))), [*places, len(text)], form)

    def test_the_time_of_text_without_a_place_to_cut_is_linear(self) -> None:
        def cost(length: int) -> float:
            begin = time.process_time()
            self.assertEqual(self.blocks("." * length, 1), ["." * length])
            return time.process_time() - begin

        # The least of several: other programs take a part of the processor's caches.
        few, many = (min(cost(length) for _ in range(5)) for length in (10_000, 80_000))
        self.assertLess(many, 24 * few, "8 times as much text; its square: 64 times")

    def test_text_without_a_place_to_cut_is_refused(self) -> None:
        path = self.write("dots.txt", b"." * ((1 << 26) + (1 << 21)))
        self.refused(f"{path}: 68157440 characters without a place where a cut surely changes no token; --whole-files",
                     "--tokenizer", self.tokenizer, "--output", self.output, path)  # fmt: skip
        self.assertFalse(self.output.exists())
        with unittest.mock.patch.object(make_tokens, "MOST_UNCUT", 10):
            self.assertEqual(self.blocks("." * 100, 100), ["." * 100], "a block may be larger")
            with self.assertRaisesRegex(make_tokens.BadInput, "blocks.txt: 12 characters"):
                self.blocks("." * 100, 4)

    def test_whole_files_are_one_block(self) -> None:
        """A tokenizer that is not byte-level puts a blank in front of each text."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        tokenizer.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=300, show_progress=False))
        path = self.directory / "metaspace.json"
        tokenizer.save(str(path))
        done = self.run_script("--tokenizer", path, "--output", self.output, self.text, "--whole-files")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read()[0], tokenizer.encode(TEXT).ids)
        self.assertEqual(self.blocks(TEXT, 0), [TEXT])

    def test_vocabulary_is_the_text_in_bytes(self) -> None:
        done = self.tokenize(self.text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("\ndecodes to the text: yes; 0 % unknown\n"), done.stdout)
        tokens, vocabulary, vocab_size = self.read()
        self.assertEqual(vocab_size, 300)
        self.assertEqual(len(vocabulary), 300)
        self.assertEqual(b"".join(vocabulary[token] for token in tokens), TEXT.encode())
        self.assertEqual({entry[0] for entry in vocabulary if len(entry) == 1}, set(range(256)))

    def test_what_the_tokenizer_drops_is_said(self) -> None:
        """A vocabulary of raw characters behind a byte-level pre-tokenizer, which makes other characters of blanks."""
        tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 1, " ": 2, "\n": 3, "ab": 4}, merges=[("a", "b")]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        path = self.directory / "raw.json"
        tokenizer.save(str(path))
        text = self.write("ab.txt", b"ab b\n" * 10)
        done = self.run_script("--tokenizer", path, "--output", self.output, text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f'decodes to the text: no (from byte 2 of {text} on, " b\\nab b', done.stdout)
        self.assertEqual(self.read()[1], [b"a", b"b", b" ", b"\n", b"ab"])

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

    def test_the_program_reads_files_of_newer_formats_or_says_what_to_do(self) -> None:
        for filters in ({}, {"chunks": (10,), "compression": "gzip"}):
            with h5py.File(self.output, "w", libver="latest") as file:
                file.attrs["vocab_size"] = 64
                file.create_dataset("tokens", data=[*range(64)] * 10, dtype="<u2", **filters)
            done = self.info()
            if not filters or h5py.version.hdf5_version_tuple < (2, 0):
                self.assertEqual(done.returncode, 0, done.stderr)
            elif done.returncode != 0:  # this library reads it if it is as new
                self.assertRegex(
                    done.stderr,
                    f'^shoal: {self.output}: .*version.* cannot read; write it with libver="earliest" in h5py, or .*\n$',
                )

    def info(self) -> subprocess.CompletedProcess:
        """What the program says of the output. HDF5 leaks a little where it cannot read a file."""
        command = [os.environ.get("SHOAL_BINARY", str(SOURCE / "build/shoal")), "info", "--verify", str(self.output)]
        leaks = f"suppressions={SOURCE / 'tests/support/leaks_of_libraries.txt'}:print_suppressions=0"
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "LSAN_OPTIONS": leaks}
        )

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
        pointer = self.write("pointer.json", b"version https://git-lfs.example/spec/v1\noid sha256:aa\nsize 9\n")
        self.refused("pointer.json: a pointer of Git LFS, not the tokenizer itself; fetch it: git lfs pull",
                     "--tokenizer", pointer, "--output", self.output, self.text)  # fmt: skip
        self.refused("--end-of-text <none>: no token of", *arguments, self.text, "--end-of-text", "<none>")
        self.refused("exists already", "--tokenizer", self.tokenizer, "--output", self.text, self.text)
        self.refused(
            "no such directory", "--tokenizer", self.tokenizer, "--output", self.directory / "no/a.h5", self.text
        )
        self.assertFalse(self.output.exists())

    def test_help(self) -> None:
        result = self.run_script("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--end-of-text", result.stdout)


if __name__ == "__main__":
    unittest.main()
