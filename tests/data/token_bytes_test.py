#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bytes of tokens in analysis/: of every kind of tokenizer they are what the library decodes; and what a text becomes."""

import json
import os
import random
import sys
import unittest
from pathlib import Path

try:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
except ImportError as missing:
    print(f"SKIPPED: the bytes of tokens are not tested: {missing} (make python)")
    sys.exit(77)  # CTest's code for skipped tests

SOURCE = Path(os.environ.get("SHOAL_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "analysis"))
from shoal.read.bad_input import BadInput  # isort: skip
from shoal.tokens.comparison import Comparison  # isort: skip
from shoal.tokens import vocabulary  # isort: skip

NO_CHARACTER = "\ufffd"
BYTES = {f"<0x{byte:02X}>": byte for byte in range(256)}
SENTENCE_PIECE = decoders.Sequence([
    decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0),
])  # fmt: skip


def description(tokenizer: Tokenizer) -> dict:
    return json.loads(tokenizer.to_str())


def token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    return vocabulary.token_bytes(tokenizer, description(tokenizer))


def numbered(tokens: list[str], first: int = 0) -> dict[str, int]:
    return {token: first + i for i, token in enumerate(tokens)}


def byte_pairs(
    tokens: list[str], decoder: decoders.Decoder | None, added: tuple[str | AddedToken, ...] = (), **more: object
) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab=numbered(tokens), merges=[], **more))
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.add_tokens(list(added))
    return tokenizer


def byte_level(added: tuple[str, ...] = ()) -> Tokenizer:
    """With every byte, with tokens that are parts of characters, and with some that the table of bytes does not have."""
    alphabet = list(vocabulary.unicode_to_bytes())
    raw = [" ", "\n", "\t ", "\x00", "语", "a b", "Ġ b", "\u2028", NO_CHARACTER]
    return byte_pairs([*alphabet, "Ġthe", "âĤ", "âĤ¬", "ï¿½", "éé", "ÃŃs", *raw], decoders.ByteLevel(), added)


def sentence_piece(added: tuple[str | AddedToken, ...] = ()) -> Tokenizer:
    tokens = ["<unk>", *BYTES, "▁", "a", "▁a", "▁▁", "é", "<0xc3>", "<0xG0>", NO_CHARACTER]
    return byte_pairs(tokens, SENTENCE_PIECE, added, unk_token="<unk>", byte_fallback=True)


