"""The code length of labels: what an independent sum says, random labels cost their entropy, bad rows are refused."""

import json
import math
import random
import unicodedata

import numpy as np
import pandas
import pytest
from prequential_codecs.bit_coder import DECODE, ENCODE, SCORE, BitCoder

import prequential
from prequential.errors import ConfigError, CorpusError
from prequential.heldout_loss.labels import codes_without_inputs, label_record, labels, read_rows, spelled, value_of
from prequential.model.config import blocks
from prequential.online.loop import run
from prequential.online.runtime import Runtime

CONFIG = prequential.Config(
    gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2", "3", "word", "line,1"), table_bits=14)
)
RUNTIME = Runtime(threads=1)


def named_characters(n):
    """Names of characters and their categories, from the table that Python ships."""
    named = [(unicodedata.name(chr(c), ""), unicodedata.category(chr(c))) for c in range(0x250, 0x2000)]
    found = [(name.encode(), kind.encode()) for name, kind in named if name]
    random.Random(0).shuffle(found)
    return found[:n]


ROWS = named_characters(800)


def cost_of(rows):
    return labels([{"t": given.decode(), "y": label.decode()} for given, label in rows], "y", "t", CONFIG, RUNTIME)


@pytest.fixture(scope="module")
def cost():
    return cost_of(ROWS)


def test_the_online_code_is_the_cost_of_the_labels_bytes_in_one_run(cost):
    stream = b"".join(a + b"\t" + b + b"\n" for a, b in ROWS)
    learner, bits = RUNTIME.learner(CONFIG), []
    for block in blocks(len(stream), CONFIG.schedule):
        symbols = np.frombuffer(stream, np.uint8)[block].copy()
        bits += [each for _, part in run(learner, BitCoder(SCORE), block, symbols) for each in part]
    place, expected = 0, 0.0
    for a, b in ROWS:
        place += len(a) + 1
        expected += sum(bits[place : place + len(b) + 1])
        place += len(b) + 1
    assert cost.codes["online"] == pytest.approx(expected, rel=1e-12)
    assert len(cost.online) == 800


def test_inputs_tell_about_labels_and_random_labels_cost_at_least_their_entropy(cost):
    shuffled = [label for _, label in ROWS]
    random.Random(1).shuffle(shuffled)
    drawn = cost_of([(name, label) for (name, _), label in zip(ROWS, shuffled, strict=True)])
    assert "inputs tell the labels: " in str(cost)
    assert "Nothing shows" in str(drawn)
    assert cost.codes["online"] < 0.9 * drawn.codes["online"]
    assert drawn.codes["online"] >= 0.99 * drawn.codes["entropy"] == 0.99 * cost.codes["entropy"]


@pytest.mark.thorough
def test_determined_labels_cost_less_than_2_percent_of_the_uniform_code():
    kinds = [(b"alpha", b"A"), (b"beta", b"B"), (b"gamma", b"C"), (b"delta", b"D")]
    costs = [cost_of(random.Random(seed).choices(kinds, k=3000)) for seed in range(3)]
    assert max(cost.codes["online"] for cost in costs) < 0.02 * costs[0].codes["uniform"] == 120


# ---- a decoder

LABELS = [
    1, "1", None, "null", 'a"', "a\nb", "a\\nb", '"a\\nb"', "", " 1", 1.0, True, "true", "NaN", [1, "x"], "[1", {"a": 2},
]  # fmt: skip


def next_bytes(learner, coder, symbols):
    """Lets a learner without a GPT code these bytes, or decode in their place: it predicts the same in longer segments."""
    start = learner.n_symbols
    return float(sum(bits.sum() for _, bits in run(learner, coder, slice(start, start + len(symbols)), symbols)))


def decoded_label(learner, coder):
    """The next line of the payload."""
    line = b""
    while not line.endswith(b"\n"):
        symbol = np.zeros(1, np.uint8)
        next_bytes(learner, coder, symbol)
        line += symbol.tobytes()
    return line[:-1]


