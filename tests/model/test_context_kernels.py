"""Contexts of the GPT's input: rows from the last symbols, and sums of gradients by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prequential.model.config import CONTEXT_REACH, GPT_CONTEXTS, MOST_CONTEXT_TERMS, RECALL_CONTEXTS
from prequential.model.gpt.context_table import LONGEST, SUM_LIMIT, context_rows, sum_by_row

WORD, WORD2 = GPT_CONTEXTS.index("word"), GPT_CONTEXTS.index("word2")
ALL_KINDS = range(len(GPT_CONTEXTS))


def rows_after(text, kinds=ALL_KINDS, n_rows=1 << 24):
    """The rows of each kind after `text`, which symbol 0 precedes. Values that are recalled are 500, 501, ..."""
    symbols = (bytes(CONTEXT_REACH) + text)[-CONTEXT_REACH:]
    last = np.frombuffer(symbols[::-1], np.uint8).astype(np.int64)
    recent = np.concatenate((last, 500 + np.arange(len(RECALL_CONTEXTS))))[None]
    kinds = np.array(list(kinds), np.int64)
    rows = np.empty((1, len(kinds)), np.int64)
    context_rows(recent, kinds, n_rows, rows)
    return rows[0]


@pytest.mark.parametrize("order", range(2, LONGEST + 1))
def test_a_context_of_some_symbols_depends_on_these_and_no_others(order):
    kind = [order - 2]
    text = bytes(range(60, 60 + CONTEXT_REACH))
    for back in range(1, CONTEXT_REACH + 1):
        changed = bytearray(text)
        changed[-back] ^= 1
        assert (rows_after(text, kind) != rows_after(bytes(changed), kind)) == (back <= order)


def test_a_word_depends_only_on_its_letters_in_any_case():
    assert rows_after(b"in The", [WORD]) == rows_after(b"12 the", [WORD]) == rows_after(b"\nTHE", [WORD])
    assert rows_after(b"the", [WORD]) != rows_after(b"thee", [WORD])
    assert rows_after(b"the ", [WORD]) == rows_after(b"a, ", [WORD])  # no word has begun


def test_two_words_are_the_current_word_and_the_word_before_the_separator():
    assert rows_after(b"to be or", [WORD2]) == rows_after(b"not Be,or", [WORD2])
    assert rows_after(b"to be or", [WORD2]) != rows_after(b"to he or", [WORD2])


def test_different_kinds_have_different_rows_for_the_same_symbols():
    assert len(set(rows_after(b"ab"))) == len(GPT_CONTEXTS)


@given(st.binary(max_size=20), st.integers(1, 24))
def test_rows_lie_in_the_table(text, bits):
    rows = rows_after(text, n_rows=1 << bits)
    assert (rows >= 0).all() and (rows < 1 << bits).all()


def test_rows_spread_evenly():
    texts = [b"%x" % (i * 2654435761 & 0xFFFFFF) for i in range(4000)]
    counts = np.bincount([rows_after(text, [LONGEST - 2], 64)[0] for text in texts], minlength=64)
    chi_squared = float(((counts - 4000 / 64) ** 2 / (4000 / 64)).sum())
    assert chi_squared < 120  # 63 degrees of freedom: by chance with a probability of 2e-5


def test_sums_by_row_are_those_of_the_rounded_gradient_in_any_order():
    random = np.random.default_rng(2)
    g = random.normal(size=(50, 8)).astype(np.float32)
    rows = random.integers(0, 9, (50, 3))
    peak = np.float32(np.abs(g).max())
    sums = np.zeros((9, 8), np.int32)
    sum_by_row(g, peak, rows, sums)
    levels = np.rint(g * ((np.float32(1) / peak) * np.float32(SUM_LIMIT))).astype(np.int64)
    expected = np.zeros((9, 8), np.int64)
    np.add.at(expected, rows.ravel(), np.repeat(levels, 3, 0))
    assert np.array_equal(sums, expected)
    order = random.permutation(50)
    again = np.zeros_like(sums)
    sum_by_row(g[order], peak, rows[order], again)
    assert np.array_equal(sums, again) and SUM_LIMIT * MOST_CONTEXT_TERMS < 1 << 31
