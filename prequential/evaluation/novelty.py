"""How novel a byte is: whether it is copied, and how common its word is in the corpus.

docs/MEASURES.md defines the classes. Each labels the bytes of a corpus in one pass, in consecutive stretches, with limited
memory. Every copy is compared byte by byte.

The hash of a window is a polynomial modulo 2**64, at a point that depends on all bytes of the corpus. So bytes that collide are
hard to choose, and the result is the same on every machine.
"""

import hashlib
import re
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from prequential.machine.compiled import Array, inlined, kernel

MATCH_BYTES = 32
MAX_MATCH_SLOTS = 1 << 26  # 256 MiB; with more than 3/4 as many different windows, some are forgotten
MAX_WORDS = 1 << 21  # some 300 MB; further words count as words that occur once
N_DECILES = 10

WORD = re.compile(rb"[A-Za-z\x80-\xff]+")
HALF_BITS = np.uint64(32)
MIX_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio, which is odd
# state of Copies: end of the last match, windows held, windows overwritten
MATCH_END, N_WINDOWS, N_FORGOTTEN = range(3)


def read_only(source: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same bytes as a plain read-only array. With a single type, kernels are compiled once."""
    view = np.ascontiguousarray(source).view(np.ndarray)
    view.flags.writeable = False
    return view


def hash_point(source: NDArray[np.uint8]) -> np.uint64:
    """Where the polynomials of the hashes are evaluated: an odd number from all bytes of the corpus."""
    return np.uint64(int.from_bytes(hashlib.blake2b(source.data, digest_size=8).digest()) | 1)


class Copies:
    """Which bytes of `source` (n,) uint8 are copied (docs/MEASURES.md).

    max_slots: a power of 2 that limits the memory, 4 bytes for each slot (8 from 4 GiB on). With more windows than 3/4 of it,
    some are forgotten, and some copied bytes count as novel. A novel byte never counts as copied.
    """

    def __init__(self, source: NDArray[np.uint8], max_slots: int = MAX_MATCH_SLOTS) -> None:
        self._source = read_only(source)
        self._position_bits = len(source).bit_length()
        dtype = np.uint32 if self._position_bits <= 32 else np.uint64
        self._table = np.zeros(_n_slots(len(source), max_slots * 4 // np.dtype(dtype).itemsize), dtype)
        self._state = np.zeros(3, np.int64)
        self._point = hash_point(self._source)
        self._leaving = np.uint64(
            pow(int(self._point), MATCH_BYTES, 1 << 64)
        )  # the factor of the byte that leaves the window

    @property
    def n_forgotten(self) -> int:
        """Windows that were overwritten or not kept."""
        return int(self._state[N_FORGOTTEN])

    def next_labels(self, start: int, end: int) -> NDArray[np.uint8]:
        """(end - start,): 1 for a copied byte, 0 for a novel one. Call it for consecutive stretches."""
        labels = np.empty(end - start, np.uint8)
        tag_bits = min(8 * self._table.itemsize - self._position_bits, 32)
        _mark_copied(
            self._source, start, self._point, self._leaving, self._table, self._position_bits, (1 << tag_bits) - 1,
            self._state, labels,
        )  # fmt: skip
        return labels


class Words:
    """How common the word of each byte of `source` (n,) uint8 is.

    Words with equal numbers of occurrences form a class. times (C,) int64: these numbers, ascending. n_distinct (C,): the number
    of words in each class. deciles (C,): all occurrences, those of the most common words first, are cut into ten equal parts; a
    class belongs to the part that contains its middle occurrence, 0 for the most common words. So a part may have no class.
    n_untracked: occurrences of words beyond the first max_words different ones; they count as words that occur once.
    """

    def __init__(self, source: NDArray[np.uint8], max_words: int = MAX_WORDS) -> None:
        words = read_only(source).data
        self._counts: Counter[bytes] = Counter()
        self.n_untracked = 0
        for found in WORD.finditer(words):
            word = found.group()
            if word in self._counts or len(self._counts) < max_words:
                self._counts[word] += 1
            else:
                self.n_untracked += 1
        classes = Counter(self._counts.values())
        if self.n_untracked:
            classes[1] += self.n_untracked
        self.times: NDArray[np.int64] = np.array(sorted(classes), np.int64)
        self.n_distinct: NDArray[np.int64] = np.array([classes[times] for times in self.times.tolist()], np.int64)
        occurrences = self.times * self.n_distinct
        n_words = int(occurrences.sum())
        n_more_common = n_words - np.cumsum(occurrences)  # occurrences of words in more common classes
        self.deciles: NDArray[np.int64] = N_DECILES * (2 * n_more_common + occurrences) // max(2 * n_words, 1)
        self._decile_of = dict(zip(self.times.tolist(), self.deciles.tolist(), strict=True))
        self._words = WORD.finditer(words)
        self._word = next(self._words, None)

    def next_labels(self, start: int, end: int) -> NDArray[np.uint8]:
        """(end - start,): the decile of each byte's word, or N_DECILES outside words. Call it for consecutive stretches."""
        labels = np.full(end - start, N_DECILES, np.uint8)
        while self._word and self._word.start() < end:
            times = self._counts.get(self._word.group(), 1)
            labels[max(self._word.start() - start, 0) : self._word.end() - start] = self._decile_of[times]
            if self._word.end() > end:
                break
            self._word = next(self._words, None)
        return labels


def _n_slots(n_keys: int, most: int) -> int:
    """A power of 2 of which n_keys fill at most 3/4, but at most `most`."""
    return min(1 << max(n_keys + n_keys // 2, 16).bit_length(), most)


@inlined
def _mixed(key: np.uint64) -> np.uint64:
    """A one-to-one mapping whose upper half gives the home slot, and the lower half the tag."""
    key = (key ^ (key >> np.uint64(29))) * MIX_FACTOR
    return key ^ (key >> HALF_BITS)


@kernel
def _mark_copied(
    source: Array, start: int, point: np.uint64, leaving: np.uint64, table: Array, position_bits: int, tag_mask: int,
    state: Array, copied: Array,
) -> None:  # fmt: skip
    """Fills copied (m,) for the m bytes from `start` on. A window at i, if it occurred before, makes bytes i to i + 31 copied."""
    last = source.size - MATCH_BYTES  # the last window's start
    window = np.uint64(0)
    if start <= last:
        for i in range(start, start + MATCH_BYTES):
            window = window * point + np.uint64(source[i])
    earlier = -1  # where the previous window began when it occurred first
    for i in range(start, start + copied.size):
        if i <= last:
            if earlier >= 0 and source[earlier + MATCH_BYTES] == source[i + MATCH_BYTES - 1]:
                earlier += 1
            else:
                earlier = _find_or_add(source, i, window, table, np.uint64(position_bits), np.uint64(tag_mask), state)
            if earlier >= 0:
                state[MATCH_END] = i + MATCH_BYTES
            if i < last:
                window = window * point + np.uint64(source[i + MATCH_BYTES]) - leaving * np.uint64(source[i])
        copied[i - start] = i < state[MATCH_END]


@inlined
def _find_or_add(
    source: Array, at: int, window: np.uint64, table: Array, position_bits: np.uint64, tag_mask: np.uint64, state: Array
) -> np.int64 | int:
    """Where the window at `at` began before; if it is new, it is added to the table, and the result is -1.

    An entry is (tag, position + 1), 0 for an empty slot. The tag avoids most comparisons. Once 3/4 of the slots are used, a new
    window replaces the one in its home slot. So some slots stay empty, and probing always ends.
    """
    mixed, last_slot = _mixed(window), np.uint64(table.size - 1)
    home = (mixed >> HALF_BITS) & last_slot
    tag = mixed & tag_mask
    slot = home
    entry = np.uint64(table[slot])
    while entry != 0:
        if entry >> position_bits == tag:
            earlier = np.int64(entry & ((np.uint64(1) << position_bits) - np.uint64(1))) - 1
            if _same(source, earlier, at):
                return earlier
        slot = (slot + np.uint64(1)) & last_slot
        entry = np.uint64(table[slot])
    if 4 * (state[N_WINDOWS] + 1) <= 3 * table.size:
        state[N_WINDOWS] += 1
    else:
        state[N_FORGOTTEN] += 1
        slot = home
        if table[slot] == 0:  # it stays empty
            return -1
    table[slot] = (tag << position_bits) | np.uint64(at + 1)
    return -1


@inlined
def _same(source: Array, a: int, b: int) -> bool:
    for j in range(MATCH_BYTES):  # noqa: SIM110  # numba has no generators
        if source[a + j] != source[b + j]:
            return False
    return True
