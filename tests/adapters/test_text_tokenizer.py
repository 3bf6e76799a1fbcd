"""Tokenizers of every family: each text costs exactly its own bytes, or is refused at the first byte that is lost."""

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from made_tokenizers import FAMILIES, FIRST, HARD, SPACE, added, byte_level, sentencepiece

from prequential.adapters.text_tokenizer import TextTokenizer, bytes_of_ids
from prequential.errors import ConfigError, CorpusError
from prequential.learners.distributions import tokenise

tokenizers = pytest.importorskip("tokenizers")


STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}
TEXTS = (
    "the cat",
    " the cat",
    "\u00e9",
    "\u00e9\U0001f642",
    "a\r\nb",
    f"{FIRST}",
    "</s>",
    "<unk>",
    " ",
    "\n\n  \n",
    HARD,
)


def made(described: dict[str, Any]) -> TextTokenizer:
    return TextTokenizer(json.dumps(described).encode())


def library(described: dict[str, Any]) -> Any:
    return tokenizers.Tokenizer.from_str(json.dumps(described))


@pytest.fixture(scope="module", params=FAMILIES)
def described(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = FAMILIES[request.param]()
    return found


def test_every_text_is_restored_and_every_byte_belongs_to_one_id(described: dict[str, Any]) -> None:
    tokenizer = made(described)
    assert len({tuple(tokenizer.encode(text.encode())) for text in TEXTS}) == len(TEXTS)
    for text in TEXTS:
        ids, widths = tokenise(text.encode(), tokenizer, 10_000)
        assert widths.sum() == len(text.encode()) and (widths >= 0).all() and len(ids) == len(widths)


def test_ids_are_those_of_the_library(described: dict[str, Any]) -> None:
    for text in ("the cat sat", "caf\u00e9 and \U0001f642 the", "a  b\n\nc"):
        assert (
            made(described).encode(text.encode()).tolist()
            == library(described).encode(text, add_special_tokens=False).ids
        )


def test_the_text_of_a_special_token_is_characters(described: dict[str, Any]) -> None:
    special = {token["id"] for token in described["added_tokens"] if token["special"]}
    for tokenizer in (made(described), deepcopy(made(described))):
        assert special and not special & set(tokenizer.encode(HARD.encode()))


def test_a_space_that_is_put_before_a_text_is_not_in_it() -> None:
    tokenizer = made(sentencepiece("prepend"))
    ids, widths = tokenise(b"the cat", tokenizer, 10_000)
    assert tokenizer.decode(ids.tolist()) == b" the cat" and tokenizer.prefix == b" "
    assert widths[0] == len(tokenizer.decode(ids[:1].tolist())) - 1


@pytest.mark.parametrize(
    ("normalizer", "text", "byte"),
    [({"type": "Lowercase"}, "the Cat", 4), ({"type": "NFC"}, "ab e\u0301", 3), (STRIP, "ab ", 2)],
)  # fmt: skip
def test_a_text_that_is_not_restored_is_refused_at_its_first_lost_byte(normalizer: Any, text: str, byte: int) -> None:
    with pytest.raises(CorpusError, match=f"at byte {byte} comes back as") as refused:
        tokenise(text.encode(), made(byte_level() | {"normalizer": normalizer}), 10_000)
    assert "\n" not in str(refused.value)


# ---- bytes of each id


def byte_lengths(tokenizer: Any) -> np.ndarray:
    return np.array([len(piece) or -1 for piece in bytes_of_ids(tokenizer)[0]])


def test_bytes_of_ids_add_up_to_the_text(described: dict[str, Any]) -> None:
    lengths = byte_lengths(library(described))
    ids, prefix = made(described).encode(HARD.encode()), made(described).prefix
    assert lengths[ids].sum() == len(prefix) + len(HARD.encode())
    assert all(lengths[token["id"]] == -1 for token in described["added_tokens"] if token["special"])


def test_a_piece_has_the_bytes_of_its_family() -> None:
    described = sentencepiece("gemma")
    vocab, lengths = described["model"]["vocab"], byte_lengths(library(described))
    assert lengths[vocab["<0xC3>"]] == 1 and lengths[vocab["\u00e9"]] == 2
    assert lengths[vocab[f"{SPACE}the"]] == 4 and lengths[vocab[SPACE * 2]] == 2 and lengths[vocab["\n\n"]] == 2
    described = byte_level()
    n, lengths = len(described["model"]["vocab"]), byte_lengths(library(described))
    assert lengths[n] == 3 and lengths[n + 1] == 4  # added: three spaces, two letters
    assert lengths[described["model"]["vocab"]["\u00e9"]] == 1  # writes byte E9
    plain = library(
        described | {"pre_tokenizer": None, "decoder": None, "added_tokens": [added(FIRST, 0, special=True)]}
    )
    assert byte_lengths(plain)[described["model"]["vocab"]["\u00e9"]] == 2


PIECES = {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9}


@pytest.mark.parametrize(
    "changed", [{"pre_tokenizer": {"type": "Whitespace"}}, {"model": PIECES | {"vocab": {"?": 0, "a": 1, "##b": 2}}}]
)
def test_tokens_that_are_not_their_text_have_no_bytes(changed: dict[str, Any]) -> None:
    plain = byte_level() | {"pre_tokenizer": None, "decoder": None, "added_tokens": []}
    with pytest.raises(ConfigError, match="declare the bytes of each id by units="):
        byte_lengths(library(plain | changed))


def test_tokenizers_of_other_libraries_have_bytes() -> None:
    transformers = pytest.importorskip("transformers")
    described = sentencepiece("prepend")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=library(described))
    assert np.array_equal(byte_lengths(fast), byte_lengths(library(described)))
    with pytest.raises(ConfigError, match="slow one"):
        byte_lengths(transformers.ByT5Tokenizer())
    with pytest.raises(ConfigError, match="int has no"):
        byte_lengths(7)
    with pytest.raises(CorpusError, match="cannot"):
        byte_lengths("nowhere/tokenizer.json")


def test_an_encoding_of_tiktoken_has_bytes() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)} | {b" the": 256}
    encoding = tiktoken.Encoding("small", pat_str=r".+", mergeable_ranks=ranks, special_tokens={FIRST: 258})
    lengths, (_, name) = byte_lengths(encoding), bytes_of_ids(encoding)
    assert name == "tiktoken small" and lengths.tolist() == [1] * 256 + [4, -1, -1]
