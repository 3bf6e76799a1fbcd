"""What followed a context before: inputs of the GPT that need no step to be learned.

For each of some contexts, one hashed table holds the symbol that followed the context last, how often it did so in
succession, and the symbol that followed before it and differed. A symbol enters the tables as soon as it is known. At the next
position, what the tables say of its contexts are values, and each value has a row in the table of contexts (context_table.py):

    after2, .., afterword2     the symbol that followed last, and its successions, up to MOST_SUCCESSIONS
    other4, other6, otherword  the symbol before it, and whether the last one was repeated

Letters: F recalled contexts, X values of a position, P positions whose values are kept.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from prequential.machine.compiled import Array, inlined, kernel
from prequential.model.config import CONTEXT_REACH, N_RECALL_TABLES, RECALL_CONTEXTS, RECALL_KEPT_BITS
from prequential.model.gpt.context_table import LONGEST, N_HASHED, context_hashes
from prequential.model.hashing import hashed

# The contexts of the tables, in this order: the last 2, 3, 4, 6, 8, 12 and 16 symbols, `word` and `word2`. Those of FROM_HASHES
# are these indices of `context_hashes`; those of LONGER follow the last LONGEST symbols.
FROM_HASHES, FROM_WORDS, LONGER = (0, 1, 2, 4), (LONGEST - 1, LONGEST), (8, 12, 16)
OTHERS = (2, 3, 7)  # the tables of the values other4, other6 and otherword
N_VALUES = N_RECALL_TABLES + len(OTHERS)
MOST_SUCCESSIONS = 4

assert len(FROM_HASHES) + len(LONGER) + len(FROM_WORDS) == N_RECALL_TABLES and len(RECALL_CONTEXTS) == N_VALUES


class RecallArrays(NamedTuple):
    """The arrays of a Recall, as the kernels take them. X = F = 0 for a GPT that recalls nothing."""

    tables: Array  # (F, a power of two) uint32, 8 bits each: hash, the other symbol, successions, last symbol
    values: Array  # (P, X) int16: those of position p in row p mod P
    last: Array  # (CONTEXT_REACH,) int64: the last symbols, newest first
    n_read: Array  # (1,) int64: symbols read; the values of this position are known
    learns: bool


NOTHING = RecallArrays(
    np.zeros((0, 0), np.uint32), np.zeros((1, 0), np.int16), np.zeros(0, np.int64), np.zeros(1, np.int64), False
)


class Recall:
    """The tables of one stream, the values of its last P positions, and its place in the stream."""

    def __init__(self, table_bits: int) -> None:
        """table_bits: GPTConfig.recall_bits."""
        self.arrays: RecallArrays = RecallArrays(
            np.zeros((N_RECALL_TABLES, 1 << table_bits), np.uint32),
            np.zeros((1 << RECALL_KEPT_BITS, N_VALUES), np.int16),
            np.zeros(CONTEXT_REACH, np.int64),
            np.zeros(1, np.int64),
            True,
        )

    @property
    def n_read(self) -> int:
        """The number of symbols read so far. Values are known up to this position."""
        return int(self.arrays.n_read[0])

    @property
    def oldest(self) -> int:
        """The first position whose values are kept."""
        return max(0, self.n_read + 1 - len(self.arrays.values))

    def read(self, symbols: np.ndarray) -> None:
        """Reads the symbols (n,) int64 that follow those read."""
        if len(symbols):
            read_symbols(symbols, self.arrays)

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The values (.., X) int64 at positions (..), from `oldest` to n_read. Positions before the stream have values 0."""
        values = self.arrays.values[positions % len(self.arrays.values)].astype(np.int64)
        return np.where((positions < 0)[..., None], 0, values)

    def frozen(self) -> "Recall":
        """A Recall that shares the tables and does not write them, at the same place in the stream."""
        other, a = copy(self), self.arrays
        other.arrays = RecallArrays(a.tables, a.values.copy(), a.last.copy(), a.n_read.copy(), False)
        return other

    def restart(self, n_read: int) -> None:
        """Forgets the last symbols, and continues after n_read symbols. The tables stay; the next `read` gives values again."""
        self.arrays.last[:], self.arrays.n_read[0] = 0, n_read

    def state(self) -> dict[str, np.ndarray]:
        """Every array that later values depend on, by name, without n_read."""
        return {"tables": self.arrays.tables.view(np.int32), "values": self.arrays.values, "last": self.arrays.last}

    def load_state(self, arrays: Mapping[str, np.ndarray], n_read: int) -> None:
        """Copies the `state` of another Recall. Raises ValueError for symbols and successions that cannot occur."""
        if not ((arrays["last"] >= 0) & (arrays["last"] < 256)).all():
            raise ValueError("recall.last has a symbol out of range")
        if (arrays["tables"] >> 8 & 255).max() > MOST_SUCCESSIONS:
            raise ValueError("recall.tables have successions out of range")
        for name, array in self.state().items():
            array[:] = arrays[name]
        self.arrays.n_read[0] = n_read


