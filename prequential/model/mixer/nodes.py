"""Nodes and runs: what a context remembers, as numbers.

    node     9 bits: a bounded history of the bits seen here (`_histories`); 18 bits: an adaptive probability; 5 bits: its age in
             steps
    run      the last byte seen in a context, the last one that differed from it, and how often the last one was repeated

The nodes of a deterministic context, which one byte always followed, are known from the byte and how often it was seen.

Units: log-odds in 1/256 nat; probabilities of a one in 2**-22 with an age in the lowest 10 bits ("packed"), unless stated.
"""

from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined

# Log-odds <-> probabilities of a bit (model/mixer/mixing.py): steps of 1/256 nat, within +-LOG_ODDS_LIMIT steps.
LOG_ODDS_STEPS_PER_NAT = 256
LOG_ODDS_LIMIT = 3071


@cache
def log_odds_tables() -> tuple[np.ndarray, np.ndarray]:
    """stretch, (4096,) int32: log-odds of the probability (i + 1/2) / 4096. squash, (6143,) int32: its inverse.

    squash[i] is the probability, 1..65535 in units of 2**-16, of the log-odds i - LOG_ODDS_LIMIT.
    """
    with localcontext() as context:
        context.prec = 40
        odds = [(Decimal(i) / LOG_ODDS_STEPS_PER_NAT).exp() for i in range(-LOG_ODDS_LIMIT, LOG_ODDS_LIMIT + 1)]
        exact = [int((odd / (1 + odd) * (1 << 48)).to_integral_value()) for odd in odds]
    squash = np.array([min(65535, max(1, (p + (1 << 31)) >> 32)) for p in exact], np.int32)
    centres = (2 * np.arange(4096, dtype=np.int64) + 1) << 35
    upper = np.searchsorted(np.array(exact, np.int64), centres)  # every centre is strictly inside the table
    nearer = np.where(centres - np.array(exact)[upper - 1] < np.array(exact)[upper] - centres, upper - 1, upper)
    return (nearer - LOG_ODDS_LIMIT).astype(np.int32), squash


# ---- histories


def _histories() -> tuple[Array, Array, Array, Array, Array]:
    """Tables of a finite machine of S states: next state (S, 2) uint16, age (S,) uint8, probability of a one (S,) int64 in units
    of 2**-22, group of similar histories (S,) uint8, whether all bits were equal (S,) bool. The age is the number of bits.

    A history is (zeros, ones, last bits). It holds the first bits exactly, and later two bounded counts and the last two bits.
    A bit shortens the count of the opposite bit if that is above 2, because old bits matter less. The larger one count is, the
    lower is the bound of the other. State 0 is the empty history.
    """
    bounds = (48, 40, 24, 16, 12, 10, 8)

    def shortened(n: int) -> int:
        return n if n <= 2 else min(1 + n.bit_length(), 6) - (n == 3)

    def after(state: tuple[int, int, int], bit: int) -> tuple[int, int, int]:
        counts = [state[0], state[1]]
        counts[1 - bit] = shortened(counts[1 - bit])
        other = counts[1 - bit]
        counts[bit] = min(counts[bit] + 1, bounds[other] if other < len(bounds) else 7)
        last = state[2] << 1 | bit  # a leading one marks the length
        if last >= 32:
            last = 32 | last & 3
        return counts[0], counts[1], last

    states = [(0, 0, 1)]
    number = {states[0]: 0}
    successors = []
    for state in states:  # the list grows in the loop
        for bit in (0, 1):
            if (new := after(state, bit)) not in number:
                number[new] = len(states)
                states.append(new)
        successors.append([number[after(state, bit)] for bit in (0, 1)])
    ages = [zeros + ones for zeros, ones, _ in states]
    probabilities = [((10 * ones + 4) << 22) // (10 * (zeros + ones) + 8) for zeros, ones, _ in states]
    groups = list(dict.fromkeys(_group(*state) for state in states))
    return (
        np.array(successors, np.uint16), np.array(ages, np.uint8), np.array(probabilities, np.int64),
        np.array([groups.index(_group(*state)) for state in states], np.uint8),
        np.array([not zeros or not ones for zeros, ones, _ in states]),
    )  # fmt: skip


def _group(zeros: int, ones: int, last: int) -> tuple[int, int, int]:
    """Counts in steps, and the last bit if both bits have been seen."""
    steps = [sum(n > bound for bound in (0, 1, 2, 4, 8, 20)) for n in (zeros, ones)]
    if not zeros or not ones:
        return steps[0], steps[1], -1
    return min(steps[0], 4), min(steps[1], 4), last & 1


NEXT_HISTORY, HISTORY_AGE, HISTORY_PROBABILITY, HISTORY_GROUP, ONE_BIT = _histories()
N_HISTORIES, N_GROUPS = len(HISTORY_AGE), int(HISTORY_GROUP.max()) + 1
assert N_HISTORIES <= 512, "a node has 9 bits for its history"


# ---- nodes

NEW_NODE = np.uint32(1 << 22)  # no history, probability 1/2, age 0
P_BITS, AGE_BITS, MIN_P = 18, 5, 32
HISTORY_SHIFT = P_BITS + AGE_BITS
NO_RUN = -1
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
    return np.int64(STRETCH[np.int64(packed) >> 20])


@inlined
def log_odds_of_share(p: Any) -> Any:
    """The log-odds of a probability in 2**-16, below one."""
    return np.int64(STRETCH[p >> 4])


@inlined
def signed(bit: int, x: Any) -> Any:
    """x for a one, -x for a zero."""
    return x if bit else -x


@inlined
def node_after(node: int, bit: int) -> int:
    history, p, age = node >> HISTORY_SHIFT, node >> AGE_BITS & ((1 << P_BITS) - 1), node & NODE_AGE_LIMIT
    p += (((bit << P_BITS) - p) * NODE_RATE[age] + 32768) >> 16
    p = max(MIN_P, min((1 << P_BITS) - MIN_P, p))
    if p & AGING_MASK[age] == 0:
        age = min(age + 1, NODE_AGE_LIMIT)
    return np.int64(NEXT_HISTORY[history, bit]) << HISTORY_SHIFT | p << AGE_BITS | age


def _deterministic_nodes() -> Array:
    """(MAX_SEEN + 1, 2) uint32: a node that has seen one bit n times, and not the other. Row 0 is 0, which has no history."""
    nodes = np.zeros((MAX_SEEN + 1, 2), np.uint32)
    for bit in (0, 1):
        node = int(NEW_NODE)
        for n in range(1, MAX_SEEN + 1):
            node = int(node_after(node, bit))
            nodes[n, bit] = node
    return nodes


DETERMINISTIC_NODE = _deterministic_nodes()


@inlined
def deterministic_node(entry: int, prefix: int, k: int) -> Any:
    """The node that a deterministic context would have in a bucket; 0 if it was not seen after this prefix."""
    bit = expected_bit(entry & 255, prefix, k)
    return np.int64(DETERMINISTIC_NODE[entry >> 8, bit]) if bit >= 0 else np.int64(0)


# ---- runs


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
    n, last = run & 15, run >> 4 & 255
    if n == 0:
        return run_of(byte, 1)
    if last == byte:
        return (run & 0xFFFF0) | min(n + 1, 15)
    return last << 12 | byte << 4 | 1
