"""The two-part code of order 0, in integers: the frequencies of the bytes, then the data under them."""

import io

import numpy as np

from prequential_codecs.baselines import range_coder
from prequential_codecs.baselines.range_coder import Ints
from prequential_codecs.byte_source import ByteSource, varint

_BYTE_VALUES = 256
_MANTISSA_BITS = 3
_MANTISSA_ONE = 1 << _MANTISSA_BITS  # the leading one that a minifloat does not store
_MAX_EXPONENT = 31


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
