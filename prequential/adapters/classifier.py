"""Objects that classify the next byte from the bytes before it: scikit-learn's partial_fit, river's learn_one."""

from typing import Any

import numpy as np

from prequential.errors import ConfigError

N_SYMBOLS = 256
UNSEEN = 1e-6  # the share of probability for bytes that the object gives none


class ClassifierLearner:
    """Predicts each byte from the `order` bytes before it, with an object that learns online.

    scikit-learn: predict_proba and partial_fit, of one-hot features (n, order * 256). river: predict_proba_one and learn_one, of
    a dict {"1": last byte, ...}. Before the object has learned anything, all bytes are equally likely.
    """

    model: Any
    order: int
    run_symbols: int

    n_symbols = N_SYMBOLS
    deterministic = True

    def __init__(self, model: Any, *, order: int = 3, run_symbols: int = 256) -> None:
        """model: not fitted. order: 1 to 16."""
        if not 1 <= order <= 16:
            raise ConfigError(f"order = {order}; give 1 to 16")
        self._by_rows = hasattr(model, "predict_proba") and hasattr(model, "partial_fit")
        if not self._by_rows and not (hasattr(model, "predict_proba_one") and hasattr(model, "learn_one")):
            raise ConfigError(
                f"{type(model).__name__} has neither predict_proba and partial_fit nor predict_proba_one and learn_one"
            )
        self.model, self.order, self.run_symbols = model, order, run_symbols
        self._last = np.zeros(order, np.int64)  # before the next symbol, the oldest first
        self._has_learned = False

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Log-probabilities (n, 256)."""
        before = self._before(symbols)
        rows = np.zeros((len(symbols), N_SYMBOLS))
        if self._has_learned and self._by_rows:
            rows[:, self.model.classes_] = self.model.predict_proba(_one_hot(before))
        elif self._has_learned:
            for row, features in zip(rows, before, strict=True):
                for symbol, p in self.model.predict_proba_one(_named(features)).items():
                    row[symbol] = p
        rows = (1 - UNSEEN) * rows + UNSEEN / N_SYMBOLS
        return np.log(rows / rows.sum(axis=1, keepdims=True))

    def update(self, symbols: np.ndarray) -> None:
        """Learns from each symbol of the run."""
        before = self._before(symbols)
        if self._by_rows:
            classes = None if self._has_learned else np.arange(N_SYMBOLS)
            self.model.partial_fit(_one_hot(before), symbols, classes)
        else:
            for features, symbol in zip(before, symbols.tolist(), strict=True):
                self.model.learn_one(_named(features), symbol)
        self._has_learned = True
        self._last = np.concatenate((self._last, symbols))[-self.order :]

    def _before(self, symbols: np.ndarray) -> np.ndarray:
        """The symbols before each of the run, (n, order), the oldest first."""
        known = np.concatenate((self._last, symbols[:-1]))
        return np.lib.stride_tricks.sliding_window_view(known, self.order)


def _one_hot(before: np.ndarray) -> np.ndarray:
    n, order = before.shape
    features = np.zeros((n, order, N_SYMBOLS), np.float32)
    np.put_along_axis(features, before[..., None], 1.0, axis=2)
    return features.reshape(n, -1)


def _named(features: np.ndarray) -> dict[str, int]:
    return {str(len(features) - i): int(symbol) for i, symbol in enumerate(features)}
