"""What is usual in a run: statistics of its recent windows."""

import statistics
from collections import deque

import numpy as np

from prequential.watch.windows import N_RECENT, Window

MIN_WINDOWS = 8  # before this many nothing is called unusual
DECAY = 0.95  # of the byte counts, for each window


class RecentWindows:
    """Medians over the last N_RECENT windows, and decaying counts of their bytes. A median is None below MIN_WINDOWS values."""

    def __init__(self) -> None:
        self.n_windows = 0
        self._rates, self._gzip_rates, self._speeds, self._updates = (deque[float](maxlen=N_RECENT) for _ in range(4))
        self._byte_counts = np.full(256, 0.5)

    def add(self, window: Window) -> None:
        """Adds a window, after every detector has inspected it."""
        self.n_windows += 1
        self._rates.append(window.bits_per_byte)
        for values, value in ((self._gzip_rates, window.gzip_bits_per_byte), (self._updates, window.update_size)):
            if value is not None:
                values.append(value)
        if window.wall_s:
            self._speeds.append(window.n_bytes / window.wall_s)
        if window.byte_counts is not None:
            self._byte_counts = DECAY * self._byte_counts + window.byte_counts

    @property
    def bits_per_byte(self) -> float | None:
        return _median(self._rates)

    @property
    def gzip_bits_per_byte(self) -> float | None:
        return _median(self._gzip_rates)

    @property
    def bytes_per_s(self) -> float | None:
        return _median(self._speeds)

    @property
    def update_size(self) -> float | None:
        return _median(self._updates)

    def is_unusually_high(self, bits_per_byte: float) -> bool:
        """Whether a rate is above the median by at least 6 deviations, half a bit, and a quarter of the median."""
        usual = self.bits_per_byte
        if usual is None or bits_per_byte <= usual + max(0.5, 0.25 * usual):
            return False
        deviation = 1.4826 * statistics.median(abs(rate - usual) for rate in self._rates)
        return bits_per_byte > usual + 6 * deviation

    def needs_gzip(self, window: Window) -> bool:
        """Whether a detector needs gzip's bits for the window."""
        return self.is_unusually_high(window.bits_per_byte) or self.costs_more(window, window.order0_bits_per_byte)

    def costs_more(self, window: Window, bits_per_byte: float) -> bool:
        """Whether a window costs a quarter bit per byte more than this rate. Always false at the beginning of a run."""
        return self.n_windows >= 2 * MIN_WINDOWS and window.bits_per_byte > bits_per_byte + 0.25

    def byte_divergence(self, window: Window) -> float:
        """Kullback-Leibler divergence of the window's byte frequencies from the recent ones, in bits per byte."""
        if window.byte_counts is None:
            return 0.0
        seen = window.byte_counts > 0
        p = window.byte_counts[seen] / window.n_bytes
        return float((p * np.log2(p * self._byte_counts.sum() / self._byte_counts[seen])).sum())


def _median(values: deque[float]) -> float | None:
    return statistics.median(values) if len(values) >= MIN_WINDOWS else None
