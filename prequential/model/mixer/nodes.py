"""What the mixer remembers of each context: buckets, nodes and runs, and the inputs that they give.

    bucket    one cache line of a hashed table, for each context and half byte: a head and 15 nodes, which are the inner nodes of
              the binary tree of the half byte
    head      12 bits of the hash, so that another context is noticed; and the run: the last byte seen in this context, the
              last one that differed from it, and how often the last one was repeated
    once      two bytes in another hashed table: a context that was seen once has no bucket. 8 bits of its hash, and the byte that
              followed. When the context comes again, its buckets are made of that byte
    node      9 bits: a bounded history of the bits seen here (histories.py); 18 bits: an adaptive probability; 5 bits: its age

Each context gives four inputs, all log-odds: of its history, of the node itself, of the run, and of history and run together. An
input is 0 where its history or its run is new.

Units: log-odds in 1/256 nat; probabilities of a one in 2**-22 with an age in the lowest 10 bits ("packed"), unless stated.
"""

from typing import Any

import numpy as np

from prequential.compiled import Array, inlined, merged
from prequential.exact.log_odds import log_odds_tables
from prequential.model.hashing import hashed
from prequential.model.mixer.histories import HISTORY_AGE, HISTORY_GROUP, HISTORY_PROBABILITY, N_GROUPS, NEXT_HISTORY

