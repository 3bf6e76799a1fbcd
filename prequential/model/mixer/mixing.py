"""Context mixing as compiled integer loops: many contexts predict the next bit, and small networks mix the predictions.

The method is that of Mahoney's PAQ (2005), lpaq (2007) and paq8: adaptive predictions are mixed in the log-odds domain, small
contexts choose the sets of weights, last weights combine the sets, and adaptive curves refine the result. For each byte:

    past.py       what is known of the bytes before (past_advance.py)
    contexts.py   a hash for each context, made of the past
    lookup.py     where each context's nodes and run are
    nodes.py      nodes with their histories of bits, and runs, as numbers
    evidence.py   the inputs that they give
    sets.py       the eight bits of a byte, and which weights mix the inputs
    weights.py    mixing, and learning the weights
    curves.py     curves at the end
    arrays.py     the blocks of contexts that threads share out (helper_thread.py, exchange.py)

One thread codes: `code_mixed`. Others may look after some of the blocks meanwhile: `follow`. For each byte they get its hashes;
for each bit they get the rows of weights, add up their columns, and get the bit and the errors to learn from. One thread alone
does the same for all blocks, so the bits are the same.

Everything is an integer of at most 64 bits and all sums are exact. So compiled and interpreted runs (NUMBA_DISABLE_JIT=1) give
the same bits. Letters: C contexts of this mixer, S sets of weights, M maps of curves, I inputs, n bytes in one call. k is the
number of known bits of the current byte, and `prefix` is a one followed by these bits.
"""

from typing import Any

import numpy as np
from prequential_codecs.bit_coder import code_bit

from prequential.machine.compiled import Array, inlined, kernel, sharing_kernel
from prequential.model.mixer import past as at
from prequential.model.mixer import sets
from prequential.model.mixer.arrays import EXTRA_INPUTS, CodingState, MixerArrays, Scratch, Share
from prequential.model.mixer.contexts import N_HASHES, context_hashes
from prequential.model.mixer.curves import curve_of, curve_position, fetch_curves, learn_curves, refine, refine_gpt
from prequential.model.mixer.evidence import read_contexts, read_selecting
from prequential.model.mixer.exchange import (
    ALONE,
    BIT,
    BYTE,
    COMMON,
    COUNTS,
    ERRORS,
    FIRST_ERROR,
    N_THREADS,
    ROWS,
    STOPPED,
    SUMS,
    WIDTH,
    publish,
    row_of,
    wait,
)
from prequential.model.mixer.helper_thread import learn_share, node_of, open_byte, take_hashes
from prequential.model.mixer.lookup import fetch_second_halves, find_second_halves, remember
from prequential.model.mixer.nodes import clamp, expected_bit, log_odds_of, log_odds_of_share, signed, step_towards
from prequential.model.mixer.past import find_matches
from prequential.model.mixer.past_advance import advance, input_kind
from prequential.model.mixer.weights import common_part, find_errors, mix, sum_columns

GPT_INPUT = 9  # the first of the two inputs of the GPT
MATCH_MAP, MATCH_BYTE_MAP, ORDER_MAP = 64, 256 * 8 * 4, 256 + 65536
FAST_AGE = 30  # of the second map of orders 0 and 1
# After so many sleeps within a byte, the coding thread goes on alone for some bytes: FIRST_REST, doubled each time within a call.
PATIENCE, FIRST_REST = 4, 8


@inlined
def cumulate(frequencies: Array, code: int, cumulative: Array) -> None:
    """cumulative[v] = the sum of the frequencies of the first v code words."""
    for v in range(256):
        cumulative[v + 1] = cumulative[v] + np.int64(frequencies[sets.BYTE[code, v]])


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
    return ((facts[sets.EXPECTED_BYTE] & 255) << 3 | k) << 2 | max(facts[sets.MATCH_CLASS] - 1, 0)


@inlined
def read_matches(
    expected: int, long_expected: int, k: int, facts: Array, past: Array, match_map: Array, match_byte_map: Array, inputs: Array
) -> None:  # fmt: skip
    """Fills in the four inputs of the matches."""
    inputs[0] = inputs[1] = inputs[2] = inputs[3] = 0
    if expected >= 0:
        inputs[0] = signed(expected, log_odds_of(match_map[facts[sets.MATCH_STEP]]))
        inputs[1] = signed(expected, min(past[at.MATCH_LENGTH], 32) * 16)
        inputs[2] = signed(expected, log_odds_of(match_byte_map[match_place(facts, k)]))
    if long_expected >= 0:
        inputs[3] = signed(long_expected, min(past[at.LONG_MATCH_LENGTH], 32) * 16)


