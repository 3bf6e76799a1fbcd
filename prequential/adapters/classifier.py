"""Objects that classify the next byte from the bytes before it, as scikit-learn's with partial_fit."""

from typing import Any

import numpy as np

from prequential.errors import ConfigError

N_SYMBOLS = 256
UNSEEN = 1e-6  # the share of probability for bytes that the object gives none


class ClassifierLearner:
    """Predicts each byte from the `order` bytes before it, with an object that learns online.

    It has predict_proba and partial_fit, of one-hot features (n, order * 256). At first, all bytes are equally likely.
    """

    n_symbols = N_SYMBOLS
    deterministic = True

    def __init__(self, model: Any, *, order: int = 3, run_symbols: int = 256) -> None:
        """model: not fitted. order: 1 to 16."""
        if not 1 <= order <= 16:
            raise ConfigError(f"order = {order}; give 1 to 16")
        if not (hasattr(model, "predict_proba") and hasattr(model, "partial_fit")):
            raise ConfigError(f"{type(model).__name__} lacks predict_proba or partial_fit")
        self.model, self.order, self.run_symbols = model, order, run_symbols
        self._last = np.zeros(order, np.int64)  # before the next symbol, the oldest first
        self._has_learned = False

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Log-probabilities (n, 256)."""
        rows = np.zeros((len(symbols), N_SYMBOLS))
        if self._has_learned:
            rows[:, self.model.classes_] = self.model.predict_proba(self._features(symbols))
        rows = (1 - UNSEEN) * rows + UNSEEN / N_SYMBOLS
        return np.log(rows / rows.sum(axis=1, keepdims=True))

    def update(self, symbols: np.ndarray) -> None:
        """Learns from each symbol of the run."""
        classes = None if self._has_learned else np.arange(N_SYMBOLS)
        self.model.partial_fit(self._features(symbols), symbols, classes)
        self._has_learned = True
        self._last = np.concatenate((self._last, symbols))[-self.order :]

    def _features(self, symbols: np.ndarray) -> np.ndarray:
        """The symbols before each of the run, the oldest first: one-hot, (n, order * 256)."""
        before = np.lib.stride_tricks.sliding_window_view(np.concatenate((self._last, symbols[:-1])), self.order)
        features = np.zeros((*before.shape, N_SYMBOLS), np.float32)
        np.put_along_axis(features, before[..., None], 1.0, axis=2)
        return features.reshape(len(before), -1)
