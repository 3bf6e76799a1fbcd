"""Tokenizers of other libraries as a `Tokenizer` (learners/protocol.py): a tokenizer.json, or an encoding of tiktoken.

Tokens of a tokenizer.json become bytes by its family: byte-level BPE writes bytes as characters; SentencePiece has a sign for a
space, and often tokens such as <0x0A>. The library runs in this process: a tokenizer is code that you trust.

What looks like a special token in a text is encoded as characters. Where the tokenizer puts a space before a text, this step is
switched off, and each text gets one space here: some put none before a text that begins with one, and then two texts would have
the same ids.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prequential.errors import ConfigError, CorpusError
from prequential.files import reading
from prequential.learners.distributions import named_failures


class TextTokenizer:
    """It adds no special tokens, and reads none from a text. ids: the id of each token. prefix: a space that is put before every
    text and is no part of it, or nothing. begins_with: the special id that the tokenizer itself puts before a text, if any.
    """

    @named_failures("the tokenizer failed")
    def __init__(self, source: bytes) -> None:
        """source: a tokenizer.json. Raises ConfigError if it cannot be used."""
        library = _library(source.decode())
        described = json.loads(library.to_str())  # in the form of today
        family, added = _family(described), library.get_added_tokens_decoder()
        special = {i for i, token in added.items() if token.special}
        self.keeps_text = _keeps_text(described, family)
        self.ids: dict[str, int] = library.get_vocab(with_added_tokens=True)
        alone, marked = (library.encode("a", add_special_tokens=marked).ids[:1] for marked in (False, True))
        self.begins_with: int | None = marked[0] if marked != alone and marked[0] in special else None
        self._bytes = {
            i: b"" if i in special else _bytes_of(token, family, is_added=i in added) for token, i in self.ids.items()
        }
        has_prefix, has_special_pieces = _take_prefix(described, family), _take_special_pieces(described)
        self._library = _library(json.dumps(described)) if has_prefix or has_special_pieces else library
        self.prefix = b" " if has_prefix else b""
        self.encodes_pieces: bool = not has_prefix  # which would stand before each piece

    def encode(self, data: bytes) -> np.ndarray:
        """Ids of a UTF-8 text. Raises CorpusError for other bytes."""
        try:
            text = (self.prefix + data).decode() if data else ""
        except UnicodeDecodeError as error:
            byte = error.start - len(self.prefix)
            raise CorpusError(f"this tokenizer takes UTF-8 only: byte {byte} is none") from error
        self._library.encode_special_tokens = True  # as characters; a copy of the object forgets it
        return np.array(self._library.encode(text, add_special_tokens=False).ids, np.int64)

    def decode(self, ids: list[int]) -> bytes:
        """The bytes that the ids stand for, with the prefix; of a special token, none."""
        return b"".join(self._bytes.get(i, b"") for i in ids)


class TiktokenTokenizer:
    """An encoding of tiktoken, without its special tokens."""

    encodes_pieces = True

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding

    def encode(self, data: bytes) -> np.ndarray:
        return np.array(self._encoding.encode_ordinary(data.decode()), np.int64)

    def decode(self, ids: list[int]) -> bytes:
        return bytes(self._encoding.decode_bytes(ids))


def tokenizer_of(tokenizer: Any) -> Any:
    """A `Tokenizer` (learners/protocol.py) from one of transformers, tokenizers or tiktoken, or the path of a tokenizer.json.

    A path may be that of its folder. Another object is returned as it is. Raises ConfigError, CorpusError.
    """
    if isinstance(tokenizer, str | Path):
        path = Path(tokenizer) / "tokenizer.json" if Path(tokenizer).is_dir() else Path(tokenizer)
        with reading(path):
            return TextTokenizer(path.read_bytes())
    if hasattr(tokenizer, "decode_single_token_bytes"):
        return TiktokenTokenizer(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    return TextTokenizer(backend.to_str().encode()) if hasattr(backend, "to_str") else tokenizer


# ---- what tokenizer.json says


@dataclass(frozen=True)
class Family:
    """How tokens write bytes. byte_level: in the characters of byte-level BPE. byte_fallback: some as <0x41>. space: what is
    written for a space, or None.
    """

    byte_level: bool
    byte_fallback: bool
    space: str | None


def _library(source: str) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(source)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """A normalizer, pre-tokenizer or decoder, and those within it."""
    if isinstance(part, dict):
        yield part
        for name in ("normalizers", "pretokenizers", "decoders"):
            for each in part.get(name) or ():
                yield from _steps(each)


def _family(described: dict[str, Any]) -> Family:
    places = ("normalizer", "pre_tokenizer", "decoder")
    steps = [(place, step) for place in places for step in _steps(described.get(place))]
    kinds = {step.get("type") for _, step in steps}
    spaces = [step.get("replacement") for _, step in steps if step.get("type") == "Metaspace"]
    for place, step in steps:
        if (place, step.get("type"), step.get("pattern")) == ("normalizer", "Replace", {"String": " "}):
            spaces.append(step.get("content"))
    byte_fallback = "ByteFallback" in kinds or described["model"].get("byte_fallback") is True
    return Family("ByteLevel" in kinds, byte_fallback, (spaces[0] or None) if spaces else None)


def _keeps_text(described: dict[str, Any], family: Family) -> bool:
    """Whether the bytes of tokens are those of their text: no signs for parts of words, and spaces are in tokens."""
    has_signs = any(described["model"].get(name) for name in ("continuing_subword_prefix", "end_of_word_suffix"))
    drop_spaces = {"Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit"}
    drops = drop_spaces & {step.get("type") for step in _steps(described.get("pre_tokenizer"))}
    return not has_signs and (not drops or family.byte_level or family.space is not None)


def _take_prefix(described: dict[str, Any], family: Family) -> bool:
    """Switches off every step that puts a space before a text. Whether there was one."""
    has_prefix = False
    for step in (*_steps(described.get("normalizer")), *_steps(described.get("pre_tokenizer"))):
        kind = step.get("type")
        if kind == "Prepend" and step.get("prepend") in (" ", family.space):
            step.clear()
            step.update(type="Sequence", normalizers=[])
        elif kind == "Metaspace" and step["prepend_scheme"] != "never":
            step["prepend_scheme"] = "never"
        elif kind == "ByteLevel" and step.get("add_prefix_space"):
            step["add_prefix_space"] = False
        else:
            continue
        has_prefix = True
    return has_prefix


def _take_special_pieces(described: dict[str, Any]) -> bool:
    """Renames special tokens of a unigram model, which would find them in the characters of a text. Whether there were any."""
    added, pieces = described.get("added_tokens") or [], described["model"].get("vocab")
    special = {token["content"] for token in added if token.get("special")}
    if not isinstance(pieces, list) or not special:
        return False
    described["added_tokens"] = [token for token in added if token["content"] not in special]
    for i, (piece, score) in enumerate(pieces):
        if piece in special:
            pieces[i] = (f"\U0010ffff{i}", score)
    return True


# How byte-level BPE writes bytes: a printable one as itself, the others as the characters from 256 on (Radford 2019).
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_OF_CHARACTER = {chr(byte): byte for byte in _PRINTABLE}
BYTE_OF_CHARACTER |= {chr(256 + i): byte for i, byte in enumerate(sorted({*range(256)} - {*_PRINTABLE}))}
BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def _bytes_of(token: str, family: Family, *, is_added: bool) -> bytes:
    """The bytes of one token. is_added: beside the model's own, written as it is in a text."""
    if family.byte_level and not is_added:
        return b"".join(bytes([BYTE_OF_CHARACTER[c]]) if c in BYTE_OF_CHARACTER else c.encode() for c in token)
    if family.byte_fallback and (match := BYTE_TOKEN.fullmatch(token)):
        return bytes([int(match[1], 16)])
    return (token.replace(family.space, " ") if family.space and not family.byte_level else token).encode()


