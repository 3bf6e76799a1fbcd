"""How novel a byte is: whether it is copied, how often its trigram occurred before, how common its word is in the corpus.

docs/MEASURES.md defines the classes. Each labels the bytes of a corpus in one pass, in consecutive stretches, with limited
memory. Every copy and every word is compared byte by byte. The counts of all 2**24 trigrams fit into 64 MiB, without hashing;
those of four bytes would need 16 GiB.

The hash of a window or word is a polynomial modulo the prime 2**61 - 1, at a point that depends on all bytes of the corpus. So
nobody can choose bytes that collide (n different windows or words of 1 GiB have fewer than n colliding pairs on average), and the
result is the same on every machine.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from prequential.machine.compiled import Array, inlined, kernel

MATCH_BYTES = 32
MAX_MATCH_SLOTS = 1 << 26  # 256 MiB; with more than 3/4 as many different windows, some are forgotten
MAX_WORD_SLOTS = 1 << 23  # 96 MiB; further words, beyond 3/4 as many, count as words that occur once
CHUNK = 1 << 20  # bytes that are read at a time
N_DECILES = 10

PRIME, PRIME_BITS = np.uint64((1 << 61) - 1), np.uint64(61)
LOW_HALF, HALF_BITS = np.uint64((1 << 32) - 1), np.uint64(32)
MIX_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio, which is odd
# state of Copies: end of the last match, windows held, windows overwritten
MATCH_END, N_WINDOWS, N_FORGOTTEN = range(3)
WORD_END, WORD_LABEL = range(2)  # state of Words: end and label of the last word

LETTERS = np.zeros(256, np.bool_)
LETTERS[[*range(0x41, 0x5B), *range(0x61, 0x7B), *range(0x80, 0x100)]] = True


def read_only(source: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same bytes as a plain read-only array. With a single type, kernels are compiled once."""
    view = np.ascontiguousarray(source).view(np.ndarray)
    view.flags.writeable = False
    return view


def hash_point(source: NDArray[np.uint8]) -> np.uint64:
    """Where the polynomials of the hashes are evaluated: 32 bits from all bytes of the corpus."""
    return np.uint64(int.from_bytes(hashlib.blake2b(source.data, digest_size=4).digest()) | 1 << 31)


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
        highest = pow(int(self._point), MATCH_BYTES, int(PRIME))  # the factor of the byte that leaves the window
        self._leaving = np.array([-byte * highest % int(PRIME) for byte in range(256)], np.uint64)

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


class Trigrams:
    """Counts the trigrams of `source` (n,) uint8. Takes 4 k**3 bytes if k different bytes occur: at most 64 MiB."""

    def __init__(self, source: NDArray[np.uint8]) -> None:
        occurs = np.zeros(256, np.bool_)
        for start in range(0, len(source), CHUNK):
            occurs[source[start : start + CHUNK]] = True
        self._n_kinds, self._kinds = int(occurs.sum()), np.cumsum(occurs) - 1
        self._source, self._counts = read_only(source), np.zeros(max(1, self._n_kinds**3), np.uint32)

    def next_counts(self, start: int, end: int) -> NDArray[np.uint32]:
        """(end - start,): k of a byte that ends its trigram's k-th occurrence, 1 for the first two, in consecutive stretches."""
        counts = np.empty(end - start, np.uint32)
        _count_trigrams(self._source, start, self._kinds, self._n_kinds, self._counts, counts)
        return counts

    @property
    def most(self) -> int:
        """Occurrences so far of the most common trigram."""
        return int(self._counts.max())

    def totals(self, start: int, end: int) -> NDArray[np.uint32]:
        """(end - start,): occurrences of each byte's trigram in all stretches so far; 1 for the corpus's first two bytes."""
        totals = np.ones(end - start, np.uint32)
        first = max(start, 2)
        kinds = self._kinds[self._source[first - 2 : end]]
        totals[first - start :] = self._counts[(kinds[:-2] * self._n_kinds + kinds[1:-1]) * self._n_kinds + kinds[2:]]
        return totals


