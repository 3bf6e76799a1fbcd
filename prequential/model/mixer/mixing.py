"""Context mixing as compiled integer loops: many contexts predict the next bit, and small networks mix the predictions.

The method is that of Mahoney's PAQ (2005), lpaq (2007) and paq8: adaptive predictions are mixed in the log-odds domain, small
contexts choose the sets of weights, last weights combine the sets, and adaptive curves refine the result. For each byte:

    past.py       what is known of the bytes before
    contexts.py   a hash for each context, made of the past
    lookup.py     where each context's nodes and run are
    nodes.py      nodes with their histories of bits, and runs, as numbers
    evidence.py   the inputs that they give
    sets.py       the eight bits of a byte, and which weights mix the inputs
    weights.py    mixing, and learning the weights
    refine.py     curves at the end

Everything is an integer of at most 64 bits and all sums are exact. So compiled and interpreted runs (NUMBA_DISABLE_JIT=1) give
the same bits. Letters: C contexts of this mixer, S sets of weights, M maps of curves, I inputs, n bytes in one call. k is the
number of known bits of the current byte, and `prefix` is a one followed by these bits.
"""

from typing import Any, NamedTuple

import numpy as np
from prequential_codecs.bit_coder import code_bit

from prequential.machine.compiled import Array, inlined, kernel, merged
from prequential.model.mixer.contexts import N_HASHES, context_hashes
from prequential.model.mixer.evidence import INPUTS_PER_CONTEXT, learn_contexts, read_contexts
from prequential.model.mixer.lookup import find_contexts, find_second_halves, remember
from prequential.model.mixer.nodes import clamp, expected_bit, log_odds_of, log_odds_of_share, signed, step_towards
from prequential.model.mixer.past import (
    LAST4,
    LONG_MATCH,
    LONG_MATCH_LENGTH,
    MATCH_LENGTH,
    N_BITS,
    advance,
    byte_at,
    find_matches,
)
from prequential.model.mixer.refine import N_CURVES, curve_position, learn_curves, refine, refine_gpt, select_curves
from prequential.model.mixer.sets import (
    AS_NUMBERS,
    BYTE,
    CODE,
    CODE_WORD,
    EXPECTED_BYTE,
    GPT_BYTE,
    LAST_SETS,
    LAST_STARTS,
    MATCH_CLASS,
    MATCH_STEP,
    N_FACTS,
    N_LAST,
    N_SETS,
    code_of,
    describe_byte,
    describe_gpt,
    likeliest_left,
    select_rows,
)
from prequential.model.mixer.weights import learn_weights, mix

# Inputs that do not belong to a context or a map of curves: the bias; four of the matches; four of the orders 0 and 1; two of
# the GPT.
EXTRA_INPUTS, GPT_INPUT = 11, 9
MATCH_MAP, MATCH_BYTE_MAP, ORDER_MAP = 64, 256 * 8 * 4, 256 + 65536
FAST_AGE = 30  # of the second map of orders 0 and 1


class MixerArrays(NamedTuple):
    """The arrays of a mixer, as the kernels take them. "packed": adaptive probabilities (nodes.step_towards)."""

    kinds: Array  # (3, C) int64: indices of its contexts by the kind of input (contexts.kinds_by_input)
    groups: Array  # (C,) int64: what each counts as (sets.groups_of_contexts)
    state_contexts: Array  # (5,) int64: where its contexts have those of sets.STATE_CONTEXTS; -1: nowhere
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
    weights: Array  # (rows of all its sets, I) int16
    row_ages: Array  # (rows of all its sets,) uint16: how often each row was used, at most weights.MAX_ROW_AGE
    row_errors: Array  # (rows of all its sets,) uint32: the mean error of each row, in 2^-24
    last_weights: Array  # (sum of LAST_SIZES, S) int32
    curves: Array  # (M, N_CURVE_CONTEXTS, N_POINTS) uint32: packed
    gpt_curves: Array  # (M, N_GPT_CURVE_CONTEXTS, N_POINTS) uint32: packed; of the GPT's log-odds
    indirect: Array  # (INDIRECT_SIZE,) int64: see past.py
    followers: Array  # (N_FOLLOWERS, a power of two) uint32: see past.py
    fields: Array  # (N_FIELDS, a power of two) uint32: see past.py
    ring: Array  # (a power of two,) uint8: the last bytes
    matches: Array  # (2**match_bits,) int64: positions, by the hash of the bytes before them
    past: Array  # (PAST_SIZE,) int64: see past.py
    learns: bool  # if False, kernels write only the ring and the past without N_BITS


