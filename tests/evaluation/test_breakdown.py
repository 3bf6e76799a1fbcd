"""Where the bits went: rows add up exactly, and labels agree with a slow definition of each term."""

import base64
import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.bit_coder import UNIT_BITS
from prequential_corpora.corpus import Document
from prequential_corpora.sources import sample_path

from prequential.evaluation import breakdown as tables_of
from prequential.evaluation.breakdown import BYTE_CLASSES, EXPLANATIONS, N_DECILES, Words, breakdown, format_tables
from prequential.evaluation.trace import Trace

PARTS = ("model", "gpt", "mixer")
CAROL = np.fromfile(sample_path("christmas_carol"), np.uint8)
NOISE = np.random.default_rng(5).integers(0, 256, 60, np.uint8).tobytes()
pieces = st.sampled_from([b"a" * 40, NOISE, NOISE[:31], NOISE[9:41], b"ab" * 20, b"the word, The word; "])
corpora = st.lists(pieces | st.binary(max_size=20), max_size=12).map(b"".join)


def array(data: bytes):
    return np.frombuffer(data, np.uint8)


def traced(source, parts=PARTS, seed=3):
    """A trace of random costs, 0 to 16 bits a byte, in whole units."""
    trace, rng = Trace(parts, len(source)), np.random.default_rng(seed)
    for part in parts:
        trace.append(part, rng.integers(0, 16 << 22, len(source)) * UNIT_BITS)
    return trace


def words_slowly(data):
    """The word that each byte lies in, or None; and how often each word comes."""
    of, count, i = [None] * len(data), Counter(), 0
    is_letter = [byte >= 128 or chr(byte).isalpha() for byte in data]
    while i < len(data):
        j = i
        while j < len(data) and is_letter[j]:
            j += 1
        of[i:j] = [data[i:j]] * (j - i)
        count.update([data[i:j]] if j > i else [])
        i = max(j, i + 1)
    return of, count


