"""The learner: the history that it keeps, the rows that the GPT learns from, and that its state is complete."""

from dataclasses import replace

import numpy as np
import pytest
from prequential_codecs.bit_coder import DECODE, ENCODE, SCORE, BitCoder
from prequential_corpora.sources import sample_path
from small import DEEPER

from prequential.model.history import History
from prequential.model.learner import training_rows
from prequential.online.runtime import Runtime

BOTH = replace(DEEPER, gpt=replace(DEEPER.gpt, contexts=()))
PURE = replace(BOTH, mixer=None)
CONFIGS = pytest.mark.parametrize("config", [BOTH, PURE, replace(BOTH, gpt=None)], ids=["both", "pure", "mixer"])
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 40_000).astype(np.int64)
SIZES = (48, 48, 48, 30, 48, 17)  # of segments


def make_learner(config=BOTH, threads=1, kernels="fused", backend="float32"):
    return Runtime(threads=threads, kernels=kernels, backend=backend).learner(config)


def learn(learner, symbols, coder=None, sizes=SIZES):
    """Codes the beginning of `symbols` in segments of these sizes. Returns the coder's symbols, and their ideal bits."""
    symbols, done, code_bits = symbols[: sum(sizes)].copy(), 0, []
    coder = coder or BitCoder(SCORE)
    for n in sizes:
        learner.begin(n)
        code_bits.append(learner.code(symbols[done : done + n], coder).sum())
        learner.end(n)
        done += n
    return symbols, code_bits


@pytest.mark.parametrize("config", [BOTH, PURE], ids=["both", "pure"])
def test_the_bits_of_the_gpt_are_those_of_the_last_segment_and_only_an_encoder_has_them(config):
    encoder, coder = make_learner(config), BitCoder(ENCODE)
    symbols, _ = learn(encoder, TEXT, coder, SIZES[:1])
    assert encoder.gpt_bits.shape == symbols.shape
    decoder = make_learner(config)
    decoder.gpt_bits = encoder.gpt_bits
    decoded, _ = learn(decoder, np.zeros_like(symbols), BitCoder(DECODE, coder.payload()), SIZES[:1])
    assert np.array_equal(decoded, symbols)
    assert decoder.gpt_bits is None


# ---- rows


def rows(n, n_new, seed=0, **schedule):
    """The rows of a step after n symbols, of which the last n_new are new."""
    config = replace(PURE, seed=seed, schedule=replace(PURE.schedule, **schedule))
    history = History.of(config)
    for start in range(0, n, 4000):
        history.append(TEXT[start : min(n, start + 4000)])
    return training_rows(config, history, n_new)


def starts(inputs, targets, n):
    """The possible positions of the rows in the text: for each row, the starts at which it fits."""
    before = np.stack([np.concatenate((np.zeros(e, np.int64), TEXT[:n]))[:n] for e in (1, 2, 3)], 1)
    length = targets.shape[1]
    return [
        [s for s in range(n - length + 1) if (TEXT[s : s + length] == t).all() and (before[s : s + length] == i).all()]
        for i, t in zip(inputs, targets, strict=True)
    ]


@pytest.mark.parametrize(("n", "n_new"), [(200, 48), (200, 1), (200, 16), (200, 17), (80, 48), (48, 48), (300, 33)])
def test_rows_are_stretches_of_the_text_and_the_newest_of_them_are_the_newest_segment(n, n_new):
    inputs, targets, _ = rows(n, n_new)
    assert targets.shape == (min(5, n // 16), 16) and inputs.shape == (*targets.shape, 3)
    possible_starts = starts(inputs, targets, n)
    assert all(possible_starts)
    n_rows = -(-n_new // 16)
    newest = [n - 16 * (n_rows - i) for i in range(n_rows)]  # adjacent, up to the last symbol
    assert all(start in possible for start, possible in zip(newest, possible_starts, strict=False))
    assert newest[0] <= n - n_new


def test_rows_are_drawn_from_the_symbols_that_the_ring_still_holds():
    n = 20_000
    inputs, targets, _ = rows(n, 16, n_rows=200)
    windows = np.lib.stride_tricks.sliding_window_view(TEXT[:n], 17)  # input and targets
    held = {tuple(window) for window in windows[n - (1 << 14) - 1 :].tolist()}
    drawn = [(i[0][0], *t) for i, t in zip(inputs.tolist(), targets.tolist(), strict=True)]
    assert len(drawn) == 200 and held.issuperset(drawn)
    assert len(set(drawn)) > 150  # from all parts of the ring


# ---- the same bits in every way


@CONFIGS
@pytest.mark.parametrize("kernels", ["fused", "plain"])
@pytest.mark.first_quick
def test_decoder_and_scorer_have_the_same_cost_and_end_in_the_same_state(config, kernels):
    encoder, coder, decoder = make_learner(config), BitCoder(ENCODE), make_learner(config, 2, kernels)
    symbols, code_bits = learn(encoder, TEXT, coder)
    scorer, nothing = make_learner(config), BitCoder(SCORE)
    assert learn(scorer, TEXT, nothing)[1] == code_bits
    assert nothing.payload() == b""
    decoded, decoded_bits = learn(decoder, np.zeros_like(TEXT), BitCoder(DECODE, coder.payload()))
    assert np.array_equal(decoded, symbols)
    assert decoded_bits == pytest.approx(code_bits, rel=1e-12)
    assert decoder.digest() == scorer.digest() == encoder.digest()


def test_a_step_has_no_effect_on_its_segment_and_is_finished_at_the_segments_end():
    """With and without threads, the segment is read with the weights that existed when it was opened."""
    one, two = make_learner(threads=1), make_learner(threads=2)
    for learner in (one, two):
        learn(learner, TEXT, sizes=(48, 48))
        before = [int(x) for x in learner.gpt.state()["counters"]]
        learn(learner, TEXT[96:], sizes=(48,))
        assert [int(x) for x in learner.gpt.state()["counters"]] == [before[0] + 1, before[1] + 48]
    assert one.digest() == two.digest()


def test_an_error_in_a_parallel_step_is_raised_at_the_end_of_the_segment(monkeypatch):
    learner = make_learner(threads=2)
    learn(learner, TEXT, sizes=(48,))
    monkeypatch.setattr(learner.gpt, "update", lambda *rows: 1 // 0)
    learner.begin(48)
    learner.code(TEXT[48:96].copy(), BitCoder(SCORE))
    with pytest.raises(ZeroDivisionError):
        learner.end(48)


# ---- state


@CONFIGS
def test_a_changed_entry_of_any_part_of_the_state_changes_the_digest(config):
    learner = make_learner(config)
    learn(learner, TEXT)
    digests = {learner.digest()}
    names = [name for name in learner.state() if not name.endswith("counters")]  # those are copies
    for name in names:
        array = learner.state()[name]  # a view of the learner's memory
        middle = tuple(n // 2 for n in array.shape)
        before = array[middle]
        array[middle] = before + 1
        digests.add(learner.digest())
        array[middle] = before
    assert len(digests) == 1 + len(names)
    assert learner.digest() in digests


@CONFIGS
def test_a_fresh_learner_with_the_state_of_another_continues_identically(config):
    """So the state has everything that later predictions depend on."""
    old, fresh = make_learner(config), make_learner(config)
    learn(old, TEXT)
    fresh.load_state({name: array.copy() for name, array in old.state().items()})
    assert fresh.digest() == old.digest()
    later = TEXT[sum(SIZES) :]
    assert learn(fresh, later)[1] == learn(old, later)[1]
    assert fresh.digest() == old.digest()