def test_a_decoder_that_has_the_inputs_restores_every_label_from_the_bits_that_were_counted(tmp_path):
    path, values = tmp_path / "a.jsonl", LABELS * 4
    random.Random(0).shuffle(values)
    path.write_text("".join(json.dumps({"t": f"row\t{i % 7}\n", "y": label}) + "\n" for i, label in enumerate(values)))
    rows = read_rows(path, "y", "t")
    learner, coder, bits = RUNTIME.learner(CONFIG), BitCoder(ENCODE), 0.0
    for given, label in rows:
        next_bytes(learner, BitCoder(SCORE), np.frombuffer(given + b"\t", np.uint8).copy())
        bits += next_bytes(learner, coder, np.frombuffer(label + b"\n", np.uint8).copy())
    payload = coder.payload()
    assert bits == pytest.approx(labels(path, "y", "t", CONFIG, RUNTIME).codes["online"], rel=1e-12)
    assert bits <= 8 * len(payload) < bits + 100
    learner, coder = RUNTIME.learner(CONFIG), BitCoder(DECODE, payload)
    for (given, _), label in zip(rows, values, strict=True):
        next_bytes(learner, BitCoder(SCORE), np.frombuffer(given + b"\t", np.uint8).copy())
        found = value_of(decoded_label(learner, coder).decode())
        assert (found, type(found)) == (label, type(label))
    coder.check_end()


def test_no_two_labels_look_alike_and_each_is_one_line_and_common_texts_stand_as_they_are():
    lines = [spelled(label) for label in LABELS]
    assert len(set(lines)) == len(lines) and not any("\n" in line for line in lines)
    common = ["positive", "a b", "-", "[" * 100_000]
    assert list(map(spelled, common)) == common
    assert list(map(value_of, lines)) == LABELS


def test_codes_without_inputs():
    codes = codes_without_inputs([b"a"] * 3 + [b"b"])
    assert codes["uniform"] == 4.0
    assert codes["entropy"] == pytest.approx(-3 * math.log2(0.75) - math.log2(0.25))
    expected = -math.log2(0.5 / 1) - math.log2(1.5 / 2) - math.log2(2.5 / 3) - math.log2(0.5 / 4)
    assert codes["marginal"] == pytest.approx(expected)


def test_one_label_costs_nothing_to_choose():
    cost = cost_of([(b"x", b"a")] * 20)
    assert cost.codes["uniform"] == 0.0
    assert "-" in str(cost) and "Nothing shows" in str(cost)


def test_rows_are_fields_of_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": "é\\n", "y": 3}\n \n{"t": "b", "y": "x", "z": [1]}\n\n')
    assert read_rows(path, "y", "t") == [("é\n".encode(), b"3"), (b"b", b"x")]
    assert read_rows(path, "y")[1] == (b'{"t": "b", "z": [1]}', b"x")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "has no rows"),
        ('{"t": "a"}\n', "line 1: no field 'y'"),
        ('{"t": "a", "y": 1}\n{"y": 1}\n', "line 2: no field 't'"),
        ("{\n", "line 1: not JSON"),
        (
            '{"t": "a", "y": 1}\n\n{"t": "a", "y": ' + "7" * 641 + "}\n",
            "line 3: not JSON: an integer has more than 640 digits",
        ),
    ],
)
def test_rows_that_cannot_be_used_are_refused_with_their_line(text, part, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(CorpusError, match=part):
        read_rows(path, "y", "t")
    with pytest.raises(CorpusError, match="cannot be read"):
        read_rows(tmp_path / "none", "y", "t")
    with pytest.raises(ConfigError, match="cannot be both"):
        read_rows(path, "y", "y")


def test_the_record_is_json(cost):
    record = json.loads(json.dumps(label_record(cost, RUNTIME)))
    assert (record["n_rows"], record["online_bits"]) == (800, cost.codes["online"])
    assert "learner, online, given inputs" in str(cost)


def test_rows_of_every_kind_are_the_same_rows(tmp_path):
    rows = [{"t": f"é{i}", "y": i % 2} for i in range(9)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = read_rows(path, "y")
    for same in (str(path), rows, pandas.DataFrame(rows)):
        assert read_rows(same, "y") == expected
    with pytest.raises(CorpusError, match="line 1: Object of type Timestamp is not JSON"):
        read_rows(pandas.DataFrame({"t": [pandas.Timestamp(0)], "y": [1]}), "y")
    for wrong in (5, None, b"{}", ["a"], pandas.Series([1, 2])):
        with pytest.raises(ConfigError, match=r"rows is .*: give the name of a file of JSON lines"):
            read_rows(wrong, "y")
