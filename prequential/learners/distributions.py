"""What somebody else's code predicts: checked, and as code lengths.

One rule turns probabilities into integer frequencies: of V symbols, v gets 1 + floor(p_v (2**24 - V)). What is missing to 2**24
goes to the most probable symbol, the first one of equals. Ids of a tokenizer have 2**32 instead of 2**24. A learner may give only
the nats of the true symbols. Then the most probable symbol is not known, and none gets what is missing.

Probabilities exist for some rows at a time, so that they stay in the processor's cache.
"""

import math
from collections.abc import Iterator
from contextlib import ContextDecorator
from os.path import commonprefix
from typing import Any

import numpy as np
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import ConfigError, CorpusError, InvalidDistributionError, PrequentialError
from prequential.exact.arrays import to_array
from prequential.learners.protocol import Tokenizer
from prequential.machine.compiled import Array, kernel

TOTAL = 1 << 24
WIDE_TOTAL_BITS = 32  # of alphabets that are not bytes, whose symbols are not written
MAX_NATS = WIDE_TOTAL_BITS * np.log(2)  # so much an impossible symbol costs
MAX_LOG_SUM = 0.01  # nats; reduced precision gives about half of that
MIN_SUM, MAX_SUM = np.exp(-MAX_LOG_SUM), np.exp(MAX_LOG_SUM)
CHUNK_VALUES = 1 << 16


def checked_rows(predicted: Any, n: int, n_symbols: int) -> np.ndarray:
    """What predict returned as an array (n, V) of floating-point numbers, in its memory if possible; `probabilities` checks the
    values. Raises InvalidDistributionError for anything else.
    """
    rows = _array("predict", predicted)
    if rows.shape != (n, n_symbols):
        raise InvalidDistributionError(f"predict returned shape {rows.shape} for {n} symbols; give ({n}, {n_symbols})")
    if rows.dtype.kind != "f":
        raise InvalidDistributionError(f"predict returned {rows.dtype}; give floating-point log-probabilities")
    return rows


