"""Context mixing, bit by bit, as compiled integer loops: many contexts each predict the next bit, small networks mix them.

The family is that of Mahoney's PAQ (2005) and lpaq (2007): logistic mixing of adaptive predictions in the log-odds domain, weight
sets chosen by small contexts, a second mixer above them, and adaptive maps on the result. The design here is our own and simple:

    bucket    one cache line of a hashed table for each context and half byte: 15 nodes of the half byte's binary tree, and a
              head of checksum, last byte seen and its run length
    node      a bounded history of the bits seen here (`histories`), an adaptive probability and its age, in 32 bits
    inputs    for each context four: what its history, as a class, turned out to mean (twice: log-odds and probability), the
              node's own probability, and whether the byte last seen here comes again; besides, the longest match, a bias, the GPT
    mixing    each of several weight sets gives a log-odds; a last set mixes those; two adaptive maps refine the result

Everything is an integer of at most 64 bits and every sum is exact, so compiled and interpreted (NUMBA_DISABLE_JIT=1) runs agree.

Units: log-odds in 1/256 nat, within +-12 nats; probabilities of a one in 2**-16; weights in 2**-16; hashes of 32 bits.
"""

import math
from typing import Any

import numpy as np

from prequential.exact.bit_coder import code_bit
from prequential.exact.fused_loops import Array, inlined, kernel
from prequential.exact.tables import log_odds_tables

N_CONTEXTS = 23  # kinds: `context_hashes`, in the order of model.config.CONTEXTS

# The past, int64: what contexts are made of, and where the longest match points.
(
    POSITION, LAST4, LAST8, WORD, WORD2, WORD3, CLASSES, LINE, LINE_ABOVE, FIRST, MARK, MARK2, MATCH, MATCH_LENGTH, N_BITS,
) = range(15)  # fmt: skip
PAST_SIZE = 15

SLOTS = 16  # of a bucket: the head and 15 nodes
NEW_NODE = np.uint32(0x8000)  # no history, probability one half, age 0
INPUTS_PER_CONTEXT = 4
EXTRA_INPUTS = 5  # match (2), bias, GPT (2)
MATCH_MAP, RUN_MAP = 64, 64  # adaptive probabilities of a match by its length, of a run by its length and half byte
MIN_MATCH = 6
MAX_VERIFIED = 32