@inlined
def cumulate(frequencies: Array, code: int, cumulative: Array) -> None:
    """cumulative[v] = the sum of the frequencies of the first v code words."""
    for v in range(256):
        cumulative[v + 1] = cumulative[v] + np.int64(frequencies[BYTE[code, v]])


@inlined
def share_of_one(cumulative: Array, prefix: int, k: int) -> int:
    """The probability in 2**-16 that a one follows the prefix, from the cumulative frequencies of the code words."""
    size = 256 >> k
    first = (prefix << (8 - k)) & 255
    total = cumulative[first + size] - cumulative[first]
    return ((cumulative[first + size] - cumulative[first + size // 2]) << 16) // total


@inlined
def expects(byte: int, length: int, prefix: int, k: int) -> int:
    """The bit that a match of this length expects; -1 without a match, or if the match is already wrong."""
    return expected_bit(byte, prefix, k) if length > 0 else -1


@inlined
def match_place(facts: Array, k: int) -> int:
    """The entry of match_byte_map."""
    return ((facts[EXPECTED_BYTE] & 255) << 3 | k) << 2 | max(facts[MATCH_CLASS] - 1, 0)


@merged
def read_matches(
    expected: int, long_expected: int, k: int, facts: Array, past: Array, match_map: Array, match_byte_map: Array, inputs: Array
) -> None:  # fmt: skip
    """Fills in the four inputs of the matches."""
    inputs[0] = inputs[1] = inputs[2] = inputs[3] = 0
    if expected >= 0:
        inputs[0] = signed(expected, log_odds_of(match_map[facts[MATCH_STEP]]))
        inputs[1] = signed(expected, min(past[MATCH_LENGTH], 32) * 16)
        inputs[2] = signed(expected, log_odds_of(match_byte_map[match_place(facts, k)]))
    if long_expected >= 0:
        inputs[3] = signed(long_expected, min(past[LONG_MATCH_LENGTH], 32) * 16)


@merged
def learn_orders(bit: int, order0: int, order1: int, maps: Array) -> None:
    for order in (order0, order1):
        maps[0, order] = step_towards(np.int64(maps[0, order]), bit)
        fast = step_towards(np.int64(maps[1, order]), bit)
        maps[1, order] = (fast >> 10) << 10 | min(fast & 1023, FAST_AGE)


class Scratch(NamedTuple):
    """Arrays that the kernel fills anew for every byte or bit. int64, unless stated."""

    every_hash: Array  # (N_HASHES,): of all contexts
    hashes: Array  # (C,): of its contexts
    heads: Array  # (C,): their rows of the table in the first half of the byte; lookup.NONE: none
    buckets: Array  # (C,): the same in this half of the byte
    only: Array  # (C,): the entries of deterministic contexts without hashes; 0: none
    runs: Array  # (C,): their runs (nodes.run_place)
    seen: Array  # (C,): their histories
    places: Array  # (C,): their places in the run maps
    facts: Array  # (N_FACTS,): see sets.py
    every_row: Array  # (N_SETS,): the row of each set
    rows: Array  # (S,): the row of each of its sets in `weights`
    last_rows: Array  # (N_LAST,): the same of the last weights
    every_curve: Array  # (N_CURVES,): the context of each map of curves
    curves: Array  # (M,): the same of its maps
    inputs: Array  # (I,) int16
    centred: Array  # (I,) int16: the inputs less a part of their mean
    outputs: Array  # (S,) int32: log-odds of the sets
    finals: Array  # (N_LAST,): log-odds of the last sets
    cumulative: Array  # (257,): of the GPT's frequencies


@kernel
def code_mixed(
    symbols: Array, frequencies: Array, coded: Array, mixer: MixerArrays, state: Array, words: Array
) -> None:
    """Codes the bytes `symbols` (n,) int64 in order and learns from each bit. A decoder fills the bytes in.

    frequencies: those of the GPT, (n, 256) int32, or (0, 256) without a GPT. coded (n, 8) uint16: receives the frequency of each
    coded bit, of a total of 2**16. state, words: the arrays of a BitCoder.
    """
    n_contexts, n_sets, n_curves = mixer.groups.size, mixer.sets.size, mixer.curve_kinds.size
    n_inputs = mixer.weights.shape[1]
    scratch = Scratch(
        np.zeros(N_HASHES, np.int64), np.zeros(n_contexts, np.int64), np.zeros(n_contexts, np.int64),
        np.zeros(n_contexts, np.int64), np.zeros(n_contexts, np.int64), np.zeros(n_contexts, np.int64),
        np.zeros(n_contexts, np.int64), np.zeros(n_contexts, np.int64), np.zeros(N_FACTS, np.int64),
        np.zeros(N_SETS, np.int64), np.zeros(n_sets, np.int64), np.zeros(N_LAST, np.int64), np.zeros(N_CURVES, np.int64),
        np.zeros(n_curves, np.int64), np.zeros(n_inputs, np.int16), np.zeros(n_inputs, np.int16),
        np.zeros(n_sets, np.int32), np.zeros(N_LAST, np.int64), np.zeros(257, np.int64),
    )  # fmt: skip
    code_bytes(symbols, frequencies, coded, mixer, scratch, state, words)


@inlined
def code_bytes(
    symbols: Array, frequencies: Array, coded: Array, mixer: MixerArrays, scratch: Scratch, state: Array, words: Array
) -> None:
    has_gpt = frequencies.shape[0] > 0
    for i in range(symbols.size):
        code = code_of(mixer.past)
        scratch.facts[CODE] = code
        if has_gpt:
            cumulate(frequencies[i], code, scratch.cumulative)
        describe_gpt(frequencies, i, scratch.facts)
        begin_byte(mixer, scratch)
        word = CODE_WORD[code, symbols[i] & 255]
        prefix = 1
        for k in range(8):
            if k == 4:
                find_second_halves(
                    mixer.table, mixer.deterministic, scratch.hashes, scratch.heads, scratch.buckets, scratch.only, prefix
                )  # fmt: skip
            node = prefix if k < 4 else (prefix & ((1 << (k - 4)) - 1)) | (1 << (k - 4))
            mixed, expected = predict_bit(prefix, k, node, has_gpt, mixer, scratch)
            frequency = clamp(refine(mixed, mixer.curves, scratch.curves), 1, 65535)
            bit = code_bit(word >> (7 - k) & 1, frequency, state, words)
            coded[i, k] = frequency if bit else 65536 - frequency
            if mixer.learns:
                learn_bit(bit, prefix, k, node, mixed, expected, mixer, scratch)
                if has_gpt:
                    gpt_log_odds = np.int64(scratch.inputs[mixer.groups.size * INPUTS_PER_CONTEXT + GPT_INPUT])
                    learn_curves(bit, gpt_log_odds, mixer.gpt_curves, scratch.curves)
            prefix = prefix << 1 | bit
        symbols[i] = BYTE[code, prefix & 255]
        end_byte(prefix & 255, symbols[i], mixer, scratch)


@inlined
def begin_byte(mixer: MixerArrays, scratch: Scratch) -> None:
    """Matches, hashes of the contexts, their buckets and runs, and what selects weights."""
    find_matches(mixer.past, mixer.ring, mixer.matches, mixer.learns)
    code = scratch.facts[CODE]
    context_hashes(
        mixer.past, mixer.ring, mixer.indirect, mixer.followers, mixer.kinds, code, scratch.every_hash, scratch.hashes
    )
    find_contexts(mixer.table, mixer.deterministic, scratch.hashes, scratch.heads, scratch.only, scratch.runs)
    for c in range(mixer.groups.size):
        scratch.buckets[c] = scratch.heads[c]
    describe_byte(mixer.past, mixer.ring, scratch.runs, mixer.groups, scratch.facts)


@inlined
def order1_place(past: Array, prefix: int) -> Any:
    """The entry of order_maps for the last byte; that of order 0 is the prefix."""
    return 256 + ((past[LAST4] & 255) << 8 | prefix)


@merged
def predict_bit(prefix: int, k: int, node: int, has_gpt: bool, mixer: MixerArrays, scratch: Scratch) -> Any:
    """The mixed log-odds, and the bit that the longest match expects (-1: none)."""
    past, facts, orders = mixer.past, scratch.facts, mixer.order_maps
    read_contexts(
        prefix, k, node, mixer.table, scratch.buckets, scratch.only, scratch.runs, mixer.history_maps, mixer.run_maps,
        mixer.pair_maps, scratch.seen, scratch.places, scratch.inputs,
    )  # fmt: skip
    extra = scratch.inputs[mixer.groups.size * INPUTS_PER_CONTEXT :]
    expected = expects(facts[EXPECTED_BYTE], past[MATCH_LENGTH], prefix, k)
    long_expected = expects(
        CODE_WORD[facts[CODE], byte_at(mixer.ring, past[LONG_MATCH])], past[LONG_MATCH_LENGTH], prefix, k
    )
    read_matches(expected, long_expected, k, facts, past, mixer.match_map, mixer.match_byte_map, extra)
    order1 = order1_place(past, prefix)
    extra[4] = 256
    extra[5], extra[6] = log_odds_of(orders[0, prefix]), log_odds_of(orders[0, order1])
    extra[7], extra[8] = log_odds_of(orders[1, prefix]), log_odds_of(orders[1, order1])
    gpt_step: Any = 0
    if has_gpt:
        p = share_of_one(scratch.cumulative, prefix, k)
        gpt_log_odds = log_odds_of_share(p)
        extra[GPT_INPUT], extra[10] = gpt_log_odds, (p - 32768) >> 6
        gpt_step = curve_position(gpt_log_odds) >> 8
    facts[GPT_BYTE] = likeliest_left(facts, prefix, k)
    select_rows(
        prefix, k, gpt_step, past, facts, mixer.state_contexts, scratch.seen, scratch.buckets, scratch.every_row
    )
    for f in range(N_LAST):
        scratch.last_rows[f] = LAST_STARTS[f] + scratch.every_row[LAST_SETS[f]]
    for s in range(mixer.sets.size):
        scratch.rows[s] = mixer.set_starts[s] + scratch.every_row[mixer.sets[s]]
    select_curves(prefix, past, facts, expected, scratch.every_curve)
    for m in range(mixer.curve_kinds.size):
        scratch.curves[m] = scratch.every_curve[mixer.curve_kinds[m]]
    if has_gpt:
        refine_gpt(np.int64(extra[GPT_INPUT]), mixer.gpt_curves, scratch.curves, extra[EXTRA_INPUTS:])
    mixed = mix(
        mixer.groups.size, scratch.inputs, mixer.weights, scratch.rows, scratch.outputs, mixer.last_weights,
        scratch.last_rows, scratch.finals,
    )  # fmt: skip
    return mixed, expected


@merged
def learn_bit(
    bit: int, prefix: int, k: int, node: int, mixed: int, expected: int, mixer: MixerArrays, scratch: Scratch
) -> None:
    """Everything that predicted the bit learns from it."""
    learn_curves(bit, mixed, mixer.curves, scratch.curves)
    learn_weights(
        bit, mixed, mixer.groups.size, mixer.past[N_BITS], scratch.inputs, mixer.weights, mixer.row_ages, mixer.row_errors,
        scratch.rows, scratch.outputs, mixer.last_weights, scratch.last_rows, scratch.finals, scratch.centred,
    )  # fmt: skip
    mixer.past[N_BITS] += 1
    learn_contexts(
        bit, node, mixer.table, scratch.buckets, mixer.history_maps, mixer.run_maps, mixer.pair_maps, scratch.seen,
        scratch.places,
    )  # fmt: skip
    learn_orders(bit, prefix, order1_place(mixer.past, prefix), mixer.order_maps)
    if expected >= 0:
        hit = 1 if expected == bit else 0
        steps, place = scratch.facts[MATCH_STEP], match_place(scratch.facts, k)
        mixer.match_map[steps] = step_towards(np.int64(mixer.match_map[steps]), hit)
        mixer.match_byte_map[place] = step_towards(np.int64(mixer.match_byte_map[place]), hit)


@inlined
def end_byte(word: int, byte: int, mixer: MixerArrays, scratch: Scratch) -> None:
    """The runs and the past after one more byte. word: its code word."""
    if mixer.learns:
        remember(word, mixer.table, mixer.deterministic, scratch.hashes, scratch.heads, scratch.buckets, scratch.runs)
    advance(mixer.past, mixer.ring, mixer.indirect, mixer.followers, mixer.fields, byte, mixer.learns)


@kernel
def code_plain(symbols: Array, frequencies: Array, coded: Array, state: Array, words: Array) -> None:
    """Codes `symbols` (n,) int64 bit by bit under the given frequencies (n, 256) int32 alone, with a total of 2**24 per row.

    A decoder fills the symbols in. coded (n, 8) uint16, state and words: as in `code_mixed`.
    """
    cumulative = np.zeros(257, np.int64)
    for i in range(symbols.size):
        cumulate(frequencies[i], AS_NUMBERS, cumulative)
        prefix = 1
        for k in range(8):
            frequency = clamp(share_of_one(cumulative, prefix, k), 1, 65535)
            bit = code_bit(symbols[i] >> (7 - k) & 1, frequency, state, words)
            coded[i, k] = frequency if bit else 65536 - frequency
            prefix = prefix << 1 | bit
        symbols[i] = prefix & 255
