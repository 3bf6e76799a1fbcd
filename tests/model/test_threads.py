"""Several threads mix: the same bits and the same state, whatever the threads and the machine do."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from prequential_codecs.bit_coder import DECODE, ENCODE, SCORE, BitCoder
from prequential_corpora.sources import sample_path

from prequential.exact.arrays import digest
from prequential.model.config import CONTEXTS, CURVES, WEIGHT_SETS, MixerConfig
from prequential.model.mixer import arrays as blocks
from prequential.model.mixer import threads
from prequential.model.mixer.mixer import Mixer
from prequential.model.presets import PRESETS

CONFIG = MixerConfig(contexts=CONTEXTS, sets=WEIGHT_SETS, curves=CURVES, table_bits=10, match_bits=8)
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 900).astype(np.int64)
FREQUENCIES = np.full((len(TEXT), 256), 1 << 16, np.int32)


def mixed(n_threads, mode=SCORE, payload=b"", frequencies=None, cuts=(100, 101, 500), config=CONFIG):
    """Codes TEXT in several calls. Returns the symbols, the frequencies of the coded bits, the state's digest, the payload."""
    mixer = Mixer(config, np.zeros(1 << 10, np.uint8), most_threads=n_threads)
    mixer.threads.fixed = n_threads
    coder = BitCoder(mode, payload) if payload else BitCoder(mode)
    coder.reserve(len(TEXT))
    symbols = np.full(len(TEXT), 511) if mode == DECODE else TEXT.copy()
    coded = [
        mixer.code(symbols[a:b], None if frequencies is None else frequencies[a:b], coder)
        for a, b in pairwise([0, *cuts, len(TEXT)])
    ]
    return symbols, np.concatenate(coded), digest(mixer.state()), coder.payload() if mode == ENCODE else b""


def assert_same(n_threads, frequencies, cuts):
    symbols, coded, state, payload = mixed(1, ENCODE, frequencies=frequencies)
    for mode in (ENCODE, DECODE):
        other = mixed(n_threads, mode, payload if mode == DECODE else b"", frequencies, cuts)
        assert np.array_equal(other[0], symbols) and np.array_equal(other[1], coded) and other[2] == state
        assert mode == DECODE or other[3] == payload


def test_two_threads_give_the_archive_and_the_state_of_one():
    assert_same(2, None, (1, 2, 300))


@pytest.mark.thorough
@pytest.mark.parametrize("gpt", [False, True])
@pytest.mark.parametrize("n_threads", [3, 8, 12])
def test_more_threads_than_processors_give_the_archive_and_the_state_of_one(n_threads, gpt):
    assert_same(n_threads, FREQUENCIES if gpt else None, (3, 600))


def test_a_thread_that_fails_stops_all_and_its_error_is_raised(monkeypatch):
    def fails(*arguments):
        raise OSError("no more threads")

    monkeypatch.setattr(threads.helper_thread, "serve_share", fails)
    with pytest.raises((OSError, RuntimeError)):
        mixed(2)
    monkeypatch.undo()
    mixed(2)  # the next mixer has threads again


def test_nobody_waits_while_the_kernel_of_the_other_threads_is_compiled(monkeypatch):
    compiled, expected = threading.Event(), mixed(1)
    serve_share = threads.helper_thread.serve_share

    def slow(*arguments):
        compiled.wait(60)
        serve_share(*arguments)

    monkeypatch.setattr(threads.helper_thread, "serve_share", slow)
    mixer = Mixer(CONFIG, np.zeros(1 << 10, np.uint8), most_threads=2)
    coder = BitCoder(SCORE)
    coder.reserve(len(TEXT))
    cuts = pairwise([0, 300, 600, len(TEXT)])
    coded = [mixer.code(TEXT[a:b].copy(), None, coder) for a, b in cuts]  # one thread each
    assert np.array_equal(np.concatenate(coded), expected[1]) and mixer.threads._pace_s == 0.0
    compiled.set()


@pytest.mark.parametrize(("pace_s", "adopted"), [(0.5, True), (0.99, False), (3.0, False)])
def test_more_threads_are_kept_only_if_a_trial_of_them_was_clearly_faster(pace_s, adopted):
    chooser = threads.Threads(CONFIG, 2)
    assert chooser._chosen(2) == 1
    chooser._judge(1, 1.0, 1.0)
    trial = chooser._chosen(2)
    assert trial == 2
    chooser._judge(trial, pace_s, 1.0)
    assert chooser.n == (2 if adopted else 1)
    if not adopted:
        assert chooser._chosen(2) == 1  # no trial for a while


@pytest.mark.parametrize("config", [CONFIG, *(PRESETS[level].mixer for level in PRESETS)])
def test_blocks_share_out_all_contexts_columns_and_rows_of_the_tables(config):
    starts, (columns, n_columns), regions = (
        blocks.first_contexts(config), blocks.columns_of(config), blocks.regions_of(config)
    )  # fmt: skip
    of_block = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    assert len(of_block) == len(columns) == len(regions) == len(config.contexts)
    inputs = (columns.astype(np.int64)[:, None] + np.arange(7)).ravel()
    assert len(set(inputs)) == len(inputs) and inputs.max() < n_columns
    assert (inputs // blocks.BLOCK_INPUTS == np.repeat(of_block, 7)).all()
    rows = sorted({(int(first), int(n)) for first, n in regions})
    assert rows[0][0] == 0 and sum(rows[-1]) == 1 << config.table_bits
    assert all(a + n == b for (a, n), (b, _) in pairwise(rows))
    assert all(first % blocks.WAYS == 0 and n >= blocks.WAYS for first, n in rows)
