"""The counts of a two-part code as bytes, and back: rounded n-gram counts and exact context counts, by the range coder.

A rounded count is a number below 255: an exponent and a short mantissa. Rounded counts of about the same expected size share a
distribution. The writer sends each distribution first, deflated together with all others.

Letters: V distinct values, n counts. Ints are (n,) int64 unless another shape is given.
"""

import io
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from prequential_codecs.baselines.frequencies import TOTAL, frequencies_from
from prequential_codecs.baselines.range_coder import RangeDecoder, RangeEncoder
from prequential_codecs.byte_source import ByteSource, varint

_BATCH_SYMBOLS = 4096  # coded in one call: limits memory to about 10 MB
# Mantissa bits by exponent. The precision of a count should be about its square root. Up to 1 MB of text or code, slightly less
# precision than this gave the smallest total.
_MANTISSA_BITS = np.clip((np.arange(32) - 1) // 2, 0, 3)
_FIRST_CODES = np.cumsum(1 << _MANTISSA_BITS) - (1 << _MANTISSA_BITS)  # of each exponent, below 256
_MAX_FIELD_BITS = 8

Ints = NDArray[np.int64]


def round_counts(counts: Ints) -> Ints:
    """Rounded counts, below 2**8 - 1, of counts 1 .. 2**32 - 1. Rounds down."""
    exponents = np.frexp(counts.astype(np.float64))[1].astype(np.int64) - 1
    n_bits = _MANTISSA_BITS[exponents]
    return _FIRST_CODES[exponents] + (counts >> (exponents - n_bits)) - (1 << n_bits)


def count_ranges(codes: Ints) -> tuple[Ints, Ints]:
    """The smallest count that each rounded count stands for, and the largest one minus the smallest."""
    exponents = np.searchsorted(_FIRST_CODES, codes, side="right") - 1
    n_bits = _MANTISSA_BITS[exponents]
    shifts = exponents - n_bits
    return ((1 << n_bits) + codes - _FIRST_CODES[exponents]) << shifts, (1 << shifts) - 1


def count_weights(codes: Ints) -> Ints:
    """Twice the middle of the counts that each rounded count stands for."""
    smallest, spread = count_ranges(codes)
    return 2 * smallest + spread


def frequency_rows(weights: Ints) -> Ints:
    """(V,) or (n, V) weights as frequencies (n, V), each row of sum 2**24."""
    rows = np.atleast_2d(weights).astype(np.float64)
    return frequencies_from((rows / rows.sum(1, keepdims=True) * TOTAL).astype(np.int64))


def batches(n: int) -> Iterator[slice]:
    """Consecutive slices of n symbols, each small enough for one call of the coder."""
    return (slice(start, min(start + _BATCH_SYMBOLS, n)) for start in range(0, n, _BATCH_SYMBOLS))


def _bit_fields(spreads: Ints) -> Iterator[tuple[int, NDArray[np.bool_], Ints]]:
    """Fields of up to 8 bits of numbers in 0..spread: the field's shift, which numbers have it, and its frequencies (V,)."""
    n_bits = np.frexp(spreads.astype(np.float64))[1]  # 0 for 0
    for shift in range(0, int(n_bits.max(initial=0)), _MAX_FIELD_BITS):
        widths = np.clip(n_bits - shift, 0, _MAX_FIELD_BITS)
        for width in range(1, _MAX_FIELD_BITS + 1):
            selected = widths == width
            if selected.any():
                yield shift, selected, np.full(1 << width, TOTAL >> width)


class CountWriter:
    """From counts to bytes. grams: for each length from one byte on, all n-grams of the data."""

    def __init__(self, grams: list[Ints]) -> None:
        self._grams, self._distributions, self._encoder = grams, bytearray(), RangeEncoder()

    def code_counts(self, order: int, candidates: Ints, distributions: Ints) -> Ints:
        """Codes, for each candidate n-gram of order + 1 bytes, 0 or 1 + its rounded count, and returns these values.

        distributions: the number of the distribution that each candidate uses.
        """
        keys, counts = np.unique(self._grams[order], return_counts=True)
        at = np.minimum(np.searchsorted(keys, candidates), len(keys) - 1)
        values = np.where(keys[at] == candidates, 1 + round_counts(counts)[at], 0)
        for number in np.unique(distributions):
            self._code_values(values[distributions == number])
        return values

    def write_exactly(self, numbers: Ints, spreads: Ints) -> None:
        """Codes numbers that lie in 0..spread."""
        for shift, selected, row in _bit_fields(spreads):
            self._code(numbers[selected] >> shift & (len(row) - 1), row)

    def finish(self) -> bytes:
        """All counts: length of the deflated distributions, these, the range coder's payload."""
        deflated = zlib.compress(bytes(self._distributions), 9)
        return varint(len(deflated)) + deflated + self._encoder.finish()

    def _code_values(self, values: Ints) -> None:
        """Codes values of one distribution. The distribution comes first: the largest value, and each value's rounded count."""
        counts = np.bincount(values)
        codes = np.where(counts > 0, 1 + round_counts(np.maximum(counts, 1)), 0)
        self._distributions += bytes([len(codes) - 1]) + codes.astype(np.uint8).tobytes()
        present = np.nonzero(codes)[0]
        if len(present) > 1:
            self._code(np.searchsorted(present, values), frequency_rows(count_weights(codes[present] - 1))[0])

    def _code(self, symbols: Ints, row: Ints) -> None:
        for batch in batches(len(symbols)):
            self._encoder.encode(symbols[batch], np.broadcast_to(row, (len(symbols[batch]), len(row))))


class CountReader:
    """From bytes to counts: the inverse of `CountWriter`."""

    def __init__(self, packed: bytes) -> None:
        source = ByteSource(io.BytesIO(packed))
        self._distributions = io.BytesIO(zlib.decompress(source.take(source.take_varint())))
        self._decoder = RangeDecoder(packed[source.n_bytes_taken :])

    def code_counts(self, order: int, candidates: Ints, distributions: Ints) -> Ints:
        """The values that `CountWriter.code_counts` coded for the same arguments."""
        values = np.zeros(len(candidates), np.int64)
        for number in np.unique(distributions):
            selected = distributions == number
            values[selected] = self._read_values(int(selected.sum()))
        return values

    def read_exactly(self, spreads: Ints) -> Ints:
        """The numbers that `CountWriter.write_exactly` coded for the same spreads."""
        numbers = np.zeros(len(spreads), np.int64)
        for shift, selected, row in _bit_fields(spreads):
            numbers[selected] |= self._read(int(selected.sum()), row) << shift
        return numbers

    def finish(self) -> None:
        """Raises CorruptArchiveError if the bytes certainly contain more."""
        self._decoder.finish()

    def _read_values(self, n: int) -> Ints:
        n_codes = self._distributions.read(1)[0] + 1
        codes = np.frombuffer(self._distributions.read(n_codes), np.uint8).astype(np.int64)
        present = np.nonzero(codes)[0]
        if len(present) > 1:
            return present[self._read(n, frequency_rows(count_weights(codes[present] - 1))[0])]
        return present[np.zeros(n, np.int64)]

    def _read(self, n: int, row: Ints) -> Ints:
        parts = [
            self._decoder.decode(np.broadcast_to(row, (batch.stop - batch.start, len(row)))) for batch in batches(n)
        ]
        return np.concatenate(parts)
