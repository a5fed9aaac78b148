#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts text files to a tokens file (HDF5) with any tokenizer.json of Hugging Face's `tokenizers`.

Writes /tokens (uint16, or uint32 for more than 65536 symbols), the attribute vocab_size, and the bytes of each token in
/vocabulary_bytes and /vocabulary_offsets. Its last line says whether these bytes are the text again. Text is read in blocks,
so it may be larger than memory. The output file appears under its name when it is complete.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from shoal.program import packages

packages("h5py", "numpy", "tokenizers")

import h5py
import numpy as np
from tokenizers import Tokenizer

from shoal.read.bad_input import BadInput
from shoal.read.checksum import Checksum
from shoal.tokens.comparison import Comparison
from shoal.tokens.vocabulary import token_bytes, unknown_id

CHUNK = (
    1 << 20
)  # tokens per chunk of the file. Larger than HDF5's cache, so that HDF5 reads single samples, not whole chunks

# A block of text ends at the last place where a cut changes no token: no byte-level pre-tokenizer has a token across it, and
# each side is divided alone as it is in the whole. This holds for the expressions of GPT-2, GPT-4 (Llama 3, Qwen), GPT-4o,
# DeepSeek, StarCoder, Falcon and BLOOM. The ends of "\r\n" and of an empty line are no such places: GPT-2 divides before the
# last character there, GPT-4 does not divide. Few places are enough, so the expression finds only sure ones. What Python
# calls letters and digits is \p{L} or \p{N} in those expressions.
LAST_CUT = re.compile(
    r"(?s:.*)(?:"
    # Before a line end, however long, if a letter or digit precedes it. GPT-4 adds line ends to punctuation.
    r"(?<=[^\W_])(?=[\r\n])"
    # Before a single blank between words, for lines that end with punctuation. DeepSeek does not divide words of Arabic
    # letters and some others, so that only common letters may precede it.
    r"|(?<=[0-9A-Za-zÀ-ÖØ-öø-ƺΑ-ΡΣ-ωА-яЁёक-ह가-힣])(?= [^\W\d_])"
    # Before the commas and full stops of languages that have no blanks between words.
    r"|(?<=[^\W_])(?=[、。，])"
    # After a line end of one character without blanks next to it. GPT-4o adds a "/" to a line end after punctuation, BLOOM
    # leaves some punctuation together with the line end, and a token like <mask> may take the blanks before it.
    r"|(?<=\S\n)(?=[^\s/<(|).,!?…。，、।۔،])"
    r")"
)
LOOK_BACK = 2  # characters at the end of a text that must be searched again when there is more of it
MOST_UNCUT = 1 << 26  # characters that are kept if there is no place to cut them


def blocks(path: Path, characters: int) -> Iterator[str]:
    """The file's text in blocks of about `characters` characters, cut at places that change no token; 0: one block."""
    with path.open(encoding="utf-8", newline="") as file:
        if not characters:
            yield read(file, path, -1)
            return
        kept: list[str] = []  # joined only at a cut: the time is linear, however far apart cuts are
        length, tail = 0, ""  # of what is kept
        while new := read(file, path, characters):
            searched = tail + new  # the rest was searched before
            kept.append(new)
            length += len(new)
            tail = searched[-LOOK_BACK:]
            if cut := LAST_CUT.match(searched):
                text, end = "".join(kept), length - len(searched) + cut.end()
                yield text[:end]
                kept, length = [text[end:]], length - end
                tail = kept[0][-LOOK_BACK:]
            elif length > max(MOST_UNCUT, characters):
                raise BadInput(f"{path}: {length} characters without a place where a cut surely changes no token; "
                               "--whole-files encodes it at once, which takes memory")  # fmt: skip
        if length:
            yield "".join(kept)


def read(file: TextIO, path: Path, characters: int) -> str:
    try:
        return file.read(characters)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text: {error.reason} near byte {file.buffer.tell()}") from error


def encoded(tokenizer: Tokenizer, texts: Iterator[str]) -> Iterator[tuple[str, list[int]]]:
    """Each block with its tokens. What comes before a block is encoded with it, and its tokens are left out: some tokenizers
    put a blank in front of what they encode."""
    before = ""
    for text in texts:
        known = tokenizer.encode(before, add_special_tokens=False).ids
        ids = tokenizer.encode(before + text, add_special_tokens=False).ids
        if ids[: len(known)] != known:  # not byte-level: the cut changes tokens
            known, ids = [], tokenizer.encode(text, add_special_tokens=False).ids
        yield text, ids[len(known) :]
        before = (before + text)[-LOOK_BACK:]