HASH_MASK = 0xFFFFFFFF
LOG_ODDS_LIMIT = 3071
STRETCH, SQUASH = (
    log_odds_tables()
)  # (4096,) int32 log-odds of a probability in 2**-12; (6143,) int32 probability of log-odds
RECIPROCAL = np.array([65536 * 2 // (2 * n + 3) for n in range(1024)], np.int64)  # 1 / (n + 1.5)
NODE_RATE = np.array([655360 // (24 * n + 16) for n in range(16)], np.int64)  # 1 / (2.4 n + 1.6)
HISTORY_AGE_LIMIT, RUN_AGE_LIMIT, NODE_AGE_LIMIT = 255, 1023, 15

# Weight sets: which small context chooses the weights of each, and how many there are.
SET_SIZES = (256, 256 * 8, 16 * 4 * 8, 256 * 4, 8 * 16 * 8, 256 * 4)
N_SETS = len(SET_SIZES)
SET_STARTS = np.cumsum((0, *SET_SIZES))[:-1].astype(np.int64)
MIXING_RATE = 8
REFINED_MAPS, REFINED_CONTEXTS, REFINED_STEPS = 2, 1 << 16, 33


def _histories() -> tuple[Array, Array, Array]:
    """The bounded histories of bits, as a machine: next state (S, 2) uint16, age (S,) uint8, probability of a one (S,) in 2**-22.

    A history is (zeros, ones, last bits): the first bits exactly; later two bounded counts and the last two bits. A bit that
    comes against a count of more than 2 shortens that count, for what was long ago matters less; and the larger the one count,
    the lower the other's bound. State 0 is "nothing yet".
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
    for state in states:  # grows while we go
        for bit in (0, 1):
            if (new := after(state, bit)) not in number:
                number[new] = len(states)
                states.append(new)
        successors.append([number[after(state, bit)] for bit in (0, 1)])
    ages = [zeros + ones for zeros, ones, _ in states]
    probabilities = [((10 * ones + 4) << 22) // (10 * (zeros + ones) + 8) for zeros, ones, _ in states]
    return np.array(successors, np.uint16), np.array(ages, np.uint8), np.array(probabilities, np.int64)


NEXT_HISTORY, HISTORY_AGE, HISTORY_PROBABILITY = _histories()
N_HISTORIES = len(HISTORY_AGE)
assert N_HISTORIES <= 4096, "the replacement rule reads 12 bits of a node"


# ---- small parts


@inlined
def clamp(x: Any, low: int, high: int) -> Any:
    return max(low, min(high, x))


@inlined
def squash(log_odds: int) -> Any:
    return np.int64(SQUASH[log_odds + LOG_ODDS_LIMIT])


@inlined
def hashed(a: int, b: int) -> int:
    """A hash of 32 bits of two numbers of 32 bits: products stay below 2**62."""
    h = (a * 0x2F0B4C47 + b * 0x3C6EF35F + 0x7F4A7C15) & HASH_MASK
    h = ((h ^ (h >> 15)) * 0x2C1B3C6D) & HASH_MASK
    return h ^ (h >> 13)


@inlined
def step_towards(packed: int, bit: int, limit: int) -> int:
    """An adaptive probability of 22 bits over an age of 10 bits, one observation later."""
    age = packed & 1023
    p = packed >> 10
    p += (((bit << 22) - p) * RECIPROCAL[age]) >> 16
    return (p << 10) | min(age + 1, limit)


@inlined
def is_letter(c: int) -> bool:
    return (97 <= c <= 122) or (65 <= c <= 90) or c >= 128


@inlined
def find_bucket(table: Array, h: int) -> int:
    """The row of `table` that belongs to hash h, made anew in place of the youngest of three if there is none."""
    mask = table.shape[0] - 1
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
    for k in range(1, SLOTS):
        table[best, k] = NEW_NODE
    table[best, 0] = np.uint32(check << 16)
    return best


# ---- contexts


@inlined
def context_hashes(past: Array, ring: Array, kinds: Array, every: Array, hashes: Array) -> None:
    """hashes[i] of context kinds[i], from the past; `every` is room for all kinds."""
    last4, last8 = past[LAST4], past[LAST8]
    c1 = last4 & 255
    word, word2, word3 = past[WORD], past[WORD2], past[WORD3]
    in_word = is_letter(c1)
    mark = 0 if in_word else c1
    column = past[POSITION] - past[LINE]
    above: Any = 0
    if past[LINE_ABOVE] + column < past[LINE]:
        above = np.int64(ring[(past[LINE_ABOVE] + column) & (ring.size - 1)])
    expected: Any = 256
    if past[MATCH_LENGTH] > 0:
        expected = np.int64(ring[past[MATCH] & (ring.size - 1)])
    every[0] = 0
    every[1] = c1
    every[2] = last4 & 0xFFFF
    every[3] = last4 & 0xFFFFFF
    every[4] = last4
    every[5] = hashed(last4, last8 & 0xFF)
    every[6] = hashed(last4, last8 & 0xFFFF)
    every[7] = hashed(last4, last8)
    every[8] = word
    every[9] = hashed(word, mark)
    every[10] = hashed(word, word2)
    every[11] = hashed(word, word3)
    every[12] = hashed(word, hashed(word2, word3))
    every[13] = hashed(word, hashed(last4 >> 8 & 0xFF, 77) if in_word else last4 & 0xFFFF)
    every[14] = last4 & 0xFFFF00
    every[15] = last4 & 0xFF00FF
    every[16] = last4 & 0xFFFF0000
    every[17] = hashed(above, c1)
    every[18] = hashed(min(column, 255), above)
    every[19] = hashed(past[FIRST], word)
    every[20] = hashed(past[CLASSES], c1)
    every[21] = hashed(expected, min(past[MATCH_LENGTH], 32))
    every[22] = hashed(hashed(word, past[MARK]), past[MARK2])
    for i in range(kinds.size):
        hashes[i] = hashed(every[kinds[i]], kinds[i] + 1)


@inlined
def find_match(past: Array, ring: Array, matches: Array) -> None:
    """Where the last MIN_MATCH bytes stood before, if no match goes on already; and that they stand here now."""
    position, mask = past[POSITION], ring.size - 1
    place = hashed(past[LAST4], past[LAST8] & 0xFFFF) & (matches.size - 1)
    candidate = matches[place]
    matches[place] = position
    if past[MATCH_LENGTH] > 0 or candidate == 0 or position - candidate >= ring.size - MAX_VERIFIED:
        return
    length = 0
    while (
        length < MAX_VERIFIED and length < candidate
        and ring[(candidate - 1 - length) & mask] == ring[(position - 1 - length) & mask]
    ):  # fmt: skip
        length += 1
    if length >= MIN_MATCH:
        past[MATCH], past[MATCH_LENGTH] = candidate, length


@inlined
def advance(past: Array, ring: Array, byte: int) -> None:
    """The past, one byte later."""
    position, mask = past[POSITION], ring.size - 1
    if past[MATCH_LENGTH] > 0:
        if np.int64(ring[past[MATCH] & mask]) == byte:
            past[MATCH_LENGTH] = min(past[MATCH_LENGTH] + 1, 65535)
            past[MATCH] += 1
        else:
            past[MATCH_LENGTH] = 0
    ring[position & mask] = np.uint8(byte)
    position += 1
    past[POSITION] = position
    past[LAST8] = ((past[LAST8] << 8) | (past[LAST4] >> 24)) & HASH_MASK
    past[LAST4] = ((past[LAST4] << 8) | byte) & HASH_MASK
    if is_letter(byte):
        past[WORD] = hashed(past[WORD], byte + 32 if 65 <= byte <= 90 else byte)
        kind = 0
    else:
        if past[WORD] != 0:
            past[MARK2], past[MARK] = past[MARK], byte
            past[WORD3], past[WORD2], past[WORD] = past[WORD2], past[WORD], 0
        kind = 1 if 48 <= byte <= 57 else 2 if byte == 32 else 3 if byte == 10 else 4 + (byte & 15)
    past[CLASSES] = ((past[CLASSES] << 5) | kind) & HASH_MASK
    if byte == 10:
        past[LINE_ABOVE], past[LINE], past[FIRST] = past[LINE], position, 0
    elif past[FIRST] == 0:
        past[FIRST] = byte


# ---- prediction, coding and learning, a byte at a time


@kernel
def code_mixed(
    symbols: Array, frequencies: Array, kinds: Array, table: Array, maps: Array, weights: Array, last_weights: Array,
    refined: Array, ring: Array, matches: Array, past: Array, state: Array, words: Array,
) -> float:  # fmt: skip
    """Codes the bytes `symbols` (n,) int64 in order, learning from each; a decoder fills them in. Returns their ideal bits.

    frequencies: the GPT's, (n, 256) int32, or (0, 256) without a GPT. kinds: (C,) int64, indices into
    model.config.CONTEXTS. The other arrays are model/mixer.py's; state and words are the coder's.
    """
    n_contexts = kinds.size
    n_inputs = weights.shape[1]
    run_maps = n_contexts * N_HISTORIES
    match_maps = run_maps + n_contexts * RUN_MAP
    every, hashes = np.zeros(N_CONTEXTS, np.int64), np.zeros(n_contexts, np.int64)
    heads, buckets, runs = (
        np.zeros(n_contexts, np.int64), np.zeros(n_contexts, np.int64), np.zeros(n_contexts, np.int64),
    )  # fmt: skip
    inputs, outputs = np.zeros(n_inputs, np.int32), np.zeros(N_SETS, np.int32)
    chosen, predicted = np.zeros(N_SETS, np.int64), np.zeros(N_SETS, np.int64)
    below = np.zeros(257, np.int64)  # the GPT's frequencies, summed up
    extra = n_contexts * INPUTS_PER_CONTEXT
    has_gpt = frequencies.shape[0] > 0
    code_bits = 0.0
    for i in range(symbols.size):
        byte = symbols[i]
        if has_gpt:
            for j in range(256):
                below[j + 1] = below[j] + np.int64(frequencies[i, j])
        find_match(past, ring, matches)
        length = past[MATCH_LENGTH]
        expected = np.int64(ring[past[MATCH] & (ring.size - 1)]) | 256 if length > 0 else 0
        length_step = min(length, 31) if length < 32 else min(63, 32 + ((length - 32) >> 3))
        context_hashes(past, ring, kinds, every, hashes)
        n_known = 0
        for c in range(n_contexts):
            heads[c] = buckets[c] = find_bucket(table, hashes[c])
            runs[c] = np.int64(table[heads[c], 0]) & 0xFFFF  # last byte << 8 | run length
            if 1 <= kinds[c] <= 6 and np.int64(table[heads[c], 1]) >> 16 != 0:
                n_known += 1
        c1, c2 = past[LAST4] & 255, past[LAST4] >> 8 & 255
        trigram = hashed(past[LAST4] & 0xFFFFFF, 3)
        prefix = 1  # the bits of this byte so far, after a leading one
        low = 0  # the first byte that begins with them
        for k in range(8):
            if k == 4:
                for c in range(n_contexts):
                    buckets[c] = find_bucket(table, hashed(hashes[c], prefix))
            node = prefix if k < 4 else (prefix & ((1 << (k - 4)) - 1)) | (1 << (k - 4))
            late = 32 if k >= 4 else 0
            # inputs
            n = 0
            for c in range(n_contexts):
                v = np.int64(table[buckets[c], node])
                history = v >> 16
                if history == 0:
                    inputs[n] = inputs[n + 1] = inputs[n + 2] = 0
                else:
                    p = np.int64(maps[c * N_HISTORIES + history]) >> 16
                    inputs[n] = STRETCH[p >> 4]
                    inputs[n + 1] = (p - 32768) >> 6
                    inputs[n + 2] = STRETCH[v >> 4 & 0xFFF]
                run = runs[c]
                inputs[n + 3] = 0
                if run & 255 != 0 and (run >> 8 | 256) >> (8 - k) == prefix:
                    p = np.int64(maps[run_maps + c * RUN_MAP + min(run & 255, 31) + late]) >> 20
                    inputs[n + 3] = STRETCH[p] if run >> (15 - k) & 1 else -STRETCH[p]
                n += INPUTS_PER_CONTEXT
            matching = length > 0 and expected >> (8 - k) == prefix
            expected_bit = expected >> (7 - k) & 1
            inputs[extra] = inputs[extra + 1] = 0
            if matching:
                p = STRETCH[np.int64(maps[match_maps + length_step]) >> 20]
                inputs[extra] = p if expected_bit else -p
                inputs[extra + 1] = min(length, 32) * 16 * (2 * expected_bit - 1)
            inputs[extra + 2] = 256
            gpt_step = 0
            if has_gpt:
                size = 256 >> k
                total = below[low + size] - below[low]
                p = ((below[low + size] - below[low + size // 2]) << 16) // total
                inputs[extra + 3] = STRETCH[p >> 4]
                inputs[extra + 4] = (p - 32768) >> 6
                gpt_step = (clamp(np.int64(STRETCH[p >> 4]), -2047, 2047) + 2048) >> 8
            # mixing
            match_step = 1 + min(length_step >> 2, 14) if matching else 0
            chosen[0] = prefix
            chosen[1] = c1 * 8 + k
            chosen[2] = (match_step * 4 + (n_known >> 1)) * 8 + k
            chosen[3] = prefix * 4 + min(n_known >> 1, 3)
            chosen[4] = (n_known * 16 + gpt_step) * 8 + k
            chosen[5] = c2 * 4 + (0 if not matching else 1 if length < 16 else 2 if length < 32 else 3)
            last = last_weights[prefix]
            mixed = np.int64(0)
            for s in range(N_SETS):
                chosen[s] += SET_STARTS[s]
                w = weights[chosen[s]]
                total = np.int64(0)
                for j in range(n_inputs):
                    total += np.int64(w[j]) * np.int64(inputs[j])
                total = clamp(total >> 16, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
                outputs[s] = total
                predicted[s] = squash(total)
                mixed += np.int64(last[s]) * total
            mixed = clamp(mixed >> 16, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
            p_mixed = squash(mixed)
            # refinement: each map interpolates between two of 33 log-odds, and learns at the nearer
            at = clamp(mixed, -2047, 2047) + 2048
            lower, share = at >> 7, at & 127
            maps1, maps2 = refined[0, c1 << 8 | prefix], refined[1, hashed(trigram, prefix) & 0xFFFF]
            p1 = (np.int64(maps1[lower]) * (128 - share) + np.int64(maps1[lower + 1]) * share) >> 7
            p2 = (np.int64(maps2[lower]) * (128 - share) + np.int64(maps2[lower + 1]) * share) >> 7
            frequency = clamp((p_mixed + p1 + 2 * p2 + 2) >> 2, 1, 65535)
            # coding
            bit = code_bit(byte >> (7 - k) & 1, frequency, state, words)
            code_bits += 16.0 - math.log2(frequency if bit else (1 << 16) - frequency)
            # learning
            nearer = lower + (1 if share >= 64 else 0)
            maps1[nearer] = np.int64(maps1[nearer]) + ((65535 * bit - np.int64(maps1[nearer])) >> 6)
            maps2[nearer] = np.int64(maps2[nearer]) + ((65535 * bit - np.int64(maps2[nearer])) >> 6)
            error = (bit << 16) - p_mixed
            for s in range(N_SETS):
                last[s] += (np.int64(outputs[s]) * error + (1 << 17)) >> 18
            rate = MIXING_RATE
            if past[N_BITS] < 1 << 18:
                rate += 8 * MIXING_RATE // (1 + (past[N_BITS] >> 13))
            past[N_BITS] += 1
            for s in range(N_SETS):
                error = ((bit << 16) - predicted[s]) * rate
                w = weights[chosen[s]]
                for j in range(n_inputs):
                    w[j] += (np.int64(inputs[j]) * error + (1 << 19)) >> 20
            for c in range(n_contexts):
                v = np.int64(table[buckets[c], node])
                history, p, age = v >> 16, v & 0xFFF0, v & 15
                if history != 0:
                    m = c * N_HISTORIES + history
                    maps[m] = step_towards(np.int64(maps[m]), bit, HISTORY_AGE_LIMIT)
                p = clamp(p + ((((bit << 16) - p) * NODE_RATE[age]) >> 16), 16, 65520) & 0xFFF0
                table[buckets[c], node] = np.int64(NEXT_HISTORY[history, bit]) << 16 | p | min(age + 1, NODE_AGE_LIMIT)
                run = runs[c]
                if run & 255 != 0 and (run >> 8 | 256) >> (8 - k) == prefix:
                    m = run_maps + c * RUN_MAP + min(run & 255, 31) + late
                    maps[m] = step_towards(np.int64(maps[m]), 1 if run >> (15 - k) & 1 == bit else 0, RUN_AGE_LIMIT)
            if matching:
                m = match_maps + length_step
                maps[m] = step_towards(np.int64(maps[m]), 1 if expected_bit == bit else 0, RUN_AGE_LIMIT)
            prefix = prefix << 1 | bit
            low += bit * (128 >> k)
        byte = prefix & 255
        symbols[i] = byte
        for c in range(n_contexts):
            run = runs[c]
            again = min((run & 255) + 1, 255) if run & 255 != 0 and run >> 8 == byte else 1
            table[heads[c], 0] = (np.int64(table[heads[c], 0]) & 0xFFFF0000) | byte << 8 | again
        advance(past, ring, byte)
    return code_bits


@kernel
def code_plain(symbols: Array, frequencies: Array, state: Array, words: Array) -> float:
    """Codes `symbols` (n,) int64 bit by bit under given frequencies (n, 256) int32 alone, each row with total 2**24.

    A decoder fills the symbols in. Returns the ideal code length in bits.
    """
    below = np.zeros(257, np.int64)
    code_bits = 0.0
    for i in range(symbols.size):
        byte = symbols[i]
        for j in range(256):
            below[j + 1] = below[j] + np.int64(frequencies[i, j])
        low, size = 0, 256
        for k in range(8):
            size >>= 1
            total = below[low + 2 * size] - below[low]
            ones = below[low + 2 * size] - below[low + size]
            frequency = clamp((ones << 16) // total, 1, 65535)
            bit = code_bit(byte >> (7 - k) & 1, frequency, state, words)
            code_bits += 16.0 - math.log2(frequency if bit else (1 << 16) - frequency)
            low += bit * size
        symbols[i] = low
    return code_bits
