"""What gzip makes of the bytes that a run has seen, window by window, for a small share of the run's time."""

import zlib
from collections.abc import Callable

SHARE = 0.004  # of the time that passes; what deflates slowly (DNA: 1 MB/s) is sampled
HEAD_BITS = 8 * 18  # gzip's own header and trailer
REACH = 1 << 15  # deflate looks no farther back


class GzipCurve:
    """gzip -9, estimated: each window is deflated after the 32 KiB before it, which on text costs 0.3 % more than one stream.

    A window that would take more than SHARE of the time since the last is left out, and the others stand for it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before = b""
        self._due_s = -float("inf")
        self._n_bytes, self._bits = 0, 0  # of the windows that were measured

    def add(self, window: bytes, *, measure: bool = False) -> int | None:
        """Bits that gzip spends on the next bytes of the data; None where they are left out, unless told to `measure` them."""
        start_s = self._clock()
        bits = None
        if measure or start_s >= self._due_s:
            bits = 8 * _deflated(window, self._before)
            self._n_bytes, self._bits = self._n_bytes + len(window), self._bits + bits
            end_s = self._clock()
            self._due_s = end_s + (end_s - start_s) / SHARE
        self._before = (self._before + window)[-REACH:]
        return bits

    @property
    def bits_per_byte(self) -> float | None:
        """Of all data so far, as far as the windows measured show; None before the first."""
        return (self._bits + HEAD_BITS) / self._n_bytes if self._n_bytes else None


def _deflated(data: bytes, before: bytes) -> int:
    """Bytes of raw deflate, level 9, of `data` after `before`."""
    options = (9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY)
    deflate = zlib.compressobj(*options, before) if before else zlib.compressobj(*options)
    return len(deflate.compress(data)) + len(deflate.flush())