def load_tokenizer(path: Path) -> Tokenizer:
    if not path.is_file():
        raise BadInput(f"{path}: no such file; --tokenizer takes a tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        if path.read_bytes().startswith(b"version https://git-lfs"):
            raise BadInput(f"{path}: a pointer of Git LFS, not the tokenizer itself; fetch it: git lfs pull") from error
        raise BadInput(f"{path}: not a tokenizer.json: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def check_inputs(inputs: list[Path], output: Path) -> None:
    for path in inputs:
        if not path.is_file():
            raise BadInput(f"{path}: no such file")
        if path.stat().st_size == 0:
            raise BadInput(f"{path}: empty")
    if output.exists():
        raise BadInput(f"{output}: exists already; nothing is written over")
    if not output.parent.is_dir():
        raise BadInput(f"{output.parent}: no such directory")


class TokenFile:
    """The output file, to which tokens are appended. It also holds the vocabulary: the bytes of all tokens, and the
    offset at which each token begins. Each dataset has a checksum."""

    def __init__(self, file: h5py.File, vocabulary: list[bytes]) -> None:
        self.count = 0
        self.sum = Checksum()
        dtype = np.dtype("<u2" if len(vocabulary) <= 65536 else "<u4")
        file.attrs["vocab_size"] = np.int64(len(vocabulary))
        offsets = np.zeros(len(vocabulary) + 1, "<u8")
        np.cumsum([len(token) for token in vocabulary], out=offsets[1:])
        for name, values in (
            ("vocabulary_bytes", np.frombuffer(b"".join(vocabulary), np.uint8)),
            ("vocabulary_offsets", offsets),
        ):
            of_values = Checksum()
            of_values.update(values.tobytes())
            set_checksum(file.create_dataset(name, data=values), of_values)
        self.tokens = file.create_dataset("tokens", 0, dtype, chunks=(CHUNK,), maxshape=(None,))

    def append(self, ids: list[int]) -> None:
        self.tokens.resize(self.count + len(ids), axis=0)
        self.tokens[self.count :] = ids
        self.sum.update(np.asarray(ids, self.tokens.dtype).tobytes())
        self.count += len(ids)

    def finish(self) -> None:
        set_checksum(self.tokens, self.sum)


def set_checksum(dataset: h5py.Dataset, checksum: Checksum) -> None:
    dataset.attrs["checksum"] = np.bytes_(checksum.hexadecimal())


def tokenize(options: argparse.Namespace) -> list[str]:
    """Writes the file. Returns the lines that say what is in it."""
    check_inputs(options.inputs, options.output)
    tokenizer = load_tokenizer(options.tokenizer)
    end = []
    if options.end_of_text is not None:
        end_id = tokenizer.token_to_id(options.end_of_text)
        if end_id is None:
            raise BadInput(f"--end-of-text {options.end_of_text}: no token of {options.tokenizer}")
        end = [end_id]
    description = json.loads(options.tokenizer.read_bytes())
    try:
        vocabulary = token_bytes(tokenizer, description)
    except BadInput as error:
        raise BadInput(f"{options.tokenizer}: {error}") from error
    comparison = Comparison(vocabulary, unknown_id(tokenizer, description))
    temporary = options.output.with_name(options.output.name + ".partial")
    try:
        with h5py.File(temporary, "w", libver=("earliest", "v108")) as file:
            written = TokenFile(file, vocabulary)
            for path in options.inputs:
                comparison.file(path)
                texts = blocks(path, 0 if options.whole_files else options.block_size)
                for text, ids in encoded(tokenizer, texts):
                    written.append(ids)
                    comparison.add(text, ids)
                written.append(end)
            if written.count == 0:
                raise BadInput("the tokenizer makes no tokens of this text")
            written.finish()
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.rename(options.output)
    finally:
        temporary.unlink(missing_ok=True)
    return [f"{options.output}: {written.count} tokens, {len(vocabulary)} symbols", comparison.sentence()]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make_tokens.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("inputs", type=Path, nargs="+", help="UTF-8 text files, which are concatenated")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--output", type=Path, required=True, help="the tokens file to write; must not exist")
    parser.add_argument("--end-of-text", metavar="TOKEN", help="token put after each file, e.g. '<|endoftext|>'")
    parser.add_argument("--whole-files", action="store_true",
                        help="encode each file as a whole, which takes memory: for tokenizers that are not byte-level, whose "
                        "tokens can depend on where the text is cut (at line ends, or between words)")  # fmt: skip
    parser.add_argument(
        "--block-size", type=int, default=1 << 20, help="characters encoded at once (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.block_size < 1:
        parser.error("--block-size: at least 1")
    return options


def main() -> int:
    options = parse(sys.argv[1:])
    try:
        lines = tokenize(options)
    except (BadInput, OSError) as error:
        print(f"make_tokens.py: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
