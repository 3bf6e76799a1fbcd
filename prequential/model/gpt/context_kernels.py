"""Contexts of the GPT's input: where the embeddings of the last symbols, taken together, lie in a hashed table. Integers only.

Compiled and interpreted (NUMBA_DISABLE_JIT=1) runs agree, so there is no second form of these functions.
"""

import numpy as np

from prequential.exact.fused_loops import Array, inlined, kernel, limit_over
from prequential.model.mixer.mixing import hashed, is_letter

LONGEST = 6  # of the contexts that are the last so many symbols: kinds 0 .. LONGEST - 2 are 2 .. LONGEST
N_KINDS = LONGEST + 1  # and two of words, in the order of model.config.GPT_CONTEXTS
SUM_LIMIT = 32767  # levels of a gradient: sums of 2**16 terms stay below 2**31


@inlined
def context_hashes(recent: Array, every: Array) -> None:
    """every[kind] of N_KINDS hashes of 32 bits, from the last symbols `recent` (C,) int64, C >= LONGEST, the newest first."""
    h = recent[0] + 1
    for e in range(1, LONGEST):
        h = hashed(h, recent[e] + 1)
        every[e - 1] = h
    # the letters back to the first symbol that is none; and back to the second such symbol
    word, n_marks = 7, 0
    every[LONGEST - 1] = every[LONGEST] = word
    for e in range(recent.size):
        c = recent[e]
        if is_letter(c):
            word = hashed(word, c + 32 if 65 <= c <= 90 else c)
        else:
            n_marks += 1
            if n_marks == 2:
                break
            every[LONGEST - 1] = word
            word = hashed(word, 1)
    if n_marks == 0:
        every[LONGEST - 1] = word
    every[LONGEST] = word


@inlined
def fill_context_rows(recent: Array, kinds: Array, n_rows: int, every: Array, rows: Array) -> None:
    """rows[i] in [0, n_rows), a power of two, of the context kinds[i]; `every` is room for all kinds."""
    context_hashes(recent, every)
    for i in range(kinds.size):
        rows[i] = (hashed(every[kinds[i]], kinds[i] + 1) >> 3) & (n_rows - 1)


@kernel
def context_rows(recent: Array, kinds: Array, n_rows: int, rows: Array) -> None:
    """rows (N, K) int64 of the contexts kinds (K,) int64 at each of N places whose last symbols are `recent` (N, C) int64."""
    every = np.zeros(N_KINDS, np.int64)
    for i in range(recent.shape[0]):
        fill_context_rows(recent[i], kinds, n_rows, every, rows[i])


@kernel
def sum_by_row(g: Array, peak: np.float32, rows: Array, sums: Array) -> None:
    """sums[rows[i, k]] += g[i] in levels of peak / SUM_LIMIT: g (N, D) float32, rows (N, K) int64, sums (U, D) int32.

    Exact, in any order, for N * K <= 2**16.
    """
    factor = limit_over(peak, SUM_LIMIT)
    levels = np.empty(g.shape[1], np.int32)
    for i in range(g.shape[0]):
        for j in range(levels.size):
            levels[j] = np.int32(np.rint(g[i, j] * factor))
        for k in range(rows.shape[1]):
            total = sums[rows[i, k]]
            for j in range(levels.size):
                total[j] += levels[j]
