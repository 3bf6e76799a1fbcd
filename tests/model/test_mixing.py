"""The context mixer: compiled and interpreted kernels agree, and decoded bytes are right."""

import math
import os
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential_codecs.bit_coder import DECODE, ENCODE, SCORE, UNIT_BITS, BitCoder, ideal_bits
from prequential_corpora.sources import sample_path

from prequential.exact.arrays import digest
from prequential.model.config import CONTEXTS, CURVES, WEIGHT_SETS, MixerConfig
from prequential.model.mixer import arrays as blocks
from prequential.model.mixer import contexts, evidence, lookup, mixing, nodes, sets, weights
from prequential.model.mixer import past as at
from prequential.model.mixer import past_advance as advance
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.nodes import LOG_ODDS_LIMIT, log_odds_tables

CHILD = Path(__file__).parent / "mixing_child.py"
drawn_frequencies = runpy.run_path(str(CHILD))["drawn_frequencies"]
ALL = {"contexts": CONTEXTS, "sets": WEIGHT_SETS, "curves": CURVES}
SMALL = MixerConfig(**ALL, table_bits=6, match_bits=6)
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


def scored(mixer, symbols, frequencies=None):
    return code(mixer, BitCoder(SCORE), symbols, frequencies)[1]


def assert_decoded(data, config=SMALL, ring_bits=10, frequencies=None, cuts=((), ())):
    """Decoder and scorer end in the encoder's state, at its cost. cuts: of the encoder's and the decoder's calls."""
    encoder, decoder, scorer = (make_mixer(config, ring_bits) for _ in range(3))
    coder = BitCoder(ENCODE)
    _, code_bits = code(encoder, coder, data, frequencies, cuts[0])
    reader = BitCoder(DECODE, coder.payload())
    decoded, decoded_bits = code(decoder, reader, np.full(len(data), 511), frequencies, cuts[1])
    assert np.array_equal(decoded, data)
    reader.check_end()
    assert 8 * len(coder.payload()) <= code_bits + 64 + 8 * len(data) * 2**-15
    for bits, other in ((decoded_bits, decoder), (scored(scorer, data, frequencies), scorer)):
        assert bits == pytest.approx(code_bits, rel=1e-12)
        for name, tensor in encoder.state().items():
            assert (tensor == other.state()[name]).all(), name
        assert digest(encoder.state()) == digest(other.state())


# ---- the same bits in every way


