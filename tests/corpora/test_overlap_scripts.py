"""Overlap in many scripts: planted copies are found at the rates of English, and tokens follow Unicode."""

import random
import unicodedata
from collections.abc import Callable
from hashlib import blake2b

import numpy as np
import pytest
from prequential_corpora.corpus import Document
from prequential_corpora.overlap import Overlap, measure_overlap
from prequential_corpora.tokens import (
    GRAM_TOKENS,
    KIND_SHIFT,
    MARK,
    N_CODE_POINTS,
    SINGLE,
    SPACE,
    SPACELESS,
    WORD,
    Layout,
    character_table,
    token_chunks,
)

Units = list[str]  # what an editor replaces: words, or characters of a script without spaces
N_WORDS, N_DOCUMENTS = 5000, 100


def letters(first: int, last: int) -> Units:
    return [chr(code) for code in range(first, last + 1) if unicodedata.category(chr(code)) in ("Ll", "Lo")]


HAN, HIRAGANA, KATAKANA = letters(0x4E00, 0x59FF), letters(0x3042, 0x3093), letters(0x30A2, 0x30F3)
THAI = [consonant + mark for consonant in letters(0x0E01, 0x0E2E) for mark in ("", "\u0e31", "\u0e34", "\u0e38\u0e48")]
# Of each language: the letters of a word, its shortest and longest length, and what is between words.
SPACED = {
    "English": (letters(0x61, 0x7A), 2, 9),
    "Russian": (letters(0x430, 0x44F), 2, 9),
    "Arabic": (letters(0x628, 0x64A), 2, 7),
}
UNSPACED = {"Chinese": (HAN, 1, 2), "Japanese": (HAN[:400] + 6 * HIRAGANA + 2 * KATAKANA, 1, 4), "Thai": (THAI, 2, 4)}


def documents_of(language: str, n: int, seed: int) -> list[Units]:
    """Documents of 60 to 400 units in an artificial language: a fixed vocabulary with Zipf's law, 1 / (rank + 2.7)."""
    alphabet, shortest, longest = (SPACED | UNSPACED)[language]
    spell = random.Random(language)
    vocabulary = [spell.choices(alphabet, k=spell.randint(shortest, longest)) for _ in range(N_WORDS)]
    draw = random.Random(seed)
    weights = [1 / (rank + 2.7) for rank in range(1, N_WORDS + 1)]
    found = []
    for _ in range(n):
        words = draw.choices(vocabulary, weights, k=draw.randint(60, 400))
        found.append(["".join(word) for word in words] if language in SPACED else [u for word in words for u in word])
    return found


def joined(language: str, units: Units) -> bytes:
    return (" " if language in SPACED else "").join(units).encode()


def replaced(language: str, units: Units, seed: int) -> Units:
    """The same units, 5 % of them replaced by others of the language."""
    draw, others = random.Random(seed), documents_of(language, 1, 10**6 + seed)[0]
    return [draw.choice(others) if draw.random() < 0.05 else unit for unit in units]


def edited(language: str, units: Units, seed: int) -> bytes:
    return joined(language, replaced(language, units, seed))


def wrapped(language: str, units: Units, seed: int) -> bytes:
    return b"\n".join(joined(language, units[i : i + 7]) for i in range(0, len(units), 7))


def edited_and_wrapped(language: str, units: Units, seed: int) -> bytes:
    """In scripts without spaces, no match of 50 bytes is left: n-grams must find the copy."""
    return wrapped(language, replaced(language, units, seed), seed)


def in_capitals(language: str, units: Units, seed: int) -> bytes:
    return joined(language, units).decode().upper().encode()


def corpus_of(texts: list[bytes]) -> tuple[np.ndarray, list[Document]]:
    starts = np.cumsum([0, *(len(text) for text in texts)]).tolist()
    documents = [Document(str(i), start, len(text)) for i, (start, text) in enumerate(zip(starts, texts, strict=False))]
    return np.frombuffer(b"".join(texts), np.uint8), documents


def overlap_of(train: list[bytes], test: list[bytes]) -> Overlap:
    return measure_overlap(*corpus_of(train), *corpus_of(test), max_memory_bytes=1 << 26)


def tokens_of(text: bytes) -> list[int]:
    stream = np.frombuffer(text, np.uint8)
    chunks = token_chunks(stream, Layout.of([Document("a", 0, len(text))], len(text)))
    return [key for keys, _ in chunks for key in keys[GRAM_TOKENS - 1 :].tolist()]


def exact(language: str, units: Units, seed: int) -> bytes:
    return joined(language, units)


PLANTS = [(exact, 0.99), (edited, 0.95), (wrapped, 0.95), (edited_and_wrapped, 0.95)]
CASES = [(name, *plant) for name in SPACED | UNSPACED for plant in PLANTS]
CASES += [(name, in_capitals, 0.95) for name in ("English", "Russian")]


