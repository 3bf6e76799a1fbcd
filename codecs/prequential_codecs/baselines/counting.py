"""Codes that only count bytes, in integers: of order 0, frequencies before the data (two-part); of order 2, adaptive."""

import io

import numpy as np

from prequential_codecs.baselines import range_coder
from prequential_codecs.baselines.range_coder import Coder, Ints
from prequential_codecs.byte_source import ByteSource, varint

_BYTE_VALUES = 256
_MANTISSA_BITS = 3
_MANTISSA_ONE = 1 << _MANTISSA_BITS  # the leading one that a minifloat does not store
_MAX_EXPONENT = 31
_MAX_STREAMS = 64
_MIN_STREAM_BYTES = 2048  # shorter data get fewer streams, so that each column still learns from earlier columns


def compress_order0(data: bytes) -> bytes:
    """Two parts: length, 32-byte map of the bytes that occur, one byte of frequency for each; then the range coder's payload."""
    symbols = np.frombuffer(data, dtype=np.uint8)
    counts = np.bincount(symbols, minlength=_BYTE_VALUES)
    present = counts > 0
    parameters = bytes(_to_minifloat(int(count)) for count in counts[present])
    head = varint(len(data)) + np.packbits(present).tobytes() + parameters
    if len(parameters) < 2:  # the data follow from the length; a coder needs two symbols
        return head
    ranks = (np.cumsum(present) - 1)[symbols]
    encoder = range_coder.RangeEncoder()
    range_coder.code_under(encoder, ranks, _frequencies_of(parameters))
    return head + encoder.finish()


def decompress_order0(compressed: bytes) -> bytes:
    """The inverse of `compress_order0`. Raises CorruptArchiveError for damaged bytes, if the damage can be detected."""
    source = ByteSource(io.BytesIO(compressed))
    n_bytes = source.take_varint()
    present = np.unpackbits(np.frombuffer(source.take(_BYTE_VALUES // 8), dtype=np.uint8))
    values = np.nonzero(present)[0].astype(np.uint8)
    parameters = source.take(len(values))
    if len(values) < 2:
        return values.tobytes() * n_bytes
    decoder = range_coder.RangeDecoder(compressed[source.n_bytes_taken :])
    ranks = range_coder.code_under(decoder, np.zeros(n_bytes, np.int64), _frequencies_of(parameters))
    decoder.finish()
    return values[ranks].tobytes()


def _to_minifloat(count: int) -> int:
    """`count` >= 1 as one byte, rounded down: 5 bits of exponent, 3 bits of mantissa. This costs about 0.001 bits per symbol."""
    exponent = min(count.bit_length() - 1, _MAX_EXPONENT)
    significand = min(count * _MANTISSA_ONE >> exponent, 2 * _MANTISSA_ONE - 1)
    return exponent << _MANTISSA_BITS | significand - _MANTISSA_ONE


def _frequencies_of(parameters: bytes) -> Ints:
    """(V,) frequencies in proportion to V minifloats."""
    codes = np.frombuffer(parameters, dtype=np.uint8).astype(np.int64)
    weights = (_MANTISSA_ONE + codes % _MANTISSA_ONE) << (codes >> _MANTISSA_BITS)
    return range_coder.frequencies_from(weights[None, :] * range_coder.TOTAL // weights.sum())[0]


def compress_order2(data: bytes) -> bytes:
    """Mixes the counts after two, one and no bytes of context, and updates them while it codes. 7 to 10 microseconds per byte.

    The data are divided into streams, which numpy reads in parallel. Stored form: length, range coder's payload.
    """
    encoder = range_coder.RangeEncoder()
    _code(encoder, np.frombuffer(data, dtype=np.uint8).astype(np.int64))
    return varint(len(data)) + encoder.finish()


def decompress_order2(compressed: bytes) -> bytes:
    """The inverse of `compress_order2`. Raises CorruptArchiveError for damaged bytes, if the damage can be detected."""
    source = ByteSource(io.BytesIO(compressed))
    symbols = np.zeros(source.take_varint(), np.int64)
    decoder = range_coder.RangeDecoder(compressed[source.n_bytes_taken :])
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
        probabilities = np.full((len(history), _BYTE_VALUES), range_coder.TOTAL // _BYTE_VALUES, dtype=np.int64)
        for order, counts in enumerate(self._counts):
            seen = counts[history % _BYTE_VALUES**order].astype(np.int64)
            # 1: a new context keeps the shorter one's probabilities
            n_different = np.maximum(np.count_nonzero(seen, axis=1), 1)
            reciprocals = (1 << 32) // (seen.sum(axis=1) + n_different)
            # (count * 2**24 + u * p) / (n + u) <= 2**24. The reciprocal is rounded down; the product is below 2**57.
            probabilities *= n_different[:, None]
            probabilities += seen << range_coder.TOTAL_BITS
            probabilities *= reciprocals[:, None]
            probabilities >>= 32
        return range_coder.frequencies_from(probabilities)

    def update(self, history: Ints, symbols: Ints) -> None:
        """Counts the symbols, (n,), that followed the histories."""
        for order, counts in enumerate(self._counts):
            contexts = history % _BYTE_VALUES**order
            np.add.at(counts, (contexts, symbols), 1)
            full = np.unique(contexts[counts[contexts, symbols] > self._MAX_COUNT])
            counts[full] -= counts[full] >> 1
