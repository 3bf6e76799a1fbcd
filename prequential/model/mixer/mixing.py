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

from typing import Any

import numpy as np

from prequential.codecs.bit_coder import code_bit
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
MAX_MATCH_LENGTH = 65535

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
def find_bucket(table: Array, h: int, learns: bool) -> int:
    """The row of `table` that belongs to hash h. If there is none: made anew in place of the youngest of three, where `learns`;
    else the spare last row, which is as empty as a new one."""
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
def find_match(past: Array, ring: Array, matches: Array, learns: bool = True) -> None:
    """Where the last MIN_MATCH bytes stood before, if no match goes on already; and, where `learns`, that they stand here now."""
    position, mask = past[POSITION], ring.size - 1
    place = hashed(past[LAST4], past[LAST8] & 0xFFFF) & (matches.size - 1)
    candidate = matches[place]
    if learns:
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
            past[MATCH_LENGTH] = min(past[MATCH_LENGTH] + 1, MAX_MATCH_LENGTH)
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


# ---- the inputs of a decision: k bits of the byte are known, `prefix` is a one followed by them


@inlined
def run_expects(run: int, prefix: int, k: int) -> int:
    """The bit that the last byte of `run` (byte << 8 | length) has next; -1 if there is none or it differs from the prefix."""
    if run & 255 == 0 or (run >> 8 | 256) >> (8 - k) != prefix:
        return -1
    return run >> (15 - k) & 1


@inlined
def run_step(run: int, k: int) -> int:
    """The index of a run in its map: by its length and the half of the byte."""
    return min(run & 255, 31) + (32 if k >= 4 else 0)


@inlined
def read_contexts(
    prefix: int, k: int, table: Array, buckets: Array, node: int, runs: Array, history_maps: Array, run_maps: Array,
    inputs: Array,
) -> None:  # fmt: skip
    """Four inputs for each context."""
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
        inputs[n + 3] = 0 if bit < 0 else signed(bit, STRETCH[np.int64(run_maps[c, run_step(runs[c], k)]) >> 20])
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
    """What `read_contexts` read, moves towards the bit."""
    for c in range(buckets.size):
        v = np.int64(table[buckets[c], node])
        history, p, age = v >> 16, v & 0xFFF0, v & 15
        if history != 0:
            history_maps[c, history] = step_towards(np.int64(history_maps[c, history]), bit, HISTORY_AGE_LIMIT)
        p = clamp(p + ((((bit << 16) - p) * NODE_RATE[age]) >> 16), 16, 65520) & 0xFFF0
        table[buckets[c], node] = np.int64(NEXT_HISTORY[history, bit]) << 16 | p | min(age + 1, NODE_AGE_LIMIT)
        expected = run_expects(runs[c], prefix, k)
        if expected >= 0:
            step = run_step(runs[c], k)
            run_maps[c, step] = step_towards(np.int64(run_maps[c, step]), 1 if expected == bit else 0, RUN_AGE_LIMIT)


@inlined
def centred(p: int) -> int:
    """A probability of 16 bits as an input: 0 for one half."""
    return (p - 32768) >> 6


@inlined
def signed(bit: int, x: int) -> int:
    return x if bit else -x


@inlined
def sum_up(frequencies: Array, below: Array) -> None:
    """below[v] = the sum of the first v of 256 frequencies."""
    for v in range(256):
        below[v + 1] = below[v] + np.int64(frequencies[v])