@inlined
def recalled_hashes(last: Array, all_hashes: Array, hashes: Array) -> None:
    """hashes (F,) = those of the contexts of the tables. all_hashes: scratch memory, (N_HASHED,) int64."""
    context_hashes(last, all_hashes)
    n = 0
    for kind in FROM_HASHES:
        hashes[n] = all_hashes[kind]
        n += 1
    h = all_hashes[LONGEST - 2]
    for e in range(LONGEST, CONTEXT_REACH):
        h = hashed(h, last[e] + 1)
        if e + 1 == 8 or e + 1 == 12 or e + 1 == 16:
            hashes[n] = h
            n += 1
    for kind in FROM_WORDS:
        hashes[n] = all_hashes[kind]
        n += 1


@inlined
def _recall(hashes: Array, a: RecallArrays) -> None:
    """Fills in the values of the position n_read."""
    values = a.values[a.n_read[0] & (a.values.shape[0] - 1)]
    for f in range(hashes.size):
        entry = np.int64(a.tables[f, hashes[f] & (a.tables.shape[1] - 1)])
        known = entry != 0 and entry >> 24 == hashes[f] >> 24
        values[f] = entry & 0xFFFF if known else 0
        for x in range(len(OTHERS)):
            if OTHERS[x] == f:
                repeated = 2 if entry >> 8 & 255 > 1 else 1
                values[hashes.size + x] = repeated << 8 | (entry >> 16 & 255) if known else 0


@inlined
def _remember(symbol: Any, hashes: Array, tables: Array) -> None:
    """The tables after the symbol followed the contexts of these hashes."""
    for f in range(hashes.size):
        place, check = hashes[f] & (tables.shape[1] - 1), hashes[f] >> 24
        entry: Any = np.int64(tables[f, place])
        if entry == 0 or entry >> 24 != check:
            entry = symbol << 16 | 1 << 8 | symbol
        elif entry & 255 == symbol:
            entry = entry & 0xFF00FF | min((entry >> 8 & 255) + 1, MOST_SUCCESSIONS) << 8
        else:
            entry = (entry & 255) << 16 | 1 << 8 | symbol
        tables[f, place] = np.uint32(check << 24 | entry)


@kernel
def read_symbols(symbols: Array, a: RecallArrays) -> None:
    """Reads symbols (n,) int64: each enters the tables, and the values of the position after it are filled in."""
    all_hashes, hashes = np.empty(N_HASHED, np.int64), np.empty(N_RECALL_TABLES, np.int64)
    recalled_hashes(a.last, all_hashes, hashes)
    for i in range(symbols.size):
        if a.learns:
            _remember(symbols[i], hashes, a.tables)
        for e in range(a.last.size - 1, 0, -1):
            a.last[e] = a.last[e - 1]
        a.last[0] = symbols[i]
        a.n_read[0] += 1
        recalled_hashes(a.last, all_hashes, hashes)
        _recall(hashes, a)