def chunks(rows: np.ndarray) -> Iterator[slice]:
    """Slices of the rows (n, V) with about CHUNK_VALUES values each."""
    step = max(1, CHUNK_VALUES // rows.shape[1])
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def probabilities(rows: np.ndarray, first: int) -> np.ndarray:
    """Probabilities (n, V) float64 from log-probabilities, each row of sum one. first: the position of row 0, for messages.

    Raises InvalidDistributionError unless the sums are one within MAX_LOG_SUM.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        p = np.exp(rows, dtype=np.float64)
        sums = p.sum(axis=1)
    right = (sums >= MIN_SUM) & (sums <= MAX_SUM)  # not so of NaN
    if not right.all():
        t = int(np.argmin(right))
        what = "hold NaN" if np.isnan(rows[t]).any() else f"sum to {sums[t]:.6g}, not to 1"
        raise InvalidDistributionError(f"the probabilities for symbol {first + t} {what}")
    p /= sums[:, None]
    return p


@kernel
def integer_frequencies(p: Array, total: int, frequencies: Array) -> None:
    """Fills in integers (n, V) from probabilities (n, V): each at least 1, the sum of each row `total`, at most 2**53."""
    n, n_symbols = p.shape
    for i in range(n):
        missing, most = total, 0
        for j in range(n_symbols):
            frequency = int(p[i, j] * (total - n_symbols)) + 1
            frequencies[i, j] = frequency
            missing -= frequency
            most = max(most, frequency)
        j = 0
        while frequencies[i, j] != most:
            j += 1
        frequencies[i, j] += missing


def row_bits(rows: np.ndarray, symbols: np.ndarray, first: int) -> np.ndarray:
    """What the ids (n,) cost under log-probabilities (n, V): bits (n,), whole units. Raises as `probabilities`."""
    bits = np.empty(len(symbols))
    for part in chunks(rows):
        p = probabilities(rows[part], first + part.start)
        frequencies = np.empty(p.shape, np.int64)
        integer_frequencies(p, 1 << WIDE_TOTAL_BITS, frequencies)
        true = frequencies[np.arange(len(frequencies)), symbols[part]]
        bits[part] = np.rint((WIDE_TOTAL_BITS - np.log2(true)) / UNIT_BITS) * UNIT_BITS
    return bits


@kernel
def nll_bits(nats: Array, n_symbols: int) -> Array:
    """The cost of symbols, from their nats (n,) alone: bits (n,), whole units."""
    bits, total = np.empty(nats.size), np.float64((1 << WIDE_TOTAL_BITS) - n_symbols)
    for i in range(nats.size):
        frequency = 1.0 + math.floor(min(math.exp(-nats[i]), 1.0) * total)
        bits[i] = np.rint((WIDE_TOTAL_BITS - math.log2(frequency)) / UNIT_BITS) * UNIT_BITS
    return bits


def checked_nats(given: Any, n: int, first: int) -> np.ndarray:
    """What nll returned as (n,) float64. first: as of `probabilities`. Raises InvalidDistributionError for anything else."""
    nats = _array("nll", given)
    if nats.shape != (n,) or nats.dtype.kind != "f":
        raise InvalidDistributionError(f"nll returned {nats.dtype} of shape {nats.shape}; give floating-point ({n},)")
    if n and not nats.min() >= -MAX_LOG_SUM:  # not so of NaN
        t = int(np.argmin(nats >= -MAX_LOG_SUM))
        raise InvalidDistributionError(f"nll of symbol {first + t} is {nats[t]:.6g}; it cannot be negative")
    return nats.astype(np.float64)


def _array(name: str, values: Any) -> np.ndarray:
    kind = type(values).__name__
    try:
        if hasattr(values, "detach"):  # numpy does not know all short types
            values = values.detach() if values.dtype.itemsize > 2 else values.detach().float()
        return to_array(values)
    except (AttributeError, TypeError, RuntimeError) as error:
        what = f"{name} returned {kind}; give an array or tensor of log-probabilities"
        raise InvalidDistributionError(what) from error


# ---- failures of that code, as errors of this program


class named_failures(ContextDecorator):  # noqa: N801  # a function to its callers; a generator would take ten times as long
    """What somebody else's code in the body raises becomes a ConfigError of one line: WHAT: TYPE: TEXT. Ctrl-C passes."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, PrequentialError):
            return
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of a library in Rust
            return
        text = " ".join(str(error).split())[:300]
        raise ConfigError(": ".join(filter(None, [self.what, type(error).__name__, text]))) from error


# ---- tokens


PIECE_BYTES = 1 << 22
NEAR_BYTES = 1 << 11  # so much before and after a cut is encoded apart and together
MAX_TRIES = 16


def id_pieces(data: np.ndarray, tokenizer: Tokenizer, n_symbols: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids (n,) int64 of the data (N,) uint8, and how many of its bytes each stands for, (n,) int64; piece by piece.

    Only a tokenizer that says `encodes_pieces = True` gets pieces; else there is one. Raises as `tokenise`.
    """
    start = 0
    while getattr(tokenizer, "encodes_pieces", False) and len(data) - start > PIECE_BYTES:
        if (cut := _cut(data, start, tokenizer)) is None:
            break
        yield tokenise(data[start:cut].tobytes(), tokenizer, n_symbols, start)
        start = cut
    yield tokenise(data[start:].tobytes(), tokenizer, n_symbols, start)


def _cut(data: np.ndarray, start: int, tokenizer: Tokenizer) -> int | None:
    """A line's end up to PIECE_BYTES after `start` at which a cut does not change the ids near it; None if none was found."""
    end = start + PIECE_BYTES
    lines = np.flatnonzero(data[end - PIECE_BYTES // 4 : end] == ord("\n")) + end - PIECE_BYTES // 4 + 1
    for cut in lines[::-1][:MAX_TRIES].tolist():
        near = data[cut - NEAR_BYTES : cut], data[cut : cut + NEAR_BYTES]
        left, right = (part.tobytes().decode(errors="ignore").encode() for part in near)  # whole characters
        with named_failures("the tokenizer failed"):
            together, apart = tokenizer.encode(left + right), [tokenizer.encode(left), tokenizer.encode(right)]
        if np.array_equal(np.asarray(together), np.concatenate(apart)):
            return int(cut)
    return None


def tokenise(data: bytes, tokenizer: Tokenizer, n_symbols: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ids (n,) int64 of the data, and how many of its bytes each stands for, (n,) int64; the sum is len(data).

    first: the position of the data, for messages. The tokenizer's prefix is no part of the data: the first ids have fewer bytes.

    Raises CorpusError if decoding does not restore the data, ConfigError for ids that are no numbers below n_symbols.
    """
    prefix = getattr(tokenizer, "prefix", b"") if data else b""
    prefix = prefix if isinstance(prefix, bytes) else b""
    with named_failures("the tokenizer failed"):
        ids = check_sequence(tokenizer.encode(data), n_symbols)
        kinds, places = np.unique(ids, return_inverse=True)
        pieces = [tokenizer.decode([i]) for i in kinds.tolist()]
        if b"".join(map(pieces.__getitem__, places.tolist())) != prefix + data:
            decoded = tokenizer.decode(ids.tolist()).removeprefix(prefix)
            if decoded == data:
                what = "the tokenizer's ids do not stand for parts of the corpus"
                raise CorpusError(f"{what}: decode each id alone, and join")
            was, becomes = (each.decode(errors="surrogateescape") for each in (data, decoded))
            n = len(commonprefix((was, becomes)))  # noqa: RUF071  # characters are meant
            at = f"{was[n : n + 1]!r} at byte {first + len(was[:n].encode(errors='surrogateescape'))}"
            raise CorpusError(f"the tokenizer does not restore the corpus: {at} comes back as {becomes[n : n + 1]!r}")
    ends = np.cumsum(np.array([len(piece) for piece in pieces], np.int64)[places]) - len(prefix)
    return ids, np.diff(np.maximum(ends, 0), prepend=0)


def check_sequence(ids: Any, n_symbols: int) -> np.ndarray:
    """Ids of a tokenizer as (n,) int64. Raises ConfigError for anything else."""
    try:
        array = to_array(ids) if hasattr(ids, "detach") else np.asarray(ids)
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"the tokenizer's encode returned {type(ids).__name__}; give integers") from error
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ConfigError(f"the tokenizer's encode returned {array.dtype} of shape {array.shape}; give integers (n,)")
    if array.size and not 0 <= array.min() <= array.max() < n_symbols:
        raise ConfigError(f"the tokenizer gives id {array.max()}, but the learner predicts {n_symbols} symbols")
    return array.astype(np.int64, copy=False)


def spread_bits(bits: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The cost of each byte, (sum of widths,), from the costs of ids (n,), in bits: whole units of 2**-22. An id's bytes cost the
    same; the first takes what cannot be divided, also the cost of ids before it that stand for no byte.
    """
    starts, costs = np.cumsum(widths) - widths, np.zeros(int(widths.sum()), np.int64)
    if costs.size:
        units = np.rint(bits / UNIT_BITS).astype(np.int64)
        share, rest = np.divmod(units, np.maximum(widths, 1))
        costs += np.repeat(np.where(widths > 0, share, 0), widths)
        np.add.at(costs, np.minimum(starts, costs.size - 1), np.where(widths > 0, rest, units))
    return costs * UNIT_BITS