@inlined
def learn_orders(bit: int, order0: int, order1: int, maps: Array) -> None:
    for order in (order0, order1):
        maps[0, order] = step_towards(np.int64(maps[0, order]), bit)
        fast = step_towards(np.int64(maps[1, order]), bit)
        maps[1, order] = (fast >> 10) << 10 | min(fast & 1023, FAST_AGE)


# ---- the thread that codes


@sharing_kernel
def code_mixed(
    symbols: Array, frequencies: Array, coded: Array, mixer: MixerArrays, coding: CodingState, state: Array, words: Array
) -> None:  # fmt: skip
    """Codes the bytes `symbols` (n,) int64 in order and learns from each bit. A decoder fills the bytes in.

    frequencies: those of the GPT, (n, 256) int32, or (0, 256) without a GPT. coded (n, 8) uint16: receives the frequency of each
    coded bit, of a total of 2**16. state, words: the arrays of a BitCoder. Raises RuntimeError if another thread failed.
    """
    scratch, board, has_gpt, losses, rest = coding.scratch, coding.board, frequencies.shape[0] > 0, 0, 0
    together = next_together = board[N_THREADS] > 1
    own = next_own = coding.share if together else coding.whole
    for i in range(symbols.size):
        n_threads = np.int64(board[N_THREADS]) if together else np.int64(1)
        code = begin_byte(i, frequencies, n_threads, mixer, scratch, own, board)
        word, prefix, patience = sets.CODE_WORD[code, symbols[i] & 255], 1, PATIENCE
        for k in range(8):
            number = 8 * (i + 1) + k
            order1 = 256 + ((mixer.past[at.LAST4] & 255) << 8 | prefix)  # of order_maps; that of order 0 is the prefix
            expected = predict_bit(number, prefix, k, order1, has_gpt, together, mixer, scratch, own, board)
            sums = own.columns.sums
            patience -= gather_sums(number, n_threads, sums, board)
            mixed = mix(mixer.groups.size, sums, scratch.outputs, mixer.last_weights, scratch.last_rows, scratch.finals)
            frequency = clamp(refine(mixed, mixer.curves, scratch.curves), 1, 65535)
            bit = code_bit(word >> (7 - k) & 1, frequency, state, words)
            coded[i, k] = frequency if bit else 65536 - frequency
            common = hand_out(number, bit, mixed, together, mixer, scratch, own, board)
            if k == 3:
                fetch_second_halves(own.places, prefix << 1 | bit)
            elif k == 7:
                symbols[i] = sets.BYTE[code, (prefix << 1 | bit) & 255]
                advance(mixer.past, mixer.ring, mixer.indirect, mixer.followers, mixer.fields, symbols[i], mixer.learns)
                losses += 1 if together and patience <= 0 else 0
                rest = FIRST_REST << min(losses, 7) if together and patience <= 0 else rest - 1
                next_together = board[N_THREADS] > 1 and rest <= 0 and i + 1 < symbols.size
                next_own = coding.share if next_together else coding.whole
                if i + 1 < symbols.size:
                    announce(i + 1, together and next_together, mixer, scratch, next_own, board)
                if together and not next_together:
                    publish(board, BYTE, ALONE)
            if mixer.learns:
                learn_bit(bit, prefix, k, mixed, common, expected, order1, has_gpt, mixer, scratch, own)
            prefix = prefix << 1 | bit
        if mixer.learns:
            remember(own.places, prefix & 255)
        if together and not next_together:
            await_others(i, board)
        if next_together and not together:
            publish(board, BYTE, i + 2)  # not before this thread has learned for the others
        together, own = next_together, next_own


@inlined
def begin_byte(
    i: int, frequencies: Array, n_threads: int, mixer: MixerArrays, scratch: Scratch, own: Share, board: Array
) -> Any:
    """The contexts of byte i of the call, and what is constant for it. Returns its code (sets.py)."""
    code = sets.code_of(mixer.past)
    scratch.facts[sets.CODE] = code
    if frequencies.shape[0] > 0:
        cumulate(frequencies[i], code, scratch.cumulative)
    sets.describe_gpt(frequencies, i, scratch.facts)
    if i == 0:
        announce(i, n_threads > 1, mixer, scratch, own, board)
    open_byte(own)
    sets.count_known(own.places, mixer.groups, scratch.facts[sets.KNOWN_BYTES :])
    gather_counts(i, n_threads, scratch.facts, board)
    sets.describe_byte(mixer.past, mixer.ring, scratch.facts)
    return code