@pytest.mark.parametrize(
    ("language", "plant", "least"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
@pytest.mark.first_quick
def test_planted_copies_are_dirty_and_the_rest_is_clean_in_every_script(
    language: str, plant: Callable[[str, Units, int], bytes], least: float
) -> None:
    originals, others = documents_of(language, N_DOCUMENTS, 1), documents_of(language, N_DOCUMENTS, 2)
    copies = [plant(language, units, i) for i, units in enumerate(originals)]
    overlap = overlap_of(
        [joined(language, units) for units in originals], [*copies, *(joined(language, units) for units in others)]
    )
    assert overlap.dirty[:N_DOCUMENTS].mean() >= least
    assert overlap.dirty[N_DOCUMENTS:].mean() < 0.01


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("日本語のテスト。", "日 本 語 の テ ス ト 。"),
        ("กินข้าว", "กิ น ข้ า ว"),
        ("Привет, мир", "Привет , мир"),
        ("مرحبا، بالعالم", "مرحبا ، بالعالم"),
        ("नमस्ते दुनिया", "नमस्ते दुनिया"),
        ("한국어 글", "한국어 글"),
        ("“l’été”—x²", "“ l ’ été ” — x²"),
        ("ＡＢ１ ｱｲ", "ＡＢ１ ｱ ｲ"),
        ("a\u3000b\u00a0c\u200bd\ufeff", "a b c d"),
        ("e\u0301t \u0301e", "e\u0301t \u0301e"),
        ("👍🏽x", "👍 🏽 x"),
        ("𠀀𠀁", "𠀀 𠀁"),
    ],
)
def test_tokens_are_words_or_characters_of_scripts_without_spaces(text: str, tokens: str) -> None:
    expected = [key for token in tokens.split(" ") for key in tokens_of(token.encode())]
    assert len(expected) == len(tokens.split(" "))
    assert tokens_of(text.encode()) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [("ÉTÉ", "été"), ("ПРИВЕТ", "привет"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("ՀԱՅ", "հայ"), ("ＡＢＣ", "ａｂｃ")],
)
def test_capitals_count_as_small_letters(text: str, same: str) -> None:
    assert tokens_of(text.encode()) == tokens_of(same.encode())


def test_bytes_that_are_no_utf8_are_letters_of_their_own() -> None:
    latin = "un été à Noël".encode("latin-1")
    assert len(tokens_of(latin)) == 4
    assert tokens_of("Привет мир".encode("cp1251")) == [
        key for word in ("Привет", "мир") for key in tokens_of(word.encode("cp1251"))
    ]
    # Overlong forms, surrogates, code points beyond U+10FFFF, cut and lonely bytes: each byte is a letter.
    for invalid in (b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe4\xb8", b"\xb8\xad", b"\xff"):
        assert len(tokens_of(b"a" + invalid + b"b")) == 1
        assert tokens_of(b"a" + invalid + b"b") != tokens_of(b"a" + invalid[:-1] + b"b")
    noise = np.random.default_rng(0).integers(0, 256, 10_000, np.uint8).tobytes()
    overlap = overlap_of([noise], [noise[5000:] + noise[:100]])
    assert overlap.dirty.all()
    assert overlap.seen_byte_share[0] == 1


def test_a_character_cut_by_the_end_of_a_document_is_no_character() -> None:
    text = "日本".encode()
    stream = np.frombuffer(text, np.uint8)
    layout = Layout.of([Document("a", 0, 4), Document("b", 4, 2)], 6)
    ((keys, owners),) = token_chunks(stream, layout)
    assert owners[GRAM_TOKENS - 1 :].tolist() == [0, 0, 1]
    assert keys[GRAM_TOKENS - 1 :].tolist() == tokens_of(text[:4]) + tokens_of(text[4:])


def test_the_table_of_characters_is_the_same_in_every_version_of_python() -> None:
    assert blake2b(character_table().astype("<u4").tobytes(), digest_size=8).hexdigest() == GOLDEN_TABLE


GOLDEN_TABLE = "b9e5823b20686be8"


def test_kinds_are_the_categories_of_unicode() -> None:
    """Of all characters that both this Python's Unicode and the table know."""
    kinds = (character_table() >> KIND_SHIFT).tolist()
    wrong = []
    for code in range(0x80, N_CODE_POINTS):
        category = unicodedata.category(chr(code))
        if category in ("Cn", "Cs", "Co"):
            continue
        spaceless = any(first <= code < end for first, end in SPACELESS)
        if category[0] == "Z" or code in (0x85, 0x200B, 0xFEFF):
            expected = SPACE
        elif category[0] == "M" or category == "Cf":
            expected = MARK
        else:
            expected = WORD if category[0] in "LN" and not spaceless else SINGLE
        if kinds[code] != expected:
            wrong.append(f"{code:04x} {category}")
    assert wrong == []
