"""The bit coder: the words of the plain coder with a total of 2**16, and exact decoding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_coder import plain_payload
from prequential_codecs.bit_coder import DECODE, ENCODE, FAULT, LOW, N_WORDS, TOTAL, WIDTH, BitCoder, code_bit

from prequential.errors import CorruptArchiveError
from prequential.machine.compiled import kernel

EXTREMES = st.sampled_from([1, 2, 32767, 32768, 32769, 65534, 65535])
FREQUENCIES = EXTREMES | st.integers(1, 65535)
DECISIONS = st.lists(st.tuples(st.integers(0, 1), FREQUENCIES), max_size=400)


@kernel
def code_bits(bits, frequencies, state, words):
    for i in range(bits.size):
        bits[i] = code_bit(bits[i], frequencies[i], state, words)


def run(coder, bits, frequencies):
    """Codes the decisions and returns them, decoded if the coder decodes, (n,) int64."""
    bits, frequencies = np.array(bits, np.int64), np.array(frequencies, np.int64)
    coder.reserve(-(-len(bits) // 8))
    code_bits(bits, frequencies, coder.state, coder.words)
    return bits


def encoded(bits, frequencies):
    coder = BitCoder(ENCODE)
    run(coder, bits, frequencies)
    return coder.payload()


def referenced(bits, frequencies):
    """The payload of plain_coder.py with a total of 2**16."""
    rows = np.array([(int(TOTAL) - f, f) for f in frequencies], np.int64).reshape(-1, 2)
    return plain_payload(np.array(bits, np.int64), rows)


def ideal_bits(bits, frequencies):
    bits, frequencies = np.array(bits), np.array(frequencies)
    return float((16 - np.log2(np.where(bits == 1, frequencies, 65536 - frequencies))).sum())


def assert_codes(bits, frequencies):
    payload = encoded(bits, frequencies)
    assert payload == referenced(bits, frequencies)
    decoder = BitCoder(DECODE, payload)
    assert run(decoder, np.zeros(len(bits)), frequencies).tolist() == list(bits)
    decoder.check_end()
    # less than 33 bits for the flush, up to 31 to fill the last word, and 2**-15 for each decision, because scale >= 2**16
    assert 8 * len(payload) <= ideal_bits(bits, frequencies) + 64 + len(bits) * 2**-15
    return payload


@settings(deadline=None)  # the first example may compile
@given(DECISIONS)
def test_words_are_those_of_the_plain_coder_and_decode_to_the_decisions(decisions):
    assert_codes([bit for bit, _ in decisions], [f for _, f in decisions])


def undecided(n_words):
    """Decisions whose words are 7fffffff and then n_words times ffffffff: a carry can still change all of them.

    After each decision, the end of the window is inside the interval: `low` is below it, and the interval's end is above it.
    """
    decisions = [(1, 32768), (0, 65535), (0, 65535)]
    run(coder := BitCoder(ENCODE), *zip(*decisions, strict=True))
    while int(coder.state[N_WORDS]) <= n_words:
        room, scale = (1 << 64) - int(coder.state[LOW]), int(coder.state[WIDTH]) >> 16
        below = (room - 1) // scale  # the largest frequency of a zero after which low is still in the window
        for decision in [(1, 65536 - below)] * (below > 0) + [(0, 65536 - (below + 2))]:
            if 1 <= decision[1] <= 65535:
                break
        run(coder, [decision[0]], [decision[1]])
        decisions.append(decision)
    return coder, decisions


@pytest.mark.parametrize("n_words", [1, 2, 7, 100])
def test_a_carry_changes_all_trailing_words_of_ones(n_words):
    coder, decisions = undecided(n_words)
    words = coder.words[: n_words + 1].tolist()
    assert words == [0x7FFFFFFF] + [0xFFFFFFFF] * n_words
    room, scale = (1 << 64) - int(coder.state[LOW]), int(coder.state[WIDTH]) >> 16
    last = (1, 65536 - (room // scale + 1))
    run(coder, *zip(last, strict=True))
    assert coder.words[: n_words + 1].tolist() == [0x80000000] + [0] * n_words
    for end in (last, (0, last[1])):
        assert_codes(*zip(*decisions, end, strict=True))


def test_payload_can_be_called_at_any_time_and_changes_nothing():
    random = np.random.default_rng(1)
    bits, frequencies = random.integers(0, 2, 300), random.integers(1, 65536, 300)
    coder = BitCoder(ENCODE)
    for i in range(300):
        run(coder, bits[i : i + 1], frequencies[i : i + 1])
        assert coder.payload() == encoded(bits[: i + 1], frequencies[: i + 1])


def test_reserve_makes_room_for_the_most_improbable_bytes():
    coder = BitCoder(ENCODE)
    for _ in range(3):
        run(coder, [1] * 80_000, [1] * 80_000)  # 10,000 bytes of 128 bits
    assert len(coder.payload()) >= 240_000 * 2


# ---- damage


def drawn_message(n=2000, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 2, n), random.integers(1, 65536, n)


@pytest.mark.parametrize(
    ("n_coded", "n_more_words", "n_read"),
    [(2000, 2, 2000), (2000, 11, 2000), (2000, 0, 1), (2000, 0, 300), (0, 0, 10), (0, 1, 0)],
)
def test_a_payload_that_is_longer_or_shorter_than_its_decisions_is_refused(n_coded, n_more_words, n_read):
    bits, frequencies = drawn_message()
    payload = encoded(bits[:n_coded], frequencies[:n_coded]) + b"\1\0\0\0" * n_more_words
    decoder = BitCoder(DECODE, payload)
    run(decoder, np.zeros(n_read), frequencies[:n_read])
    with pytest.raises(CorruptArchiveError):
        decoder.check_end()


@given(st.binary(max_size=64), st.lists(FREQUENCIES, max_size=300))
def test_any_payload_decodes_to_some_bits_or_is_refused(payload, frequencies):
    if len(payload) % 4:
        with pytest.raises(CorruptArchiveError, match="32-bit words"):
            BitCoder(DECODE, payload)
        return
    decoder = BitCoder(DECODE, payload)
    decoded = run(decoder, np.zeros(len(frequencies)), frequencies)
    assert set(decoded.tolist()) <= {0, 1}
    try:
        decoder.check_end()
    except CorruptArchiveError:
        return
    assert_codes(decoded.tolist(), frequencies)


def test_a_point_in_the_rounding_gap_is_a_fault():
    """At the start, width = 2**64 - 1 and scale * 2**16 is less by 2**16 - 1. No decision uses this gap."""
    decoder = BitCoder(DECODE, b"\xff" * 8)
    run(decoder, [0], [5])
    assert decoder.state[FAULT]
    with pytest.raises(CorruptArchiveError, match="outside"):
        decoder.check()
