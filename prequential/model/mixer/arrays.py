"""The arrays of a mixer and of its threads, as the kernels take them. The letters are those of mixing.py."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from prequential.machine.compiled import Array
from prequential.model.config import MixerConfig
from prequential.model.mixer.evidence import INPUTS_PER_CONTEXT, Evidence
from prequential.model.mixer.lookup import WAYS, Places
from prequential.model.mixer.sets import STATE_CONTEXTS
from prequential.model.mixer.weights import LANES, Columns

BLOCK_INPUTS = 64
# Inputs that do not belong to a context or a map of curves: the bias; four of the matches; four of the orders 0 and 1; two of
# the GPT.
EXTRA_INPUTS = 11
CODING_BLOCKS = 1.5  # coding takes as long as so many blocks (dev/LOG.md)


def in_order(names: Sequence[str]) -> list[str]:
    """The contexts in the order of the mixer: first those that select weights, which belong to the first block."""
    return [name for name in STATE_CONTEXTS if name in names] + [name for name in names if name not in STATE_CONTEXTS]


def first_contexts(config: MixerConfig) -> Array:
    """(blocks + 1,) int64: the first context of each block; at the end, the number of contexts."""
    n = len(config.contexts)
    first = (BLOCK_INPUTS - EXTRA_INPUTS - len(config.curves)) // INPUTS_PER_CONTEXT
    starts = range(min(first, n), n, BLOCK_INPUTS // INPUTS_PER_CONTEXT)
    return np.array([0, *starts, n], np.int64)


def columns_of(config: MixerConfig) -> tuple[Array, int]:
    """(C,) uint64: the first column of each context's inputs; and the number of columns."""
    starts, n = first_contexts(config), len(config.contexts)
    block = np.searchsorted(starts, np.arange(n), "right") - 1
    extra = EXTRA_INPUTS + len(config.curves)
    columns = block * BLOCK_INPUTS + (np.arange(n) - starts[block]) * INPUTS_PER_CONTEXT + np.where(block, 0, extra)
    used = int(columns[-1]) + INPUTS_PER_CONTEXT
    return columns.astype(np.uint64), -(-used // LANES) * LANES


def regions_of(config: MixerConfig) -> Array:
    """(C, 2) int64: the first row of the table that a context of each block may use, and how many it may use.

    The same parts of the deterministic entries belong to it.
    """
    starts, n = first_contexts(config), len(config.contexts)
    n_blocks, least = len(starts) - 1, np.arange(len(starts))  # one group of rows for each
    bounds = WAYS * (least + starts * ((1 << config.table_bits) // WAYS - n_blocks) // n)
    return np.repeat(np.stack((bounds[:-1], np.diff(bounds)), 1), np.diff(starts), 0)


def group_starts(config: MixerConfig, n_groups: int) -> Array:
    """(n_groups + 1,) int64: the first block of each group of blocks. A thread looks after one or several groups.

    The first one is for the thread that codes, so it is smaller. No group is empty: there are at most as many as blocks.
    """
    n_blocks = len(first_contexts(config)) - 1
    if n_groups == 1:
        return np.array([0, n_blocks])
    first = max(1, round((n_blocks + CODING_BLOCKS) / n_groups - CODING_BLOCKS))
    return np.concatenate(([0], first + np.arange(n_groups) * (n_blocks - first) // (n_groups - 1)))


class MixerArrays(NamedTuple):
    """The arrays of a mixer. "packed": adaptive probabilities (nodes.step_towards)."""

    kinds: Array  # (3, C) int64: indices of its contexts by the kind of input (contexts.kinds_by_input)
    groups: Array  # (C,) int64: what each counts as (sets.groups_of_contexts)
    columns: Array  # (C,) uint64: the first input of each (`columns_of`)
    regions: Array  # (C, 2) int64: its part of the tables (`regions_of`)
    parts: Array  # (3,) bool: which parts of all contexts it needs (contexts.parts_of)
    state_contexts: Array  # (6,) int64: where its contexts have those of sets.STATE_CONTEXTS; -1: nowhere
    sets: Array  # (S,) int64: indices of its sets in model.config.WEIGHT_SETS
    set_starts: Array  # (S,) int64: the first row of each set in `weights`
    curve_kinds: Array  # (M,) int64: indices of its maps of curves in model.config.CURVES
    table: Array  # (2**table_bits, SLOTS) uint32: the buckets
    deterministic: Array  # (2**(table_bits + 1),) uint32: contexts that were always followed by one byte (lookup.py)
    history_maps: Array  # (C, N_HISTORIES) uint32: packed, of histories
    run_maps: Array  # (C, RUN_MAP) uint32: packed, that a run continues
    pair_maps: Array  # (C, N_GROUPS * RUN_STATES) uint32: packed, of histories and runs together
    match_map: Array  # (MATCH_MAP,) uint32: packed, that a match of this length continues
    match_byte_map: Array  # (MATCH_BYTE_MAP,) uint32: the same by the byte that it predicts
    order_maps: Array  # (2, ORDER_MAP) uint32: packed, of orders 0 and 1, slow and fast
    column_bounds: Array  # (groups + 1,) int64: the first column of each group
    weights: Array  # (rows of all its sets * I,) int16: see weights.Columns
    row_ages: Array  # (rows of all its sets,) uint16: how often each row was used, at most weights.MAX_ROW_AGE
    row_errors: Array  # (rows of all its sets,) uint32: the mean error of each row, in 2^-24
    new_rates: Array  # (256,) int64: weights.new_row_rates
    last_weights: Array  # (sum of LAST_SIZES, S) int32
    curves: Array  # (M, N_CURVE_CONTEXTS, N_POINTS) uint32: packed
    gpt_curves: Array  # (M, N_GPT_CURVE_CONTEXTS, N_POINTS) uint32: packed; of the GPT's log-odds
    indirect: Array  # (INDIRECT_SIZE,) int64: see past.py
    followers: Array  # (N_SUCCESSORS, a power of two) uint32: see past.py
    fields: Array  # (N_FIELDS, a power of two) uint32: see past.py
    ring: Array  # (a power of two,) uint8: the last bytes
    matches: Array  # (2**match_bits,) int64: positions, by the hash of the bytes before them
    past: Array  # (PAST_SIZE,) int64: see past.py
    learns: bool  # if False, kernels write only the ring and the past without N_BITS


class Scratch(NamedTuple):
    """Arrays that the coding thread fills anew for every byte or bit. int64, unless stated."""

    every_hash: Array  # (N_HASHES + 2,): of all contexts; the kind of input and the code. Other threads read it.
    facts: Array  # (N_FACTS,): see sets.py
    every_row: Array  # (N_SETS,): the row of each set
    last_rows: Array  # (N_LAST,): the rows of the last weights
    curves: Array  # (M,): the context of each of its maps of curves
    outputs: Array  # (S,) int32: log-odds of the sets
    finals: Array  # (N_LAST,): log-odds of the last sets
    cumulative: Array  # (257,): of the GPT's frequencies


class Share(NamedTuple):
    """What one thread looks after: contexts, and columns of the weights. It fills the arrays anew for every byte or bit."""

    places: Places
    evidence: Evidence
    columns: Columns
    next_hashes: Array  # (C,) int64
    took: Array  # (1,) int64: the byte that they belong to


class CodingState(NamedTuple):
    """What the coding thread needs besides the arrays of the mixer."""

    scratch: Scratch
    share: Share  # of this thread, while others `follow`
    whole: Share  # all blocks, for one thread alone
    board: Array  # (rows * WIDTH,) int32: see exchange.py
