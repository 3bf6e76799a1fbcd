"""Classifiers of scikit-learn as learners."""

import pytest
from prequential_corpora.sources import sample_path

import prequential
from prequential.adapters import ClassifierLearner
from prequential.errors import ConfigError

TEXT = sample_path("christmas_carol").read_bytes()[:3000]


def test_a_classifier_of_scikit_learn_learns_online():
    linear_model = pytest.importorskip("sklearn.linear_model")

    def make():
        return ClassifierLearner(linear_model.SGDClassifier(loss="log_loss", random_state=0), order=2, run_symbols=200)

    result = prequential.evaluate(TEXT[:1000], learner=make, baselines=())
    assert 0 < result.code_bits < 8 * 1000 * 4
    assert result.bits_per_byte != 8.0
    with pytest.raises(ConfigError, match="object lacks predict_proba"):
        ClassifierLearner(object())
