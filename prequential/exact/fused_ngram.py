"""The direct n-gram connections as compiled loops, with the bits of `plain_ngram`: see there.

Only gathered rows are touched. Letters: S sources, R rows of all sources, B streams, T columns, N = B*T, V symbols.
"""

import math

import numpy as np
import torch

from prequential.exact.fused_loops import ONE, Array, array, inlined, kernel
from prequential.exact.plain_ngram import ROW_UNIT, SPREAD, STEP, TOTAL, WORD, WORD_PAIR

Tensor = torch.Tensor

UNIT = np.float32(ROW_UNIT)


def ngram_contexts(
    symbols: Tensor, history: Tensor, words: Tensor, lags: Tensor, row_bits: int
) -> tuple[Tensor, Tensor, Tensor]:
    n_streams, n_columns = symbols.shape
    index = torch.empty((len(lags), n_streams, n_columns), dtype=torch.int64)
    words = words.clone()
    _contexts(array(symbols), array(history), words.numpy(), array(lags), row_bits, index.numpy())
    return index, torch.cat((history, symbols), 1)[:, -history.shape[1] :], words


@inlined
def _contexts(symbols: Array, history: Array, words: Array, lags: Array, row_bits: int, index: Array) -> None:
    n_lags = np.array([np.count_nonzero(row) for row in lags])
    for b in range(symbols.shape[0]):
        word, previous = words[b]
        for t in range(symbols.shape[1]):
            symbol = symbols[b, t]
            word, previous = _next_word(symbol, word, previous)
            between = symbol if word == 0 else 0
            for s in range(lags.shape[0]):
                if lags[s, 0] == WORD:
                    h = word * 5 + between
                elif lags[s, 0] == WORD_PAIR:
                    h = (word ^ (previous * 3)) * STEP + 1 + between
                else:
                    h = n_lags[s]
                    for k in range(n_lags[s]):
                        place = t + 1 - lags[s, k]
                        earlier = symbols[b, place] if place >= 0 else history[b, history.shape[1] + place]
                        h = (h + earlier + 1) * STEP
                index[s, b, t] = ((h * SPREAD >> (64 - row_bits)) & ((1 << row_bits) - 1)) + (s << row_bits)
        words[b, 0], words[b, 1] = word, previous


@inlined
def _next_word(symbol: int, word: int, previous: int) -> tuple[int, int]:
    """Hashes of the letters since the last non-letter (0 after one) and of the word before, after `symbol`."""
    capital = 65 <= symbol <= 90
    if capital or 97 <= symbol <= 122 or symbol >= 128:
        return (word + (symbol + 32 if capital else symbol) + 1) * STEP, previous
    return 0, previous if word == 0 else word


def ngram_add(logits: Tensor, rows: Tensor, counts: Tensor, gates: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    y, bucket = torch.empty(logits.shape), torch.empty(index.shape, dtype=torch.int64)
    _add(array(logits), rows.numpy(), counts.numpy(), array(gates), array(index), y.numpy(), bucket.numpy())
    return y, bucket


@kernel
def _add(logits: Array, rows: Array, counts: Array, gates: Array, index: Array, y: Array, bucket: Array) -> None:
    for n in range(logits.shape[0]):
        out = y[n]
        out[:] = logits[n]
        for s in range(index.shape[0]):
            row = index[s, n]
            level = 0
            while level < gates.shape[1] - 1 and counts[row] >> level:
                level += 1
            bucket[s, n] = level
            gate, values = gates[s, level] * UNIT, rows[row]
            for v in range(out.size):
                out[v] += np.float32(values[v]) * gate


def ngram_update(
    rows: Tensor, counts: Tensor, gates: Tensor, index: Tensor, bucket: Tensor, frequency: Tensor, symbols: Tensor,
    row_step: float, row_step_floor: float,
) -> Tensor:  # fmt: skip
    gradient = torch.zeros(gates.shape, dtype=torch.int64)
    _update(
        rows.numpy(), counts.numpy(), array(index), array(bucket), array(frequency), array(symbols),
        row_step, row_step_floor, gradient.numpy(),
    )  # fmt: skip
    return gradient


@kernel
def _update(
    rows: Array, counts: Array, index: Array, bucket: Array, frequency: Array, symbols: Array,
    row_step: float, row_step_floor: float, gradient: Array,
) -> None:  # fmt: skip
    n_sources, n_positions = index.shape
    n_symbols = rows.shape[1]
    dots = np.empty((n_sources, n_positions), dtype=np.int64)
    for n in range(n_positions):
        for s in range(n_sources):
            row = rows[index[s, n]]
            dots[s, n] = (_dot(row, frequency[n]) - (np.int64(row[symbols[n]]) << 24)) >> 16
    for s in range(n_sources):
        for n in range(n_positions):
            gradient[s, bucket[s, n]] += dots[s, n]
            counts[index[s, n]] += 1
    excess = np.empty(n_symbols, dtype=np.float32)
    for n in range(n_positions):
        for v in range(n_symbols):
            excess[v] = np.float32(frequency[n, v])
        excess[symbols[n]] -= np.float32(TOTAL)
        for s in range(n_sources):
            step = _step(counts[index[s, n]], row_step, row_step_floor)
            row = rows[index[s, n]]
            for v in range(n_symbols):
                row[v] += np.int32(np.rint(excess[v] * step))


@inlined
def _dot(row: Array, frequency: Array) -> np.int64:
    total = np.int64(0)
    for v in range(row.size):
        total += np.int64(row[v]) * np.int64(frequency[v])
    return total


@inlined
def _step(count: int, row_step: float, row_step_floor: float) -> np.float32:
    """Units of a row per unit of excess: -(row_step / sqrt(count) + row_step_floor) / 2**8, the reciprocal first."""
    root = np.float32(math.sqrt(np.float64(np.float32(count))))
    return ((ONE / root) * np.float32(row_step) + np.float32(row_step_floor)) * np.float32(-(2.0**-8))
