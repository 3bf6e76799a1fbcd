"""Overlap against brute force, planted copies, and tables that are too small."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_corpora import overlap as overlap_module
from prequential_corpora.corpus import Document
from prequential_corpora.overlap import (
    CHUNK_BYTES,
    GRAM_TOKENS,
    TOKEN,
    Overlap,
    Side,
    gram_chunks,
    measure_overlap,
    repeated_bytes,
)

from prequential.errors import ConfigError, CorpusError, PrequentialError

# Few letters and a few long words, so that copies of 50 bytes and of 13 tokens occur by chance.
# Characters of several bytes come in parts, too, so that valid and invalid bytes meet.
CHARACTERS = "\u4e2d\u6587 \u0e01\u0e47 \u3042 \u3000 \u0416\u0436 \u0301 \u201c \U00020000 \u00e9".encode().split(b" ")
PARTS = [b"\xe4", b"\xb8\xad", b"\xf0\xa0", b"\xed\xa0\x80", b"\xc0\xaf"]
WORDS = [b"a", b"B", b" ", b"\n", b"\xff", b"...", b"lorem ipsum, dolor sit amet; " * 2, b"x y z " * 14]
TEXTS = st.lists(st.sampled_from([*WORDS, *CHARACTERS, *PARTS]), max_size=24).map(b"".join)
CORPORA = st.lists(TEXTS, max_size=4)


def stream_of(texts: Sequence[bytes], gap: bytes = b"\0") -> tuple[np.ndarray, list[Document]]:
    """The documents in order, each followed by a gap."""
    documents, data = [], b""
    for i, text in enumerate(texts):
        documents.append(Document(str(i), len(data), len(text)))
        data += text + gap
    return np.frombuffer(data, np.uint8), documents


def overlap_of(train: Sequence[bytes], test: Sequence[bytes], gap: bytes = b"\0", memory: int = 1 << 20) -> Overlap:
    return measure_overlap(*stream_of(train, gap), *stream_of(test, gap), max_memory_bytes=memory)


def tokens_by_brute_force(text: bytes) -> list[str]:
    tokens, in_word = [], False
    for character in text.decode("utf-8", "surrogateescape").casefold():
        is_letter = character.isalnum() or (character > "\x7f" and not character.isspace())
        is_letter &= not ("\u0e00" <= character < "\u0f00" or "\u2000" <= character < "\u3130")
        is_letter &= not ("\u3400" <= character < "\ua4d0" or character >= "\U00020000")
        if in_word and is_letter:
            tokens[-1] += character
        elif not character.isspace():
            tokens.append(character)
        in_word = is_letter
    return tokens


def grams_by_brute_force(text: bytes, n: int = 13) -> list[tuple[str, ...]]:
    tokens = tokens_by_brute_force(text)
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def windows_by_brute_force(text: bytes) -> list[bytes]:
    return [text[i : i + 50] for i in range(len(text) - 49)]


def prose(n_words: int, seed: int) -> list[bytes]:
    """Words of an artificial language with a vocabulary of 5,000."""
    draws = np.random.default_rng(seed).zipf(1.3, 4 * n_words)
    return [b"w%d" % draw for draw in draws[draws < 5000][:n_words]]


@settings(max_examples=60, deadline=None)
@given(CORPORA, CORPORA, st.sampled_from([b"", b"\0", b"ab\n"]))
def test_grams_agree_with_a_brute_force_search(train, test, gap):
    overlap = overlap_of(train, test, gap)
    known = {gram for text in train for gram in grams_by_brute_force(text)}
    for i, text in enumerate(test):
        grams = grams_by_brute_force(text)
        assert overlap.n_grams[i] == len(grams)
        assert overlap.seen_grams[i] == sum(gram in known for gram in grams)


@settings(max_examples=60, deadline=None)
@given(CORPORA, CORPORA, st.sampled_from([b"", b"\0", b"ab\n"]))
def test_covered_bytes_agree_with_a_brute_force_search(train, test, gap):
    overlap = overlap_of(train, test, gap)
    _, documents = stream_of(test, gap)
    known, earlier = {window for text in train for window in windows_by_brute_force(text)}, set()
    in_train, in_test = np.zeros(len(overlap.in_train), bool), np.zeros(len(overlap.in_train), bool)
    for document, text in zip(documents, test, strict=True):
        for i, window in enumerate(windows_by_brute_force(text), document.offset):
            in_train[i : i + 50] |= window in known
            in_test[i : i + 50] |= window in earlier
            earlier.add(window)
    assert np.array_equal(overlap.in_train, in_train)
    assert np.array_equal(overlap.in_test, in_test)
    assert np.array_equal(overlap.novel, ~(in_train | in_test))
    assert overlap.seen_bytes.tolist() == [in_train[d.offset : d.offset + d.n_bytes].sum() for d in documents]


@settings(max_examples=40, deadline=None)
@given(CORPORA)
def test_repeated_bytes_are_those_in_windows_that_occurred_before_in_any_document(texts):
    data = b"".join(texts)
    windows, seen, expected = windows_by_brute_force(data), set(), np.zeros(len(data), bool)
    for i, window in enumerate(windows):
        expected[i : i + 50] |= window in seen
        seen.add(window)
    repeated, n_forgotten = repeated_bytes(np.frombuffer(data, np.uint8))
    assert np.array_equal(repeated, expected) and n_forgotten == 0


@settings(max_examples=40, deadline=None)
@given(CORPORA, CORPORA)
def test_a_small_table_finds_a_subset_and_counts_forgotten_windows(train, test):
    full, small = overlap_of(train, test), overlap_of(train, test, memory=1024)
    assert full.n_forgotten_windows == full.n_forgotten_grams == 0
    assert not (small.in_train & ~full.in_train).any()
    assert not (small.in_test & ~full.in_test).any()
    assert (small.seen_grams <= full.seen_grams).all()
    if small.n_forgotten_grams == 0:
        assert np.array_equal(small.seen_grams, full.seen_grams)
    if small.n_forgotten_windows == 0:
        assert np.array_equal(small.in_train, full.in_train)


def test_windows_with_equal_hashes_are_compared_byte_by_byte(monkeypatch):
    train, new = b" ".join(prose(300, seed=1)), b" ".join(prose(300, seed=2))
    test = train + b"|" + new + b"|" + train
    exact = overlap_of([train], [test])
    keys_of = overlap_module._window_keys
    for n_keys in (1, 64, 8192):
        monkeypatch.setattr(
            overlap_module, "_window_keys", lambda data, n=n_keys: keys_of(data) % np.uint64(n) + np.uint64(1)
        )
        colliding = overlap_of([train], [test])
        assert not (colliding.in_train & ~exact.in_train).any()
        assert not (colliding.in_test & ~exact.in_test).any()
    assert colliding.in_train.any()


def test_a_copy_is_found_at_any_offset_and_its_neighbours_are_not_covered():
    noise = np.random.default_rng(0).integers(0, 256, 3 * CHUNK_BYTES, np.uint8)
    for start, n in ((CHUNK_BYTES - 25, 50), (2 * CHUNK_BYTES - 49, 120), (3 * CHUNK_BYTES - 50, 50), (7, 49)):
        train = noise[start : start + n]
        overlap = measure_overlap(train, [Document("a", 0, n)], noise, [Document("b", 0, len(noise))])
        expected = np.zeros(len(noise), bool)
        expected[start : start + n] = n >= 50
        assert np.array_equal(overlap.in_train, expected)


def grams_of(text: bytes) -> list[int]:
    stream = np.frombuffer(text, np.uint8)
    chunks = gram_chunks(Side.of(stream, [Document("a", 0, len(text))]))
    return [key for keys, _ in chunks for key in keys.tolist()]


def test_tokens_do_not_depend_on_where_chunks_end():
    text = b" ".join(prose(150_000, seed=2)) + " Été".encode() * 70 + b"?!"
    assert len(text) > 2 * CHUNK_BYTES
    grams = [grams_of(b" " * shift + text) for shift in (0, 1, 5)]
    assert len(grams[0]) == len(tokens_by_brute_force(text)) - GRAM_TOKENS + 1
    assert grams[0] == grams[1] == grams[2]


@pytest.mark.parametrize(
    ("text", "n"), [('x_1 = "Été"', 7), ("«Été», ¿qué?", 7), ("日本語です。", 6), ("नमस्ते।", 2), ("می\u200cخواهم؟", 2)]
)
def test_signs_are_tokens_of_their_own_and_marks_and_joiners_are_not(text, n):
    assert len(TOKEN.findall(text)) == n


@pytest.mark.parametrize(("n_copied", "dirty"), [(50, False), (100, True)])
def test_a_document_is_dirty_from_a_share_of_one_fifth(n_copied, dirty):
    old = prose(n_copied, seed=1)
    overlap = overlap_of([b" ".join(old)], [b" ".join(old + prose(350 - n_copied, seed=2))])
    assert overlap.dirty[0] == dirty
    assert n_copied / 350 - 0.05 < overlap.seen_grams[0] / overlap.n_grams[0] < n_copied / 350 + 0.05


def test_only_a_mostly_seen_test_set_gives_a_warning():
    old, new = b" ".join(prose(300, seed=1)), b" ".join(prose(300, seed=2))
    assert overlap_of([old], [new]).warning is None
    assert overlap_of([old], [old, new * 3]).warning is None
    warning = overlap_of([old], [old, new[:500]]).warning
    assert warning is not None
    assert "mostly seen" in warning
    assert "\n" not in warning


def test_totals_are_json_and_sums_of_the_arrays():
    texts = [b" ".join(prose(100, seed=i)) for i in range(6)]
    overlap = overlap_of(texts[:3], [texts[2], texts[3], texts[3], b""])
    totals = json.loads(json.dumps(overlap.to_dict()))
    assert totals["n_documents"] == 4
    assert totals["train"]["bytes"] == len(texts[2])
    assert totals["train"]["dirty_documents"] == 1
    assert totals["novel_bytes"] == len(texts[3])
    assert totals["train"]["byte_share"] == len(texts[2]) / totals["n_bytes"]


@pytest.mark.parametrize(
    "documents",
    [
        [Document("a", 0, 11)],
        [Document("a", -1, 3)],
        [Document("a", 0, -1)],
        [Document("a", 0, 5), Document("b", 4, 2)],
        [Document("b", 5, 5), Document("a", 0, 5)],
    ],
)
def test_documents_that_do_not_fit_the_stream_are_refused(documents):
    stream = np.zeros(10, np.uint8)
    with pytest.raises(CorpusError, match=r"document '[ab]'"):
        measure_overlap(stream, documents, stream, [])


def test_invalid_arguments_are_refused_in_one_line():
    stream = np.zeros(10, np.uint8)
    with pytest.raises(ConfigError, match="1024 bytes"):
        measure_overlap(stream, [], stream, [], max_memory_bytes=1023)
    for wrong in (stream.astype(np.int64), stream.reshape(2, 5)):
        with pytest.raises(PrequentialError, match="uint8"):
            measure_overlap(wrong, [], stream, [])
