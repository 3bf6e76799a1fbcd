"""Two-part codes of orders 1 to 3: first how often each byte follows each context, then the data under that. Both are real bytes.

Counts are sent for n-grams of growing length. After a context only those bytes are possible that follow its suffix, and how
often one is to be expected is known from the shorter n-grams; so each count, rounded, is coded given its rounded expectation.
The data are coded context by context, which lets numpy work on thousands of bytes at a time: a decoder fills a queue of bytes
for each context, and then walks from context to context, taking the next byte of each.

Stored form: length, and the first bytes, one for each order; length of the parameters, parameters; range coder's payload of
the data. Parameters: length of the deflated distributions, these; range coder's payload of counts.

Letters: C contexts, M n-grams, k the order. A context or an n-gram is a number, its bytes in base 256, the newest last.
"""

import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.frequencies import TOTAL, frequencies_from
from prequential.codecs.baselines.range_coder import RangeDecoder, RangeEncoder
from prequential.codecs.byte_source import ByteSource, varint

_BYTE_VALUES = 256
_ROWS = 4096  # symbols coded in one call: bounds memory to some 10 MB
# Bits of a rounded count behind the leading one, by exponent: a count is worth knowing to about its square root, and up to
# 1 MB of text or code a little less precision than that gave the smallest whole.
_MANTISSA_BITS = np.clip((np.arange(32) - 1) // 2, 0, 3)
_FIRST_CODES = np.cumsum(1 << _MANTISSA_BITS) - (1 << _MANTISSA_BITS)  # of each exponent, below 256
_EXPECTED = (-8, 24)  # binary exponents of expected counts that are told apart
_CLASSES = (2, 4, 8, 16, 32, 64, 128, 256)  # sizes to which the alphabets of contexts are filled up

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Level:
    """N-grams of one length: contexts (C,) ascending; those of context c are starts[c] .. starts[c + 1] - 1 of symbols, codes."""

    contexts: Ints
    starts: Ints
    symbols: Ints
    codes: Ints  # (M,) rounded counts

    @property
    def grams(self) -> Ints:
        """(M,), ascending."""
        return np.repeat(self.contexts, np.diff(self.starts)) * _BYTE_VALUES + self.symbols


Choose = Callable[
    [int, Ints, Ints], Ints
]  # order, candidates (M,), distributions' numbers (M,) -> 0, or 1 + rounded count, (M,)


def compress(data: bytes, order: int) -> bytes:
    """The stored form of `data` under contexts of `order` bytes, 1 to 3; about 1 microsecond a byte."""
    head = varint(len(data)) + data[:order]
    if len(data) <= order:
        return head
    symbols = np.frombuffer(data, np.uint8).astype(np.int64)
    grams = [
        _grams(symbols, length)[order + 1 - length :] for length in range(1, order + 2)
    ]  # of each place from `order` on
    parameters = _ParameterWriter(grams)
    level = _grow(symbols[:order], parameters.choose)
    contexts = np.searchsorted(level.contexts, grams[order] // _BYTE_VALUES)
    n_visits = np.bincount(contexts, minlength=len(level.contexts))
    parameters.exactly(n_visits - _lower_bounds(level)[0], _lower_bounds(level)[1])
    packed = parameters.finish()
    by_context = np.argsort(contexts, kind="stable")
    ranks = np.searchsorted(level.grams, grams[order])[by_context] - level.starts[contexts[by_context]]
    encoder = RangeEncoder()
    for places, rows in _batches(level, n_visits):
        encoder.encode(ranks[places], rows)
    return head + varint(len(packed)) + packed + encoder.finish()


def decompress(compressed: bytes, order: int) -> bytes:
    """The data that `compress` was given. Raises CorruptArchiveError where it can tell that these are no such bytes."""
    source = ByteSource(io.BytesIO(compressed))
    n_bytes = source.take_varint()
    first = source.take(min(order, n_bytes))
    if n_bytes <= order:
        return first
    parameters = _ParameterReader(source.take(source.take_varint()))
    level = _grow(np.frombuffer(first, np.uint8).astype(np.int64), parameters.choose)
    floors, bounds = _lower_bounds(level)
    n_visits = floors + parameters.exactly(bounds)
    parameters.finish()
    decoder = RangeDecoder(compressed[source.n_bytes_taken :])
    chosen = np.repeat(level.starts[:-1], n_visits)  # n-grams, context by context
    for places, rows in _batches(level, n_visits):
        chosen[places] += decoder.decode(rows)
    decoder.finish()
    walked = _walk(level, n_visits, chosen, int.from_bytes(first, "big"), order, n_bytes - order)
    return first + level.symbols[walked].astype(np.uint8).tobytes()


def parameter_bytes(compressed: bytes, order: int) -> int:
    """How many bytes of a stored form are parameters and not data: for a table that shows them apart."""
    source = ByteSource(io.BytesIO(compressed))
    n_bytes = source.take_varint()
    source.take(min(order, n_bytes))
    return source.take_varint() if n_bytes > order else 0


def _grams(symbols: Ints, length: int) -> Ints:
    """(n - length + 1,): the n-gram that begins at each place."""
    n = len(symbols) - length + 1
    total = np.zeros(n, np.int64)
    for i in range(length):
        total = total * _BYTE_VALUES + symbols[i : i + n]
    return total


def _grow(first: Ints, choose: Choose) -> _Level:
    """The n-grams of k + 1 bytes of which choose tells the counts, found by way of all shorter ones; first: (k,) bytes."""
    every = np.arange(_BYTE_VALUES)
    level = _Level(np.zeros(1, np.int64), np.array([0, _BYTE_VALUES]), every, np.zeros(_BYTE_VALUES, np.int64))
    contexts, expected = np.zeros(1, np.int64), np.ones(1, np.int64)
    for order in range(len(first) + 1):
        if order:
            grams, weights = level.grams, _weights(level.codes)
            contexts = np.union1d(grams, _grams(first[len(first) - order :], order))
            at = np.minimum(np.searchsorted(grams, contexts), len(grams) - 1)
            expected = np.where(grams[at] == contexts, weights[at], 1)
        level = _longer(level, contexts, expected, order, choose)
    return level


def _longer(shorter: _Level, contexts: Ints, context_weights: Ints, order: int, choose: Choose) -> _Level:
    """The n-grams of order + 1 bytes; contexts (C,) ascending, which occur about context_weights (C,) times."""
    suffixes = np.searchsorted(shorter.contexts, contexts % _BYTE_VALUES ** max(order - 1, 0))
    starts = shorter.starts[suffixes]
    n_candidates = shorter.starts[suffixes + 1] - starts
    owner = np.repeat(np.arange(len(contexts)), n_candidates)
    behind = np.arange(len(owner)) - np.repeat(np.cumsum(n_candidates) - n_candidates, n_candidates)
    source = starts[owner] + behind  # the shorter n-gram that each candidate prolongs
    weights = _weights(shorter.codes)
    sums = np.concatenate(([0], np.cumsum(weights)))
    totals = (sums[shorter.starts[1:]] - sums[shorter.starts[:-1]])[suffixes]
    ratio = context_weights[owner].astype(np.float64) * weights[source] / totals[owner]
    symbols = shorter.symbols[source]
    values = choose(order, contexts[owner] * _BYTE_VALUES + symbols, _distribution_of(ratio))
    there = values > 0
    n_there = np.bincount(owner[there], minlength=len(contexts))
    return _Level(contexts, np.concatenate(([0], np.cumsum(n_there))), symbols[there], values[there] - 1)


def _distribution_of(expected: NDArray[np.float64]) -> Ints:
    """The number of the distribution for counts that are expected to be about so large: two for each octave."""
    mantissa, exponent = np.frexp(expected)  # exact, so that every machine chooses alike
    low, high = _EXPECTED
    return 2 * (np.clip(exponent, low, high) - low).astype(np.int64) + (mantissa >= 0.75)


# ---- rounded counts


def _to_minifloat(counts: Ints) -> Ints:
    """Counts of 1 .. 2**32 - 1, rounded down, as numbers below 2**8 - 1: an exponent and its mantissa."""
    exponents = np.frexp(counts.astype(np.float64))[1].astype(np.int64) - 1
    n_bits = _MANTISSA_BITS[exponents]
    return _FIRST_CODES[exponents] + (counts >> (exponents - n_bits)) - (1 << n_bits)


def _floors(codes: Ints) -> tuple[Ints, Ints]:
    """The smallest count of each rounded one, and how many further ones it stands for."""
    exponents = np.searchsorted(_FIRST_CODES, codes, side="right") - 1
    n_bits = _MANTISSA_BITS[exponents]
    shifts = exponents - n_bits
    return ((1 << n_bits) + codes - _FIRST_CODES[exponents]) << shifts, (1 << shifts) - 1


def _weights(codes: Ints) -> Ints:
    """Twice the middle of the counts that each rounded one stands for."""
    floors, further = _floors(codes)
    return 2 * floors + further


def _lower_bounds(level: _Level) -> tuple[Ints, Ints]:
    """Visits of each context (C,): how many there are at least, and how many more there may be."""
    floors, further = (np.concatenate(([0], np.cumsum(each))) for each in _floors(level.codes))
    return np.diff(floors[level.starts]), np.diff(further[level.starts])


# ---- coding


def _pieces(n: int) -> Iterator[slice]:
    return (slice(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS))


def _row(weights: Ints) -> Ints:
    """(V,) or (n, V) weights as frequencies, each row of total 2**24."""
    rows = np.atleast_2d(weights).astype(np.float64)
    return frequencies_from((rows / rows.sum(1, keepdims=True) * TOTAL).astype(np.int64))


def _batches(level: _Level, n_visits: Ints) -> Iterator[tuple[Ints, Ints]]:
    """All places, sorted by context, whose byte is not certain: positions (n,), and frequencies (n, V) of the ranks there."""
    n_symbols = np.diff(level.starts)
    ends, weights = np.cumsum(n_visits), _weights(level.codes)
    context_of = np.repeat(np.arange(len(n_visits)), n_visits)
    size_of = np.asarray(n_symbols[context_of])
    assert int(ends[-1]) == len(context_of)
    for V in _CLASSES:
        members = np.nonzero((n_symbols > V // 2) & (n_symbols <= V) & (n_symbols > 1))[0]
        if not len(members):
            continue
        columns = np.arange(V)
        there = columns < n_symbols[members, None]
        entries = np.minimum(level.starts[members, None] + columns, len(weights) - 1)
        rows = _row(np.where(there, weights[entries], 0))
        places = np.nonzero((size_of > V // 2) & (size_of <= V) & (size_of > 1))[0]
        numbers = np.searchsorted(members, context_of[places])
        for piece in _pieces(len(places)):
            yield places[piece], rows[numbers[piece]]


def _walk(level: _Level, n_visits: Ints, chosen: Ints, start: int, order: int, n: int) -> Ints:
    """The n-grams in the order of the data, (n,): each context's are taken one after the other."""
    following = np.searchsorted(level.contexts, level.grams % _BYTE_VALUES**order).tolist()
    ahead = (np.cumsum(n_visits) - n_visits).tolist()  # the next of each context in the queue
    queue, context, walked = chosen.tolist(), int(np.searchsorted(level.contexts, start)), [0] * n
    for i in range(n):
        place = ahead[context]
        ahead[context] = place + 1
        walked[i] = gram = queue[place]
        context = following[gram]
    return np.array(walked, np.int64)


def _bit_fields(n_more: Ints) -> Iterator[tuple[int, NDArray[np.bool_], Ints]]:
    """How numbers 0..n_more are cut into pieces of up to 8 bits: shift, which numbers have such a piece, their frequencies."""
    n_bits = np.frexp(n_more.astype(np.float64))[1]  # 0 for 0
    for shift in range(0, int(n_bits.max(initial=0)), 8):
        widths = np.clip(n_bits - shift, 0, 8)
        for width in range(1, 9):
            concerned = widths == width
            if concerned.any():
                yield shift, concerned, np.full(1 << width, TOTAL >> width)


class _ParameterWriter:
    """Counts to bytes. grams: of each length, all that occur, from one byte on."""

    def __init__(self, grams: list[Ints]) -> None:
        self._grams, self._distributions, self._encoder = grams, bytearray(), RangeEncoder()

    def choose(self, order: int, candidates: Ints, numbers: Ints) -> Ints:
        keys, counts = np.unique(self._grams[order], return_counts=True)
        at = np.minimum(np.searchsorted(keys, candidates), len(keys) - 1)
        values = np.where(keys[at] == candidates, 1 + _to_minifloat(counts)[at], 0)
        for number in np.unique(numbers):
            self._alike(values[numbers == number])
        return values

    def _alike(self, values: Ints) -> None:
        """Values that share a distribution, which goes first: the largest value, and how often each occurs, rounded."""
        counts = np.bincount(values)
        codes = np.where(counts > 0, 1 + _to_minifloat(np.maximum(counts, 1)), 0)
        self._distributions += bytes([len(codes) - 1]) + codes.astype(np.uint8).tobytes()
        present = np.nonzero(codes)[0]
        if len(present) > 1:
            self._fixed(np.searchsorted(present, values), _row(_weights(codes[present] - 1))[0])

    def _fixed(self, symbols: Ints, row: Ints) -> None:
        for piece in _pieces(len(symbols)):
            self._encoder.encode(symbols[piece], np.broadcast_to(row, (len(symbols[piece]), len(row))))

    def exactly(self, numbers: Ints, n_more: Ints) -> None:
        """Numbers (C,) that lie in 0..n_more."""
        for shift, concerned, row in _bit_fields(n_more):
            self._fixed(numbers[concerned] >> shift & (len(row) - 1), row)

    def finish(self) -> bytes:
        deflated = zlib.compress(bytes(self._distributions), 9)
        return varint(len(deflated)) + deflated + self._encoder.finish()


class _ParameterReader:
    """Bytes to counts: the inverse of `_ParameterWriter`."""

    def __init__(self, packed: bytes) -> None:
        source = ByteSource(io.BytesIO(packed))
        self._distributions = io.BytesIO(zlib.decompress(source.take(source.take_varint())))
        self._decoder = RangeDecoder(packed[source.n_bytes_taken :])

    def choose(self, order: int, candidates: Ints, numbers: Ints) -> Ints:
        values = np.zeros(len(candidates), np.int64)
        for number in np.unique(numbers):
            concerned = numbers == number
            values[concerned] = self._alike(int(concerned.sum()))
        return values

    def _alike(self, n: int) -> Ints:
        n_codes = self._distributions.read(1)[0] + 1
        codes = np.frombuffer(self._distributions.read(n_codes), np.uint8).astype(np.int64)
        present = np.nonzero(codes)[0]
        ranks = self._fixed(n, _row(_weights(codes[present] - 1))[0]) if len(present) > 1 else np.zeros(n, np.int64)
        return present[ranks]

    def _fixed(self, n: int, row: Ints) -> Ints:
        pieces = [
            self._decoder.decode(np.broadcast_to(row, (piece.stop - piece.start, len(row)))) for piece in _pieces(n)
        ]
        return np.concatenate(pieces)

    def exactly(self, n_more: Ints) -> Ints:
        numbers = np.zeros(len(n_more), np.int64)
        for shift, concerned, row in _bit_fields(n_more):
            numbers[concerned] |= self._fixed(int(concerned.sum()), row) << shift
        return numbers

    def finish(self) -> None:
        """Raises CorruptArchiveError if there is more."""
        self._decoder.finish()
