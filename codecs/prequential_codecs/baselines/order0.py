"""Order-0 two-part code: first the byte frequencies, then the data under them. The size includes both.

Stored form: length, 32-byte map of the byte values that occur, one byte of frequency for each, range coder's payload.
"""

import io

import numpy as np

from prequential_codecs.baselines.range_coder import (
    TOTAL,
    Ints,
    RangeDecoder,
    RangeEncoder,
    code_under,
    frequencies_from,
)
from prequential_codecs.byte_source import ByteSource, varint

_BYTE_VALUES = 256
_MANTISSA_BITS = 3
_MANTISSA_ONE = 1 << _MANTISSA_BITS  # the leading one that a minifloat does not store
_MAX_EXPONENT = 31


def compress(data: bytes) -> bytes:
    """The stored form of `data`. About 1 microsecond per byte."""
    symbols = np.frombuffer(data, dtype=np.uint8)
    counts = np.bincount(symbols, minlength=_BYTE_VALUES)
    present = counts > 0
    parameters = bytes(_to_minifloat(int(count)) for count in counts[present])
    head = varint(len(data)) + np.packbits(present).tobytes() + parameters
    if len(parameters) < 2:  # the data follow from the length; a coder needs two symbols
        return head
    ranks = (np.cumsum(present) - 1)[symbols]
    encoder = RangeEncoder()
    code_under(encoder, ranks, _frequencies_of(parameters))
    return head + encoder.finish()


def decompress(compressed: bytes) -> bytes:
    """The inverse of `compress`. Raises CorruptArchiveError for damaged bytes, if the damage can be detected."""
    source = ByteSource(io.BytesIO(compressed))
    n_bytes = source.take_varint()
    present = np.unpackbits(np.frombuffer(source.take(_BYTE_VALUES // 8), dtype=np.uint8))
    values = np.nonzero(present)[0].astype(np.uint8)
    parameters = source.take(len(values))
    if len(values) < 2:
        return values.tobytes() * n_bytes
    decoder = RangeDecoder(compressed[source.n_bytes_taken :])
    ranks = code_under(decoder, np.zeros(n_bytes, np.int64), _frequencies_of(parameters))
    decoder.finish()
    return values[ranks].tobytes()


def _to_minifloat(count: int) -> int:
    """`count` >= 1 as one byte, rounded down: 5 bits of exponent, 3 bits of mantissa.

    The relative errors lie in 0..1/8. They cost about 0.001 bits per symbol.
    """
    exponent = min(count.bit_length() - 1, _MAX_EXPONENT)
    significand = min(count * _MANTISSA_ONE >> exponent, 2 * _MANTISSA_ONE - 1)
    return exponent << _MANTISSA_BITS | significand - _MANTISSA_ONE


def _frequencies_of(parameters: bytes) -> Ints:
    """(V,) frequencies in proportion to V minifloats."""
    codes = np.frombuffer(parameters, dtype=np.uint8).astype(np.int64)
    weights = (_MANTISSA_ONE + codes % _MANTISSA_ONE) << (codes >> _MANTISSA_BITS)
    return frequencies_from(weights[None, :] * TOTAL // weights.sum())[0]
