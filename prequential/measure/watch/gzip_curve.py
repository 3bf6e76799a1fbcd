"""What gzip makes of the bytes that a run has seen, window by window, for a small share of the run's time."""

import zlib
from collections.abc import Callable

SHARE = 0.004  # of the time that passes
REACH = 1 << 15  # deflate looks no farther back


class GzipCurve:
    """gzip -9, estimated: each window is deflated after the 32 KiB before it, which on text costs 0.3 % more than one stream.

    Where that would take more than SHARE of the time, windows are left out. Those measured then say how much gzip needs for a
    bit of the learner's, a ratio that varies far less than either.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before = b""
        self._due_s = -float("inf")
        self._bits, self._code_bits, self._n_bytes = 0, 0.0, 0  # of the windows that were measured

    def add(self, window: bytes, code_bits: float, *, measure: bool = False) -> int | None:
        """Bits that gzip spends on the next bytes of the data; None where they are left out, unless told to `measure` them.

        code_bits: what the learner spends on them.
        """
        start_s = self._clock()
        bits = None
        if measure or start_s >= self._due_s:
            bits = 8 * _deflated(window, self._before)
            self._bits, self._code_bits = self._bits + bits, self._code_bits + code_bits
            self._n_bytes += len(window)
            end_s = self._clock()
            self._due_s = end_s + (end_s - start_s) / SHARE
        self._before = (self._before + window)[-REACH:]
        return bits

    def bits_per_byte(self, n_bytes: int, code_bits: float) -> float | None:
        """gzip's on all of the data so far, n_bytes that cost the learner code_bits; None before the first window."""
        if not self._n_bytes:
            return None
        return self._bits / self._code_bits * code_bits / n_bytes if self._code_bits else self._bits / self._n_bytes


def _deflated(data: bytes, before: bytes) -> int:
    """Bytes of raw deflate, level 9, of `data` after `before`."""
    options = (9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY)
    deflate = zlib.compressobj(*options, before) if before else zlib.compressobj(*options)
    return len(deflate.compress(data)) + len(deflate.flush())
