"""What somebody else's code gives: distributions become frequencies, ids stand for bytes, and all else is refused."""

import numpy as np
import own_learners as models
import pytest
from prequential_corpora.sources import sample_path

from prequential.errors import ConfigError, CorpusError, InvalidDistributionError
from prequential.learners import distributions
from prequential.learners.distributions import (
    TOTAL,
    checked_rows,
    id_pieces,
    integer_frequencies,
    probabilities,
    tokenise,
)


def test_a_tokenizer_that_loses_bytes_is_refused_with_the_place():
    text = b"the Cat"
    with pytest.raises(CorpusError, match="at byte 4 comes back as"):
        tokenise(text, models.LosesBytes(), 300)
    with pytest.raises(ConfigError, match="gives id 256, but the learner predicts 256"):
        tokenise(text, models.Words(), 256)


def test_a_long_corpus_is_encoded_in_pieces_of_bounded_size_and_gives_the_same_ids(monkeypatch):
    text = np.frombuffer(sample_path("christmas_carol").read_bytes()[:60_000], np.uint8)
    (whole,) = id_pieces(text, models.SplitsWords(), 300)
    monkeypatch.setattr(distributions, "PIECE_BYTES", 10_000)
    tokenizer = models.SplitsWords()
    pieces = list(id_pieces(text, tokenizer, 300))
    assert len(pieces) >= 6 and max(tokenizer.sizes) <= 10_000
    for i in range(2):
        assert np.array_equal(np.concatenate([piece[i] for piece in pieces]), whole[i])
    assert len(list(id_pieces(text, models.Words(), 300))) == 1  # it does not say that it allows pieces


def test_a_tokenizer_that_encodes_the_end_of_a_text_otherwise_gets_no_pieces(monkeypatch):
    monkeypatch.setattr(distributions, "PIECE_BYTES", 10_000)
    tokenizer = models.MarksTheEnd(1)
    tokenizer.encodes_pieces = True
    text = np.frombuffer(sample_path("christmas_carol").read_bytes()[:30_000], np.uint8)
    assert len(list(id_pieces(text, tokenizer, 300))) == 1


def test_frequencies_sum_to_the_total_and_every_symbol_can_be_coded():
    random = np.random.default_rng(1)
    for n_symbols in (2, 256, 50_000):
        rows = random.normal(0, 20, (5, n_symbols))
        rows[0] = -np.inf
        rows[0, 1] = 0.0
        rows -= np.logaddexp.reduce(rows, axis=1, keepdims=True)
        found = np.empty(rows.shape, np.int64)
        integer_frequencies(np.exp(rows), TOTAL, found)
        assert (found.sum(1) == TOTAL).all() and found.min() >= 1
        assert np.abs(found - 1 - np.exp(rows) * (TOTAL - n_symbols)).max() < n_symbols + 1
        assert found[0].argmax() == 1 and found[0, 0] == 1


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (np.zeros((3, 5)), r"shape \(3, 5\) for 3 symbols; give \(3, 4\)"),
        (np.zeros(4), "shape"),
        (np.zeros((3, 4), np.int64), "returned int64"),
        ([[0.25] * 4] * 3, "returned list"),
        (np.full((3, 4), np.nan), "symbol 9 hold NaN"),
        (np.full((3, 4), np.log(0.2)), "symbol 9 sum to 0.8"),
        (np.full((3, 4), np.inf), "symbol 9"),
        (np.full((3, 4), -np.inf), "symbol 9 sum to 0,"),
        (np.array([[0.0, *[-np.inf] * 3], [0.1, *[-np.inf] * 3], [0.0, *[-np.inf] * 3]]), "symbol 10 sum to 1.1"),
    ],
)
def test_what_is_no_distribution_is_refused(rows, text):
    with pytest.raises(InvalidDistributionError, match=text):
        probabilities(checked_rows(rows, 3, 4), 9)