class Words:
    """How common the word of each byte of `source` (n,) uint8 is.

    Words with equal numbers of occurrences form a class. times (C,) int64: these numbers, ascending. n_distinct (C,): the number
    of words in each class. deciles (C,): all occurrences, those of the most common words first, are cut into ten equal parts; a
    class belongs to the part that contains its middle occurrence, 0 for the most common words. So a part may have no class.
    n_untracked: occurrences of words that are not in the table, to save memory; they count as words that occur once.
    """

    times: NDArray[np.int64]
    n_distinct: NDArray[np.int64]

    def __init__(self, source: NDArray[np.uint8], max_slots: int = MAX_WORD_SLOTS) -> None:
        self._source = read_only(source)
        n_slots = _n_slots(len(source), max_slots)
        table, counts = np.zeros(n_slots, np.uint64), np.zeros(n_slots, np.uint32)
        self._lookup = LETTERS, hash_point(self._source), table, np.uint64(len(source).bit_length())
        self.n_untracked: int = int(_count_words(self._source, *self._lookup, counts))
        times, n_distinct = np.unique(counts[counts > 0].astype(np.int64), return_counts=True)
        if self.n_untracked and not (len(times) and times[0] == 1):
            times, n_distinct = np.insert(times, 0, 1), np.insert(n_distinct, 0, 0)
        n_distinct[:1] += self.n_untracked
        self.times, self.n_distinct = times, n_distinct
        rarer = np.cumsum(times * n_distinct)
        n_words = int(rarer[-1]) if len(rarer) else 0
        n_more_common = n_words - rarer  # occurrences of words in more common classes
        self.deciles: NDArray[np.int64] = N_DECILES * (2 * n_more_common + times * n_distinct) // max(2 * n_words, 1)
        used, self._decile_of = np.flatnonzero(counts), np.zeros(n_slots, np.uint8)  # of each slot
        self._decile_of[used] = self.deciles[np.searchsorted(times, counts[used])]
        self._rarest = int(self.deciles[0]) if len(self.deciles) else N_DECILES - 1
        self._state = np.zeros(2, np.int64)

    def next_labels(self, start: int, end: int) -> NDArray[np.uint8]:
        """(end - start,): the decile of each byte's word, or N_DECILES outside words. Call it for consecutive stretches."""
        labels = np.empty(end - start, np.uint8)
        _mark_words(self._source, start, *self._lookup, self._decile_of, self._rarest, self._state, labels)
        return labels


