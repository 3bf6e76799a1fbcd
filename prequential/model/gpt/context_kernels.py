"""Compiled loops for the contexts of the GPT (context_table.py): the rows of contexts, and sums of gradients by row.

Everything is an integer, so compiled and interpreted runs give the same bits. `recent` describes a position: the last
CONTEXT_REACH symbols, and then the values that are recalled (recall.py), if a context needs them. The first contexts are hashes
of symbols: `2` .. `6` are the last 2 .. 6 symbols, `word` is the current word so far, and `word2` includes the word before it.
The others are values themselves. A context keeps its index, which is part of its hash.

Letters: N positions, C numbers of `recent`, K contexts in use, U distinct rows, D width.
"""

import numpy as np

from prequential.exact.fused_loops import levels_per_unit
from prequential.machine.atomics import prefetch
from prequential.machine.compiled import Array, inlined, kernel
from prequential.model.config import CONTEXT_REACH, HASHED_CONTEXTS
from prequential.model.hashing import hashed, is_letter

LONGEST = 6  # contexts 0 .. LONGEST - 2 are the last 2 .. LONGEST symbols
N_HASHED = LONGEST + 1  # with the two of words
assert len(HASHED_CONTEXTS) == N_HASHED and CONTEXT_REACH >= LONGEST
LINE = 32  # numbers of a row in a line of the cache
SUM_LIMIT = 32767  # levels of a gradient: sums of 2**16 terms are below 2**31


@inlined
def context_hashes(recent: Array, all_hashes: Array) -> None:
    """all_hashes[kind] = the hash of one of HASHED_CONTEXTS, 32 bits. recent: at first the last CONTEXT_REACH symbols."""
    h = recent[0] + 1
    for e in range(1, LONGEST):
        h = hashed(h, recent[e] + 1)
        all_hashes[e - 1] = h
    # The current word: the letters back to the first other symbol. With the word before: back to the second other symbol.
    word, n_marks = 7, 0
    all_hashes[LONGEST - 1] = all_hashes[LONGEST] = word
    for e in range(CONTEXT_REACH):
        c = recent[e]
        if is_letter(c):
            word = hashed(word, c + 32 if 65 <= c <= 90 else c)
        else:
            n_marks += 1
            if n_marks == 2:
                break
            all_hashes[LONGEST - 1] = word
            word = hashed(word, 1)
    if n_marks == 0:
        all_hashes[LONGEST - 1] = word
    all_hashes[LONGEST] = word


@inlined
def fill_context_rows(recent: Array, kinds: Array, n_rows: int, all_hashes: Array, rows: Array) -> None:
    """rows[i] = the row of context kinds[i], below n_rows, a power of two. all_hashes: scratch memory, (N_HASHED,) int64."""
    context_hashes(recent, all_hashes)
    for i in range(kinds.size):
        value = all_hashes[kinds[i]] if kinds[i] < N_HASHED else recent[CONTEXT_REACH + kinds[i] - N_HASHED]
        rows[i] = (hashed(value, kinds[i] + 1) >> 3) & (n_rows - 1)


@kernel
def context_rows(recent: Array, kinds: Array, n_rows: int, rows: Array) -> None:
    """rows (N, K) int64 = the rows of the contexts kinds (K,) int64 at positions with the last symbols recent (N, C) int64."""
    all_hashes = np.zeros(N_HASHED, np.int64)
    for i in range(recent.shape[0]):
        fill_context_rows(recent[i], kinds, n_rows, all_hashes, rows[i])


@kernel
def sum_of_rows(table: Array, rows: Array, sums: Array) -> None:
    """sums (N, D) int32 = for each position, the sum of its rows (N, K) int64 of the table (2**context_bits, D) int16."""
    for i in range(rows.shape[0]):
        total, following = sums[i], rows[min(i + 1, len(rows) - 1)]
        for j in range(total.size):
            total[j] = 0
        for k in range(rows.shape[1]):
            for j in range(0, total.size, LINE):
                prefetch(table[following[k]], j)
            row = table[rows[i, k]]
            for j in range(total.size):
                total[j] += np.int32(row[j])


@kernel
def subtract_rows(table: Array, rows: Array, change: Array, limit: int) -> None:
    """table[rows[u]] -= change[u], clipped to `limit` in magnitude. rows (U,) int64: distinct; change (U, D) int32."""
    for u in range(rows.size):
        row, following = table[rows[u]], table[rows[min(u + 8, rows.size - 1)]]
        for j in range(0, row.size, LINE):
            prefetch(following, j)
        for j in range(row.size):
            row[j] = np.int16(max(-limit, min(limit, np.int32(row[j]) - change[u, j])))


@kernel
def sum_by_row(g: Array, peak: np.float32, rows: Array, sums: Array) -> None:
    """sums[rows[i, k]] += g[i], rounded to levels of peak / SUM_LIMIT. g (N, D) float32, rows (N, K) int64, sums (U, D) int32.

    The sums are exact in any order if N * K <= 2**16.
    """
    factor = levels_per_unit(peak, SUM_LIMIT)
    levels = np.empty(g.shape[1], np.int32)
    for i in range(g.shape[0]):
        for j in range(levels.size):
            levels[j] = np.int32(np.rint(g[i, j] * factor))
        for k in range(rows.shape[1]):
            total = sums[rows[i, k]]
            for j in range(levels.size):
                total[j] += levels[j]
