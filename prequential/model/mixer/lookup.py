"""Where a context's nodes and run are: two hashed tables, and how contexts are found in them, made and replaced.

A bucket is one cache line for each half byte of a context; a deterministic context, which one byte always followed, has an entry
of four bytes instead. docs/FORMAT.md describes both. The second half of a byte is a context of its own.
"""

from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined
from prequential.model.hashing import hashed
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
def home_of(h: int, mask: int) -> int:
    """The first row of the table in which the bucket of the hash h may be."""
    return ((h * 0x2545F491) >> 9) & mask


@inlined
def check_of(h: int) -> Any:
    """The bits of a hash that the head of its bucket keeps; not 0, which marks a bucket as unused."""
    return max(h >> CHECK_SHIFT, 1)


@inlined
def bucket_of(table: Array, h: int) -> Any:
    """The row of `table` that belongs to the hash h, or NONE."""
    home, check = home_of(h, table.shape[0] - 1), check_of(h)
    for k in range(CANDIDATES):
        if np.int64(table[home ^ k, 0]) >> CHECK_SHIFT == check:
            return home ^ k
    return NONE


@inlined
def new_bucket(table: Array, h: int) -> Any:
    """An empty row for the hash h. It replaces the youngest of the candidates."""
    home = home_of(h, table.shape[0] - 1)
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
def divide(table: Array, h: int, half: int, n: int, new_half: int) -> Any:
    """A new row for the hash h, whose nodes have seen the four bits of `half` n times, and then those of `new_half`."""
    row = new_bucket(table, h)
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
def first_entry_of(deterministic: Array, h: int) -> int:
    """The first of the WAYS entries in which the hash h may be."""
    return ((h * 0x5851F42D) >> 16) & (deterministic.size - WAYS)


@inlined
def entry_of(deterministic: Array, h: int) -> Any:
    """The entry of the hash h, or NONE."""
    first = first_entry_of(deterministic, h)
    for k in range(WAYS):
        entry = np.int64(deterministic[first + k])
        if entry >> 16 == h >> 16 and entry & 0xFFFF != 0:
            return first + k
    return NONE


@inlined
def make_entry(deterministic: Array, h: int, n: int, byte: int) -> None:
    """A new entry, the first of the WAYS. It replaces the one that was seen least often, the oldest of equals."""
    first = first_entry_of(deterministic, h)
    victim: Any = 0
    least: Any = MAX_SEEN + 1
    for k in range(WAYS):
        seen = np.int64(deterministic[first + k]) >> 8 & 255
        if seen <= least:
            victim, least = k, seen
    for k in range(victim, 0, -1):
        deterministic[first + k] = deterministic[first + k - 1]
    deterministic[first] = np.uint32((h >> 16) << 16 | n << 8 | byte)


@inlined
def find_contexts(table: Array, deterministic: Array, hashes: Array, heads: Array, only: Array, runs: Array) -> None:
    """heads[c] = the row of each hash, or NONE; only[c] = the entry of a deterministic context, or 0; runs[c] = its run.

    All places are read first, so that the memory fetches them at the same time.
    """
    for c in range(hashes.size):
        h = hashes[c]
        heads[c] = np.int64(table[home_of(h, table.shape[0] - 1), 0])
        only[c] = np.int64(deterministic[first_entry_of(deterministic, h)])
    for c in range(hashes.size):
        h = hashes[c]
        find_context(table, deterministic, c, h, heads, only)
        if heads[c] != NONE:
            runs[c] = np.int64(table[heads[c], 0]) & ((1 << CHECK_SHIFT) - 1)
        elif only[c] != 0:
            runs[c] = run_of(only[c] & 255, only[c] >> 8)
        else:
            runs[c] = 0


@inlined
def find_context(table: Array, deterministic: Array, c: int, h: int, rows: Array, only: Array) -> None:
    """rows[c], only[c] of the hash h; before, rows[c] has the head of the bucket at its home."""
    only[c] = 0
    if rows[c] >> CHECK_SHIFT == check_of(h):
        rows[c] = home_of(h, table.shape[0] - 1)
        return
    rows[c] = NONE
    place = entry_of(deterministic, h)
    if place == NONE:
        rows[c] = bucket_of(table, h)
    else:
        only[c] = np.int64(deterministic[place]) & 0xFFFF


@inlined
def find_second_halves(
    table: Array, deterministic: Array, hashes: Array, heads: Array, buckets: Array, only: Array, prefix: int
) -> None:
    """The same for the second half of a byte. Contexts that have a row in `heads` get the hash of context and first half."""
    for c in range(hashes.size):
        buckets[c] = NONE
        if heads[c] != NONE:
            h = hashed(hashes[c], prefix)
            hashes[c] = h
            buckets[c] = np.int64(table[home_of(h, table.shape[0] - 1), 0])
            only[c] = np.int64(deterministic[first_entry_of(deterministic, h)])
    for c in range(hashes.size):
        if heads[c] != NONE:
            find_context(table, deterministic, c, hashes[c], buckets, only)


@inlined
def remember(
    byte: int, table: Array, deterministic: Array, hashes: Array, heads: Array, buckets: Array, runs: Array
) -> None:
    """The runs after one more byte, and what is known of contexts or halves without a row."""
    for c in range(hashes.size):
        h = hashes[c]
        if heads[c] != NONE:
            head = np.int64(table[heads[c], 0]) >> CHECK_SHIFT
            table[heads[c], 0] = head << CHECK_SHIFT | run_after(runs[c], byte)
        if buckets[c] != NONE:
            continue
        place = entry_of(deterministic, h)
        if place == NONE:
            make_entry(deterministic, h, 1, byte)
            continue
        entry = np.int64(deterministic[place])
        known, n = entry & 255, entry >> 8 & 255
        if known == byte:
            if n < MAX_SEEN:
                deterministic[place] = np.uint32(entry + 256)
            continue
        deterministic[place] = 0
        if heads[c] != NONE:
            divide(table, h, known & 15, n, byte & 15)
            continue
        row = divide(table, h, known >> 4, n, byte >> 4)
        table[row, 0] = np.int64(table[row, 0]) | run_after(run_of(known, n), byte)
        if known >> 4 == byte >> 4:
            divide(table, hashed(h, 16 | byte >> 4), known & 15, n, byte & 15)
        else:
            make_entry(deterministic, hashed(h, 16 | known >> 4), n, known)
            make_entry(deterministic, hashed(h, 16 | byte >> 4), 1, byte)