def deciles_slowly(data):
    of, count = words_slowly(data)
    descending = sorted(count.elements(), key=lambda word: -count[word])
    middle = {}  # of each number of occurrences: between which two of all occurrences its middle lies, doubled
    for times in set(count.values()):
        places = [place for place, word in enumerate(descending) if count[word] == times]
        middle[times] = places[0] + places[-1] + 1
    return [N_DECILES if word is None else N_DECILES * middle[count[word]] // (2 * len(descending)) for word in of]


@settings(deadline=None)
@given(corpora)
def test_a_word_is_in_the_decile_of_its_middle_occurrence(data):
    words = Words(array(data))
    assert words.labels.tolist() == deciles_slowly(data)
    times = Counter(words_slowly(data)[1].values())
    assert words.n_distinct == times


def test_words_beyond_the_most_that_are_kept_count_as_words_that_occur_once():
    data = b" ".join(bytes([65 + i // 26, 65 + i % 26]) for i in range(100)) * 2
    words = Words(array(data), max_words=12)
    assert words.n_untracked > 0
    # the last word of the first half joins the first one of the second half
    assert sum(times * n for times, n in words.n_distinct.items()) == 199
    assert set(words.labels.tolist()) <= set(range(N_DECILES + 1))


@pytest.mark.parametrize("n_bytes", [0, 1, 1024, 1025, len(CAROL)])
def test_the_rows_of_each_table_add_up_exactly(n_bytes, monkeypatch):
    monkeypatch.setattr(tables_of, "CHUNK_BYTES", 1000)
    source = CAROL[:n_bytes]
    trace = traced(source)
    cuts = sorted({0, *(n_bytes * i // 7 for i in range(8))})
    documents = [Document(f"{a}.{a % 3}", a, (b - a) // 2) for a, b in pairwise(cuts)]
    tables = breakdown(source, trace, documents)
    assert set(tables) >= {"positions", "byte_classes", "words", "copies"}
    for table in tables.values():
        assert sum(row["n_bytes"] for row in table["rows"]) == n_bytes
        for part in PARTS:
            assert sum(row["bits"][part] for row in table["rows"]) == trace.total_bits(part)
    json.dumps(tables, allow_nan=False)
    assert format_tables(tables).count("\n\n") == max(sum(bool(t["rows"]) for t in tables.values()) - 1, 0)


def test_the_bits_of_a_byte_are_in_the_row_of_its_class():
    source = array(b"aB1 \n.\0\x01\xc3\x80\xff")
    trace = Trace(("model",), len(source))
    trace.append("model", 2.0 ** np.arange(-1, len(source) - 1))
    rows = breakdown(source, trace, ())["byte_classes"]["rows"]
    assert sorted(value for members in BYTE_CLASSES.values() for value in members) == list(range(256))
    expected = {name: 2.0**i for i, name in enumerate(BYTE_CLASSES, -1)}
    assert {row["name"]: row["bits"]["model"] for row in rows} == expected


def test_documents_are_sorted_by_cost_with_the_rest_in_one_row(monkeypatch):
    monkeypatch.setattr(tables_of, "MAX_DOCUMENTS", 2)
    source = array(b"x" * 18)
    trace = Trace(("model",), 18)
    trace.append("model", np.array([9.0] + [1.0] * 5 + [0.5] + [3.0] * 5 + [0.25] + [2.0] * 5))
    documents = [Document("a.py", 1, 5), Document("b/c.PY", 7, 5), Document("README", 13, 5), Document("empty", 18, 0)]
    tables = breakdown(source, trace, documents)
    assert [(r["name"], r["n_documents"], r["n_bytes"], r["bits"]["model"]) for r in tables["documents"]["rows"]] == [
        ("b/c.PY", 1, 5, 15.0),
        ("README", 1, 5, 10.0),
        ("all others", 2, 5, 5.0),
        ("between documents", 0, 3, 9.75),
    ]
    assert tables["documents"]["each"] == {"n_bytes": [5, 5, 5], "bits": [5.0, 15.0, 10.0]}
    assert [(r["name"], r["n_documents"], r["bits"]["model"]) for r in tables["extensions"]["rows"]] == [
        (".py", 2, 20.0),
        ("none", 2, 10.0),
        ("between documents", 0, 9.75),
    ]


def test_a_single_document_has_no_table_and_an_odd_name_can_be_recorded_and_printed():
    assert "documents" not in breakdown(CAROL, traced(CAROL), [Document("carol", 0, len(CAROL))])
    documents = [Document("bad\udcff\n\x1b[31m", 0, 10), Document("b.c", 10, 10)]
    tables = breakdown(CAROL[:20], traced(CAROL[:20]), documents)
    json.dumps(tables, ensure_ascii=False).encode()
    assert "\x1b" not in format_tables(tables)


def test_the_text_has_each_table_with_its_explanation_and_says_what_was_forgotten(monkeypatch):
    half = len(CAROL) // 2
    monkeypatch.setattr(tables_of, "MAX_COPIES_MEMORY_BYTES", 4096)
    tables = breakdown(CAROL, traced(CAROL), [Document("a.x", 0, half), Document("b.y", half, half)])
    text = format_tables(tables | {"groups": tables["documents"]})
    for part in (*EXPLANATIONS.values(), "novel", "were forgotten to save memory"):
        assert part in text


# ---- passages


def test_passages_are_the_beginning_the_middle_the_end_and_the_costliest_other_one():
    data, costs = np.full(6100, 65, np.uint8), np.ones(6100)
    costs[4200:4800] = 2
    costs[5400:6000] = 9  # the end is dearer, but it is shown already
    trace = Trace(("model", "gpt"), len(data))
    trace.append("model", costs)
    found = tables_of.passages(data, trace)
    assert {each["name"]: each["position"] for each in found} == {
        "the beginning": 0,
        "the middle": 3000,
        "the costliest other passage": 4200,
        "the end": 5400,
    }


@pytest.mark.parametrize("n_bytes", [1, 600, 1199, 1200, 5000])
def test_passages_do_not_overlap_and_have_a_cost_for_each_byte(n_bytes):
    data = CAROL[:n_bytes]
    trace = traced(data)
    found = tables_of.passages(data, trace)
    places = [each["position"] for each in found]
    assert len(found) == min(max(n_bytes // 600, 1), 4)
    ends = [place + len(each["bits"]) for place, each in zip(places, found, strict=True)]
    assert all(end <= place for end, place in zip(ends[:-1], places[1:], strict=True))
    for each in found:
        part = slice(each["position"], each["position"] + len(each["bits"]))
        assert base64.b64decode(each["text"]) == data[part].tobytes()
        assert np.abs(np.array(each["bits"]) - trace.bits("model", part)).max() <= 0.005 + 1e-9
