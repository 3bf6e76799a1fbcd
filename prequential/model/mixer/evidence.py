"""The inputs that each context gives to the mixer (docs/FORMAT.md), and what they learn. Units as in nodes.py."""

from typing import Any, NamedTuple

import numpy as np

from prequential.machine.compiled import Array, inlined, span
from prequential.model.mixer.lookup import NONE, Places
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
OF_NODE, OF_PAIR, OF_BOTH_BITS, OF_ONE_BIT, OF_ONE_BYTE, OF_RUN, OF_ONE_BYTE_RUN = np.arange(
    INPUTS_PER_CONTEXT, dtype=np.uint64
)
RUN_MAP = 128  # entries: 16 lengths, 4 phases of the byte, whether the byte before differed
RUN_STATES = 5  # of the run, in a pair map: it expects nothing, or by a byte seen last or before, zero or one


class Evidence(NamedTuple):
    """What contexts have seen, and what `learn_contexts` needs of the last bit."""

    columns: Array  # (C,) uint64: the first input of each context (arrays.columns_of)
    history_maps: Array  # (C, N_HISTORIES) uint32: packed, of histories
    run_maps: Array  # (C, RUN_MAP) uint32: packed, that a run continues
    pair_maps: Array  # (C, N_GROUPS * RUN_STATES) uint32: packed, of histories and runs together
    seen: Array  # (C,) int64: their histories
    run_places: Array  # (C,) int64: their places in the run maps
    inputs: Array  # (I,) int16


@inlined
def value_of(c: int, prefix: int, k: int, node: int, places: Places) -> Any:
    """What a context knows of the next bit: the value of its node (nodes.py)."""
    if places.buckets[c] == NONE:
        return np.int64(deterministic_node(places.only[c], prefix, k))
    return np.int64(places.table[np.uint64(places.buckets[c]), np.uint64(node)])


@inlined
def read_selecting(which: Array, prefix: int, k: int, node: int, places: Places, evidence: Evidence) -> None:
    """The histories of the first context and of `which`, those that select weights (-1: none)."""
    evidence.seen[0] = value_of(0, prefix, k, node, places) >> HISTORY_SHIFT
    for c in which:
        if c > 0:
            evidence.seen[c] = value_of(c, prefix, k, node, places) >> HISTORY_SHIFT


@inlined
def read_contexts(prefix: int, k: int, node: int, places: Places, evidence: Evidence) -> None:
    """Fills in the inputs of the contexts of these places, and what `learn_contexts` needs."""
    inputs = evidence.inputs
    for c in span(places.first, places.stop):
        one_byte = places.buckets[c] == NONE
        v = value_of(c, prefix, k, node, places)
        history = v >> HISTORY_SHIFT
        place = run_place(places.runs[c], prefix, k)
        evidence.seen[c], evidence.run_places[c] = history, place
        n = evidence.columns[c]
        for j in span(0, INPUTS_PER_CONTEXT):
            inputs[n + j] = 0
        if history != 0:
            of_history = OF_ONE_BYTE if one_byte else OF_ONE_BIT if ONE_BIT[history] else OF_BOTH_BITS
            inputs[n + of_history] = log_odds_of(evidence.history_maps[c, history])
            inputs[n + OF_NODE] = STRETCH[v >> 11 & 0xFFF]
            inputs[n + OF_PAIR] = log_odds_of(evidence.pair_maps[c, pair_of(history, place)])
        if place >= 0:
            of_run = OF_ONE_BYTE_RUN if one_byte else OF_RUN
            inputs[n + of_run] = signed(place & 1, log_odds_of(evidence.run_maps[c, place >> 1]))


@inlined
def pair_of(history: int, place: int) -> Any:
    """The entry of a pair map: the group of the history, and the state of the run."""
    state = 0 if place < 0 else 1 + (place & 1) + (2 if place < 16 else 0)
    return np.int64(HISTORY_GROUP[history]) * RUN_STATES + state


@inlined
def learn_contexts(bit: int, node: Any, places: Places, evidence: Evidence) -> None:
    """Moves everything that `read_contexts` read towards the bit."""
    table, history_maps = places.table, evidence.history_maps
    pair_maps, run_maps, node = evidence.pair_maps, evidence.run_maps, np.uint64(node)
    for c in span(places.first, places.stop):
        seen, run_place, row = evidence.seen[c], evidence.run_places[c], places.buckets[c]
        if seen != 0:  # not `history`: two contexts may share a bucket, and the other one has learned already
            history, pair = np.uint64(seen), np.uint64(pair_of(seen, run_place))
            history_maps[c, history] = step_towards(np.int64(history_maps[c, history]), bit)
            pair_maps[c, pair] = step_towards(np.int64(pair_maps[c, pair]), bit)
        if row != NONE:
            place = np.uint64(row)
            table[place, node] = node_after(np.int64(table[place, node]), bit)
        if run_place >= 0:
            place = np.uint64(run_place >> 1)
            run_maps[c, place] = step_towards(np.int64(run_maps[c, place]), 1 if run_place & 1 == bit else 0)


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