def word_piece() -> Tokenizer:
    known = numbered(["[UNK]", "the", "##s", ".", "n't", "'s", "##,", "é", "##"])
    tokenizer = Tokenizer(models.WordPiece(vocab=known, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def with_suffix() -> Tokenizer:
    return byte_pairs(["a</w>", "a", "b", "the</w>", "é</w>"], decoders.BPEDecoder(), end_of_word_suffix="</w>")


def words() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(vocab=numbered(["<UNK>", "the", "fox"]), unk_token="<UNK>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


KINDS = {
    "byte level": byte_level(),
    "byte level, added tokens": byte_level(("<|end|>", "  ", "café", "x\ny", "▁▁")),
    "SentencePiece": sentence_piece(),
    "SentencePiece, added tokens": sentence_piece(
        ("▁▁▁", "▁▁▁▁", "  ", AddedToken("<s>", special=True), "\n\n", "<0x09>é")
    ),
    "WordPiece": word_piece(),
    "BPE with a suffix": with_suffix(),
    "words without a decoder": words(),
}


class TokenBytes(unittest.TestCase):
    def test_one_after_another_they_are_what_the_library_decodes(self) -> None:
        random.seed(1)
        for name, tokenizer in KINDS.items():
            found = token_bytes(tokenizer)
            used = [i for i, each in enumerate(found) if each]
            beside = next(i for i in used if found[i] in (b"a", b"s", b"the", b" the"))
            compared = 0
            for _ in range(3000):
                ids = [beside, *random.choices(used, k=random.randint(1, 6)), beside]
                text = tokenizer.decode(ids, skip_special_tokens=False)
                ours = b"".join(found[each] for each in ids)
                # At the beginning of a text the library leaves out a blank, or marks of the first token.
                ours = ours[len(found[beside]) :].decode(errors="replace")
                text = text[len(tokenizer.decode([beside], skip_special_tokens=False)) :]
                # Byte fallback makes each byte of a run that is no text U+FFFD, also those of whole characters in it.
                if "SentencePiece" in name and NO_CHARACTER in text:
                    continue
                compared += 1
                self.assertEqual(ours.lstrip(" "), text.lstrip(" "), f"{name}: {ids}")
            self.assertGreater(compared, 300, name)

    def test_parts_of_characters_are_bytes(self) -> None:
        tokenizer = byte_level(("café",))
        found = token_bytes(tokenizer)
        for token, expected in {
            "Ġthe": b" the", "âĤ": b"\xe2\x82", "âĤ¬": "€".encode(), "ï¿½": b"\xef\xbf\xbd", "éé": b"\xe9\xe9", " ": b" ",
            "\n": b"\n", "Ġ": b" ", "Ċ": b"\n", "a b": b"a b", "Ġ b": "Ġ b".encode(), "语": "语".encode(), "café": b"caf\xe9",
        }.items():  # fmt: skip
            self.assertEqual(found[tokenizer.token_to_id(token)], expected, token)
        self.assertEqual({each[0] for each in found[:256]}, set(range(256)))
        tokenizer = sentence_piece()
        found = token_bytes(tokenizer)
        for token, byte in BYTES.items():
            self.assertEqual(found[tokenizer.token_to_id(token)], bytes([byte]), token)
        self.assertEqual(found[tokenizer.token_to_id("<0xc3>")], b"\xc3")
        self.assertEqual(found[tokenizer.token_to_id("<0xG0>")], b"<0xG0>")

    def test_blanks_of_added_tokens_are_blanks(self) -> None:
        tokenizer = sentence_piece(("▁▁▁", AddedToken("▁x", special=True)))
        found = token_bytes(tokenizer)
        self.assertEqual(found[tokenizer.token_to_id("▁▁▁")], b"   ")
        self.assertEqual(found[tokenizer.token_to_id("▁x")], b" x")

    def test_tokens_without_a_decoder_have_the_one_that_they_ask_for(self) -> None:
        tokenizer = byte_pairs([*vocabulary.unicode_to_bytes(), "Ġthe"], None)
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.assertEqual(token_bytes(tokenizer)[256], b" the")
        self.assertIsNone(tokenizer.decoder)
        self.assertEqual(token_bytes(byte_pairs(["a", "▁the", "<0xE9>"], None)), [b"a", b" the", b"\xe9"])

    def test_ids_that_are_not_used_are_empty(self) -> None:
        tokenizer = Tokenizer(models.BPE(vocab={"a": 1, "b": 4}, merges=[]))
        tokenizer.decoder = decoders.Fuse()
        self.assertEqual(token_bytes(tokenizer), [b"", b"a", b"", b"", b"b"])

    def test_decoders_that_hide_the_bytes_are_refused(self) -> None:
        with self.assertRaisesRegex(BadInput, "no token of ASCII characters is decoded alike wherever it stands"):
            token_bytes(byte_pairs(["a", "b"], decoders.CTC()))
        twofold = decoders.Sequence([decoders.Replace("Ã", "ÂÂ"), decoders.ByteLevel()])
        with self.assertRaisesRegex(
            BadInput, 'decodes token 1 \\("Ã"\\) to "\ufffd\ufffd", which does not tell its bytes'
        ):
            token_bytes(byte_pairs(["a", "Ã"], twofold))


class AText(unittest.TestCase):
    def sentence(self, tokenizer: Tokenizer, *texts: str) -> str:
        comparison = Comparison(token_bytes(tokenizer), vocabulary.unknown_id(tokenizer, description(tokenizer)))
        for name in ("a.txt", "b.txt"):
            comparison.file(Path(name))
            for text in texts:
                comparison.add(text, tokenizer.encode(text, add_special_tokens=False).ids)
        return comparison.sentence()

    def test_that_comes_back_is_said_to(self) -> None:
        tokenizer = byte_level()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.assertEqual(self.sentence(tokenizer, "the € ", "fox\n"), "decodes to the text: yes; 0 % unknown")
        tokenizer.normalizer = normalizers.Lowercase()
        self.assertEqual(
            self.sentence(tokenizer, "the € ", "a \u00c9 Fox\n"),
            'decodes to the text: no (from byte 10 of a.txt on, "\u00c9 Fox\\n" becomes "\u00e9 fox\\n"); 0 % unknown',
        )

    def test_may_begin_with_a_blank_of_the_tokenizer_but_not_have_one_within(self) -> None:
        tokenizer = sentence_piece()
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        self.assertEqual(self.sentence(tokenizer, "a a é"), "decodes to the text: yes; 0 % unknown")
        self.assertEqual(
            self.sentence(tokenizer, "a a", "a"),
            'decodes to the text: no (from byte 3 of a.txt on, "a" becomes " a"); 0 % unknown',
        )

    def test_of_unknown_words_is_counted(self) -> None:
        self.assertEqual(self.sentence(words(), "the fox the fox"), "decodes to the text: yes; 0 % unknown")
        self.assertEqual(
            self.sentence(words(), "the fox\nis a fox"),
            'decodes to the text: no (from byte 7 of a.txt on, "\\nis a fox" becomes " <UNK> <UNK> fox"); 40 % unknown',
        )
        unigram = Tokenizer(models.Unigram([("a", -1.0), ("?", -9.0)], unk_id=1))
        self.assertTrue(self.sentence(unigram, "aaab").endswith("; 25 % unknown"))


if __name__ == "__main__":
    unittest.main()
