"""How many bytes each id of a tokenizer stands for."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from prequential.adapters.text_tokenizer import TextTokenizer, tokenizer_file
from prequential.errors import ConfigError


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
