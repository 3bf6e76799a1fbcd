"""The n-gram primitives against Python integers and numpy, source by source and position by position."""

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

F = np.float32
SPREAD, STEP = 0x9E3779B97F4A7C15, 0x6A09E667F3BCC909
N_HISTORY = 8
LAGS = [(1,), (1, 2), (1, 2, 3, 4, 5, 6, 7, 8), (2,), (2, 3, 4), (1, 3), (-1,), (-2,)]
TEXT = st.binary(min_size=1, max_size=40) | st.text("abZ ,\n", min_size=1, max_size=40).map(str.encode)


def wrapped(x: int) -> int:
    """x as a signed 64-bit integer."""
    return (x + 2**63) % 2**64 - 2**63


def row_of(hashed: int, row_bits: int) -> int:
    return hashed * SPREAD % 2**64 >> (64 - row_bits)


def context_rows(text: bytes, lags: tuple[int, ...], row_bits: int) -> list[int]:
    """Row of the context that ends with each byte of a stream that begins with `text`."""
    past = bytes(N_HISTORY) + text
    rows, word, previous = [], 0, 0
    for t, symbol in enumerate(text):
        if symbol >= 128 or chr(symbol).isalpha():
            word = wrapped((word + bytes([symbol]).lower()[0] + 1) * STEP)
        else:
            word, previous = 0, word or previous
        between = 0 if word else symbol
        if lags == (-1,):
            h = word * 5 + between
        elif lags == (-2,):
            h = wrapped(word ^ wrapped(previous * 3)) * STEP + 1 + between
        else:
            h = len(lags)
            for lag in lags:
                h = (h + past[N_HISTORY + t + 1 - lag] + 1) * STEP
        rows.append(row_of(h, row_bits))
    return rows


def padded(lags: list[tuple[int, ...]]) -> torch.Tensor:
    return torch.tensor([[*source, *[0] * (N_HISTORY - len(source))] for source in lags])


@given(TEXT, st.lists(st.integers(0, 40), max_size=3), st.integers(8, 22))
def test_contexts_hash_the_lagged_symbols_and_words_whatever_the_split(ops, text, cuts, row_bits):
    streams = [text, text[::-1]]
    symbols = torch.tensor([list(s) for s in streams])
    history, words = torch.zeros(2, N_HISTORY, dtype=torch.int64), torch.zeros(2, 2, dtype=torch.int64)
    parts, edges = [], [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    for first, last in pairwise(edges):
        if last > first:
            index, history, words = ops.ngram_contexts(symbols[:, first:last], history, words, padded(LAGS), row_bits)
            parts.append(index)
    expected = [
        [[(s << row_bits) + row for row in context_rows(stream, lags, row_bits)] for stream in streams]
        for s, lags in enumerate(LAGS)
    ]
    assert torch.cat(parts, 2).tolist() == expected
    assert history.tolist() == [list((bytes(N_HISTORY) + s)[-N_HISTORY:]) for s in streams]


def test_the_carried_past_is_not_changed_in_place(ops):
    history, words = torch.ones(2, N_HISTORY, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int64)
    ops.ngram_contexts(torch.full((2, 3), 97), history, words, padded(LAGS), 10)
    assert bool((history == 1).all()) and bool((words == 1).all())


class Tables:
    """Rows, counts, gates and drawn positions; few rows, so that positions often share one."""

    def __init__(self, seed: int, n_sources: int, n_positions: int, n_symbols: int) -> None:
        rng = np.random.default_rng(seed)
        self.rows = rng.integers(-(2**22), 2**22, (5 * n_sources, n_symbols)).astype(np.int32)
        self.counts = (2.0 ** rng.uniform(-1, 20, 5 * n_sources)).astype(np.int32)
        self.gates = rng.standard_normal((n_sources, 16)).astype(F)
        self.index = rng.integers(0, 5, (n_sources, n_positions)) + 5 * np.arange(n_sources)[:, None]
        self.logits = rng.standard_normal((n_positions, n_symbols)).astype(F)
        self.frequency = rng.integers(1, 2**24, (n_positions, n_symbols)).astype(np.int32)
        self.symbols = rng.integers(0, n_symbols, n_positions)

    def bucket(self) -> np.ndarray:
        return np.array([[min(int(self.counts[row]).bit_length(), 15) for row in source] for source in self.index])


TABLES = st.builds(
    Tables,
    seed=st.integers(0, 2**32),
    n_sources=st.integers(1, 6),
    n_positions=st.integers(1, 30),
    n_symbols=st.integers(2, 260),
)


def t(*xs: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(x.copy()) for x in xs]


@given(TABLES)
def test_add_sums_gated_rows_source_by_source(ops, x):
    expected, bucket = x.logits.copy(), x.bucket()
    for s, source in enumerate(x.index):
        gate = x.gates[s, bucket[s]] * F(2.0**-16)
        expected = expected + x.rows[source].astype(F) * gate[:, None]
    logits, got_bucket = ops.ngram_add(*t(x.logits, x.rows, x.counts, x.gates, x.index))
    assert np.array_equal(got_bucket.numpy(), bucket)
    assert logits.dtype == torch.float32 and np.array_equal(logits.numpy().view(np.int32), expected.view(np.int32))


@settings(max_examples=50)
@given(TABLES)
def test_update_counts_first_steps_after_and_takes_gate_gradients_from_before(ops, x):
    excess = x.frequency.astype(np.int64)
    excess[np.arange(len(x.symbols)), x.symbols] -= 2**24
    bucket = x.bucket()
    gradient = np.zeros(x.gates.shape, dtype=np.int64)
    counts, rows = x.counts.copy(), x.rows.copy()
    for s, n in np.ndindex(x.index.shape):
        row = x.index[s, n]
        dot = sum(int(a) * int(b) for a, b in zip(x.rows[row], excess[n], strict=True))
        gradient[s, bucket[s, n]] += dot >> 16
        counts[row] += 1
    for s, n in np.ndindex(x.index.shape):
        row = x.index[s, n]
        step = (F(1) / np.sqrt(counts[row].astype(F))) * F(0.7) + F(0.02)
        rows[row] += np.rint(excess[n].astype(F) * (step * F(-(2.0**-8)))).astype(np.int32)
    got_rows, got_counts = t(x.rows, x.counts)
    rest = t(x.gates, x.index, bucket, x.frequency, x.symbols)
    got = ops.ngram_update(got_rows, got_counts, *rest, 0.7, 0.02)
    assert got.dtype == torch.int64 and np.array_equal(got.numpy(), gradient)
    assert np.array_equal(got_counts.numpy(), counts) and np.array_equal(got_rows.numpy(), rows)
