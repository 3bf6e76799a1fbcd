"""Classifiers of scikit-learn and river as learners."""

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


def test_a_classifier_of_river_learns_online():
    class Nearest:
        """predict_proba_one and learn_one, as river has them: counts by the last byte."""

        def __init__(self):
            self.counts = {}

        def predict_proba_one(self, x):
            seen = self.counts.get(x["1"], {})
            total = sum(seen.values())
            return {symbol: n / total for symbol, n in seen.items()} if total else {}

        def learn_one(self, x, y):
            seen = self.counts.setdefault(x["1"], {})
            seen[y] = seen.get(y, 0) + 1

    result = prequential.evaluate(TEXT, learner=lambda: ClassifierLearner(Nearest(), order=1), baselines=())
    assert result.bits_per_byte < 8
    with pytest.raises(ConfigError, match="has neither"):
        ClassifierLearner(object())