@inlined
def announce(i: int, together: bool, mixer: MixerArrays, scratch: Scratch, own: Share, board: Array) -> None:
    """Matches, and the hashes of byte i of the call, for all threads that take part."""
    look_up(mixer, scratch.every_hash)
    if together:
        publish(board, BYTE, i + 1)
    take_hashes(i + 1, mixer.kinds, scratch.every_hash, own)


@sharing_kernel
def look_up(mixer: MixerArrays, every_hash: Array) -> None:
    """Matches, and what all contexts depend on, before the next byte."""
    find_matches(mixer.past, mixer.ring, mixer.matches, mixer.learns)
    context_hashes(mixer.past, mixer.ring, mixer.indirect, mixer.followers, mixer.parts, every_hash)
    every_hash[N_HASHES], every_hash[N_HASHES + 1] = input_kind(mixer.past), sets.code_of(mixer.past)


@inlined
def gather_counts(i: int, n_threads: int, facts: Array, board: Array) -> None:
    """Adds what the other threads know to sets.KNOWN_BYTES and sets.KNOWN_WORDS."""
    for thread in range(1, n_threads):
        row = row_of(thread, COUNTS)
        if wait(board, row, i + 1) == STOPPED:
            raise RuntimeError("a thread of the mixer failed")
        facts[sets.KNOWN_BYTES] += board[row * WIDTH]
        facts[sets.KNOWN_WORDS] += board[row * WIDTH + 1]


@inlined
def gather_sums(number: int, n_threads: int, sums: Array, board: Array) -> Any:
    """Adds the sums of the other threads. Returns how often this thread slept meanwhile."""
    slept: Any = 0
    for thread in range(1, n_threads):
        waited = wait(board, row_of(thread, SUMS), number)
        if waited == STOPPED:
            raise RuntimeError("a thread of the mixer failed")
        slept += waited
    for thread in range(1, n_threads):  # after all have written: the memory fetches the rows at the same time
        row = row_of(thread, SUMS) * WIDTH
        for s in range(sums.size):
            sums[s] += board[row + s]
    return slept


@inlined
def hand_out(
    number: int, bit: int, mixed: Any, together: bool, mixer: MixerArrays, scratch: Scratch, own: Share, board: Array
) -> Any:
    """The errors to learn from, for all threads. Returns the common part of the inputs."""
    common: Any = 0
    if mixer.learns:
        find_errors(
            bit, mixed, mixer.groups.size, mixer.past[at.N_BITS], own.columns, mixer.row_ages, mixer.row_errors,
            mixer.new_rates, scratch.outputs, mixer.last_weights, scratch.last_rows, scratch.finals,
        )  # fmt: skip
        common = common_part(own.columns.sums, own.columns.rows.size)
    if together:
        board[ERRORS * WIDTH + BIT], board[ERRORS * WIDTH + COMMON] = bit, common
        for s in range(own.columns.rows.size):
            board[ERRORS * WIDTH + FIRST_ERROR + s] = own.columns.errors[s]
        publish(board, ERRORS, number)
    return common


@inlined
def await_others(i: int, board: Array) -> None:
    """Waits until no other thread works on byte i. They have left then."""
    for thread in range(1, board[N_THREADS]):
        if wait(board, row_of(thread, COUNTS), -i - 1) == STOPPED:
            raise RuntimeError("a thread of the mixer failed")