@pytest.mark.thorough
def test_interpreted_kernels_give_the_bits_of_the_compiled_ones_and_no_integer_overflows():
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    child = subprocess.run(
        [sys.executable, str(CHILD)], env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == runpy.run_path(str(CHILD))["fingerprint"]()


@given(
    data=st.data(), text=st.binary(max_size=60) | st.binary(max_size=12).map(lambda part: part * 6), gpt=st.booleans()
)
def test_a_decoder_finds_the_bytes_and_ends_in_the_encoders_state_for_any_division_into_calls(data, text, gpt):
    cuts = st.sets(st.integers(1, max(1, len(text) - 1)), max_size=5 if len(text) > 1 else 0)
    frequencies = drawn_frequencies(len(text), 5) if gpt else None
    assert_decoded(list(text), frequencies=frequencies, cuts=(data.draw(cuts), data.draw(cuts)))


# ---- it learns


@pytest.mark.parametrize("contexts", [("0",), ("1", "2"), CONTEXTS], ids=["no context", "few", "all"])
def test_a_long_repeat_of_noise_costs_next_to_nothing(contexts):
    """Without contexts, only the match can predict the repeat."""
    noise = np.random.default_rng(2).integers(0, 256, 2000)
    mixer = make_mixer(MixerConfig(contexts=contexts, table_bits=18, match_bits=12), ring_bits=14)
    scored(mixer, np.ones(advance.FEW_CONTROLS, np.int64))  # binary data: the code of the noise does not change
    assert scored(mixer, noise) > 8 * 2000
    assert scored(mixer, noise) < 0.3 * 2000


def test_a_match_is_found_at_its_fifth_byte_and_points_at_the_byte_that_followed():
    text, lengths = b"1abcdefgXYZ2abcdefgXYz", []
    for n in range(len(text) + 1):
        now, *_ = past_after(text[:n])
        lengths.append(int(now[at.MATCH_LENGTH]))
        assert now[at.MATCH_LENGTH] == 0 or now[at.MATCH] == n - 11
    assert lengths == [0] * 17 + [5, 6, 7, 8, 9, 0]  # z differs from Z


def test_the_mixer_soon_trusts_frequencies_that_contain_the_next_byte():
    symbols = np.random.default_rng(3).integers(0, 256, 2000)
    frequencies = np.full((2000, 256), 1, np.int32)
    frequencies[np.arange(2000), symbols] = (1 << 24) - 255
    mixer = make_mixer()
    scored(mixer, symbols[:1000], frequencies[:1000])
    assert scored(mixer, symbols[1000:], frequencies[1000:]) < 0.5 * 1000


def test_the_ring_may_wrap():
    """Contexts and matches read a ring of 2**14 symbols that is overwritten three times; a repeat begins at 2**14 - 3."""
    period = np.concatenate((TEXT[:9000], np.random.default_rng(4).integers(0, 256, (1 << 14) - 9003)))
    symbols = np.resize(period, 50_000)
    config = MixerConfig(contexts=("2", "4", "word", "above", "match"), table_bits=12, match_bits=16)
    assert_decoded(symbols, config, 14, cuts=((), range(700, 50_000, 700)))


def test_an_entry_is_found_by_its_hash_and_a_new_one_replaces_the_one_that_was_seen_least_often():
    deterministic = np.zeros(lookup.WAYS, np.uint32)
    hashes = [(i + 1) << 16 for i in range(lookup.WAYS + 2)]
    for h, n in zip(hashes[:4], (9, 2, 2, 5), strict=True):
        lookup.make_entry(deterministic, 0, h, n, 65)
    places = [lookup.entry_of(deterministic, 0, h) for h in hashes]
    assert places == [3, 2, 1, 0, lookup.NONE, lookup.NONE]  # the newest first
    lookup.make_entry(deterministic, 0, hashes[4], 1, 77)  # instead of the older one of the two that were seen twice
    assert [lookup.entry_of(deterministic, 0, h) for h in hashes] == [3, lookup.NONE, 2, 1, 0, lookup.NONE]
    lookup.make_entry(deterministic, 0, hashes[5], 1, 78)
    assert [lookup.entry_of(deterministic, 0, h) for h in hashes] == [3, lookup.NONE, 2, 1, lookup.NONE, 0]


# ---- contexts


def past_after(text):
    """The mixer's past when the byte after `text` is to be predicted, the ring that holds the text, and what followed before."""
    arrays = make_mixer(MixerConfig(contexts=("nextword", "template,next"), table_bits=6, match_bits=10)).arrays
    for byte in text:
        at.find_matches(arrays.past, arrays.ring, arrays.matches, True)
        advance.advance(arrays.past, arrays.ring, arrays.indirect, arrays.followers, arrays.fields, byte, True)
    at.find_matches(arrays.past, arrays.ring, arrays.matches, True)
    return arrays.past, arrays.ring, arrays.indirect, arrays.followers


def hashes_after(text, names=CONTEXTS):
    """The hashes of these contexts after `text`, by name."""
    kinds, every = contexts.kinds_by_input(names), np.zeros(contexts.N_HASHES, np.int64)
    now, *others = past_after(text)
    contexts.context_hashes(now, *others, contexts.parts_of(kinds), every)
    hashes = [contexts.hash_of(every, kinds, advance.input_kind(now), sets.AS_TEXT, c) for c in range(len(names))]
    return dict(zip(names, map(int, hashes), strict=True))


LETTERS = bytes(range(ord("a"), ord("z")))
# for each context: a text, a text with the same context, and a text with another one
SAMPLES = {
    "0": (b"abc", b"xyz", None),
    **{str(n): (b"0" + LETTERS[:n], b"9" + LETTERS[:n], b"0A" + LETTERS[1:n]) for n in (*range(1, 7), 8, 11, 12, 16)},
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
    "word,gap": (b"one, ", b"six, ", b"one; "),
    "word,gap2,1": (b"a; tw", b"x; tw", b"a, tw"),
    "gap,word2,1": (b"one, ", b"z one, ", b"one; "),
    "gaps,words": (b"a, b; ", b"A, b; ", b"a: b; "),
    "word2,gap2": (b"b; tw", b"x b; tw", b"b, tw"),
    "word,word4": (b"a b c tw", b"a x y tw", b"z b c tw"),
    "word,word3-4": (b"a b c tw", b"a b x tw", b"a z c tw"),
    "letters5": (b"xab cde", b"lab. c-de", b"xzb cde"),
    "keyword,gap": (b"k=1, ", b"x k=1, ", b"l=1, "),
    "keyword,word,1": (b"k=1, abc", b"k=2; abc", b"l=1, abc"),
    "firstword,word": (b"one two th", b"One six th", b"onx two th"),
    "opened,word": (b"a(b th", b"x(y th", b"a[b th"),
    "groups4": (b"aB1.", b"xY2.", b"aB1,"),
    "groups4,2": (b"aB1.", b"xY1.", b"aB2."),
    "collapsed8": (b"a1.b2,c", b"abc123.x456,xyz", b"a1.b2;c"),
    "collapsed4,2": (b"a12.c3", b"xyz1.cc3", b"a12,c3"),
    "collapsed6": (b"a1.b2,c", b"abc123.x456,xyz", b"a1;b2,c"),
    "skip1,4": (b"abcdefghi", b"ABCDEfGHi", b"abcdeFghi"),
    "skip2": (b"abcdefghi", b"ABCDEFGhI", b"abcdefgHi"),
    "above2": (b"abc\nabd\nde", b"xyc\nzyd\nfe", b"abz\nabd\nde"),
    "above,run": (b"abcd\nabc", b"zabcd\nyabc", b"abcd\nazc"),
    "line,1": (b"ab\nabc", b"xyz\ndec", b"a\nbabcd"),
    "after1,2": (b"axaya", b"azaxaya", b"azaya"),
    "after1,3": (b"axayaza", b"bxbybzb", b"awayaza"),
    "after2,1": (b"abxcab", b"abxdab", b"abycab"),
    "after2,2": (b"abxabyab", b"cbxcbycb", b"abzabyab"),
    "after3,2": (b"abcxabcyabc", b"wbcxwbcywbc", b"abczabcyabc"),
    "afterword,2": (b"abc xy abc", b"abd xy abd", b"abc xz abc-"),
    "afterword,1": (b"ab c ab", b"xb c xb", b"ab-c ab"),
    "match,1": (b"1abcdefX2abcdef", b"3zbcdefX4zbcdef", b"1abcdefY2abcdef"),
    "match,2": (b"1abcdefX2abcdef", b"3zbcdefX4zbcdef", b"1abcdefY2abcdef"),
    "vowels,length": (b"banana", b"cereli", b"bananb"),
    "vowels6,1": (b"banana", b"cerela", b"banano"),
    "nest": (b"f(a[b", b"g(x[yz", b"f(a{b"),
    "nest,1": (b"f(a[b", b"g(x[zb", b"f(a{b"),
    "nest,word": (b"f(a[th", b"g(x[th", b"f(a{th"),
    "tag,word": (b"<br>the", b"<BR>the", b"<td>the"),
    "tag,1": (b"<br>the", b"<BR>se", b"<td>the"),
    "folded4": (b"abCD", b"xaBcd", b"abCE"),
    "folded5": (b"eabCD", b"xEaBcd", b"fabCD"),
    "sentence,word": (b"It is. He went th", b"Oh. He came th", b"It is. She went th"),
    "nibbles4": (b"abcd", b"efgh", b"abpd"),
    "nibbles7": (b"abcdefg", b"mbcdefg", b"qbcdefg"),
    "word4": (b"a b c th", b"A, b c th", b"x b c th"),
    "lengths,groups2": (b"one two", b"six abc", b"ones two"),
    "case,word": (b"one The", b"one  The", b"one the"),
    "after4,2": (b"abcdxabcdyabcd", b"wbcdxwbcdywbcd", b"abcdzabcdyabcd"),
    "phrase": (b"one two", b". one two", b"onx two"),
    "skip3-5": (b"abcdefghi", b"ABCDefgHI", b"abcdEfghi"),
    "skip4-6": (b"abcdefghi", b"ABCdefGHI", b"abcDefghi"),
    "paragraph,word": (b"one two six th", b"one ten off th", b"onx two six th"),
    "halves": (b"abcdef", b"gkabcf", b"abcdeg"),
    "2,word2": (b"one the", b"ONE he", b"onx the"),
    "3,word2": (b"one athe", b"ONE the", b"onx athe"),
    "first,line": (b"xab", b"x12345678ab"[:1] + b"cd", b"yab"),
    "word,suffix": (b"station th", b"nation th", b"statiox th"),
    "word,suffixes2": (b"a station is th", b"b nation is th", b"a statiox is th"),
    "word,initials": (b"a bx c th", b"a by cc th", b"a xb c th"),
    "word,gaps": (b"a, b; ", b"c, d; ", b"a: b; "),
    "word,suffixes3": (b"station is in th", b"nation is in th", b"statiox is in th"),
    "2,length,suffix": (b"station ath", b"nation xth", b"statiox ath"),
    "lengths,gaps": (b"a, b; ", b"c, d; ", b"a: b; "),
    "letters4": (b"b cde", b"xb. c-de", b"z cde"),
    "place,word": (b"one two th", b"six ten th", b"two th"),
    "whole line": (b"a\nbc d", b"x\nbc d", b"a\nbb d"),
    "above,next": (b"abcd\nab", b"xycd\nzb", b"abce\nab"),
    "indent,word": (b"a\n  the", b"b\n  the", b"a\n the"),
    "indent,above": (b"abcde\n  x", b"zbcde\n  x", b"abcde\n x"),
    "whole line,above2": (b"abc\nabd\nab", b"xyc\nzyd\nab", b"abz\nabd\nab"),
    "inside": (b"f(ab", b"g(ab", b"f(ac"),
    "inside,nest": (b"[f(ab", b"[g(ab", b"{f(ab"),
    "tags,word": (b"<a>the", b"x<a>the", b"<b>the"),
    "tags,line": (b"<a>\nxy", b"z<a>\nxy", b"<b>\nxy"),
    "nextword": (b"one two one x", b"One two, one x", b"one six one x"),
    "nextword2": (b"a b two a b x", b"a b two. a b x", b"a b six a b x"),
    "template,next": (b"a1b2\na1b", b"a3b2\na77b", b"a1b3\na1b"),
    "words,next": (b"one two: 5;one two: ", b"x ONE two: 5; one TWO: ", b"one two: 6;one two: "),
    "field,next": (b"a,bc\nx,", b"qq,bc\nyyy,", b"a,bd\nx,"),
    "owner,identifier": (b"f(x, ab", b"g. f(y, ab", b"h(x, ab"),
    "owner2,1": (b"f(g(x", b"h;f(g(yx", b"k(g(x"),
    "identifier": (b"a ab_1", b"b;ab_1", b"a Ab_1"),
    "identifier2": (b"one two", b"x one;two", b"onx two"),
    "template,number": (b"ab1c23", b"ab77c23", b"ab1c24"),
    "template2,line": (b"a1\nbc", b"a22\nbc", b"b1\nbc"),
    "template3": (b"a1\nb2\nc3", b"a4\nb55\nc6", b"d1\nb2\nc3"),
    "key,value": (b'"ab": 1', b'x "ab": 1', b'"ac": 1'),
    "owner,line": (b"f(\nab", b"x f(\nab", b"g(\nab"),
}


def test_a_context_depends_exactly_on_the_bytes_that_its_name_says():
    assert set(SAMPLES) == set(CONTEXTS)
    for name, (text, same, other) in SAMPLES.items():
        assert hashes_after(text)[name] == hashes_after(same)[name], name
        assert other is None or hashes_after(text)[name] != hashes_after(other)[name], name


# ---- records of binary data

TABLE = np.array([[row, 200, 0, row >> 4, 7, 255, 16, column] for row in range(256) for column in (1, 3, 9)], np.uint8)


def test_records_of_binary_data_count_as_lines():
    now, ring, *_ = past_after(TABLE.tobytes()[:4003])
    assert (now[at.RECORD], now[at.IN_RECORDS]) == (8, 1)
    assert at.byte_above(now, ring) == TABLE.tobytes()[4003 - 8]
    assert at.byte_above2(now, ring) == TABLE.tobytes()[4003 - 16]


def test_in_binary_data_other_contexts_take_the_places_of_those_of_words():
    assert set(contexts.OF_WORDS) | set(contexts.OF_BINARY) <= set(CONTEXTS)
    assert not set(contexts.OF_WORDS) & set(contexts.OF_BINARY)
    names = ("2", "word", "word2")
    first = {advance.BINARY: contexts.FIRST_PAIR, advance.RECORDS: contexts.N_CONTEXTS}
    for kind, own in first.items():
        assert contexts.kinds_by_input(names)[kind].tolist() == [CONTEXTS.index("2"), own, own + 1]
    assert hashes_after(b"a text of words", names) == {n: hashes_after(b"a text of words")[n] for n in names}


def test_in_binary_data_pairs_of_bytes_at_even_positions_are_contexts():
    noise = np.random.default_rng(1).integers(0, 256, 600, dtype=np.uint8).tobytes()

    def last_pair(text):
        return hashes_after(noise + text, ("word",))["word"]

    assert last_pair(b"xyab") == last_pair(b"vwab") != last_pair(b"xyac")
    assert last_pair(b"xyabc") == last_pair(b"vwabc") != last_pair(b"xyaac")


def test_a_number_is_compared_with_that_of_the_same_template_digit_by_digit():
    differs = [past_after(b"id=25;\nid=" + digits)[0][at.BY_TEMPLATE_DIFFERS] for digits in (b"2", b"26", b"28", b"20")]
    assert differs == [0, 1, 2, 3]


def test_a_picture_costs_less_than_its_rows_in_another_order_of_bytes():
    """Rows of 150 bytes of which one in five differs from the byte above. Matches say little about them."""
    random = np.random.default_rng(3)
    rows = random.integers(0, 32, (300, 150))
    for above, row in pairwise(rows):
        row[:] = np.where(random.random(150) < 0.2, row, above)
    mixed = np.array([random.permutation(row) for row in rows])
    config = MixerConfig(table_bits=16, match_bits=12)
    costs = [scored(make_mixer(config, ring_bits=16), text.ravel()) / text.size for text in (rows, mixed)]
    assert costs[0] < 3.0 and costs[1] > 4.9  # the entropy of the first is 1.7 bits, and that of single bytes 5


@pytest.mark.parametrize("gpt", [False, True])
def test_every_set_and_curve_uses_rows_that_it_has(gpt):
    """Rows of every set after noise and text, which reach other selectors; the kernels themselves check nothing."""
    data = np.concatenate((np.random.default_rng(5).integers(0, 256, 3000), TEXT[:3000], np.zeros(50, np.int64)))
    frequencies = drawn_frequencies(len(data), 9) if gpt else None
    mixer = make_mixer(MixerConfig(**ALL, table_bits=14, match_bits=10), ring_bits=12)
    fresh = make_mixer(MixerConfig(**ALL, table_bits=14, match_bits=10), ring_bits=12)
    scored(mixer, data, frequencies)
    moved = (mixer.state()["weights"] != fresh.state()["weights"]).any(1)
    for start, size in zip(mixer.arrays.set_starts, sets.SET_SIZES, strict=True):
        assert moved[start : start + size].any()
    assert (mixer.arrays.curves != fresh.arrays.curves).any((1, 2)).all()
    assert (mixer.arrays.last_weights != fresh.arrays.last_weights).any()


def test_a_centred_input_is_below_the_bound_of_a_step():
    largest = int(np.abs(nodes.STRETCH).max())
    centred, sums = np.full(1001, 99, np.int16), np.zeros(weights.N_SUMS, np.int32)
    inputs = np.array([largest, *[-largest] * 1000], np.int16)
    weights.describe_inputs(inputs, sums)
    weights.centre(inputs, weights.common_part(sums, 0), centred)
    assert largest == 2307 and 3700 < centred[0] <= largest + -(-largest * 5 // 8) < 1 << 12


def test_the_largest_error_is_clamped_before_it_has_32_bits():
    """One context, the first bit, a set and a mixture that are certain of the other bit, and the largest share."""
    n = weights.LANES
    inputs = np.array([2307, *[-2307] * (n - 1)], np.int16)
    changed, scratch, one = np.zeros(n, np.int16), np.zeros(n, np.int16), np.zeros(1, np.int64)
    sums, errors = np.zeros(1 + weights.N_SUMS, np.int32), np.zeros(1, np.int32)
    columns = weights.Columns(0, 1, 1, np.array([0, n]), changed, one, sums, errors, scratch)
    weights.sum_columns(inputs, columns, sums)
    usual = np.full(1, 511 << 12, np.uint32)  # the mean error of a row whose steps have a factor of 1
    weights.find_errors(
        1, -LOG_ODDS_LIMIT, 1, 0, columns, np.zeros(1, np.uint16), usual, weights.new_row_rates(1),
        np.array([-LOG_ODDS_LIMIT], np.int32),
        np.full((sets.N_LAST, 1), weights.MAX_SHARE, np.int32), np.arange(sets.N_LAST), np.full(sets.N_LAST, -LOG_ODDS_LIMIT),
    )  # fmt: skip
    weights.learn_columns(weights.common_part(sums, 1), inputs, columns)
    assert changed.tolist() == [(int(x) + 1) >> 1 for x in scratch]  # 2**17 / 2**18, rounded to the nearest


def log_odds_of_dot(row, inputs):
    """What the one set of a mixer makes of the sum."""
    sums, outputs = np.array([weights.dot(row, np.uint64(0), inputs), 0, 0, 0], np.int32), np.zeros(1, np.int32)
    weights.mix(
        1, sums, outputs, np.zeros((1, 1), np.int32), np.zeros(sets.N_LAST, np.int64), np.zeros(sets.N_LAST, np.int64)
    )
    return int(outputs[0])


@pytest.mark.parametrize("contexts", [("1",), ("1", "2", "3"), CONTEXTS])
def test_hostile_weights_keep_results_and_weights_in_range(contexts):
    """The largest weights and inputs that a state may hold. A step is within its type; a sum may wrap around (see below)."""
    n_inputs = len(contexts) * evidence.INPUTS_PER_CONTEXT + blocks.EXTRA_INPUTS
    inputs = np.full(-(-n_inputs // weights.LANES) * weights.LANES, LOG_ODDS_LIMIT, np.int16)
    assert LOG_ODDS_LIMIT < 1 << 12 and len(inputs) <= 1 << 10
    for sign in (1, -1):
        w = np.full(len(inputs), sign * weights.MAX_WEIGHT, np.int16)
        assert abs(log_odds_of_dot(w, inputs)) <= LOG_ODDS_LIMIT
        weights.learn_row(np.int32(sign << 17), inputs, w, np.uint64(0))
        assert (w == sign * weights.MAX_WEIGHT).all()


@pytest.mark.parametrize("error", [0, 1, -2, 1300, -32768, 32767, 32768, -32769, -(1 << 17), 1 << 17])
def test_rows_of_weights_learn_and_predict_by_plain_integers(error):
    drawn = np.random.default_rng(abs(error))
    w, x = drawn.integers(-weights.MAX_WEIGHT, weights.MAX_WEIGHT + 1, (2, 320)).astype(np.int16)
    x[:] = np.clip(x, -4095, 4095)
    w[:64] = weights.MAX_WEIGHT * np.sign(w[:64])
    place, row = np.uint64(32), w[32 : 32 + 256]
    total = (row.astype(np.int64) * x[:256]).sum() + 2**31
    assert weights.dot(w, place, x[:256]) == total % 2**32 - 2**31  # overflows wrap around
    moved = row + (x[:256] * np.int64(error) + (1 << weights.STEP_SHIFT - 1) >> weights.STEP_SHIFT)
    expected = np.concatenate((w[:32], np.clip(moved, -weights.MAX_WEIGHT, weights.MAX_WEIGHT), w[288:]))
    weights.learn_row(np.int32(error), x[:256], w, place)
    assert np.array_equal(w, expected)


def test_two_kinds_of_context_never_share_a_hash_because_the_past_is_short():
    for text in (b"", b"a", bytes(20), b"A text of some words,\nand lines."):
        assert len(set(hashes_after(text).values())) == len(CONTEXTS)


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
    _, code_bits = plainly(symbols, frequencies, BitCoder(SCORE))
    coded = [d for symbol, row in zip(symbols.tolist(), frequencies, strict=True) for d in decisions(symbol, row)]
    exact = sum(16 - math.log2(f if bit else 65536 - f) for f, bit in coded)
    assert code_bits == pytest.approx(exact, abs=len(coded) * UNIT_BITS / 2)
    assert code_bits == pytest.approx(float((24 - np.log2(frequencies[np.arange(400), symbols])).sum()), rel=2e-3)


def nearly_certain(byte):
    frequencies = np.full((256, 256), 1, np.int32)
    frequencies[:, byte] = (1 << 24) - 255
    return bytes(range(256)), frequencies


PLAIN = st.tuples(st.binary(max_size=40), st.integers(0, 1000)).map(
    lambda x: (x[0], drawn_frequencies(len(x[0]), x[1]))
)


@given(PLAIN | st.sampled_from([0, 127, 128, 255]).map(nearly_certain))
def test_plainly_coded_bytes_are_decoded_even_the_most_improbable(drawn):
    text, frequencies = drawn
    coder = BitCoder(ENCODE)
    _, code_bits = plainly(list(text), frequencies, coder)
    reader = BitCoder(DECODE, coder.payload())
    decoded, decoded_bits = plainly([0] * len(text), frequencies, reader)
    assert bytes(decoded.astype(np.uint8)) == text
    assert decoded_bits == code_bits
    reader.check_end()


# ---- tables


def test_squash_is_the_logistic_function_of_log_odds_in_256ths_within_1_and_65535_and_is_symmetric():
    _, squash = log_odds_tables()
    assert (squash[0], squash[LOG_ODDS_LIMIT], squash[-1]) == (1, 32768, 65535)
    assert (np.diff(squash) >= 0).all()
    assert (squash + squash[::-1] == 65536).all()
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
    n = len(nodes.HISTORY_AGE)
    assert nodes.NEXT_HISTORY.shape == (n, 2) and len(nodes.HISTORY_PROBABILITY) == n <= 512
    assert nodes.NEXT_HISTORY.max() < n
    # all are reached, and none leads back to the empty history
    assert set(nodes.NEXT_HISTORY.ravel().tolist()) == set(range(1, n))


@given(st.integers(0, (1 << 22) - 1), st.integers(0, nodes.AGE_LIMIT), st.integers(0, 1))
def test_an_adaptive_probability_steps_towards_the_bit_and_stays_in_range(p, age, bit):
    after = int(nodes.step_towards(p << 10 | age, bit))
    assert 0 <= after < 1 << 32
    assert (after & 1023) == min(age + 1, nodes.AGE_LIMIT)
    assert (after >> 10) >= p if bit else (after >> 10) <= p


# ---- states


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("past", -1), ("matches", -1), ("matches", 1 << 40), ("indirect", -1), ("indirect", 1 << 32),
        ("row_errors", (1 << 24) + 1), ("row_errors", -1), ("last_weights", (1 << 24) + 1),
    ],
)  # fmt: skip
def test_a_state_with_a_value_out_of_range_is_refused(name, value):
    mixer = make_mixer(MixerConfig(contexts=("1", "2"), table_bits=6))
    state = {key: array.copy() for key, array in mixer.state().items()}
    mixer.load_state(state)
    state[name].flat[-1] = value
    with pytest.raises(ValueError, match=rf"mixer\.{name}"):
        mixer.load_state(state)


# ---- code words


def test_each_byte_has_one_code_word():
    for code in (sets.AS_TEXT, sets.AS_NUMBERS):
        assert sorted(sets.BYTE[code]) == list(range(256))
        assert (sets.CODE_WORD[code, sets.BYTE[code]] == np.arange(256)).all()
    assert (sets.BYTE[sets.AS_NUMBERS] == np.arange(256)).all()


def test_the_code_is_chosen_by_what_came_before():
    mixer = make_mixer(MixerConfig(contexts=("1", "2"), table_bits=8))
    chosen = []
    zeros, controls, stays = np.zeros(600, np.int64), np.ones(advance.FEW_CONTROLS, np.int64), advance.STAYS_BINARY
    for part in (TEXT[:300], zeros, TEXT[:16], controls[1:], controls[:1], TEXT[: stays - 1], TEXT[:1]):
        scored(mixer, part)
        chosen.append(int(sets.code_of(mixer.arrays.past)))
    assert chosen == [0, 0, 0, 0, 1, 1, 0]  # zeros fill up texts


@pytest.mark.parametrize("gpt", [False, True])
def test_a_stream_whose_code_changes_is_decoded(gpt):
    noise = np.random.default_rng(11).integers(0, 256, 600)
    data = np.concatenate([TEXT[:400], noise, TEXT[200:700], np.zeros(80, np.int64), TEXT[:50]])
    frequencies = drawn_frequencies(len(data), 4) if gpt else None
    assert_decoded(data, frequencies=frequencies, cuts=((1, 399, 500, 1003), (700,)))


# ---- what the mixer knows of the GPT


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [32, 64, 768, 1024])
def test_a_sum_of_32_bits_wraps_around_like_twos_complement(n, sign):
    """The largest weights and inputs: up to 2**37, of which 32 bits are kept, in every order."""
    inputs, row = np.full(n, 2129, np.int16), np.full(n, sign * weights.MAX_WEIGHT, np.int16)
    inputs[::3] = 700
    exact = int(inputs.astype(object) @ row.astype(object))
    wrapped = (exact + (1 << 31)) % (1 << 32) - (1 << 31)
    assert n < 64 or wrapped != exact
    expected = min(max(wrapped >> weights.WEIGHT_BITS, -LOG_ODDS_LIMIT), LOG_ODDS_LIMIT)
    order = np.random.default_rng(n).permutation(n)
    for ordered in (slice(None), order):
        assert log_odds_of_dot(row[ordered].copy(), inputs[ordered].copy()) == expected
