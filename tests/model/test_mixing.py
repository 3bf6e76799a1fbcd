"""The context mixer: compiled and interpreted kernels agree, decoded bytes are right, and no bit depends on later bits."""

import math
import os
import runpy
import subprocess
import sys
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prequential.codecs.baselines.frequencies import ideal_code_bits
from prequential.codecs.bit_coder import DECODE, ENCODE, FOLLOW, UNIT_BITS, BitCoder, ideal_bits
from prequential.corpora.bundled import sample_path
from prequential.exact.digest import digest
from prequential.exact.tables import LOG_ODDS_LIMIT, log_odds_tables
from prequential.model.config import CONTEXTS, MixerConfig
from prequential.model.mixer import contexts, histories, mixing
from prequential.model.mixer.mixer import Mixer

CHILD = Path(__file__).parent / "mixing_child.py"
drawn_frequencies = runpy.run_path(str(CHILD))["drawn_frequencies"]
SMALL = MixerConfig(table_bits=6, match_bits=6)
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 40_000).astype(np.int64)


def make_mixer(config=SMALL, ring_bits=10):
    return Mixer(config, np.zeros(1 << ring_bits, np.uint8))


def code(mixer, coder, symbols, frequencies=None, cuts=()):
    """Codes `symbols` in several calls. Returns the symbols that the coder leaves, and their ideal bits."""
    symbols = np.array(symbols, np.int64)
    coder.reserve(len(symbols))
    code_bits = 0.0
    for a, b in pairwise([0, *sorted(cuts), len(symbols)]):
        code_bits += ideal_bits(
            mixer.code(symbols[a:b], None if frequencies is None else frequencies[a:b], coder)
        ).sum()
    return symbols, code_bits


def followed(mixer, symbols, frequencies=None):
    return code(mixer, BitCoder(FOLLOW), symbols, frequencies)[1]


def assert_same_state(a, b):
    for name, tensor in a.state().items():
        assert (tensor == b.state()[name]).all(), name
    assert digest(a.state()) == digest(b.state())


# ---- the same bits in every way