SLOTS = 16  # numbers in a bucket: the head and 15 nodes
INPUTS_PER_CONTEXT = 4
NEW_NODE = np.uint32(1 << 22)  # no history, probability 1/2, age 0
P_BITS, AGE_BITS = 18, 5
HISTORY_SHIFT, CHECK_SHIFT = P_BITS + AGE_BITS, 20
NO_RUN = NONE = -1
CANDIDATES = 3  # rows in which the bucket of a hash may be
RUN_MAP = 128  # entries: 16 lengths, 4 phases of the byte, whether the byte before differed
RUN_STATES = 5  # of the run, in a pair map: it expects nothing, or by a byte seen last or before, zero or one
AGE_LIMIT, NODE_AGE_LIMIT = 1023, 31
STRETCH = log_odds_tables()[0].astype(np.int16)  # (4096,): log-odds of a probability in 2**-12
RECIPROCAL = np.array([65536 * 2 // (2 * n + 3) for n in range(1024)], np.int64)  # 1 / (n + 1.5)
NODE_RATE = np.array([655360 // (14 * n + 16) for n in range(NODE_AGE_LIMIT + 1)], np.int64)  # 1 / (1.4 n + 1.6)


@inlined
def clamp(x: Any, low: Any, high: Any) -> Any:
    return max(low, min(high, x))


@inlined
def step_towards(packed: int, bit: int) -> int:
    """An adaptive probability, after one more observation. Its upper 22 bits are the probability, its lower 10 bits the age."""
    age = packed & 1023
    p = packed >> 10
    p += (((bit << 22) - p) * RECIPROCAL[age]) >> 16
    return (p << 10) | min(age + 1, AGE_LIMIT)


@inlined
def log_odds_of(packed: Any) -> Any:
    """The log-odds of a packed probability."""
    return np.int64(STRETCH[np.int64(packed) >> 20])


@inlined
def signed(bit: int, x: Any) -> Any:
    """x for a one, -x for a zero."""
    return x if bit else -x


@inlined
def home_of(h: int, mask: int) -> int:
    """The first row of the table in which the bucket of the hash h may be."""
    return ((h * 0x2545F491) >> 9) & mask


@inlined
def check_of(h: int) -> Any:
    """The bits of a hash that the head of its bucket keeps; not 0, which marks a bucket as unused."""
    return max(h >> CHECK_SHIFT, 1)


@inlined
def node_after(node: int, bit: int) -> int:
    """A node after one more bit."""
    history, p, age = node >> HISTORY_SHIFT, node >> AGE_BITS & ((1 << P_BITS) - 1), node & NODE_AGE_LIMIT
    p += (((bit << P_BITS) - p) * NODE_RATE[age] + 32768) >> 16
    p = clamp(p, 32, (1 << P_BITS) - 32)
    return np.int64(NEXT_HISTORY[history, bit]) << HISTORY_SHIFT | p << AGE_BITS | min(age + 1, NODE_AGE_LIMIT)


@inlined
def bucket_of(table: Array, h: int) -> Any:
    """The row of `table` that belongs to the hash h, or NONE."""
    home, check = home_of(h, table.shape[0] - 1), check_of(h)
    for k in range(CANDIDATES):
        if np.int64(table[home ^ k, 0]) >> CHECK_SHIFT == check:
            return home ^ k
    return NONE


@inlined
def make_bucket(table: Array, h: int, half: int) -> Any:
    """A row for the hash h, whose nodes have seen the four bits of `half`. It replaces the youngest of the candidates."""
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
    node = 1
    for k in range(4):
        bit = half >> (3 - k) & 1
        table[row, node] = node_after(np.int64(NEW_NODE), bit)
        node = node << 1 | bit
    return row


@inlined
def place_in_once(once: Array, h: int) -> int:
    return ((h * 0x5851F42D) >> 16) & (once.size - 1)


@inlined
def seen_once(once: Array, h: int) -> Any:
    """The byte that followed the context of this hash when it was seen for the first time; NONE if it was not seen."""
    entry = np.int64(once[place_in_once(once, h)])
    return entry & 255 if entry >> 8 == max(h >> 24, 1) else NONE


@inlined
def remember_once(once: Array, h: int, byte: int) -> None:
    once[place_in_once(once, h)] = max(h >> 24, 1) << 8 | byte


@inlined
def find_buckets(table: Array, once: Array, hashes: Array, heads: Array, runs: Array, learns: bool) -> None:
    """heads[c] = the row of each hash, or NONE; runs[c] = the run of its context.

    A context that is seen for the second time gets a row, except from a mixer that does not learn. All home rows are read
    first, so that the memory fetches them at the same time.
    """
    for c in range(hashes.size):
        heads[c] = np.int64(table[home_of(hashes[c], table.shape[0] - 1), 0])
    for c in range(hashes.size):
        h = hashes[c]
        heads[c] = home_of(h, table.shape[0] - 1) if heads[c] >> CHECK_SHIFT == check_of(h) else bucket_of(table, h)
        runs[c] = seen_once(once, h) if heads[c] == NONE else NONE
    for c in range(hashes.size):
        h, byte = hashes[c], runs[c]
        if heads[c] != NONE:
            runs[c] = np.int64(table[heads[c], 0]) & ((1 << CHECK_SHIFT) - 1)
        elif byte == NONE:
            runs[c] = 0
        else:
            runs[c] = run_after(0, byte)
            if learns:
                heads[c] = make_bucket(table, h, byte >> 4)
                remember_once(once, hashed(h, 16 | byte >> 4), byte)


@inlined
def find_second_buckets(
    table: Array, once: Array, hashes: Array, heads: Array, buckets: Array, prefix: int, learns: bool
) -> None:
    """The same for the second half of a byte, with the hash of context and first half. Contexts without a row get none here.

    hashes: of the contexts; receives the new ones of those that have a row in `heads`.
    """
    for c in range(hashes.size):
        buckets[c] = NONE
        if heads[c] != NONE:
            hashes[c] = hashed(hashes[c], prefix)
            buckets[c] = np.int64(table[home_of(hashes[c], table.shape[0] - 1), 0])
    for c in range(hashes.size):
        if heads[c] != NONE:
            h = hashes[c]
            if buckets[c] >> CHECK_SHIFT == check_of(h):
                buckets[c] = home_of(h, table.shape[0] - 1)
            else:
                buckets[c] = bucket_of(table, h)
                byte = seen_once(once, h) if buckets[c] == NONE else NONE
                if byte != NONE and learns:
                    buckets[c] = make_bucket(table, h, byte & 15)


@inlined
def remember(byte: int, table: Array, once: Array, hashes: Array, heads: Array, buckets: Array, runs: Array) -> None:
    """The runs after one more byte. A context or half without a row is remembered as seen once."""
    for c in range(hashes.size):
        if buckets[c] == NONE:
            remember_once(once, hashes[c], byte)
        if heads[c] != NONE:
            head = np.int64(table[heads[c], 0]) >> CHECK_SHIFT
            table[heads[c], 0] = head << CHECK_SHIFT | run_after(runs[c], byte)


# ---- runs


@inlined
def log_odds_of_share(p: Any) -> Any:
    """The log-odds of a probability in 2**-16, below one."""
    return np.int64(STRETCH[p >> 4])


@inlined
def expected_bit(byte: int, prefix: int, k: int) -> int:
    """The next bit if the byte is `byte`; -1 if its first k bits are not those of the prefix."""
    if (byte | 256) >> (8 - k) != prefix:
        return -1
    return byte >> (7 - k) & 1


@inlined
def run_place(run: int, prefix: int, k: int) -> int:
    """The entry of the run map, times 2, plus the bit that the run expects; NO_RUN if it expects none.

    run: the byte before << 12 | the last byte << 4 | its repetitions, as in the head of a bucket.
    """
    n = run & 15
    if n == 0:
        return NO_RUN
    phase = k if k < 2 else 2 if k < 5 else 3
    byte, before = run >> 4 & 255, run >> 12 & 255
    bit = expected_bit(byte, prefix, k)
    if bit >= 0:
        return (((n << 2 | phase) << 1) | (1 if byte != before else 0)) << 1 | bit
    bit = expected_bit(before, prefix, k)
    return (phase << 1) << 1 | bit if bit >= 0 else NO_RUN


@inlined
def run_after(run: int, byte: int) -> int:
    """The run after one more byte."""
    n, last = run & 15, run >> 4 & 255
    if n == 0:
        return byte << 12 | byte << 4 | 1
    if last == byte:
        return (run & 0xFFFF0) | min(n + 1, 15)
    return last << 12 | byte << 4 | 1


# ---- inputs


@merged
def read_contexts(
    prefix: int, k: int, node: int, table: Array, buckets: Array, runs: Array, history_maps: Array, run_maps: Array,
    pair_maps: Array, seen: Array, places: Array, inputs: Array,
) -> None:  # fmt: skip
    """Fills in the inputs of each context, and what `learn_contexts` needs: seen, the histories; places, those of the runs."""
    n = 0
    for c in range(buckets.size):
        v = np.int64(table[buckets[c], node]) if buckets[c] != NONE else 0
        history = v >> HISTORY_SHIFT
        place = run_place(runs[c], prefix, k)
        seen[c], places[c] = history, place
        if history == 0:
            inputs[n] = inputs[n + 1] = inputs[n + 3] = 0
        else:
            inputs[n] = log_odds_of(history_maps[c, history])
            inputs[n + 1] = STRETCH[v >> 11 & 0xFFF]
            inputs[n + 3] = log_odds_of(pair_maps[c, pair_of(history, place)])
        inputs[n + 2] = 0 if place < 0 else signed(place & 1, log_odds_of(run_maps[c, place >> 1]))
        n += INPUTS_PER_CONTEXT


@inlined
def pair_of(history: int, place: int) -> Any:
    """The entry of a pair map: the group of the history, and the state of the run."""
    state = 0 if place < 0 else 1 + (place & 1) + (2 if place < 16 else 0)
    return np.int64(HISTORY_GROUP[history]) * RUN_STATES + state


@merged
def learn_contexts(
    bit: int, node: int, table: Array, buckets: Array, history_maps: Array, run_maps: Array, pair_maps: Array, seen: Array,
    places: Array,
) -> None:  # fmt: skip
    """Moves everything that `read_contexts` read towards the bit."""
    for c in range(buckets.size):
        if buckets[c] == NONE:
            continue
        if seen[c] != 0:  # not `history`: two contexts may share a bucket, and the other one has learned already
            history_maps[c, seen[c]] = step_towards(np.int64(history_maps[c, seen[c]]), bit)
            pair = pair_of(seen[c], places[c])
            pair_maps[c, pair] = step_towards(np.int64(pair_maps[c, pair]), bit)
        table[buckets[c], node] = node_after(np.int64(table[buckets[c], node]), bit)
        if places[c] >= 0:
            place = places[c] >> 1
            run_maps[c, place] = step_towards(np.int64(run_maps[c, place]), 1 if places[c] & 1 == bit else 0)


# ---- probabilities at the start


def first_run_maps() -> Array:
    """(RUN_MAP,) int64 in units of 2**-22: a run goes on more likely, the longer it is."""
    n = np.arange(RUN_MAP) >> 3
    differed = np.arange(RUN_MAP) & 1
    certain = ((n + 1) * 10 << 22) // ((n + 1) * 10 + np.where(differed, 12, 6))
    return np.where(n == 0, 24 << 16, certain)


def first_pair_maps() -> Array:
    """(N_GROUPS * RUN_STATES,) int64 in units of 2**-22: the probability of a history of the group."""
    by_group = np.zeros(N_GROUPS, np.int64)
    by_group[HISTORY_GROUP] = HISTORY_PROBABILITY
    return np.repeat(by_group, RUN_STATES)
