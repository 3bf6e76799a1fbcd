"""Tokenizers of other libraries as a `Tokenizer` (learners/protocol.py): a tokenizer.json, or an encoding of tiktoken.

A tokenizer.json runs in a process of its own with limits (tokenizer_process.py). Its tokens become bytes here, by its family:
byte-level BPE writes bytes as characters; SentencePiece has a character for a space, and often tokens such as <0x0A>.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from prequential.adapters import tokenizer_process
from prequential.errors import ConfigError, CorpusError
from prequential.files import reading
from prequential.files.strict_json import parse_json

MEMORY_BYTES, MEMORY_BYTES_PER_BYTE = 4 << 30, 512  # measured: 170 for each byte of a text
SECONDS, BYTES_PER_SECOND = 120, 10_000  # measured: 400,000


class TextTokenizer:
    """It adds no special tokens, and reads none from a text. ids: the id of each token. prefix: a space that is put before every
    text and is no part of it, or nothing. begins_with: the special id that the tokenizer itself puts before a text, if any.
    """

    def __init__(self, source: bytes) -> None:
        """source: a tokenizer.json. Raises ConfigError if it cannot be used."""
        self._source = source
        described, _ = _ask(source, None)
        self.ids: dict[str, int] = described["tokens"]
        self.prefix = b" " if described["prefix"] else b""
        self.encodes_pieces: bool = not self.prefix  # which would stand before each piece
        self.begins_with: int | None = described["begins_with"]
        special, added = set(described["special"]), set(described["added"])
        self._bytes = {
            i: b"" if i in special else _bytes_of(token, described, is_added=i in added)
            for token, i in self.ids.items()
        }
        self._known: dict[bytes, np.ndarray] = {}

    def encode(self, data: bytes) -> np.ndarray:
        """Ids of a UTF-8 text. Raises CorpusError for other bytes, ConfigError if the tokenizer fails."""
        return self._known[data] if data in self._known else self._encode_all([data])[0]

    def prepared(self, texts: Sequence[bytes]) -> "TextTokenizer":
        """The same tokenizer, which already knows the ids of the texts that are UTF-8: one process for all of them."""
        texts = [data for data in texts if data.decode(errors="ignore").encode() == data]
        other = object.__new__(TextTokenizer)
        other.__dict__ = self.__dict__ | {"_known": dict(zip(texts, self._encode_all(texts), strict=True))}
        return other

    def decode(self, ids: list[int]) -> bytes:
        """The bytes that the ids stand for, with the prefix; of a special token, none."""
        return b"".join(self._bytes.get(i, b"") for i in ids)

    def _encode_all(self, texts: Sequence[bytes]) -> list[np.ndarray]:
        for data in texts:
            try:
                data.decode()
            except UnicodeDecodeError as error:
                raise CorpusError(f"this tokenizer takes UTF-8 only: byte {error.start} is none") from error
        answer, ids = _ask(self._source, texts)
        return np.split(ids.astype(np.int64), np.cumsum(answer["counts"][:-1])) if texts else []


class TiktokenTokenizer:
    """An encoding of tiktoken, without its special tokens."""

    encodes_pieces = True

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding

    def encode(self, data: bytes) -> np.ndarray:
        return np.array(self._encoding.encode_ordinary(data.decode()), np.int64)

    def decode(self, ids: list[int]) -> bytes:
        found: bytes = self._encoding.decode_bytes(ids)
        return found


def tokenizer_of(tokenizer: Any) -> Any:
    """A `Tokenizer` (learners/protocol.py) from one of transformers, tokenizers or tiktoken, or the path of a tokenizer.json.

    Another object is returned as it is. Raises ConfigError, CorpusError.
    """
    if isinstance(tokenizer, str | Path):
        path = tokenizer_file(tokenizer)
        with reading(path):
            return TextTokenizer(path.read_bytes())
    if hasattr(tokenizer, "decode_single_token_bytes"):
        return TiktokenTokenizer(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    return TextTokenizer(backend.to_str().encode()) if hasattr(backend, "to_str") else tokenizer


def tokenizer_file(path: str | Path) -> Path:
    """The path of a tokenizer.json, which may be named by its folder."""
    return Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)


def _ask(source: bytes, texts: Sequence[bytes] | None) -> tuple[dict[str, Any], np.ndarray]:
    """The answer of a process, and all ids. texts: None asks for the vocabulary. Raises ConfigError."""
    n_bytes = sum(map(len, texts or ()))
    memory_bytes, seconds = MEMORY_BYTES + MEMORY_BYTES_PER_BYTE * n_bytes, SECONDS + n_bytes // BYTES_PER_SECOND
    sizes = [len(source), *map(len, texts or ())]
    request = {"memory_bytes": memory_bytes, "sizes": sizes, "describe": texts is None}
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(Path(tokenizer_process.__file__))],
            input=b"".join((json.dumps(request).encode(), b"\n", source, *(texts or ()))),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Rust writes there what it likes
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"the tokenizer took more than {seconds} s") from error
    except OSError as error:
        raise ConfigError(f"the tokenizer's process cannot be started: {error.strerror}") from error
    line, _, ids = done.stdout.partition(b"\n")
    if done.returncode or not line:
        raise ConfigError(f"the tokenizer's process failed; it may have needed more than {memory_bytes >> 20:,} MiB")
    try:
        answer: dict[str, Any] = parse_json(line)
    except ValueError as error:
        raise ConfigError(f"the tokenizer's vocabulary cannot be used: {error}") from error
    if "error" in answer:
        raise ConfigError(f"the tokenizer failed: {answer['error']}")
    return answer, np.frombuffer(ids, np.uint32)


# How byte-level BPE writes bytes: a printable one as itself, the others as the characters from 256 on (Radford 2019).
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_OF_CHARACTER = {chr(byte): byte for byte in _PRINTABLE}
BYTE_OF_CHARACTER |= {chr(256 + i): byte for i, byte in enumerate(sorted({*range(256)} - {*_PRINTABLE}))}
BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def _bytes_of(token: str, family: dict[str, Any], *, is_added: bool) -> bytes:
    """The bytes of one token. is_added: beside the model's own, written as it is in a text."""
    if family["byte_level"] and not is_added:
        return b"".join(bytes([BYTE_OF_CHARACTER[c]]) if c in BYTE_OF_CHARACTER else c.encode() for c in token)
    if family["byte_fallback"] and (match := BYTE_TOKEN.fullmatch(token)):
        return bytes([int(match[1], 16)])
    return (token.replace(family["space"], " ") if family["space"] and not family["byte_level"] else token).encode()


