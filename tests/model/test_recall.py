"""What followed a context before: the tables, the values of each position, and who may write them."""

import dataclasses
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from prequential_codecs.bit_coder import SCORE, BitCoder

from prequential.errors import ConfigError
from prequential.model.config import CONTEXT_REACH, RECALL_CONTEXTS, RECALL_KEPT_BITS, Config, GPTConfig, ScheduleConfig
from prequential.model.gpt.recall import MOST_SUCCESSIONS, Recall
from prequential.model.history import History
from prequential.model.learner import OnlineLearner, training_rows
from prequential.model.presets import preset
from prequential.online.runtime import Runtime

CONFIG = Config(
    gpt=GPTConfig(width=16, n_heads=1, n_layers=1, contexts=("2", "after2"), context_bits=6, memory_bits=13),
    mixer=None,
    schedule=ScheduleConfig(first_segment_symbols=32, segment_symbols=64, row_symbols=16, n_rows=6, history_bits=14),
)
TEXT = np.frombuffer(b"the cat sat on the mat; the cat ran to the man; THE cat sat on the man, " * 3, np.uint8)


def words(text):
    """The current word and the word before it, as contexts; None beyond the reach of a context."""
    parts = bytes(text[-CONTEXT_REACH:]).lower()
    cut = [i for i, c in enumerate(parts) if not chr(c).isalpha()]
    word = parts[cut[-1] + 1 :] if cut else parts
    before = parts[cut[-2] + 1 : cut[-1]] if len(cut) > 1 else parts[: cut[-1]] if cut else b""
    return word, (before, word)


def contexts(text):
    padded = bytes(CONTEXT_REACH) + bytes(text)
    word, word2 = words(padded)
    return [padded[-n:] for n in (2, 3, 4, 6, 8, 12, 16)] + [word, word2]


def definition(text):
    """The values at each position of the text, and after it, from dictionaries instead of hashed tables."""
    tables, rows = defaultdict(dict), []
    for t in range(len(text) + 1):
        entries = [tables[f].get(c) for f, c in enumerate(contexts(text[:t]))]
        after = [n << 8 | last if last is not None else 0 for last, n, _ in (e or (None, 0, 0) for e in entries)]
        other = [
            (2 if n > 1 else 1) << 8 | different if n else 0
            for _, n, different in ((entries[f] or (0, 0, 0)) for f in (2, 3, 7))
        ]
        rows.append(after + other)
        if t < len(text):
            symbol = int(text[t])
            for f, (c, entry) in enumerate(zip(contexts(text[:t]), entries, strict=True)):
                last, n, different = entry or (symbol, 0, symbol)
                tables[f][c] = (
                    (symbol, min(n + 1, MOST_SUCCESSIONS), different) if last == symbol else (symbol, 1, last)
                )
    return np.array(rows)


def test_values_are_those_of_the_definition():
    recall = Recall(20)
    for part in np.split(TEXT.astype(np.int64), [0, 1, 2, 50, 51, 120]):
        recall.read(part)
    own, expected = recall.at(np.arange(len(TEXT) + 1)), definition(TEXT)
    assert np.array_equal(own[1:], expected[1:]) and not own[0].any()
    assert len(np.unique(own[:, RECALL_CONTEXTS.index("after3")] >> 8)) == MOST_SUCCESSIONS + 1
    assert (own[:, -1] >> 8 == 2).any()


def read_inputs(history, symbols):
    return OnlineLearner.inputs(SimpleNamespace(config=CONFIG, history=history), symbols)


def test_a_history_reads_each_symbol_once_however_far_it_looked_ahead():
    ahead, plain = History.of(CONFIG), History.of(CONFIG)
    plain.append(TEXT)
    for part in np.split(TEXT, [60, 130]):
        for n in (1, 7, 30):
            read_inputs(ahead, part[:n])
        ahead.append(part)
    assert all(np.array_equal(array, plain.state()[name]) for name, array in ahead.state().items())


def test_inputs_do_not_depend_on_the_symbol_to_predict_and_later_ones():
    for t in (1, 5, 40):
        text, other = TEXT[:60].copy(), TEXT[:60].copy()
        other[t:] = 65
        first, second = (read_inputs(History.of(CONFIG), x.astype(np.int64)) for x in (text, other))
        assert np.array_equal(first[: t + 1], second[: t + 1])
        assert first.shape == (60, CONFIG.gpt.n_inputs)


