"""Models of the transformers library and their tokenizers, from a folder or from the hub.

Weights are read from safetensors only: the older files are pickles, which may run code. Code of the model's own repository is not
run. Without a connection only folders, and what the library has in its cache, can be read.
"""

import re
import textwrap
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any

from prequential.errors import ConfigError, CorpusError, MissingDependencyError

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def load_model(name: str, revision: str | None = None) -> tuple[Any, "TextTokenizer"]:
    """A causal language model in float32, ready to predict, and its tokenizer. name: a folder, or one of the hub.

    Raises MissingDependencyError without transformers, ConfigError if it cannot be loaded; the message is one line.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise MissingDependencyError(
            "models of transformers need the package transformers: pip install transformers"
        ) from error
    folder = Path(name)
    if folder.is_dir() and not any(folder.glob("*.safetensors")):
        if any(path for pattern in PICKLES for path in folder.glob(pattern)):
            raise ConfigError(f"{name!r} has its weights as a pickle only, which may run code: save it as safetensors")
        raise ConfigError(f"{name!r} has no safetensors file")
    options = {"trust_remote_code": False} | ({"revision": revision} if revision else {})
    logging.disable_progress_bar()
    hub_log = getLogger("huggingface_hub")
    level = hub_log.level
    hub_log.setLevel(ERROR)  # its retries; the error below says what happened
    try:
        model = AutoModelForCausalLM.from_pretrained(name, use_safetensors=True, dtype="float32", **options)
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    except Exception as error:  # the library raises many types
        where = "" if folder.exists() else "no folder has this name, and the hub failed with "
        text = textwrap.shorten(str(error), 200, placeholder=" ...")
        raise ConfigError(f"the model {name!r} cannot be loaded: {where}{type(error).__name__}: {text}") from error
    finally:
        logging.enable_progress_bar()
        hub_log.setLevel(level)
    return model.eval(), TextTokenizer(tokenizer)


class TextTokenizer:
    """A tokenizer of transformers as one of bytes (learners/protocol.py). It adds no special tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.inner = tokenizer

    def encode(self, data: bytes) -> list[int]:
        """Ids of a UTF-8 text. Raises CorpusError for other bytes."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(f"this tokenizer takes UTF-8 only: byte {error.start} is none") from error
        ids: list[int] = self.inner(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def decode(self, ids: list[int]) -> bytes:
        """The bytes that the ids stand for; of a special token, none."""
        special = set(self.inner.all_special_ids)
        return b"".join(
            b"" if i in special else _bytes_of(token)
            for i, token in zip(ids, self.inner.convert_ids_to_tokens(ids), strict=True)
        )


def _byte_of_character() -> dict[str, int]:
    """How byte-level BPE writes bytes: a printable one as itself, the others as the characters from 256 on (Radford 2019)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTE_OF_CHARACTER = _byte_of_character()


def _bytes_of(token: str | None) -> bytes:
    """The bytes of one token, of byte-level BPE or of SentencePiece."""
    if token is None:
        return b""
    if all(character in BYTE_OF_CHARACTER for character in token):
        if match := re.fullmatch(r"<0x([0-9A-F]{2})>", token):  # SentencePiece, for bytes that no piece has
            return bytes([int(match[1], 16)])
        return bytes(BYTE_OF_CHARACTER[character] for character in token)
    return token.replace("\u2581", " ").encode()