@inlined
def predict_bit(
    number: int, prefix: int, k: int, order1: int, has_gpt: bool, together: bool, mixer: MixerArrays, scratch: Scratch,
    own: Share, board: Array,
) -> Any:  # fmt: skip
    """Fills in the inputs, and adds up this thread's columns. Returns the bit that the longest match expects (-1: none)."""
    past, facts, orders, inputs = mixer.past, scratch.facts, mixer.order_maps, own.evidence.inputs
    expected = expects(facts[sets.EXPECTED_BYTE], past[at.MATCH_LENGTH], prefix, k)
    long_expected = expects(facts[sets.LONG_EXPECTED], past[at.LONG_MATCH_LENGTH], prefix, k)
    read_matches(expected, long_expected, k, facts, past, mixer.match_map, mixer.match_byte_map, inputs)
    inputs[4] = 256
    inputs[5], inputs[6] = log_odds_of(orders[0, prefix]), log_odds_of(orders[0, order1])
    inputs[7], inputs[8] = log_odds_of(orders[1, prefix]), log_odds_of(orders[1, order1])
    gpt_step: Any = 0
    if has_gpt:
        p = share_of_one(scratch.cumulative, prefix, k)
        gpt_log_odds = log_odds_of_share(p)
        inputs[GPT_INPUT], inputs[GPT_INPUT + 1] = gpt_log_odds, (p - 32768) >> 6
        gpt_step = curve_position(gpt_log_odds) >> 8
    facts[sets.GPT_BYTE] = sets.likeliest_left(facts, prefix, k)
    if k == 4:
        find_second_halves(own.places, prefix)
    node = node_of(prefix, k)
    read_selecting(mixer.state_contexts, prefix, k, node, own.places, own.evidence)
    sets.select_rows(
        prefix, k, gpt_step, past, facts, mixer.state_contexts, own.evidence.seen, own.places.buckets, scratch.every_row
    )
    for s in range(own.columns.rows.size):
        own.columns.rows[s] = mixer.set_starts[s] + scratch.every_row[mixer.sets[s]]
    if together:
        for s in range(own.columns.rows.size):
            board[ROWS * WIDTH + s] = own.columns.rows[s]
        publish(board, ROWS, number)
    for f in range(sets.N_LAST):
        scratch.last_rows[f] = sets.LAST_STARTS[f] + scratch.every_row[sets.LAST_SETS[f]]
    for m in range(scratch.curves.size):
        scratch.curves[m] = curve_of(mixer.curve_kinds[m], prefix, past, facts, expected)
    fetch_curves(mixer.curves, scratch.curves)
    if has_gpt:
        refine_gpt(np.int64(inputs[GPT_INPUT]), mixer.gpt_curves, scratch.curves, inputs[EXTRA_INPUTS:])
    read_contexts(prefix, k, node, own.places, own.evidence)
    sum_columns(inputs, own.columns, own.columns.sums)
    return expected


@inlined
def learn_bit(
    bit: int, prefix: int, k: int, mixed: int, common: Any, expected: int, order1: int, has_gpt: bool, mixer: MixerArrays,
    scratch: Scratch, own: Share,
) -> None:  # fmt: skip
    """Everything that predicted the bit learns from it. `hand_out` has learned already: the last weights."""
    learn_curves(bit, mixed, mixer.curves, scratch.curves)
    if has_gpt:
        learn_curves(bit, np.int64(own.evidence.inputs[GPT_INPUT]), mixer.gpt_curves, scratch.curves)
    learn_share(bit, prefix, k, common, own)
    mixer.past[at.N_BITS] += 1
    learn_orders(bit, prefix, order1, mixer.order_maps)
    if expected >= 0:
        hit = 1 if expected == bit else 0
        steps, place = scratch.facts[sets.MATCH_STEP], match_place(scratch.facts, k)
        mixer.match_map[steps] = step_towards(np.int64(mixer.match_map[steps]), hit)
        mixer.match_byte_map[place] = step_towards(np.int64(mixer.match_byte_map[place]), hit)


@kernel
def code_plain(symbols: Array, frequencies: Array, coded: Array, state: Array, words: Array) -> None:
    """Codes `symbols` (n,) int64 bit by bit under the given frequencies (n, 256) int32 alone, with a total of 2**24 per row.

    A decoder fills the symbols in. coded (n, 8) uint16, state and words: as in `code_mixed`.
    """
    cumulative = np.zeros(257, np.int64)
    for i in range(symbols.size):
        cumulate(frequencies[i], sets.AS_NUMBERS, cumulative)
        prefix = 1
        for k in range(8):
            frequency = clamp(share_of_one(cumulative, prefix, k), 1, 65535)
            bit = code_bit(symbols[i] >> (7 - k) & 1, frequency, state, words)
            coded[i, k] = frequency if bit else 65536 - frequency
            prefix = prefix << 1 | bit
        symbols[i] = prefix & 255