def _n_slots(n_keys: int, most: int) -> int:
    """A power of 2 of which n_keys fill at most 3/4, but at most `most`."""
    return min(1 << max(n_keys + n_keys // 2, 16).bit_length(), most)


@inlined
def _times(a: np.uint64, b: np.uint64) -> np.uint64:
    """A number below 2**61 + 4 that is a * b modulo PRIME, for a <= 2**61 + 2**32 and b < 2**32."""
    high, low = (a >> HALF_BITS) * b, (a & LOW_HALF) * b
    # high * 2**32 = (high >> 29) * 2**61 + the rest, and 2**61 is 1. The sum of the four terms is below 2**63.
    rest = (high & ((np.uint64(1) << np.uint64(29)) - np.uint64(1))) << HALF_BITS
    total = (high >> np.uint64(29)) + rest + (low >> PRIME_BITS) + (low & PRIME)
    return (total & PRIME) + (total >> PRIME_BITS)


@inlined
def _reduced(a: np.uint64) -> np.uint64:
    """a modulo PRIME, for a < 2**63."""
    a = (a & PRIME) + (a >> PRIME_BITS)
    return a - PRIME if a >= PRIME else a


@inlined
def _mixed(key: np.uint64) -> np.uint64:
    """A one-to-one mapping whose upper half gives the home slot, and the lower half the tag."""
    key = (key ^ (key >> np.uint64(29))) * MIX_FACTOR
    return key ^ (key >> HALF_BITS)


@kernel
def _mark_copied(
    source: Array, start: int, point: np.uint64, leaving: Array, table: Array, position_bits: int, tag_mask: int,
    state: Array, copied: Array,
) -> None:  # fmt: skip
    """Fills copied (m,) for the m bytes from `start` on. A window at i, if it occurred before, makes bytes i to i + 31 copied."""
    last = source.size - MATCH_BYTES  # the last window's start
    window = np.uint64(0)
    if start <= last:
        for i in range(start, start + MATCH_BYTES):
            window = _reduced(_times(window, point) + np.uint64(source[i]))
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
                window = _times(window, point) + leaving[source[i]] + np.uint64(source[i + MATCH_BYTES])
                window = _reduced(window)
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


@kernel
def _count_trigrams(source: Array, start: int, kinds: Array, n_kinds: int, counts: Array, seen: Array) -> None:
    """Fills seen (m,) for the m bytes from `start` on."""
    for i in range(start, start + seen.size):
        if i < 2:
            seen[i - start] = 1
        else:
            trigram = (kinds[source[i - 2]] * n_kinds + kinds[source[i - 1]]) * n_kinds + kinds[source[i]]
            counts[trigram] += 1
            seen[i - start] = counts[trigram]


@inlined
def _read_word(source: Array, start: int, letters: Array, point: np.uint64) -> tuple[int, np.uint64]:
    """The end of the word that begins at `start`, and its hash."""
    end, key = start, np.uint64(0)
    while end < source.size and letters[source[end]]:
        key = _times(key, point) + np.uint64(source[end])
        end += 1
    return end, key


@inlined
def _find_word(
    source: Array, start: int, end: int, key: np.uint64, letters: Array, table: Array, position_bits: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """The slot that holds the word, or the empty slot where it belongs; and the word's entry: (tag, start + 1), 0 if empty."""
    mixed, last_slot = _mixed(key), np.uint64(table.size - 1)
    entry = (mixed << position_bits) | np.uint64(start + 1)
    slot = (mixed >> HALF_BITS) & last_slot
    while table[slot] != 0:
        if table[slot] >> position_bits == entry >> position_bits:
            earlier = np.int64(table[slot] & ((np.uint64(1) << position_bits) - np.uint64(1))) - 1
            if _same_word(source, earlier, start, end, letters):
                break
        slot = (slot + np.uint64(1)) & last_slot
    return slot, entry


@inlined
def _same_word(source: Array, earlier: int, start: int, end: int, letters: Array) -> bool:
    """Whether the word that begins at `earlier` has the bytes from start to end."""
    after = earlier + end - start
    if after > source.size or (after < source.size and letters[source[after]]):
        return False
    for j in range(end - start):  # noqa: SIM110  # numba has no generators
        if source[earlier + j] != source[start + j]:
            return False
    return True


@kernel
def _count_words(
    source: Array, letters: Array, point: np.uint64, table: Array, position_bits: np.uint64, counts: Array
) -> int:
    """Counts every word of the corpus; returns the number of occurrences left out because the table was full."""
    n_words, n_untracked, i = 0, 0, 0
    while i < source.size:
        if not letters[source[i]]:
            i += 1
            continue
        start = i
        i, key = _read_word(source, start, letters, point)
        slot, entry = _find_word(source, start, i, key, letters, table, position_bits)
        if table[slot] == 0:
            if 4 * (n_words + 1) > 3 * table.size:
                n_untracked += 1
                continue
            table[slot] = entry
            n_words += 1
        counts[slot] += 1
    return n_untracked


@kernel
def _mark_words(
    source: Array, start: int, letters: Array, point: np.uint64, table: Array, position_bits: np.uint64, decile_of: Array,
    rarest: int, state: Array, labels: Array,
) -> None:  # fmt: skip
    """Fills labels (m,) for the m bytes from `start` on. A word is read once, even if it spans several stretches."""
    for i in range(start, start + labels.size):
        if i >= state[WORD_END] and letters[source[i]]:
            state[WORD_END], key = _read_word(source, i, letters, point)
            slot, _ = _find_word(source, i, state[WORD_END], key, letters, table, position_bits)
            state[WORD_LABEL] = decile_of[slot] if table[slot] != 0 else rarest
        labels[i - start] = state[WORD_LABEL] if i < state[WORD_END] else N_DECILES