# ---- the bytes that each id stands for


def bytes_of_ids(tokenizer: Any) -> tuple[list[bytes], str]:
    """The bytes of each id, b"" of ids that stand for no text; and the tokenizer's name.

    tokenizer: one of transformers (fast), tokenizers or tiktoken, or the path of a tokenizer.json. A space that a
    tokenizer puts before a text counts, although it is not in the text. Raises ConfigError for another one, CorpusError for a
    file that cannot be read.
    """
    decoder, name = tokenizer_of(tokenizer), str(getattr(tokenizer, "name_or_path", "") or "tokenizer")
    if isinstance(decoder, TextTokenizer):
        ids, name = set(decoder.ids.values()), str(tokenizer) if isinstance(tokenizer, str | Path) else name
        if not decoder.keeps_text:
            lost = "its tokens have no spaces, or signs that the text has not"
            raise ConfigError(f"{name}: {lost}: declare the bytes of each id by units=")
    elif isinstance(decoder, TiktokenTokenizer):
        special = {tokenizer.encode_single_token(text) for text in tokenizer.special_tokens_set}
        ids, name = {*range(tokenizer.n_vocab)} - special, f"tiktoken {tokenizer.name}"
    else:
        what = f"a {type(tokenizer).__name__} has no tokenizer.json (a slow one of transformers?)"
        raise ConfigError(f"{what}: give one of transformers, tokenizers or tiktoken, or units=")
    pieces = [b""] * getattr(tokenizer, "n_vocab", 1 + max(ids, default=-1))
    for i in ids:
        with suppress(KeyError):  # an unused number
            pieces[i] = decoder.decode([i])
    return pieces, name
