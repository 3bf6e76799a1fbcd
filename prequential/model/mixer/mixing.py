"""Context mixing as compiled integer loops: many contexts predict the next bit, and small networks mix the predictions.

The method is that of Mahoney's PAQ (2005) and lpaq (2007): adaptive predictions are mixed in the log-odds domain, small contexts
choose the sets of weights, a second mixer combines the sets, and adaptive maps refine the result. The parts here are:

    bucket    one cache line of a hashed table, for each context and half byte. It has 15 nodes, which are the inner nodes of the
              binary tree of the half byte, and a head: checksum, last byte seen in this context, and length of its run
    node      32 bits: a bounded history of the bits seen at this node (histories.py), an adaptive probability, and its age
    inputs    four for each context: the adaptive probability of its history, as log-odds and as probability; the log-odds of the
              node's own probability; and the log-odds that the last byte seen in this context is repeated. Five more: two for
              the longest match, a constant (the bias), and two for the GPT
    mixing    each weight set gives log-odds; the last weights mix these; two adaptive maps refine the result

Everything is an integer of at most 64 bits and all sums are exact. So compiled and interpreted runs (NUMBA_DISABLE_JIT=1) give
the same bits, and the kernels have no second definition in plain torch.

Units: log-odds in 1/256 nat, within +-12 nats; probabilities of a one in 2**-16; weights in 2**-16; hashes of 32 bits.
Letters: C contexts of this mixer, I inputs, n bytes in one call. k is the number of known bits of the current byte, and `prefix`
is a one followed by these bits.
"""

from typing import Any, NamedTuple

import numpy as np

from prequential.codecs.bit_coder import code_bit
from prequential.compiled import Array, inlined, kernel
from prequential.exact.tables import LOG_ODDS_LIMIT, log_odds_tables
from prequential.model.hashing import hashed
from prequential.model.mixer.contexts import (
    LAST4,
    MATCH,
    MATCH_LENGTH,
    N_BITS,
    N_CONTEXTS,
    advance,
    context_hashes,
    find_match,
)
from prequential.model.mixer.histories import HISTORY_AGE, NEXT_HISTORY

