"""What the mixer remembers of each context: buckets, nodes and runs, and the inputs that they give.

    deterministic   four bytes in a hashed table, for a context that was always followed by one byte: 16 bits of its hash, how
                    often it was, and the byte. It has no bucket
    bucket          one cache line of a hashed table, for each half byte of a context that was followed by different bytes: a
                    head and 15 nodes, which are the inner nodes of the binary tree of the half byte
    head            12 bits of the hash, so that another context is noticed; and the run: the last byte seen in this context, the
                    last one that differed from it, and how often the last one was repeated
    node            9 bits: a bounded history of the bits seen here (histories.py); 18 bits: an adaptive probability; 5 bits: its
                    age in steps

The nodes of a deterministic context are known from its byte and how often it was seen. So predictions are the same as from a
bucket, and a bucket is made when another byte follows. The second half of a byte is a context of its own, with its own entry.

Each context gives four log-odds: of the node itself, of history and run together, of its history, and of the run. The last two
have other weights in a deterministic context, and the history has others where both bits were seen: so there are
INPUTS_PER_CONTEXT inputs, of which at most four are not 0.

Units: log-odds in 1/256 nat; probabilities of a one in 2**-22 with an age in the lowest 10 bits ("packed"), unless stated.
"""

from typing import Any

import numpy as np

from prequential.compiled import Array, inlined, merged
from prequential.exact.log_odds import log_odds_tables
from prequential.model.hashing import hashed
from prequential.model.mixer.histories import (
    HISTORY_AGE,
    HISTORY_GROUP,
    HISTORY_PROBABILITY,
    N_GROUPS,
    NEXT_HISTORY,
    ONE_BIT,
)

SLOTS = 16  # numbers in a bucket: the head and 15 nodes
INPUTS_PER_CONTEXT = 7
# Places of the inputs among those of a context. Histories: of both bits, of one, of a deterministic context.
OF_NODE, OF_PAIR, OF_BOTH_BITS, OF_ONE_BIT, OF_ONE_BYTE, OF_RUN, OF_ONE_BYTE_RUN = range(INPUTS_PER_CONTEXT)
NEW_NODE = np.uint32(1 << 22)  # no history, probability 1/2, age 0
P_BITS, AGE_BITS, MIN_P = 18, 5, 32
HISTORY_SHIFT, CHECK_SHIFT = P_BITS + AGE_BITS, 20
NO_RUN = NONE = -1
ENTRIES_PER_BUCKET = 2  # of deterministic contexts
WAYS = 4  # entries in which a deterministic context may be
CANDIDATES = 3  # rows in which the bucket of a hash may be
RUN_MAP = 128  # entries: 16 lengths, 4 phases of the byte, whether the byte before differed
RUN_STATES = 5  # of the run, in a pair map: it expects nothing, or by a byte seen last or before, zero or one
AGE_LIMIT, NODE_AGE_LIMIT = 1023, 31
STRETCH = log_odds_tables()[0].astype(np.int16)  # (4096,): log-odds of a probability in 2**-12
RECIPROCAL = np.array([65536 * 2 // (2 * n + 3) for n in range(1024)], np.int64)  # 1 / (n + 1.5)
# A node of n bits has a rate of 1 / (1.4 n + 1.6). The last ages stand for more and more bits, and are reached by chance: where
# the lowest bits of the probability are 0.
BITS_AT_AGE = (*range(26), 26, 32, 40, 52, 70, 92)
NODE_RATE = np.array([655360 // (14 * n + 16) for n in BITS_AT_AGE], np.int64)
AGING_MASK = np.array([0] * 25 + [3, 7, 7, 15, 15, 31, 31], np.int64)
MAX_SEEN = 255  # of a deterministic context


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
    p = max(MIN_P, min((1 << P_BITS) - MIN_P, p))
    if p & AGING_MASK[age] == 0:
        age = min(age + 1, NODE_AGE_LIMIT)
    return np.int64(NEXT_HISTORY[history, bit]) << HISTORY_SHIFT | p << AGE_BITS | age


def _deterministic_nodes() -> Array:
    """(MAX_SEEN + 1, 2) uint32: a node that has seen one bit n times, and not the other. Row 0 is 0, which has no history."""
    nodes = np.zeros((MAX_SEEN + 1, 2), np.uint32)
    after = getattr(node_after, "py_func", node_after)  # interpreted, because compiling takes longer than the table
    for bit in (0, 1):
        node = int(NEW_NODE)
        for n in range(1, MAX_SEEN + 1):
            node = int(after(node, bit))
            nodes[n, bit] = node
    return nodes


DETERMINISTIC_NODE = _deterministic_nodes()


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
    """The same for the second half of a byte, with the hash of context and first half. Contexts without a row stay as they are.

    hashes: of the contexts; receives the new ones of those that have a row in `heads`.
    """
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
def run_of(byte: int, n: int) -> int:
    """The run of a context that was followed n times by this byte, and by no other."""
    return byte << 12 | byte << 4 | min(n, 15)


@inlined
def run_after(run: int, byte: int) -> int:
    """The run after one more byte."""
    n, last = run & 15, run >> 4 & 255
    if n == 0:
        return run_of(byte, 1)
    if last == byte:
        return (run & 0xFFFF0) | min(n + 1, 15)
    return last << 12 | byte << 4 | 1


# ---- inputs


@merged
def read_contexts(
    prefix: int, k: int, node: int, table: Array, buckets: Array, only: Array, runs: Array, history_maps: Array,
    run_maps: Array, pair_maps: Array, seen: Array, places: Array, inputs: Array,
) -> None:  # fmt: skip
    """Fills in the inputs of each context, and what `learn_contexts` needs: seen, the histories; places, those of the runs."""
    n = 0
    for c in range(buckets.size):
        one_byte = buckets[c] == NONE
        v = deterministic_node(only[c], prefix, k) if one_byte else np.int64(table[buckets[c], node])
        history = v >> HISTORY_SHIFT
        place = run_place(runs[c], prefix, k)
        seen[c], places[c] = history, place
        for j in range(INPUTS_PER_CONTEXT):
            inputs[n + j] = 0
        if history != 0:
            of_history = OF_ONE_BYTE if one_byte else OF_ONE_BIT if ONE_BIT[history] else OF_BOTH_BITS
            inputs[n + of_history] = log_odds_of(history_maps[c, history])
            inputs[n + OF_NODE] = STRETCH[v >> 11 & 0xFFF]
            inputs[n + OF_PAIR] = log_odds_of(pair_maps[c, pair_of(history, place)])
        if place >= 0:
            of_run = OF_ONE_BYTE_RUN if one_byte else OF_RUN
            inputs[n + of_run] = signed(place & 1, log_odds_of(run_maps[c, place >> 1]))
        n += INPUTS_PER_CONTEXT


@inlined
def deterministic_node(entry: int, prefix: int, k: int) -> Any:
    """The node that a deterministic context would have in a bucket; 0 if it was not seen after this prefix."""
    bit = expected_bit(entry & 255, prefix, k)
    return np.int64(DETERMINISTIC_NODE[entry >> 8, bit]) if bit >= 0 else np.int64(0)


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
        if seen[c] != 0:  # not `history`: two contexts may share a bucket, and the other one has learned already
            history_maps[c, seen[c]] = step_towards(np.int64(history_maps[c, seen[c]]), bit)
            pair = pair_of(seen[c], places[c])
            pair_maps[c, pair] = step_towards(np.int64(pair_maps[c, pair]), bit)
        if buckets[c] != NONE:
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
