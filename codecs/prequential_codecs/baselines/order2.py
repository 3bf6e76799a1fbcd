"""Adaptive order-2 code: mixes the counts after two, one and no bytes of context, and updates them while it codes.

It shows what counting alone reaches. Like the learner, it predicts a byte, codes it, and only then counts it. It divides the
data into streams and reads them in parallel: numpy computes one byte of each at a time. All arithmetic is on integers. So sizes
are the same on every machine.

Stored form: length, range coder's payload.
"""

import io

import numpy as np

from prequential_codecs.baselines.range_coder import (
    TOTAL,
    TOTAL_BITS,
    Coder,
    Ints,
    RangeDecoder,
    RangeEncoder,
    frequencies_from,
)
from prequential_codecs.byte_source import ByteSource, varint

_BYTE_VALUES = 256
_MAX_STREAMS = 64
_MIN_STREAM_BYTES = 2048  # shorter data get fewer streams, so that each column still learns from earlier columns


def compress(data: bytes) -> bytes:
    """The stored form of `data`. 7 to 10 microseconds per byte."""
    encoder = RangeEncoder()
    _code(encoder, np.frombuffer(data, dtype=np.uint8).astype(np.int64))
    return varint(len(data)) + encoder.finish()


def decompress(compressed: bytes) -> bytes:
    """The inverse of `compress`. Raises CorruptArchiveError for damaged bytes, if the damage can be detected."""
    source = ByteSource(io.BytesIO(compressed))
    symbols = np.zeros(source.take_varint(), np.int64)
    decoder = RangeDecoder(compressed[source.n_bytes_taken :])
    _code(decoder, symbols)
    decoder.finish()
    return symbols.astype(np.uint8).tobytes()


def _code(coder: Coder, symbols: Ints) -> None:
    """Codes the symbols (n,) in both directions. A decoder fills them."""
    n_bytes = len(symbols)
    stride = max(-(-n_bytes // _MAX_STREAMS), min(n_bytes, _MIN_STREAM_BYTES))  # bytes in a stream
    model = _Order2Model()
    history = np.zeros(_MAX_STREAMS, dtype=np.int64)
    for first in range(stride):
        # The last streams may be shorter, so later columns have fewer members.
        history = history[: len(range(first, n_bytes, stride))]
        column = slice(first, n_bytes, stride)
        symbols[column] = coded = coder.code(symbols[column], model.predict(history))
        model.update(history, coded)
        history = (history * _BYTE_VALUES + coded) % _BYTE_VALUES**2


class _Order2Model:
    """Byte probabilities after two bytes of context, for several contexts at a time. 33 MiB if all contexts occur.

    Witten-Bell interpolation: with n occurrences of a context and u different bytes after it,
    p(s) = (count(s) + u * p_shorter(s)) / (n + u). The shortest context is order 0, and below it is the uniform distribution.
    """

    # If a count exceeds this, all counts of its context are halved. So counts fit 16 bits and recent data have more weight.
    # n + u < 2**21 leaves the reciprocal below, 2**32 // (n + u), at least 11 significant bits.
    _MAX_COUNT = 1 << 12

    def __init__(self) -> None:
        self._counts = [np.zeros((_BYTE_VALUES**order, _BYTE_VALUES), dtype=np.uint16) for order in range(3)]

    def predict(self, history: Ints) -> Ints:
        """(n, 256) frequencies after each of n histories. history: (n,), the last two bytes as one number."""
        probabilities = np.full((len(history), _BYTE_VALUES), TOTAL // _BYTE_VALUES, dtype=np.int64)
        for order, counts in enumerate(self._counts):
            seen = counts[history % _BYTE_VALUES**order].astype(np.int64)
            # 1: a new context keeps the shorter one's probabilities
            n_different = np.maximum(np.count_nonzero(seen, axis=1), 1)
            reciprocals = (1 << 32) // (seen.sum(axis=1) + n_different)
            # (count * 2**24 + u * p) / (n + u) <= 2**24. The reciprocal is rounded down; the product is below 2**57.
            probabilities *= n_different[:, None]
            probabilities += seen << TOTAL_BITS
            probabilities *= reciprocals[:, None]
            probabilities >>= 32
        return frequencies_from(probabilities)

    def update(self, history: Ints, symbols: Ints) -> None:
        """Counts the symbols, (n,), that followed the histories."""
        for order, counts in enumerate(self._counts):
            contexts = history % _BYTE_VALUES**order
            np.add.at(counts, (contexts, symbols), 1)
            full = np.unique(contexts[counts[contexts, symbols] > self._MAX_COUNT])
            counts[full] -= counts[full] >> 1