@inlined
def share_of_one(below: Array, prefix: int, k: int) -> int:
    """Of the frequencies of the bytes that begin with the prefix, the share of those that go on with a one, in 2**-16."""
    size = 256 >> k
    first = (prefix << (8 - k)) & 255
    total = below[first + size] - below[first]
    return ((below[first + size] - below[first + size // 2]) << 16) // total


# ---- mixing


@inlined
def mix(inputs: Array, weights: Array, chosen: Array, last: Array, outputs: Array) -> int:
    """The last weights' log-odds from those of each set, outputs (N_SETS,), by the chosen rows of `weights`."""
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
    """Each set by its own error, the last weights by that of the mixed log-odds."""
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
    """Falls from nine times MIXING_RATE to it, over the first 2**18 bits."""
    return MIXING_RATE + (8 * MIXING_RATE // (1 + (n_bits >> 13)) if n_bits < 1 << 18 else 0)


@inlined
def on_curve(log_odds: int) -> int:
    """Where log-odds lie on a curve of REFINED_STEPS points, in 1/128 of a step."""
    return clamp(log_odds, -2047, 2047) + 2048


@inlined
def read_curve(curve: Array, log_odds: int) -> int:
    """The probability between the two points around the log-odds."""
    at = on_curve(log_odds)
    lower, share = at >> 7, at & 127
    return (np.int64(curve[lower]) * (128 - share) + np.int64(curve[lower + 1]) * share) >> 7


@inlined
def learn_curve(bit: int, curve: Array, log_odds: int) -> None:
    """The nearer point moves towards the bit."""
    nearer = (on_curve(log_odds) + 64) >> 7
    curve[nearer] = np.int64(curve[nearer]) + ((65535 * bit - np.int64(curve[nearer])) >> 6)


# ---- prediction, coding and learning


@kernel
def code_mixed(
    symbols: Array, frequencies: Array, coded: Array, kinds: Array, table: Array, history_maps: Array, run_maps: Array,
    match_map: Array, weights: Array, last_weights: Array, refined: Array, ring: Array, matches: Array, past: Array,
    learns: bool, state: Array, words: Array,
) -> None:  # fmt: skip
    """Codes the bytes `symbols` (n,) int64 in order, learning from each bit; a decoder fills them in.

    learns: False writes nothing that was learned. Only the past, but for N_BITS, and the ring go on.
    frequencies: the GPT's, (n, 256) int32, or (0, 256) without a GPT. coded (n, 8) uint16: gets the frequencies under which
    the bits were coded. kinds: (C,) int64, indices into model.config.CONTEXTS. The others are model/mixer/mixer.py's and the coder's.
    """
    every, hashes = np.zeros(N_CONTEXTS, np.int64), np.zeros(kinds.size, np.int64)
    heads, buckets, runs = np.zeros_like(hashes), np.zeros_like(hashes), np.zeros_like(hashes)
    inputs, outputs = np.zeros(weights.shape[1], np.int32), np.zeros(N_SETS, np.int32)
    chosen = np.zeros(N_SETS, np.int64)
    below = np.zeros(257, np.int64)
    extra = kinds.size * INPUTS_PER_CONTEXT
    has_gpt = frequencies.shape[0] > 0
    for i in range(symbols.size):
        if has_gpt:
            sum_up(frequencies[i], below)
        find_match(past, ring, matches, learns)
        length = past[MATCH_LENGTH]
        length_step = min(length, 31) if length < 32 else min(63, 32 + ((length - 32) >> 3))
        follows = np.int64(ring[past[MATCH] & (ring.size - 1)]) << 8 | min(length, 255)  # as a run
        context_hashes(past, ring, kinds, every, hashes)
        n_known = 0
        for c in range(kinds.size):
            heads[c] = buckets[c] = find_bucket(table, hashes[c], learns)
            runs[c] = np.int64(table[heads[c], 0]) & 0xFFFF
            if 1 <= kinds[c] <= 6 and np.int64(table[heads[c], 1]) >> 16 != 0:
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
            expected = run_expects(follows, prefix, k)
            inputs[extra] = inputs[extra + 1] = 0
            if expected >= 0:
                inputs[extra] = signed(expected, STRETCH[np.int64(match_map[length_step]) >> 20])
                inputs[extra + 1] = signed(expected, min(length, 32) * 16)
            inputs[extra + 2] = 256
            gpt_step = 0
            if has_gpt:
                p = share_of_one(below, prefix, k)
                inputs[extra + 3] = STRETCH[p >> 4]
                inputs[extra + 4] = centred(p)
                gpt_step = on_curve(np.int64(STRETCH[p >> 4])) >> 8
            match_step = 1 + min(length_step >> 2, 14) if expected >= 0 else 0
            chosen[0] = prefix
            chosen[1] = c1 * 8 + k
            chosen[2] = (match_step * 4 + (n_known >> 1)) * 8 + k
            chosen[3] = prefix * 4 + (n_known >> 1)
            chosen[4] = (n_known * 16 + gpt_step) * 8 + k
            chosen[5] = c2 * 4 + (0 if expected < 0 else 1 if length < 16 else 2 if length < 32 else 3)
            for s in range(N_SETS):
                chosen[s] += SET_STARTS[s]
            last = last_weights[prefix]
            mixed = mix(inputs, weights, chosen, last, outputs)
            by_byte, by_trigram = refined[0, c1 << 8 | prefix], refined[1, hashed(trigram, prefix) & 0xFFFF]
            p = squash(mixed) + read_curve(by_byte, mixed) + 2 * read_curve(by_trigram, mixed)
            frequency = clamp((p + 2) >> 2, 1, 65535)
            # code
            bit = code_bit(symbols[i] >> (7 - k) & 1, frequency, state, words)
            coded[i, k] = frequency if bit else 65536 - frequency
            if learns:
                learn_curve(bit, by_byte, mixed)
                learn_curve(bit, by_trigram, mixed)
                learn_mixing(bit, mixed, mixing_rate(past[N_BITS]), inputs, weights, chosen, last, outputs)
                past[N_BITS] += 1
                learn_contexts(bit, prefix, k, table, buckets, node, runs, history_maps, run_maps)
                if expected >= 0:
                    step = step_towards(np.int64(match_map[length_step]), 1 if expected == bit else 0, RUN_AGE_LIMIT)
                    match_map[length_step] = step
            prefix = prefix << 1 | bit
        byte = prefix & 255
        symbols[i] = byte
        if learns:
            for c in range(kinds.size):
                again = min((runs[c] & 255) + 1, 255) if runs[c] & 255 != 0 and runs[c] >> 8 == byte else 1
                table[heads[c], 0] = (np.int64(table[heads[c], 0]) & 0xFFFF0000) | byte << 8 | again
        advance(past, ring, byte)


@kernel
def code_plain(symbols: Array, frequencies: Array, coded: Array, state: Array, words: Array) -> None:
    """Codes `symbols` (n,) int64 bit by bit under given frequencies (n, 256) int32 alone, each row with total 2**24.

    A decoder fills the symbols in. coded (n, 8) uint16: as in `code_mixed`.
    """
    below = np.zeros(257, np.int64)
    for i in range(symbols.size):
        sum_up(frequencies[i], below)
        prefix = 1
        for k in range(8):
            frequency = clamp(share_of_one(below, prefix, k), 1, 65535)
            bit = code_bit(symbols[i] >> (7 - k) & 1, frequency, state, words)
            coded[i, k] = frequency if bit else 65536 - frequency
            prefix = prefix << 1 | bit
        symbols[i] = prefix & 255