SLOTS = 16  # numbers in a bucket: the head and 15 nodes
NEW_NODE = np.uint32(0x8000)  # no history, probability 1/2, age 0
INPUTS_PER_CONTEXT = 4
EXTRA_INPUTS = 5  # two for the match, the bias, two for the GPT
# Entries of two maps of adaptive probabilities: of a match by its length, and of a run by its length and the half of the byte.
MATCH_MAP, RUN_MAP = 64, 64
STRETCH, SQUASH = log_odds_tables()  # (4096,) int32: log-odds of a probability in 2**-12; (6143,) int32: the inverse
RECIPROCAL = np.array([65536 * 2 // (2 * n + 3) for n in range(1024)], np.int64)  # 1 / (n + 1.5)
NODE_RATE = np.array([655360 // (24 * n + 16) for n in range(16)], np.int64)  # 1 / (2.4 n + 1.6)
HISTORY_AGE_LIMIT, RUN_AGE_LIMIT, NODE_AGE_LIMIT = 255, 1023, 15

# Each weight set has one row of weights for each value of a small context: the number of rows of each set.
SET_SIZES = (256, 256 * 8, 16 * 4 * 8, 256 * 4, 8 * 16 * 8, 256 * 4)
N_SETS = len(SET_SIZES)
SET_STARTS = np.cumsum((0, *SET_SIZES))[:-1].astype(np.int64)
MIXING_RATE = 8
# The adaptive maps of the result: how many, the contexts of each, and the points of the curve for each context.
REFINED_MAPS, REFINED_CONTEXTS, REFINED_STEPS = 2, 1 << 16, 33


# ---- small parts


@inlined
def clamp(x: Any, low: int, high: int) -> Any:
    return max(low, min(high, x))


@inlined
def squash(log_odds: int) -> Any:
    return np.int64(SQUASH[log_odds + LOG_ODDS_LIMIT])


@inlined
def step_towards(packed: int, bit: int, limit: int) -> int:
    """An adaptive probability, after one more observation. Its upper 22 bits are the probability, its lower 10 bits the age."""
    age = packed & 1023
    p = packed >> 10
    p += (((bit << 22) - p) * RECIPROCAL[age]) >> 16
    return (p << 10) | min(age + 1, limit)


@inlined
def find_bucket(table: Array, h: int, learns: bool) -> int:
    """The row of `table` that belongs to the hash h.

    If there is none, a new row replaces the youngest of the three candidates. A mixer that does not learn gets the spare last
    row instead, which is as empty as a new one.
    """
    spare = table.shape[0] - 1
    mask = spare - 1
    check = (h >> 16) | 1
    home = ((h * 0x2545F491) >> 9) & mask
    youngest: Any = 1 << 30
    best: Any = home
    for k in range(3):
        row = home ^ k
        head = np.int64(table[row, 0])
        if head >> 16 == check:
            return row
        age = np.int64(HISTORY_AGE[np.int64(table[row, 1]) >> 16]) if head != 0 else -1
        if age < youngest:
            youngest, best = age, row
    if not learns:
        return spare
    for k in range(1, SLOTS):
        table[best, k] = NEW_NODE
    table[best, 0] = np.uint32(check << 16)
    return best


# ---- the inputs of a decision


@inlined
def run_expects(run: int, prefix: int, k: int) -> int:
    """The next bit of the byte in `run` (byte << 8 | length); -1 if the run is empty or its byte differs from the prefix."""
    if run & 255 == 0 or (run >> 8 | 256) >> (8 - k) != prefix:
        return -1
    return run >> (15 - k) & 1


@inlined
def run_index(run: int, k: int) -> int:
    """The index in the run map: by the length of the run and the half of the byte."""
    return min(run & 255, 31) + (32 if k >= 4 else 0)


@inlined
def read_contexts(
    prefix: int, k: int, table: Array, buckets: Array, node: int, runs: Array, history_maps: Array, run_maps: Array,
    inputs: Array,
) -> None:  # fmt: skip
    """Fills in the four inputs of each context."""
    n = 0
    for c in range(buckets.size):
        v = np.int64(table[buckets[c], node])
        history = v >> 16
        if history == 0:
            inputs[n] = inputs[n + 1] = inputs[n + 2] = 0
        else:
            p = np.int64(history_maps[c, history]) >> 16
            inputs[n] = STRETCH[p >> 4]
            inputs[n + 1] = centred(p)
            inputs[n + 2] = STRETCH[v >> 4 & 0xFFF]
        bit = run_expects(runs[c], prefix, k)
        inputs[n + 3] = 0 if bit < 0 else signed(bit, STRETCH[np.int64(run_maps[c, run_index(runs[c], k)]) >> 20])
        n += INPUTS_PER_CONTEXT


@inlined
def learn_contexts(
    bit: int,
    prefix: int,
    k: int,
    table: Array,
    buckets: Array,
    node: int,
    runs: Array,
    history_maps: Array,
    run_maps: Array,
) -> None:
    """Moves the probabilities and histories that `read_contexts` read towards the bit."""
    for c in range(buckets.size):
        v = np.int64(table[buckets[c], node])
        history, p, age = v >> 16, v & 0xFFF0, v & 15
        if history != 0:
            history_maps[c, history] = step_towards(np.int64(history_maps[c, history]), bit, HISTORY_AGE_LIMIT)
        p = clamp(p + ((((bit << 16) - p) * NODE_RATE[age]) >> 16), 16, 65520) & 0xFFF0
        table[buckets[c], node] = np.int64(NEXT_HISTORY[history, bit]) << 16 | p | min(age + 1, NODE_AGE_LIMIT)
        expected = run_expects(runs[c], prefix, k)
        if expected >= 0:
            step = run_index(runs[c], k)
            run_maps[c, step] = step_towards(np.int64(run_maps[c, step]), 1 if expected == bit else 0, RUN_AGE_LIMIT)


@inlined
def centred(p: int) -> int:
    """A probability of 16 bits as an input: 0 for 1/2."""
    return (p - 32768) >> 6


@inlined
def signed(bit: int, x: int) -> int:
    """x for a one, -x for a zero."""
    return x if bit else -x


@inlined
def cumulate(frequencies: Array, cumulative: Array) -> None:
    """cumulative[v] = the sum of the first v of 256 frequencies."""
    for v in range(256):
        cumulative[v + 1] = cumulative[v] + np.int64(frequencies[v])


@inlined
def share_of_one(cumulative: Array, prefix: int, k: int) -> int:
    """The probability in 2**-16 that a one follows the prefix, from the cumulative frequencies of the 256 bytes."""
    size = 256 >> k
    first = (prefix << (8 - k)) & 255
    total = cumulative[first + size] - cumulative[first]
    return ((cumulative[first + size] - cumulative[first + size // 2]) << 16) // total


# ---- mixing


@inlined
def mix(inputs: Array, weights: Array, chosen: Array, last: Array, outputs: Array) -> int:
    """The log-odds that the last weights mix from the weight sets. outputs (N_SETS,) receives the log-odds of each set.

    chosen: the row of `weights` that each set uses.
    """
    mixed = np.int64(0)
    for s in range(N_SETS):
        w = weights[chosen[s]]
        total = np.int64(0)
        for j in range(inputs.size):
            total += np.int64(w[j]) * np.int64(inputs[j])
        outputs[s] = clamp(total >> 16, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        mixed += np.int64(last[s]) * np.int64(outputs[s])
    return clamp(mixed >> 16, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)


@inlined
def learn_mixing(
    bit: int, mixed: int, rate: int, inputs: Array, weights: Array, chosen: Array, last: Array, outputs: Array
) -> None:
    """One gradient step: each weight set by its own error, the last weights by the error of the mixed log-odds."""
    error = (bit << 16) - squash(mixed)
    for s in range(N_SETS):
        last[s] += (np.int64(outputs[s]) * error + (1 << 17)) >> 18
    for s in range(N_SETS):
        error = ((bit << 16) - squash(np.int64(outputs[s]))) * rate
        w = weights[chosen[s]]
        for j in range(inputs.size):
            w[j] += (np.int64(inputs[j]) * error + (1 << 19)) >> 20


@inlined
def mixing_rate(n_bits: int) -> int:
    """The step size of the weight sets: falls from 9 * MIXING_RATE to MIXING_RATE over the first 2**18 bits."""
    return MIXING_RATE + (8 * MIXING_RATE // (1 + (n_bits >> 13)) if n_bits < 1 << 18 else 0)


@inlined
def curve_position(log_odds: int) -> int:
    """The position of log-odds on a curve of REFINED_STEPS points, in 1/128 of the distance between two points."""
    return clamp(log_odds, -2047, 2047) + 2048


@inlined
def read_curve(curve: Array, log_odds: int) -> int:
    """The probability at the log-odds, interpolated between the two points around them."""
    position = curve_position(log_odds)
    lower, share = position >> 7, position & 127
    return (np.int64(curve[lower]) * (128 - share) + np.int64(curve[lower + 1]) * share) >> 7


@inlined
def learn_curve(bit: int, curve: Array, log_odds: int) -> None:
    """Moves the nearest point of the curve towards the bit."""
    nearer = (curve_position(log_odds) + 64) >> 7
    curve[nearer] = np.int64(curve[nearer]) + ((65535 * bit - np.int64(curve[nearer])) >> 6)


# ---- prediction, coding and learning


class MixerArrays(NamedTuple):
    """The arrays of a mixer, as the kernels take them."""

    kinds: Array  # (C,) int64: indices of its contexts in model.config.CONTEXTS
    table: Array  # (2**table_bits + 1, SLOTS) uint32: the buckets, and the spare last row (`find_bucket`)
    history_maps: Array  # (C, N_HISTORIES) uint32: adaptive probabilities of histories
    run_maps: Array  # (C, RUN_MAP) uint32: adaptive probabilities that a run continues
    match_map: Array  # (MATCH_MAP,) uint32: adaptive probabilities that the match continues
    weights: Array  # (sum of SET_SIZES, I) int32
    last_weights: Array  # (256, N_SETS) int32
    refined: Array  # (REFINED_MAPS, REFINED_CONTEXTS, REFINED_STEPS) uint16: the curves of the final maps
    ring: Array  # (a power of two,) uint8: the last bytes
    matches: Array  # (2**match_bits,) int64: positions, by the hash of the bytes before them
    past: Array  # (PAST_SIZE,) int64: see contexts.py
    learns: bool  # if False, kernels write only the ring and the past without N_BITS


@kernel
def code_mixed(
    symbols: Array, frequencies: Array, coded: Array, mixer: MixerArrays, state: Array, words: Array
) -> None:
    """Codes the bytes `symbols` (n,) int64 in order and learns from each bit. A decoder fills the bytes in.

    frequencies: those of the GPT, (n, 256) int32, or (0, 256) without a GPT. coded (n, 8) uint16: receives the frequency of each
    coded bit, of a total of 2**16. state, words: the arrays of a BitCoder.
    """
    kinds, table, history_maps, run_maps, match_map, weights, last_weights, refined, ring, matches, past, learns = mixer
    all_hashes, hashes = np.zeros(N_CONTEXTS, np.int64), np.zeros(kinds.size, np.int64)
    head_rows, buckets, runs = np.zeros_like(hashes), np.zeros_like(hashes), np.zeros_like(hashes)
    inputs, outputs = np.zeros(weights.shape[1], np.int32), np.zeros(N_SETS, np.int32)
    chosen = np.zeros(N_SETS, np.int64)
    cumulative = np.zeros(257, np.int64)
    first_extra = kinds.size * INPUTS_PER_CONTEXT
    has_gpt = frequencies.shape[0] > 0
    for i in range(symbols.size):
        if has_gpt:
            cumulate(frequencies[i], cumulative)
        find_match(past, ring, matches, learns)
        length = past[MATCH_LENGTH]
        length_index = min(length, 31) if length < 32 else min(63, 32 + ((length - 32) >> 3))
        # Byte and length of the match, in the form of a run.
        match_run = np.int64(ring[past[MATCH] & (ring.size - 1)]) << 8 | min(length, 255)
        context_hashes(past, ring, kinds, all_hashes, hashes)
        n_known = 0
        for c in range(kinds.size):
            head_rows[c] = buckets[c] = find_bucket(table, hashes[c], learns)
            runs[c] = np.int64(table[head_rows[c], 0]) & 0xFFFF
            if 1 <= kinds[c] <= 6 and np.int64(table[head_rows[c], 1]) >> 16 != 0:
                n_known += 1
        c1, c2 = past[LAST4] & 255, past[LAST4] >> 8 & 255
        trigram = hashed(past[LAST4] & 0xFFFFFF, 3)
        prefix = 1
        for k in range(8):
            if k == 4:
                for c in range(kinds.size):
                    buckets[c] = find_bucket(table, hashed(hashes[c], prefix), learns)
            node = prefix if k < 4 else (prefix & ((1 << (k - 4)) - 1)) | (1 << (k - 4))
            # predict
            read_contexts(prefix, k, table, buckets, node, runs, history_maps, run_maps, inputs)
            expected = run_expects(match_run, prefix, k)
            inputs[first_extra] = inputs[first_extra + 1] = 0
            if expected >= 0:
                inputs[first_extra] = signed(expected, STRETCH[np.int64(match_map[length_index]) >> 20])
                inputs[first_extra + 1] = signed(expected, min(length, 32) * 16)
            inputs[first_extra + 2] = 256
            gpt_index = 0
            if has_gpt:
                p = share_of_one(cumulative, prefix, k)
                inputs[first_extra + 3] = STRETCH[p >> 4]
                inputs[first_extra + 4] = centred(p)
                gpt_index = curve_position(np.int64(STRETCH[p >> 4])) >> 8
            match_index = 1 + min(length_index >> 2, 14) if expected >= 0 else 0
            chosen[0] = prefix
            chosen[1] = c1 * 8 + k
            chosen[2] = (match_index * 4 + (n_known >> 1)) * 8 + k
            chosen[3] = prefix * 4 + (n_known >> 1)
            chosen[4] = (n_known * 16 + gpt_index) * 8 + k
            chosen[5] = c2 * 4 + (0 if expected < 0 else 1 if length < 16 else 2 if length < 32 else 3)
            for s in range(N_SETS):
                chosen[s] += SET_STARTS[s]
            last = last_weights[prefix]
            mixed = mix(inputs, weights, chosen, last, outputs)
            byte_curve, trigram_curve = refined[0, c1 << 8 | prefix], refined[1, hashed(trigram, prefix) & 0xFFFF]
            p = squash(mixed) + read_curve(byte_curve, mixed) + 2 * read_curve(trigram_curve, mixed)
            frequency = clamp((p + 2) >> 2, 1, 65535)
            # code
            bit = code_bit(symbols[i] >> (7 - k) & 1, frequency, state, words)
            coded[i, k] = frequency if bit else 65536 - frequency
            if learns:
                learn_curve(bit, byte_curve, mixed)
                learn_curve(bit, trigram_curve, mixed)
                learn_mixing(bit, mixed, mixing_rate(past[N_BITS]), inputs, weights, chosen, last, outputs)
                past[N_BITS] += 1
                learn_contexts(bit, prefix, k, table, buckets, node, runs, history_maps, run_maps)
                if expected >= 0:
                    step = step_towards(np.int64(match_map[length_index]), 1 if expected == bit else 0, RUN_AGE_LIMIT)
                    match_map[length_index] = step
            prefix = prefix << 1 | bit
        byte = prefix & 255
        symbols[i] = byte
        if learns:
            for c in range(kinds.size):
                run_length = min((runs[c] & 255) + 1, 255) if runs[c] & 255 != 0 and runs[c] >> 8 == byte else 1
                table[head_rows[c], 0] = (np.int64(table[head_rows[c], 0]) & 0xFFFF0000) | byte << 8 | run_length
        advance(past, ring, byte)


@kernel
def code_plain(symbols: Array, frequencies: Array, coded: Array, state: Array, words: Array) -> None:
    """Codes `symbols` (n,) int64 bit by bit under the given frequencies (n, 256) int32 alone, with a total of 2**24 per row.

    A decoder fills the symbols in. coded (n, 8) uint16, state and words: as in `code_mixed`.
    """
    cumulative = np.zeros(257, np.int64)
    for i in range(symbols.size):
        cumulate(frequencies[i], cumulative)
        prefix = 1
        for k in range(8):
            frequency = clamp(share_of_one(cumulative, prefix, k), 1, 65535)
            bit = code_bit(symbols[i] >> (7 - k) & 1, frequency, state, words)
            coded[i, k] = frequency if bit else 65536 - frequency
            prefix = prefix << 1 | bit
        symbols[i] = prefix & 255
