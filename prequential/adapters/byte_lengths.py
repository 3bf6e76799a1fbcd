"""How many bytes each id of a tokenizer stands for."""

from pathlib import Path
from typing import Any

import numpy as np

from prequential.adapters.text_tokenizer import TextTokenizer
from prequential.errors import ConfigError


def byte_lengths(tokenizer: Any) -> tuple[np.ndarray, str]:
    """Bytes of each id, (V,) int64, -1 for ids that stand for no text; and the tokenizer's name.

    tokenizer: one of transformers, tokenizers or tiktoken, or the path of a tokenizer.json. Raises ConfigError for another one.
    """
    if isinstance(tokenizer, str | Path):
        path = Path(tokenizer) / "tokenizer.json" if Path(tokenizer).is_dir() else Path(tokenizer)
        return _of_text(TextTokenizer(path.read_bytes())), str(path)
    if hasattr(tokenizer, "decode_single_token_bytes"):
        return _of_tiktoken(tokenizer), f"tiktoken {tokenizer.name}"
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        raise ConfigError(
            f"a {type(tokenizer).__name__} is no tokenizer that is known here: give one of transformers, tokenizers or "
            "tiktoken, or the bytes of each id as units="
        )
    return _of_text(TextTokenizer(backend.to_str().encode())), str(
        getattr(tokenizer, "name_or_path", "") or "tokenizer"
    )


def _of_text(tokenizer: TextTokenizer) -> np.ndarray:
    lengths = np.full(1 + max(tokenizer.ids.values()), -1, np.int64)
    for i in tokenizer.ids.values():
        lengths[i] = len(tokenizer.decode([i])) or -1
    return lengths


def _of_tiktoken(tokenizer: Any) -> np.ndarray:
    lengths = np.full(tokenizer.n_vocab, -1, np.int64)
    special = set(tokenizer._special_tokens.values())
    for i in range(tokenizer.n_vocab):
        try:
            lengths[i] = -1 if i in special else len(tokenizer.decode_single_token_bytes(i))
        except KeyError:  # an unused number
            continue
    return lengths