def test_interpreted_kernels_give_the_bits_of_the_compiled_ones_and_no_integer_overflows():
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    child = subprocess.run(
        [sys.executable, str(CHILD)], env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == runpy.run_path(str(CHILD))["fingerprint"]()


@settings(max_examples=40)
@given(
    data=st.data(), text=st.binary(max_size=60) | st.binary(max_size=12).map(lambda part: part * 6), gpt=st.booleans()
)
def test_a_decoder_finds_the_bytes_and_ends_in_the_encoders_state_for_any_division_into_calls(data, text, gpt):
    cuts = st.sets(st.integers(1, max(1, len(text) - 1)), max_size=5 if len(text) > 1 else 0)
    frequencies = drawn_frequencies(len(text), 5) if gpt else None
    encoder, decoder, follower = make_mixer(), make_mixer(), make_mixer()
    coder = BitCoder(ENCODE)
    _, code_bits = code(encoder, coder, list(text), frequencies, data.draw(cuts))
    reader = BitCoder(DECODE, coder.payload())
    found, decoded_bits = code(decoder, reader, [0] * len(text), frequencies, data.draw(cuts))
    assert bytes(found.astype(np.uint8)) == text
    reader.check_end()
    assert decoded_bits == pytest.approx(code_bits, rel=1e-12)
    assert 8 * len(coder.payload()) <= code_bits + 64 + 8 * len(text) * 2**-15
    assert followed(follower, list(text), frequencies) == pytest.approx(code_bits, rel=1e-12)
    assert_same_state(encoder, decoder)
    assert_same_state(encoder, follower)


@pytest.mark.parametrize("gpt", [False, True])
def test_the_cost_of_a_byte_does_not_depend_on_later_bytes(gpt):
    random = np.random.default_rng(0)
    frequencies = drawn_frequencies(300, 6) if gpt else None
    for n in (1, 150, 299):
        costs, payloads = [], []
        for _ in range(3):
            rest = random.integers(0, 256, 300 - n)
            mixer, coder = make_mixer(), BitCoder(ENCODE)
            symbols = np.concatenate((TEXT[:n], rest))
            coder.reserve(300)
            rows = [None if frequencies is None else frequencies[i : i + 1] for i in range(n)]
            costs.append([mixer.code(symbols[i : i + 1].copy(), rows[i], coder).tolist() for i in range(n)])
            payloads.append(coder.words[: int(coder.state[2])].tolist())
            if frequencies is not None and n < 300:  # or on the GPT's predictions of later bytes
                frequencies[n:] = drawn_frequencies(300 - n, int(random.integers(1000)))
        assert costs[0] == costs[1] == costs[2]
        assert payloads[0] == payloads[1] == payloads[2]


@pytest.mark.parametrize("gpt", [False, True])
def test_the_probabilities_of_all_256_bytes_sum_to_one(gpt):
    mixer = make_mixer(MixerConfig(contexts=("1", "3", "word", "match"), table_bits=6, match_bits=6))
    frequencies = drawn_frequencies(201, 7) if gpt else None
    followed(mixer, TEXT[:200], None if frequencies is None else frequencies[:200])
    last = None if frequencies is None else frequencies[200:]
    code_bits = [followed(deepcopy(mixer), [byte], last) for byte in range(256)]
    assert math.fsum(2.0**-bits for bits in code_bits) == pytest.approx(1, abs=8 * UNIT_BITS / 2)  # each is rounded


# ---- it learns


def test_text_costs_less_and_less():
    mixer = make_mixer(MixerConfig(table_bits=16, match_bits=12), ring_bits=16)
    costs = [followed(mixer, TEXT[a : a + 10_000]) / 10_000 for a in range(0, 40_000, 10_000)]
    assert costs[3] < costs[0] < 5
    assert costs[3] < 3.2


@pytest.mark.parametrize("contexts", [("0",), ("1", "2"), CONTEXTS], ids=["no context", "few", "all"])
def test_a_long_repeat_of_noise_costs_next_to_nothing(contexts):
    """Without contexts, only the match can predict the repeat."""
    noise = np.random.default_rng(2).integers(0, 256, 2000)
    mixer = make_mixer(MixerConfig(contexts=contexts, table_bits=18, match_bits=12), ring_bits=14)
    assert followed(mixer, noise) > 8 * 2000
    assert followed(mixer, noise) < 0.3 * 2000


def test_a_match_is_found_at_its_sixth_byte_and_points_at_the_byte_that_followed():
    text, lengths = b"1abcdefgXYZ2abcdefgXYz", []
    for n in range(len(text) + 1):
        past, _ = past_after(text[:n])
        lengths.append(int(past[contexts.MATCH_LENGTH]))
        assert past[contexts.MATCH_LENGTH] == 0 or past[contexts.MATCH] == n - 11
    assert lengths == [0] * 18 + [6, 7, 8, 9, 0]  # z differs from Z


def test_the_mixer_soon_trusts_frequencies_that_contain_the_next_byte():
    symbols = np.random.default_rng(3).integers(0, 256, 2000)
    frequencies = np.full((2000, 256), 1, np.int32)
    frequencies[np.arange(2000), symbols] = (1 << 24) - 255
    mixer = make_mixer()
    followed(mixer, symbols[:1000], frequencies[:1000])
    assert followed(mixer, symbols[1000:], frequencies[1000:]) < 0.5 * 1000


def test_the_ring_may_wrap():
    """Contexts and matches read a ring of 2**14 symbols that is overwritten three times; a repeat begins at 2**14 - 3."""
    period = np.concatenate((TEXT[:9000], np.random.default_rng(4).integers(0, 256, (1 << 14) - 9003)))
    symbols = np.resize(period, 50_000)
    config = MixerConfig(contexts=("2", "4", "word", "above", "match"), table_bits=12, match_bits=16)
    encoder, decoder, coder = make_mixer(config, 14), make_mixer(config, 14), BitCoder(ENCODE)
    code(encoder, coder, symbols)
    found, _ = code(decoder, BitCoder(DECODE, coder.payload()), np.zeros(50_000), cuts=range(700, 50_000, 700))
    assert np.array_equal(found, symbols)
    assert_same_state(encoder, decoder)


def test_a_table_of_few_buckets_forgets_but_still_decodes():
    config = MixerConfig(table_bits=4, match_bits=4)
    encoder, decoder, coder = make_mixer(config), make_mixer(config), BitCoder(ENCODE)
    code(encoder, coder, TEXT[:3000])
    found, _ = code(decoder, BitCoder(DECODE, coder.payload()), np.zeros(3000))
    assert np.array_equal(found, TEXT[:3000])


# ---- contexts


def past_after(text):
    """The mixer's past when the byte after `text` is to be predicted, and the ring that holds the text."""
    mixer = make_mixer(MixerConfig(contexts=("0",), table_bits=4, match_bits=10))
    followed(mixer, list(text))
    past, ring = mixer.arrays.past, mixer.arrays.ring
    contexts.find_match(past, ring, mixer.arrays.matches)
    return past, ring


def hashes_after(text):
    """The hash of every kind of context after `text`, by name."""
    past, ring = past_after(text)
    n = len(CONTEXTS)
    hashes = np.zeros(n, np.int64)
    contexts.context_hashes(past, ring, np.arange(n), np.zeros(contexts.N_CONTEXTS, np.int64), hashes)
    return dict(zip(CONTEXTS, hashes.tolist(), strict=True))


# for each context: a text, a text with the same context, and a text with another one
SAMPLES = {
    "0": (b"abc", b"xyz", None),
    "1": (b"abcdefghi", b"ABCDEFGHi", b"abcdefghI"),
    "2": (b"abcdefghi", b"ABCDEFGhi", b"abcdefgHi"),
    "3": (b"abcdefghi", b"ABCDEFghi", b"abcdefGhi"),
    "4": (b"abcdefghi", b"ABCDEfghi", b"abcdeFghi"),
    "5": (b"abcdefghi", b"ABCDefghi", b"abcdEfghi"),
    "6": (b"abcdefghi", b"ABCdefghi", b"abcDefghi"),
    "8": (b"abcdefghi", b"Abcdefghi", b"aBcdefghi"),
    "word": (b"say Hello", b"oh, hEllO", b"say hella"),
    "word,1": (b"a word;", b"b three;", b"a word,"),
    "word2": (b"one two th", b"six TWO th", b"one tvo th"),
    "word,word3": (b"one two th", b"One six th", b"onx two th"),
    "word3": (b"0 one two th", b"9 One-two th", b"0 onx two th"),
    "word,2": (b"a the", b"b the", b"a tHe"),
    "skip2-3": (b"abcdefghi", b"ABCDEFghI", b"abcdefGhi"),
    "skip1,3": (b"abcdefghi", b"ABCDEFgHi", b"abcdefGhi"),
    "skip3-4": (b"abcdefghi", b"ABCDEfgHI", b"abcdeFghi"),
    "above": (b"abc\nde", b"xyc\nze", b"abd\nde"),
    "line,above": (b"abc\nde", b"xyc\nfg", b"abcc\ndef"),
    "first,word": (b"q\n- x the", b"z\n- y THE", b"q\n* x the"),
    "classes": (b"ab 12 c", b"XY 90 c", b"ab 1z c"),
    "match": (b"1abcdefX2abcdef", b"3abcdefX4abcdef", b"1abcdefY2abcdef"),
    "word,marks": (b"one, two th", b"six, ten th", b"one. two th"),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_depends_exactly_on_the_bytes_that_its_name_says(name):
    text, same, other = SAMPLES[name]
    assert hashes_after(text)[name] == hashes_after(same)[name]
    assert other is None or hashes_after(text)[name] != hashes_after(other)[name]


def test_two_kinds_of_context_never_share_a_hash_because_the_past_is_short():
    for text in (b"", b"a", bytes(20), b"A text of some words,\nand lines."):
        assert len(set(hashes_after(text).values())) == len(CONTEXTS) == contexts.N_CONTEXTS


# ---- without a mixer


def plainly(symbols, frequencies, coder):
    symbols = np.array(symbols, np.int64)
    coded = np.empty((len(symbols), 8), np.uint16)
    coder.reserve(len(symbols))
    mixing.code_plain(symbols, frequencies, coded, coder.state, coder.words)
    return symbols, ideal_bits(coded).sum()


def decisions(symbol, row):
    """The share of a one in 2**-16 and the bit, for each of a byte's eight decisions, in Python's integers."""
    row, low, size = [int(f) for f in row], 0, 256
    for k in range(7, -1, -1):
        size //= 2
        ones, total = sum(row[low + size : low + 2 * size]), sum(row[low : low + 2 * size])
        yield min(65535, max(1, (ones << 16) // total)), symbol >> k & 1
        low += size * (symbol >> k & 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_cost_of_plain_coding_follows_from_the_frequencies(seed):
    random = np.random.default_rng(seed)
    frequencies = drawn_frequencies(400, seed)
    symbols = np.array([random.choice(256, p=row / (1 << 24)) for row in frequencies])
    _, code_bits = plainly(symbols, frequencies, BitCoder(FOLLOW))
    coded = [d for symbol, row in zip(symbols.tolist(), frequencies, strict=True) for d in decisions(symbol, row)]
    exact = sum(16 - math.log2(f if bit else 65536 - f) for f, bit in coded)
    assert code_bits == pytest.approx(exact, abs=len(coded) * UNIT_BITS / 2)
    assert code_bits == pytest.approx(ideal_code_bits(symbols, frequencies), rel=2e-3)


@given(st.binary(max_size=40), st.integers(0, 1000))
def test_plainly_coded_bytes_are_decoded(text, seed):
    frequencies = drawn_frequencies(len(text), seed)
    coder = BitCoder(ENCODE)
    _, code_bits = plainly(list(text), frequencies, coder)
    reader = BitCoder(DECODE, coder.payload())
    found, decoded_bits = plainly([0] * len(text), frequencies, reader)
    assert bytes(found.astype(np.uint8)) == text
    assert decoded_bits == code_bits
    reader.check_end()


@pytest.mark.parametrize("certain", [0, 127, 128, 255])
def test_the_most_improbable_byte_is_decoded(certain):
    frequencies = np.full((256, 256), 1, np.int32)
    frequencies[:, certain] = (1 << 24) - 255
    coder = BitCoder(ENCODE)
    plainly(range(256), frequencies, coder)
    found, _ = plainly(np.zeros(256), frequencies, BitCoder(DECODE, coder.payload()))
    assert found.tolist() == list(range(256))


# ---- tables


def test_squash_stays_within_1_and_65535_rises_and_is_symmetric():
    _, squash = log_odds_tables()
    assert (squash[0], squash[LOG_ODDS_LIMIT], squash[-1]) == (1, 32768, 65535)
    assert (np.diff(squash) >= 0).all()
    assert (squash + squash[::-1] == 65536).all()


def test_squash_is_the_logistic_function_of_log_odds_in_256ths():
    _, squash = log_odds_tables()
    odds = np.exp(np.arange(-LOG_ODDS_LIMIT, LOG_ODDS_LIMIT + 1) / 256)
    assert np.abs(squash - np.clip(65536 * odds / (1 + odds), 1, 65535)).max() <= 0.5 + 1e-6


def test_stretch_rises_is_symmetric_and_inverts_squash_within_half_a_step():
    stretch, squash = log_odds_tables()
    p = (np.arange(4096) + 0.5) / 4096
    assert (np.diff(stretch) >= 0).all()
    assert (stretch == -stretch[::-1]).all()
    assert np.abs(stretch).max() < LOG_ODDS_LIMIT
    assert np.abs(stretch - 256 * np.log(p / (1 - p))).max() <= 0.5 + 1e-3  # nearest in probability, not in log-odds
    step = np.maximum(1, np.diff(squash)[stretch + LOG_ODDS_LIMIT])
    assert (np.abs(squash[stretch + LOG_ODDS_LIMIT] - 65536 * p) <= step / 2 + 1).all()


def test_the_machine_of_histories_is_closed_and_small():
    n = len(histories.HISTORY_AGE)
    assert histories.NEXT_HISTORY.shape == (n, 2) and len(histories.HISTORY_PROBABILITY) == n <= 4096
    assert histories.NEXT_HISTORY.max() < n
    assert set(histories.NEXT_HISTORY.ravel().tolist()) == set(
        range(1, n)
    )  # all are reached, and none leads back to the empty history


def test_ages_of_histories_grow_by_one_at_most_and_are_bounded():
    age = histories.HISTORY_AGE.astype(int)
    assert age[0] == 0 and (age[1:] > 0).all() and age.max() < 256
    assert (age[histories.NEXT_HISTORY] <= age[:, None] + 1).all()


def test_a_bit_moves_the_probability_of_a_history_towards_itself():
    p = histories.HISTORY_PROBABILITY
    assert p[0] == 1 << 21 and p.min() > 0 and p.max() < 1 << 22
    assert (p[histories.NEXT_HISTORY[:, 1]] >= p).all()
    assert (p[histories.NEXT_HISTORY[:, 0]] <= p).all()


def test_a_run_of_equal_bits_ends_in_a_history_that_predicts_the_same_bit():
    for bit in (0, 1):
        states = np.arange(len(histories.HISTORY_AGE))
        for _ in range(200):
            states = histories.NEXT_HISTORY[states, bit]
        assert (histories.NEXT_HISTORY[states, bit] == states).all()
        ones = histories.HISTORY_PROBABILITY[states] / (1 << 22)
        assert ((ones if bit else 1 - ones) > 0.7).all()


def test_histories_are_symmetric_in_zeros_and_ones():
    """Every history has a mirror image: the history that the opposite bits lead to."""
    mirror, todo = {0: 0}, [0]
    while todo:
        state = todo.pop()
        for bit in (0, 1):
            after, reflected = (int(histories.NEXT_HISTORY[s, b]) for s, b in ((state, bit), (mirror[state], 1 - bit)))
            if after not in mirror:
                mirror[after] = reflected
                todo.append(after)
            assert mirror[after] == reflected
    states = np.array([mirror[s] for s in range(len(histories.HISTORY_AGE))])
    assert (histories.HISTORY_AGE[states] == histories.HISTORY_AGE).all()
    assert np.abs(histories.HISTORY_PROBABILITY[states] + histories.HISTORY_PROBABILITY - (1 << 22)).max() <= 1


@given(st.integers(0, (1 << 22) - 1), st.integers(0, 1023), st.integers(0, 1), st.sampled_from([255, 1023]))
def test_an_adaptive_probability_steps_towards_the_bit_and_stays_in_range(p, age, bit, limit):
    after = int(mixing.step_towards(p << 10 | min(age, limit), bit, limit))
    assert 0 <= after < 1 << 32
    assert (after & 1023) == min(min(age, limit) + 1, limit)
    assert (after >> 10) >= p if bit else (after >> 10) <= p
