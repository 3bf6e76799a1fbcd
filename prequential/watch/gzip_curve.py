"""What gzip spends on the bytes of a run, window by window, in a small share of the run's time."""

import zlib
from collections.abc import Callable

MAX_TIME_SHARE = 0.004  # of the time of the run
DEFLATE_WINDOW_BYTES = 1 << 15  # deflate finds matches only so far back


class GzipCurve:
    """An estimate of gzip -9: each window is deflated after the 32 KiB before it. On text that costs 0.3 % more than one stream.

    Windows are skipped where gzip would take more than MAX_TIME_SHARE. The measured windows give the ratio of gzip's bits to the
    learner's, which varies far less than either.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before = b""
        self._due_s = -float("inf")
        self._gzip_bits, self._code_bits, self._n_bytes = 0, 0.0, 0  # of the measured windows

    def add(self, window: bytes, code_bits: float, *, measure: bool = False) -> int | None:
        """Bits that gzip spends on the next window; None for a skipped window. measure: do not skip it.

        code_bits: what the learner spends on the window.
        """
        start_s = self._clock()
        bits = None
        if measure or start_s >= self._due_s:
            bits = 8 * _deflated_bytes(window, self._before)
            self._gzip_bits, self._code_bits = self._gzip_bits + bits, self._code_bits + code_bits
            self._n_bytes += len(window)
            end_s = self._clock()
            self._due_s = end_s + (end_s - start_s) / MAX_TIME_SHARE
        self._before = (self._before + window)[-DEFLATE_WINDOW_BYTES:]
        return bits

    def bits_per_byte(self, n_bytes: int, code_bits: float) -> float | None:
        """gzip's rate on the first n_bytes, which cost the learner code_bits; None before the first measured window."""
        if not self._n_bytes:
            return None
        if not self._code_bits:
            return self._gzip_bits / self._n_bytes
        return self._gzip_bits / self._code_bits * code_bits / n_bytes


def _deflated_bytes(data: bytes, before: bytes) -> int:
    """Length of `data` after `before` in raw deflate, level 9."""
    options = (9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY)
    deflate = zlib.compressobj(*options, before) if before else zlib.compressobj(*options)
    return len(deflate.compress(data)) + len(deflate.flush())
