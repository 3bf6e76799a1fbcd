"""Where a context's nodes and run are: two hashed tables, and how contexts are found in them, made and replaced.

A bucket is one cache line for each half byte of a context; a deterministic context, which one byte always followed, has an entry
of four bytes instead. docs/FORMAT.md describes both. The second half of a byte is a context of its own.
"""

from typing import Any, NamedTuple

import numpy as np

from prequential.machine.atomics import prefetch
from prequential.machine.compiled import Array, inlined, span
from prequential.model.hashing import HASH_MASK, hashed
from prequential.model.mixer.nodes import (
    DETERMINISTIC_NODE,
    HISTORY_AGE,
    HISTORY_SHIFT,
    MAX_SEEN,
    NEW_NODE,
    node_after,
    run_after,
    run_of,
)

SLOTS = 16  # numbers in a bucket: the head and 15 nodes
CHECK_SHIFT = 20  # the bits of a head below it are the run
NONE = -1
ENTRIES_PER_BUCKET = 2  # of deterministic contexts
WAYS = 4  # entries in which a deterministic context may be
CANDIDATES = 3  # rows in which the bucket of a hash may be


@inlined
def home_of(regions: Array, c: int, h: int) -> int:
    """The first row of the table in which the bucket of the hash h of context c may be. regions (C, 2): see arrays.py."""
    return regions[c, 0] + (((h * 0x2545F491) & HASH_MASK) * regions[c, 1] >> 32)


@inlined
def check_of(h: int) -> Any:
    """The bits of a hash that the head of its bucket keeps; not 0, which marks a bucket as unused."""
    return max(h >> CHECK_SHIFT, 1)


@inlined
def bucket_of(table: Array, home: int, h: int) -> Any:
    """The row of `table` that belongs to the hash h, or NONE. home: its first candidate."""
    for k in range(CANDIDATES):
        if np.int64(table[np.uint64(home ^ k), 0]) >> CHECK_SHIFT == check_of(h):
            return home ^ k
    return NONE


@inlined
def new_bucket(table: Array, home: int, h: int) -> Any:
    """An empty row for the hash h. It replaces the youngest of the candidates."""
    youngest: Any = 1 << 30
    row: Any = home
    for k in range(CANDIDATES):
        head, first = table[home ^ k, 0], np.int64(table[home ^ k, 1])
        age = np.int64(HISTORY_AGE[first >> HISTORY_SHIFT]) if head != 0 else -1
        if age < youngest:
            youngest, row = age, home ^ k
    for k in range(1, SLOTS):
        table[row, k] = NEW_NODE
    table[row, 0] = np.uint32(check_of(h) << CHECK_SHIFT)
    return row


@inlined
def divide(table: Array, home: int, h: int, half: int, n: int, new_half: int) -> Any:
    """A new row for the hash h, whose nodes have seen the four bits of `half` n times, and then those of `new_half`."""
    row = new_bucket(table, home, h)
    node = 1
    for k in range(4):
        bit = half >> (3 - k) & 1
        table[row, node] = DETERMINISTIC_NODE[n, bit]
        node = node << 1 | bit
    node = 1
    for k in range(4):
        bit = new_half >> (3 - k) & 1
        table[row, node] = node_after(np.int64(table[row, node]), bit)
        node = node << 1 | bit
    return row


