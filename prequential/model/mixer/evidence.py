"""The inputs that each context gives to the mixer (docs/FORMAT.md), and what they learn. Units as in nodes.py."""

from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined, merged
from prequential.model.mixer.lookup import NONE
from prequential.model.mixer.nodes import (
    HISTORY_GROUP,
    HISTORY_PROBABILITY,
    HISTORY_SHIFT,
    N_GROUPS,
    ONE_BIT,
    STRETCH,
    deterministic_node,
    log_odds_of,
    node_after,
    run_place,
    signed,
    step_towards,
)

INPUTS_PER_CONTEXT = 7
# Places of the inputs among those of a context. Histories: of both bits, of one, of a deterministic context.
OF_NODE, OF_PAIR, OF_BOTH_BITS, OF_ONE_BIT, OF_ONE_BYTE, OF_RUN, OF_ONE_BYTE_RUN = range(INPUTS_PER_CONTEXT)
RUN_MAP = 128  # entries: 16 lengths, 4 phases of the byte, whether the byte before differed
RUN_STATES = 5  # of the run, in a pair map: it expects nothing, or by a byte seen last or before, zero or one


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