def test_rows_to_learn_from_have_the_inputs_of_the_reading():
    history, read = History.of(CONFIG), []
    for part in np.split(TEXT.astype(np.int64), [64, 128]):
        read.append(read_inputs(history, part))
        history.append(part)
    everything = np.concatenate(read)
    inputs, targets, places = training_rows(CONFIG, history, 40)
    positions, n_last = np.where(places < 0, ~places, places), CONFIG.gpt.n_last  # the text is shorter than the memory
    is_new = positions >= len(TEXT) - 40
    assert np.array_equal(is_new, places < 0) and is_new.sum() == 40 and not is_new[:, 0].all()
    assert np.array_equal(targets, TEXT[positions])
    assert np.array_equal(inputs[..., :n_last], everything[positions][..., :n_last])
    # the memory has the other contexts of the others
    assert np.array_equal(inputs[is_new], everything[positions][is_new])


def test_rows_replay_symbols_before_the_new_ones_as_far_as_the_memory_reaches():
    config = dataclasses.replace(CONFIG, schedule=dataclasses.replace(CONFIG.schedule, n_rows=150))
    history, drawn, n = History.of(config), [], 20_000
    symbols = np.random.default_rng(0).integers(97, 123, n).astype(np.uint8)
    for i in range(0, n, 5000):
        history.append(symbols[i : i + 5000])
    _, targets, places = training_rows(config, history, 20)
    learned, length = n - 20, targets.shape[1]
    assert (~places[places < 0] == np.arange(learned, n) % (1 << 13)).all()
    for target, place in zip(targets[2:], places[2:], strict=True):
        first = learned - 1 - (learned - 1 - int(place[0])) % (1 << 13)  # the last one that was kept at this place
        assert np.array_equal(symbols[first : first + length], target) and first + length <= n - 2 * length
        assert np.array_equal(place, np.arange(first, first + length) % (1 << 13))
        drawn.append(first)
    assert len(drawn) == 148 and max(drawn) - min(drawn) > 7000


def test_new_rows_begin_where_values_are_kept():
    config = dataclasses.replace(CONFIG, schedule=dataclasses.replace(CONFIG.schedule, history_bits=20))
    history, random = History.of(config), np.random.default_rng(0)
    n = (1 << RECALL_KEPT_BITS) + 5000
    history.append(random.integers(97, 100, n).astype(np.uint8))
    assert history.oldest == 5001
    without = History(20)
    without.append(np.zeros(n, np.uint8))
    assert without.oldest == 0


def test_a_frozen_recall_recalls_but_does_not_remember():
    recall = Recall(20)
    recall.read(TEXT.astype(np.int64))
    before = {name: array.copy() for name, array in recall.state().items()}
    frozen = recall.frozen()
    frozen.read(np.frombuffer(b"the cat flew over the moon", np.uint8).astype(np.int64))
    assert all(np.array_equal(array, recall.state()[name]) for name, array in before.items())
    frozen.restart(7)
    assert frozen.n_read == 7 and not frozen.arrays.last.any()
    frozen.read(np.frombuffer(b"the c", np.uint8).astype(np.int64))
    assert frozen.at(np.array([12]))[0, RECALL_CONTEXTS.index("after4")] & 255 == ord("a")


def test_a_state_continues_as_its_original():
    one, other = Recall(20), Recall(20)
    one.read(TEXT[:100].astype(np.int64))
    other.load_state({name: array.copy() for name, array in one.state().items()}, 100)
    for recall in (one, other):
        recall.read(TEXT[100:].astype(np.int64))
    assert all(np.array_equal(array, other.state()[name]) for name, array in one.state().items())
    tables = one.state()["tables"] | (MOST_SUCCESSIONS + 1) << 8
    for damaged, reason in (
        ({"last": np.full(CONTEXT_REACH, 256)}, r"recall\.last"),
        ({"tables": tables}, "successions"),
    ):
        with pytest.raises(ValueError, match=reason):
            other.load_state(one.state() | damaged, 3)


def test_steps_with_too_many_terms_are_refused():
    gpt = preset(5).gpt
    schedule = ScheduleConfig(segment_symbols=512, row_symbols=512, n_rows=16)
    with pytest.raises(ConfigError, match="at most 65536"):
        Config(gpt=gpt, schedule=schedule)


def test_symbols_that_were_read_ahead_must_be_those_that_follow():
    learner = Runtime(threads=1).learner(CONFIG)
    learner.begin(5)
    learner.inputs(np.array([7, 8, 9]))
    learner.inputs(np.array([7, 0]))  # the last one is not known yet
    with pytest.raises(ValueError, match="read ahead"):
        learner.inputs(np.array([8, 8, 9, 9]))
    with pytest.raises(ValueError, match="read ahead"):
        learner.history.append(np.array([7, 9, 9, 9, 9]))
    learner.code(np.array([7, 8, 1, 2, 3]), BitCoder(SCORE))
    assert learner.n_symbols == learner.history.recall.n_read == 5
