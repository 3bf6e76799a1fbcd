"""Bounded histories of bits: what a node of the mixer remembers of the bits it has seen, as the number of a state.

The states form a finite machine, built once from a few rules. Tables describe it: the next state after each bit, the age (the
number of bits that it counts), the initial probability of a one, a group of similar histories, and whether all bits were equal.
Letter: S states.
"""

import numpy as np

from prequential.machine.compiled import Array


def _histories() -> tuple[Array, Array, Array, Array, Array]:
    """The tables: next state (S, 2) uint16, age (S,) uint8, probability of a one (S,) int64 in units of 2**-22, group (S,) uint8,
    one bit (S,) bool.

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