@inlined
def first_entry_of(regions: Array, c: int, h: int) -> int:
    """The first of the WAYS entries in which the hash h of context c may be."""
    groups = ((h * 0x5851F42D) & HASH_MASK) * (regions[c, 1] * ENTRIES_PER_BUCKET // WAYS) >> 32
    return regions[c, 0] * ENTRIES_PER_BUCKET + groups * WAYS


@inlined
def entry_of(deterministic: Array, first: int, h: int) -> Any:
    """The entry of the hash h, or NONE. first: the first of its WAYS."""
    for k in range(WAYS):
        entry = np.int64(deterministic[np.uint64(first + k)])
        if entry >> 16 == h >> 16 and entry & 0xFFFF != 0:
            return first + k
    return NONE


@inlined
def make_entry(deterministic: Array, first: int, h: int, n: int, byte: int) -> None:
    """A new entry, the first of the WAYS. It replaces the one that was seen least often, the oldest of equals."""
    victim: Any = 0
    least: Any = MAX_SEEN + 1
    for k in range(WAYS):
        seen = np.int64(deterministic[first + k]) >> 8 & 255
        if seen <= least:
            victim, least = k, seen
    for k in range(victim, 0, -1):
        deterministic[first + k] = deterministic[first + k - 1]
    deterministic[first] = np.uint32((h >> 16) << 16 | n << 8 | byte)


class Places(NamedTuple):
    """Where contexts are, and which of them a thread looks after: those from `first` to before `stop`."""

    first: int
    stop: int
    regions: Array  # (C, 2) int64: arrays.regions_of
    table: Array  # (rows, SLOTS) uint32
    deterministic: Array  # (entries,) uint32
    hashes: Array  # (C,) int64: of the contexts
    heads: Array  # (C,) int64: their rows of the table in the first half of the byte; NONE: none
    buckets: Array  # (C,) int64: the same in this half of the byte
    only: Array  # (C,) int64: the entries of deterministic contexts without hashes; 0: none
    runs: Array  # (C,) int64: their runs (nodes.run_place)


@inlined
def fetch(places: Places, c: int, h: int) -> None:
    """Asks the memory for where the hash h of context c may be."""
    prefetch(places.table, home_of(places.regions, c, h) * SLOTS)
    prefetch(places.deterministic, first_entry_of(places.regions, c, h))


@inlined
def find_contexts(places: Places) -> None:
    """For each hash, its row in `heads` and `buckets`, or NONE; its entry in `only`, or 0; and its run."""
    for c in span(places.first, places.stop):
        row = find_context(places, c)
        places.heads[c] = places.buckets[c] = row
        if row != NONE:
            places.runs[c] = np.int64(places.table[np.uint64(row), 0]) & ((1 << CHECK_SHIFT) - 1)
        elif places.only[c] != 0:
            places.runs[c] = run_of(places.only[c] & 255, places.only[c] >> 8)
        else:
            places.runs[c] = 0


@inlined
def find_context(places: Places, c: int) -> Any:
    """The row of context c, or NONE. only[c] = its entry, or 0."""
    h = places.hashes[c]
    home = home_of(places.regions, c, h)
    places.only[c] = 0
    if np.int64(places.table[np.uint64(home), 0]) >> CHECK_SHIFT == check_of(h):
        return home
    place = entry_of(places.deterministic, first_entry_of(places.regions, c, h), h)
    if place == NONE:
        return bucket_of(places.table, home, h)
    places.only[c] = np.int64(places.deterministic[place]) & 0xFFFF
    return NONE


@inlined
def fetch_second_halves(places: Places, prefix: int) -> None:
    """Asks the memory for what `find_second_halves` will read."""
    for c in span(places.first, places.stop):
        if places.heads[c] != NONE:
            fetch(places, c, hashed(places.hashes[c], prefix))


@inlined
def find_second_halves(places: Places, prefix: int) -> None:
    """The same for the second half of a byte. Contexts that have a row in `heads` get the hash of context and first half."""
    for c in span(places.first, places.stop):
        places.buckets[c] = NONE
        if places.heads[c] != NONE:
            places.hashes[c] = hashed(places.hashes[c], prefix)
            places.buckets[c] = find_context(places, c)


@inlined
def remember(places: Places, byte: int) -> None:
    """The runs after one more byte, and what is known of contexts or halves without a row."""
    table, deterministic, regions = places.table, places.deterministic, places.regions
    for c in span(places.first, places.stop):
        h, row = places.hashes[c], places.heads[c]
        if row != NONE:
            taken = np.uint64(row)
            head = np.int64(table[taken, 0]) >> CHECK_SHIFT
            table[taken, 0] = head << CHECK_SHIFT | run_after(places.runs[c], byte)
        if places.buckets[c] != NONE:
            continue
        first, home = first_entry_of(regions, c, h), home_of(regions, c, h)
        place = entry_of(deterministic, first, h)
        if place == NONE:
            make_entry(deterministic, first, h, 1, byte)
            continue
        entry = np.int64(deterministic[place])
        known, n = entry & 255, entry >> 8 & 255
        if known == byte:
            if n < MAX_SEEN:
                deterministic[place] = np.uint32(entry + 256)
            continue
        deterministic[place] = 0
        if row != NONE:
            divide(table, home, h, known & 15, n, byte & 15)
            continue
        row = divide(table, home, h, known >> 4, n, byte >> 4)
        table[row, 0] = np.int64(table[row, 0]) | run_after(run_of(known, n), byte)
        half = hashed(h, 16 | byte >> 4)
        first = first_entry_of(regions, c, half)
        if known >> 4 == byte >> 4:
            divide(table, home_of(regions, c, half), half, known & 15, n, byte & 15)
        else:
            other = hashed(h, 16 | known >> 4)
            make_entry(deterministic, first_entry_of(regions, c, other), other, n, known)
            make_entry(deterministic, first, half, 1, byte)
