"""The two-part code of order 3: first how often each byte follows each three bytes, then the data under these counts.

Counts are sent for n-grams of growing length. After a context, only the bytes that follow its
suffix are possible, and the shorter n-grams give the expected count of each. So each count, rounded, is coded under a
distribution that depends on its expected size: a number below 255, which is an exponent and a short mantissa. The distributions
come first, deflated together. The data are coded context by context, so that numpy processes thousands of bytes at a time. The
decoder fills a queue of bytes for each context. Then it walks from context to context and takes the next byte from the queue
of each.

Stored form: length; the first three bytes; length of the counts, the counts; range coder's payload of the data.

Letters: C contexts, M n-grams, V distinct values, n counts. A context or an n-gram is a number: its bytes in base 256, the last
byte lowest. Ints are (n,) int64 unless another shape is given.
"""

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prequential_codecs.baselines.range_coder import (
    TOTAL,
    Coder,
    Ints,
    RangeDecoder,
    RangeEncoder,
    batches,
    code_under,
    frequencies_from,
)
from prequential_codecs.byte_source import ByteSource, varint

ORDER = 3  # bytes of a context
_BYTE_VALUES = 256
_EXPECTED_EXPONENTS = (-8, 24)  # binary exponents of expected counts that have distributions of their own
_ALPHABET_SIZES = (2, 4, 8, 16, 32, 64, 128, 256)  # the rows of contexts are padded to one of these sizes
# Mantissa bits by exponent. The precision of a count should be about its square root. Up to 1 MB of text or code, slightly less
# precision than this gave the smallest total.
_MANTISSA_BITS = np.clip((np.arange(32) - 1) // 2, 0, 3)
_FIRST_CODES = np.cumsum(1 << _MANTISSA_BITS) - (1 << _MANTISSA_BITS)  # of each exponent, below 256
_MAX_FIELD_BITS = 8


@dataclass(frozen=True)
class _Level:
    """N-grams of one length: those of context c are entries starts[c] .. starts[c + 1] - 1 of `symbols` and `codes`."""

    contexts: Ints  # (C,) ascending
    starts: Ints  # (C + 1,)
    symbols: Ints  # (M,) the last byte of each
    codes: Ints  # (M,) rounded counts

    @property
    def grams(self) -> Ints:
        """(M,), ascending."""
        return np.repeat(self.contexts, np.diff(self.starts)) * _BYTE_VALUES + self.symbols


def compress(data: bytes) -> bytes:
    """The stored form of `data`. About 1 microsecond per byte."""
    head = varint(len(data)) + data[:ORDER]
    if len(data) <= ORDER:
        return head
    symbols = np.frombuffer(data, np.uint8).astype(np.int64)
    # N-grams of each length that end at byte ORDER or later.
    grams = [_grams(symbols, length)[ORDER + 1 - length :] for length in range(1, ORDER + 2)]
    counts = _CountWriter(grams)
    level = _grow(symbols[:ORDER], counts)
    contexts = np.searchsorted(level.contexts, grams[ORDER] // _BYTE_VALUES)
    n_visits = np.bincount(contexts, minlength=len(level.contexts))
    smallest, spreads = _visit_ranges(level)
    counts.code_exactly(n_visits - smallest, spreads)
    packed = counts.finish()
    by_context = np.argsort(contexts, kind="stable")
    ranks = np.searchsorted(level.grams, grams[ORDER])[by_context] - level.starts[contexts[by_context]]
    encoder = RangeEncoder()
    for places, rows in _uncertain_places(level, n_visits):
        encoder.code(ranks[places], rows)
    return head + varint(len(packed)) + packed + encoder.finish()


def decompress(compressed: bytes) -> bytes:
    """The inverse of `compress`. Raises CorruptArchiveError for damaged bytes, if the damage can be detected."""
    source = ByteSource(io.BytesIO(compressed))
    n_bytes = source.take_varint()
    first = source.take(min(ORDER, n_bytes))
    if n_bytes <= ORDER:
        return first
    counts = _CountReader(source.take(source.take_varint()))
    level = _grow(np.frombuffer(first, np.uint8).astype(np.int64), counts)
    smallest, spreads = _visit_ranges(level)
    n_visits = smallest + counts.code_exactly(np.zeros_like(spreads), spreads)
    counts.finish()
    decoder = RangeDecoder(compressed[source.n_bytes_taken :])
    chosen = np.repeat(level.starts[:-1], n_visits)  # n-grams, sorted by context
    for places, rows in _uncertain_places(level, n_visits):
        chosen[places] += decoder.code(places, rows)
    decoder.finish()
    walked = _walk(level, n_visits, chosen, int.from_bytes(first, "big"), n_bytes - ORDER)
    return first + level.symbols[walked].astype(np.uint8).tobytes()


def _grams(symbols: Ints, length: int) -> Ints:
    """(n - length + 1,): the n-gram that starts at each byte."""
    n = len(symbols) - length + 1
    total = np.zeros(n, np.int64)
    for i in range(length):
        total = total * _BYTE_VALUES + symbols[i : i + n]
    return total


def _grow(first: Ints, counts: "_Counts") -> _Level:
    """The n-grams one byte longer than `first`, built from all shorter ones. first: the first ORDER bytes of the data."""
    every = np.arange(_BYTE_VALUES)
    level = _Level(np.zeros(1, np.int64), np.array([0, _BYTE_VALUES]), every, np.zeros(_BYTE_VALUES, np.int64))
    contexts, expected = np.zeros(1, np.int64), np.ones(1, np.int64)
    for order in range(len(first) + 1):
        if order:
            grams, weights = level.grams, count_weights(level.codes)
            contexts = np.union1d(grams, _grams(first[len(first) - order :], order))
            at = np.minimum(np.searchsorted(grams, contexts), len(grams) - 1)
            expected = np.where(grams[at] == contexts, weights[at], 1)
        level = _longer(level, contexts, expected, order, counts)
    return level


def _longer(shorter: _Level, contexts: Ints, context_weights: Ints, order: int, counts: "_Counts") -> _Level:
    """The n-grams of order + 1 bytes. contexts: (C,) ascending; each occurs about context_weights times."""
    suffixes = np.searchsorted(shorter.contexts, contexts % _BYTE_VALUES ** max(order - 1, 0))
    starts = shorter.starts[suffixes]
    n_candidates = shorter.starts[suffixes + 1] - starts
    owner = np.repeat(np.arange(len(contexts)), n_candidates)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(n_candidates) - n_candidates, n_candidates)
    source = starts[owner] + offset  # the shorter n-gram that each candidate extends
    weights = count_weights(shorter.codes)
    sums = np.concatenate(([0], np.cumsum(weights)))
    totals = (sums[shorter.starts[1:]] - sums[shorter.starts[:-1]])[suffixes]
    expected = context_weights[owner].astype(np.float64) * weights[source] / totals[owner]
    symbols = shorter.symbols[source]
    values = counts.code_counts(order, contexts[owner] * _BYTE_VALUES + symbols, _distribution_numbers(expected))
    present = values > 0
    n_present = np.bincount(owner[present], minlength=len(contexts))
    return _Level(contexts, np.concatenate(([0], np.cumsum(n_present))), symbols[present], values[present] - 1)


def _distribution_numbers(expected: NDArray[np.float64]) -> Ints:
    """The number of the distribution for each expected count: two distributions per octave."""
    mantissa, exponent = np.frexp(expected)  # exact, so every machine chooses the same
    low, high = _EXPECTED_EXPONENTS
    return 2 * (np.clip(exponent, low, high) - low).astype(np.int64) + (mantissa >= 0.75)


def _visit_ranges(level: _Level) -> tuple[Ints, Ints]:
    """The smallest possible number of visits of each context, and the largest one minus the smallest; both (C,)."""
    smallest, spreads = (np.concatenate(([0], np.cumsum(each))) for each in count_ranges(level.codes))
    return np.diff(smallest[level.starts]), np.diff(spreads[level.starts])


def _uncertain_places(level: _Level, n_visits: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The places, sorted by context, whose byte is not certain: positions (n,), and frequencies (n, V) of the ranks there."""
    n_symbols = np.diff(level.starts)
    ends, weights = np.cumsum(n_visits), count_weights(level.codes)
    context_of = np.repeat(np.arange(len(n_visits)), n_visits)
    size_of = np.asarray(n_symbols[context_of])
    assert int(ends[-1]) == len(context_of)
    for V in _ALPHABET_SIZES:
        members = np.nonzero((n_symbols > V // 2) & (n_symbols <= V) & (n_symbols > 1))[0]
        if not len(members):
            continue
        columns = np.arange(V)
        entries = np.minimum(level.starts[members, None] + columns, len(weights) - 1)
        rows = frequency_rows(np.where(columns < n_symbols[members, None], weights[entries], 0))
        places = np.nonzero((size_of > V // 2) & (size_of <= V) & (size_of > 1))[0]
        numbers = np.searchsorted(members, context_of[places])
        for batch in batches(len(places)):
            yield places[batch], rows[numbers[batch]]


def _walk(level: _Level, n_visits: Ints, chosen: Ints, start: int, n: int) -> Ints:
    """The n-grams in the order of the data, (n,). Each visit of a context takes the next n-gram of its queue in `chosen`."""
    following = np.searchsorted(level.contexts, level.grams % _BYTE_VALUES**ORDER).tolist()
    ahead = (np.cumsum(n_visits) - n_visits).tolist()  # the next place in each context's queue
    queue, context, walked = chosen.tolist(), int(np.searchsorted(level.contexts, start)), [0] * n
    for i in range(n):
        place = ahead[context]
        ahead[context] = place + 1
        walked[i] = gram = queue[place]
        context = following[gram]
    return np.array(walked, np.int64)


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


def _bit_fields(spreads: Ints) -> Iterator[tuple[int, NDArray[np.bool_], Ints]]:
    """Fields of up to 8 bits of numbers in 0..spread: the field's shift, which numbers have it, and its frequencies (V,)."""
    n_bits = np.frexp(spreads.astype(np.float64))[1]  # 0 for 0
    for shift in range(0, int(n_bits.max(initial=0)), _MAX_FIELD_BITS):
        widths = np.clip(n_bits - shift, 0, _MAX_FIELD_BITS)
        for width in range(1, _MAX_FIELD_BITS + 1):
            selected = widths == width
            if selected.any():
                yield shift, selected, np.full(1 << width, TOTAL >> width)


class _Counts:
    """Codes counts, in the direction of its coder."""

    def __init__(self, coder: Coder) -> None:
        self._coder = coder

    def code_counts(self, order: int, candidates: Ints, distributions: Ints) -> Ints:
        """Codes, for each candidate n-gram of order + 1 bytes, 0 or 1 + its rounded count, and returns these values.

        distributions: the number of the one that each candidate uses; sent as its largest value and the rounded count of each.
        """
        values = self._values(order, candidates)
        for number in np.unique(distributions):
            selected = distributions == number
            codes = self._distribution(values[selected])
            present = np.nonzero(codes)[0]
            ranks = np.searchsorted(present, values[selected])
            if len(present) > 1:
                row = frequency_rows(count_weights(codes[present] - 1))[0]
                ranks = code_under(self._coder, ranks, row)
            values[selected] = present[ranks]
        return values

    def code_exactly(self, numbers: Ints, spreads: Ints) -> Ints:
        """Codes numbers that lie in 0..spread, and returns them."""
        coded = np.zeros(len(spreads), np.int64)
        for shift, selected, row in _bit_fields(spreads):
            coded[selected] |= code_under(self._coder, numbers[selected] >> shift & (len(row) - 1), row) << shift
        return coded

    def _values(self, order: int, candidates: Ints) -> Ints:
        return np.zeros(len(candidates), np.int64)

    def _distribution(self, values: Ints) -> Ints:
        raise NotImplementedError


class _CountWriter(_Counts):
    """From counts to bytes. grams: for each length from one byte on, all n-grams of the data."""

    def __init__(self, grams: list[Ints]) -> None:
        self._grams, self._distributions, self._encoder = grams, bytearray(), RangeEncoder()
        super().__init__(self._encoder)

    def finish(self) -> bytes:
        """All counts: length of the deflated distributions, these, the range coder's payload."""
        deflated = zlib.compress(bytes(self._distributions), 9)
        return varint(len(deflated)) + deflated + self._encoder.finish()

    def _values(self, order: int, candidates: Ints) -> Ints:
        keys, counts = np.unique(self._grams[order], return_counts=True)
        at = np.minimum(np.searchsorted(keys, candidates), len(keys) - 1)
        return np.where(keys[at] == candidates, 1 + round_counts(counts)[at], 0)

    def _distribution(self, values: Ints) -> Ints:
        counts = np.bincount(values)
        codes = np.where(counts > 0, 1 + round_counts(np.maximum(counts, 1)), 0)
        self._distributions += bytes([len(codes) - 1]) + codes.astype(np.uint8).tobytes()
        return codes


class _CountReader(_Counts):
    """From bytes to counts: the inverse of `_CountWriter`."""

    def __init__(self, packed: bytes) -> None:
        source = ByteSource(io.BytesIO(packed))
        self._distributions = io.BytesIO(zlib.decompress(source.take(source.take_varint())))
        self._decoder = RangeDecoder(packed[source.n_bytes_taken :])
        super().__init__(self._decoder)

    def finish(self) -> None:
        """Raises CorruptArchiveError if the bytes certainly contain more."""
        self._decoder.finish()

    def _distribution(self, values: Ints) -> Ints:
        n_codes = self._distributions.read(1)[0] + 1
        return np.frombuffer(self._distributions.read(n_codes), np.uint8).astype(np.int64)
