"""Adaptive order-2 code: counts after two, one and no bytes of context, mixed, and learned as the data are coded.

What plain counting reaches online. The loop is the learner's own: predict, code, and only then count; and like the
learner it reads several streams side by side, here so that numpy works on a column of them at a time. All arithmetic is
on integers, so sizes are the same everywhere.

Stored form: length, range coder's payload.
"""

import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.frequencies import TOTAL, TOTAL_BITS, frequencies_from
from prequential.codecs.baselines.range_coder import RangeDecoder, RangeEncoder
from prequential.codecs.byte_source import ByteSource, varint

_BYTE_VALUES = 256
_MAX_STREAMS = 64
_MIN_STREAM_BYTES = 2048  # shorter data get fewer streams, so that each column still learns from those before it


def compress(data: bytes) -> bytes:
    """The stored form of `data`; 7 to 10 microseconds a byte."""
    symbols = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    encoder = RangeEncoder()

    def encode(column: slice, frequencies: NDArray[np.int64]) -> NDArray[np.int64]:
        encoder.encode(symbols[column], frequencies)
        return symbols[column]

    _learn(len(data), encode)
    return varint(len(data)) + encoder.finish()


def decompress(compressed: bytes) -> bytes:
    """The data that `compress` was given. Raises CorruptArchiveError where it can tell that these are no such bytes."""
    source = ByteSource(io.BytesIO(compressed))
    symbols = np.zeros(source.take_varint(), dtype=np.uint8)
    decoder = RangeDecoder(compressed[source.n_bytes_taken :])

    def decode(column: slice, frequencies: NDArray[np.int64]) -> NDArray[np.int64]:
        decoded = decoder.decode(frequencies)
        symbols[column] = decoded
        return decoded

    _learn(len(symbols), decode)
    decoder.finish()
    return symbols.tobytes()


def _learn(n_bytes: int, code: Callable[[slice, NDArray[np.int64]], NDArray[np.int64]]) -> None:
    """The one loop of both directions: `code` takes a column's positions and frequencies and returns its symbols."""
    stride = max(-(-n_bytes // _MAX_STREAMS), min(n_bytes, _MIN_STREAM_BYTES))  # bytes in a stream
    model = _Order2Model()
    history = np.zeros(_MAX_STREAMS, dtype=np.int64)
    for first in range(stride):
        # The last stream may be short, so columns lose members from the end.
        history = history[: len(range(first, n_bytes, stride))]
        symbols = code(slice(first, n_bytes, stride), model.predict(history))
        model.update(history, symbols)
        history = (history * _BYTE_VALUES + symbols) % _BYTE_VALUES**2


class _Order2Model:
    """Byte probabilities after two bytes of context, for some contexts at a time; 33 MiB once all are seen.

    Witten-Bell interpolation: with n occurrences of a context and u different bytes after it,
    p(s) = (count(s) + u * p_shorter(s)) / (n + u), down to order 0 and the uniform distribution.
    """

    # A context's counts are halved when one exceeds this: they fit 16 bits, recent data weigh more, and n + u < 2**21
    # leaves the reciprocal below, 2**32 // (n + u), at least 11 significant bits.
    _MAX_COUNT = 1 << 12

    def __init__(self) -> None:
        self._counts = [np.zeros((_BYTE_VALUES**order, _BYTE_VALUES), dtype=np.uint16) for order in range(3)]

    def predict(self, history: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, 256) frequencies after each of n histories, (n,): the last two bytes as one number."""
        probabilities = np.full((len(history), _BYTE_VALUES), TOTAL // _BYTE_VALUES, dtype=np.int64)
        for order, counts in enumerate(self._counts):
            seen = counts[history % _BYTE_VALUES**order].astype(np.int64)
            n_different = np.maximum(np.count_nonzero(seen, axis=1), 1)  # 1: an unseen context adds nothing of its own
            reciprocals = (1 << 32) // (seen.sum(axis=1) + n_different)
            # (count * 2**24 + u * p) / (n + u) <= 2**24 by a reciprocal rounded down: the product is below 2**57.
            probabilities *= n_different[:, None]
            probabilities += seen << TOTAL_BITS
            probabilities *= reciprocals[:, None]
            probabilities >>= 32
        return frequencies_from(probabilities)

    def update(self, history: NDArray[np.int64], symbols: NDArray[np.int64]) -> None:
        """Count the symbols, (n,), that followed the histories."""
        for order, counts in enumerate(self._counts):
            contexts = history % _BYTE_VALUES**order
            np.add.at(counts, (contexts, symbols), 1)
            full = np.unique(contexts[counts[contexts, symbols] > self._MAX_COUNT])
            counts[full] -= counts[full] >> 1
