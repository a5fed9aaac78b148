# SPDX-License-Identifier: Apache-2.0
"""The bytes of each token of a tokenizer.json, as Hugging Face's `tokenizers` decodes it between others: with its blank, if it
begins a word. The library decodes text, in which bytes that are no whole character become U+FFFD; those bytes are found by the
rules of its decoders, and are compared with what the library decodes."""

from __future__ import annotations

import json
import re

from tokenizers import Tokenizer, decoders

from shoal.read.bad_input import BadInput
from shoal.read.printable import printable

NO_CHARACTER = "\ufffd"
BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")  # a token of a vocabulary with byte fallback
BLANK = "\u2581"  # SentencePiece's character for a blank
AT_ONCE = 1 << 16  # tokens


def unicode_to_bytes() -> dict[str, int]:
    """The table of byte-level BPE (GPT-2): a printable byte is its own character, the others are code points from 256
    on."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    return {chr(byte): byte for byte in kept} | {chr(256 + i): byte for i, byte in enumerate(others)}


def component_types(component: object) -> set[str]:
    """The types of all components of a tokenizer's pre-tokenizer or decoder, including nested ones."""
    if isinstance(component, list):
        return set().union(*map(component_types, component))
    if not isinstance(component, dict):
        return set()
    own = {component["type"]} if isinstance(component.get("type"), str) else set()
    return own.union(*map(component_types, component.values()))


def decoding(tokenizer: Tokenizer, description: dict) -> tuple[Tokenizer, set[str]]:
    """The tokenizer with a decoder, and the decoder's types. Without one the library puts blanks between all tokens, also
    between parts of words; if the tokens look like parts, they get the decoder that they ask for."""
    if description.get("decoder"):
        return tokenizer, component_types(description["decoder"])
    other = Tokenizer.from_str(json.dumps(description))
    if "ByteLevel" in component_types(description.get("pre_tokenizer")):
        other.decoder = decoders.ByteLevel()
        return other, {"ByteLevel"}
    if any(token.startswith(BLANK) for token in tokenizer.get_vocab()):
        other.decoder = decoders.Sequence([decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()])
        return other, {"ByteFallback"}
    return tokenizer, set()


def decoded(tokenizer: Tokenizer, sequences: list[list[int]]) -> list[str]:
    return tokenizer.decode_batch(sequences, skip_special_tokens=False)


def neighbour(tokenizer: Tokenizer, ids: list[int]) -> tuple[int, str, str]:
    """A token that does not change what is beside it, with its text at the beginning and within a text. If there is one, a
    token without blanks: of others it cannot be told whether their blank is before or behind them. No byte: a byte that is no
    whole character would make it U+FFFD, too."""
    found = []
    for token_id in ids:
        once, twice, thrice = decoded(tokenizer, [[token_id] * count for count in (1, 2, 3)])
        within = twice.removeprefix(once)
        plain = within.isascii() and within.isprintable() and within.strip()
        if plain and once + 2 * within == thrice and not BYTE.fullmatch(tokenizer.id_to_token(token_id)):
            found.append((token_id, once, within))
            if " " not in within:
                return found[-1]
    if found:
        return found[0]
    raise BadInput(
        "no token of ASCII characters is decoded alike wherever it stands, so the bytes of tokens cannot be found"
    )


def token_texts(tokenizer: Tokenizer, ids: list[int]) -> dict[int, str]:
    """What the library decodes each token to between two others."""
    beside, before, behind = neighbour(tokenizer, ids)
    texts = {}
    for begin in range(0, len(ids), AT_ONCE):
        part = ids[begin : begin + AT_ONCE]
        for token_id, text in zip(part, decoded(tokenizer, [[beside, each, beside] for each in part]), strict=True):
            if len(text) < len(before + behind) or not text.startswith(before) or not text.endswith(behind):
                raise BadInput(f"token {token_id} ({shown(tokenizer, token_id)}) changes how the library decodes the tokens "
                               "beside it, so its bytes cannot be found")  # fmt: skip
            texts[token_id] = text[len(before) : len(text) - len(behind)]
    return texts


def shown(tokenizer: Tokenizer, token_id: int) -> str:
    return f'"{printable(tokenizer.id_to_token(token_id))}"'


def token_bytes(tokenizer: Tokenizer, description: dict) -> list[bytes]:
    """The bytes of each token, in the order of their ids; empty where an id is not used. description: the tokenizer.json."""
    tokenizer, parts = decoding(tokenizer, description)
    table = unicode_to_bytes()

    def by_rule(token: str) -> bytes:
        byte = BYTE.fullmatch(token)
        if "ByteFallback" in parts and byte:
            return bytes([int(byte[1], 16)])
        if "ByteLevel" in parts and all(character in table for character in token):
            return bytes(table[character] for character in token)
        return token.encode()

    ids = sorted(set(tokenizer.get_vocab(with_added_tokens=True).values()))
    result = [b""] * (ids[-1] + 1)
    for token_id, text in token_texts(tokenizer, ids).items():
        result[token_id] = text.encode() if NO_CHARACTER not in text else by_rule(tokenizer.id_to_token(token_id))
        if result[token_id].decode(errors="replace") != text:
            raise BadInput(f'the library decodes token {token_id} ({shown(tokenizer, token_id)}) to "{printable(text)}", which '
                           "does not tell its bytes")  # fmt: skip
    return result


def unknown_id(tokenizer: Tokenizer, description: dict) -> int | None:
    """The token that stands for text that the tokenizer does not know, if it has one."""
    model = description["model"]
    if model.get("unk_id") is not None:
        return model["unk_id"]
    return tokenizer.token_to_id(model["unk_token"]) if model.get("unk_token") else None
