"""Adaptive order-0 code: the estimator of Krichevsky and Trofimov (1981), p(s) = (count(s) + 1/2) / (n + 128) after n bytes.

It shows the cost of learning without any context: at most about 127.5 * log2(n) bits more than the best fixed frequencies.
Counts are updated after batches of at most 1/64 of the bytes coded before, as the learner's segments grow. One row of
frequencies serves a batch. The delayed counts cost a few bits in total. All arithmetic is on integers.

order2.py has contexts of up to two bytes. For longer contexts, PPMd among the classical compressors is the corresponding code.

Stored form: length, range coder's payload.
"""

import io
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from prequential_codecs.baselines.frequencies import TOTAL, frequencies_from
from prequential_codecs.baselines.range_coder import RangeDecoder, RangeEncoder
from prequential_codecs.byte_source import ByteSource, varint

_BYTE_VALUES = 256
_GROWTH = 64
_MAX_BATCH = 4096  # bytes coded in one call: limits memory to about 10 MB


def compress(data: bytes) -> bytes:
    """The stored form of `data`. About 2 microseconds per byte."""
    symbols = np.frombuffer(data, np.uint8).astype(np.int64)
    counts, encoder = np.zeros(_BYTE_VALUES, np.int64), RangeEncoder()
    for batch in _batches(len(symbols)):
        encoder.encode(symbols[batch], _rows(counts, batch))
        counts += np.bincount(symbols[batch], minlength=_BYTE_VALUES)
    return varint(len(data)) + encoder.finish()


def decompress(compressed: bytes) -> bytes:
    """The inverse of `compress`. Raises CorruptArchiveError for damaged bytes, if the damage can be detected."""
    source = ByteSource(io.BytesIO(compressed))
    symbols = np.zeros(source.take_varint(), np.uint8)
    counts, decoder = np.zeros(_BYTE_VALUES, np.int64), RangeDecoder(compressed[source.n_bytes_taken :])
    for batch in _batches(len(symbols)):
        symbols[batch] = decoder.decode(_rows(counts, batch))
        counts += np.bincount(symbols[batch], minlength=_BYTE_VALUES)
    decoder.finish()
    return symbols.tobytes()


def _batches(n_bytes: int) -> Iterator[slice]:
    start = 0
    while start < n_bytes:
        stop = min(start + min(max(1, start // _GROWTH), _MAX_BATCH), n_bytes)
        yield slice(start, stop)
        start = stop


def _rows(counts: NDArray[np.int64], batch: slice) -> NDArray[np.int64]:
    """(n, 256) frequencies for each byte of a batch, from the counts (256,) of the bytes before it."""
    weights = 2 * counts + 1
    row = frequencies_from((weights * TOTAL // weights.sum())[None, :])
    return np.broadcast_to(row, (batch.stop - batch.start, _BYTE_VALUES))
