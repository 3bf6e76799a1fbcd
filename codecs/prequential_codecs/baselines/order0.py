"""The two-part code of order 0: the frequencies of the bytes that occur, as minifloats, then the data under them.

The data are range-coded by constriction under V integer frequencies, each at least 1, of sum 2**24. Three properties of
constriction 0.5.0 matter, and a test checks each of them:
- `Categorical` without `perfect=False` prints a warning to standard output.
- It turns floats into integer frequencies: it adds 1 to each and scales the rest to the total. So integer frequencies arrive
  exactly if they are passed as float64 `frequency - 1`: the scale is then (2**24 - V) / (2**24 - V) = 1, and all partial sums
  are integers below 2**53.
- It accepts symbols only as int32.
"""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorruptArchiveError
from prequential_codecs.byte_source import ByteSource, varint

TOTAL_BITS = 24
TOTAL = 1 << TOTAL_BITS
_WORD_BYTES = 4
_BYTE_VALUES = 256
_MANTISSA_BITS = 3
_MANTISSA_ONE = 1 << _MANTISSA_BITS  # the leading one that a minifloat does not store
_MAX_EXPONENT = 31

Ints = NDArray[np.int64]


def compress(data: bytes) -> bytes:
    """Length, 32-byte map of the bytes that occur, one byte of frequency for each; then the range coder's payload."""
    symbols = np.frombuffer(data, dtype=np.uint8)
    counts = np.bincount(symbols, minlength=_BYTE_VALUES)
    present = counts > 0
    parameters = bytes(_to_minifloat(int(count)) for count in counts[present])
    head = varint(len(data)) + np.packbits(present).tobytes() + parameters
    if len(parameters) < 2:  # the data follow from the length; a coder needs two symbols
        return head
    ranks = (np.cumsum(present) - 1)[symbols]
    return head + encode(ranks, _frequencies_of(parameters))


def decompress(compressed: bytes) -> bytes:
    """The inverse of `compress`. Raises CorruptArchiveError for damaged bytes, if the damage can be detected."""
    source = ByteSource(io.BytesIO(compressed))
    n_bytes = source.take_varint()
    present = np.unpackbits(np.frombuffer(source.take(_BYTE_VALUES // 8), dtype=np.uint8))
    values = np.nonzero(present)[0].astype(np.uint8)
    parameters = source.take(len(values))
    if len(values) < 2:
        return values.tobytes() * n_bytes
    return values[decode(compressed[source.n_bytes_taken :], n_bytes, _frequencies_of(parameters))].tobytes()


def _to_minifloat(count: int) -> int:
    """`count` >= 1 as one byte, rounded down: 5 bits of exponent, 3 bits of mantissa. This costs about 0.001 bits per symbol."""
    exponent = min(count.bit_length() - 1, _MAX_EXPONENT)
    significand = min(count * _MANTISSA_ONE >> exponent, 2 * _MANTISSA_ONE - 1)
    return exponent << _MANTISSA_BITS | significand - _MANTISSA_ONE


def _frequencies_of(parameters: bytes) -> Ints:
    """(V,) frequencies in proportion to V minifloats. What is missing to the total goes to the most frequent symbol."""
    codes = np.frombuffer(parameters, dtype=np.uint8).astype(np.int64)
    weights = (_MANTISSA_ONE + codes % _MANTISSA_ONE) << (codes >> _MANTISSA_BITS)
    frequencies = (weights * TOTAL // weights.sum() * (TOTAL - len(codes)) >> TOTAL_BITS) + 1
    frequencies[frequencies.argmax()] += TOTAL - frequencies.sum()
    return frequencies


# ---- the range coder


def encode(symbols: Ints, frequencies: Ints) -> bytes:
    """Little-endian 32-bit words, about 16 bits more than the ideal code length of symbols (n,) in 0..V-1; empty without any."""
    import constriction

    coder = constriction.stream.queue.RangeEncoder()
    coder.encode(symbols.astype(np.int32), _model(constriction, frequencies))
    return bytes(coder.get_compressed().astype("<u4").tobytes())


def decode(payload: bytes, n: int, frequencies: Ints) -> Ints:
    """The n symbols of a payload of `encode`. Raises CorruptArchiveError if it is certainly longer or shorter."""
    import constriction

    if len(payload) % _WORD_BYTES:
        raise CorruptArchiveError(f"coded payload of {len(payload)} bytes is not a whole number of 32-bit words")
    coder = constriction.stream.queue.RangeDecoder(np.frombuffer(payload, "<u4").astype(np.uint32))
    try:
        symbols = np.asarray(coder.decode(_model(constriction, frequencies), n), np.int64)
    except Exception as error:  # the library's own type
        raise CorruptArchiveError(f"range decoder: {error}") from error
    if (n == 0) != (not payload) or not coder.maybe_exhausted():
        raise CorruptArchiveError(f"coded payload of {len(payload)} bytes does not end with its {n} symbols")
    return symbols


def _model(constriction: Any, frequencies: Ints) -> Any:
    return constriction.stream.model.Categorical(np.subtract(frequencies, 1, dtype=np.float64), perfect=False)