# ---- how many bytes each id stands for


def byte_lengths(tokenizer: Any) -> tuple[np.ndarray, str]:
    """Bytes of each id, (V,) int64, -1 for ids that stand for no text; and the tokenizer's name.

    tokenizer: one of transformers (fast), tokenizers, tiktoken or sentencepiece, or the path of a tokenizer.json. A space that a
    tokenizer puts before a text counts, although it is not in the text. Raises ConfigError for another one.
    """
    if isinstance(tokenizer, str | Path):
        path = tokenizer_file(tokenizer)
        try:
            return _of_text(TextTokenizer(path.read_bytes())), str(path)
        except OSError as error:
            raise ConfigError(f"the tokenizer {str(path)!r} cannot be read: {error.strerror}") from error
    if hasattr(tokenizer, "decode_single_token_bytes"):
        return _of_tiktoken(tokenizer), f"tiktoken {tokenizer.name}"
    if hasattr(tokenizer, "id_to_piece") and hasattr(tokenizer, "is_control"):
        return _of_sentencepiece(tokenizer), "sentencepiece"
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        is_slow = hasattr(tokenizer, "convert_ids_to_tokens")  # of transformers
        what = "a slow tokenizer, without tokenizer.json" if is_slow else "no tokenizer that is known here"
        raise ConfigError(
            f"a {type(tokenizer).__name__} is {what}: give a fast one of transformers, one of tokenizers, tiktoken or "
            "sentencepiece, or the bytes of each id as units="
        )
    name = str(getattr(tokenizer, "name_or_path", "") or "tokenizer")
    return _of_text(TextTokenizer(backend.to_str().encode())), name


def _of_text(tokenizer: TextTokenizer) -> np.ndarray:
    lengths = np.full(1 + max(tokenizer.ids.values(), default=-1), -1, np.int64)
    for i in tokenizer.ids.values():
        lengths[i] = len(tokenizer.decode([i])) or -1
    return lengths


def _of_tiktoken(tokenizer: Any) -> np.ndarray:
    lengths = np.full(tokenizer.n_vocab, -1, np.int64)
    special = {tokenizer.encode_single_token(text) for text in tokenizer.special_tokens_set}
    for i in set(range(tokenizer.n_vocab)) - special:
        with suppress(KeyError):  # an unused number
            lengths[i] = len(tokenizer.decode_single_token_bytes(i))
    return lengths


def _of_sentencepiece(tokenizer: Any) -> np.ndarray:
    lengths = np.full(tokenizer.get_piece_size(), -1, np.int64)
    for i in range(len(lengths)):
        if tokenizer.is_byte(i):
            lengths[i] = 1
        elif not (tokenizer.is_control(i) or tokenizer.is_unknown(i) or tokenizer.is_unused(i)):
            lengths[i] = len(tokenizer.id_to_piece(i).replace("\u2581", " ").encode())
    return lengths
