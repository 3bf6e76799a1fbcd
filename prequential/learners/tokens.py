"""Ids of a tokenizer, and the bytes that they stand for. A long corpus is encoded in pieces where the tokenizer allows it."""

from collections.abc import Iterator
from os.path import commonprefix
from typing import Any

import numpy as np
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import ConfigError, CorpusError
from prequential.exact.arrays import to_array
from prequential.learners.distributions import named_failures
from prequential.learners.protocol import Tokenizer

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
        left, right = _whole_characters(data[cut - NEAR_BYTES : cut]), _whole_characters(data[cut : cut + NEAR_BYTES])
        with named_failures("the tokenizer failed"):
            together, apart = tokenizer.encode(left + right), [tokenizer.encode(left), tokenizer.encode(right)]
        if np.array_equal(np.asarray(together), np.concatenate(apart)):
            return int(cut)
    return None


def _whole_characters(data: np.ndarray) -> bytes:
    """The bytes without parts of a UTF-8 character at either end."""
    return data.tobytes().decode(errors="ignore").encode()


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
            _refuse(data, tokenizer.decode(ids.tolist()).removeprefix(prefix), first)
    ends = np.cumsum(np.array([len(piece) for piece in pieces], np.int64)[places]) - len(prefix)
    return ids, np.diff(np.maximum(ends, 0), prepend=0)


def _refuse(data: bytes, found: bytes, first: int) -> None:
    if found == data:
        raise CorpusError("the tokenizer's ids do not stand for parts of the corpus: decode each id alone, and join")
    was, becomes = (each.decode(errors="surrogateescape") for each in (data, found))
    n = len(commonprefix((was, becomes)))  # noqa: RUF071  # characters are meant
    at = f"{was[n : n + 1]!r} at byte {first + len(was[:n].encode(errors='surrogateescape'))}"
    raise CorpusError(f"the tokenizer does not restore the corpus: {at} comes back as {becomes[n : n + 1]!r}")


def check_sequence(ids: Any, n_symbols: int) -> np.ndarray:
    """Ids of a tokenizer as (n,) int64. Raises ConfigError for anything else."""
    try:
        found = to_array(ids) if hasattr(ids, "detach") else np.asarray(ids)
        found = found if found.size else found.astype(np.int64)
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"the tokenizer's encode returned {type(ids).__name__}; give integers") from error
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ConfigError(f"the tokenizer's encode returned {found.dtype} of shape {found.shape}; give integers (n,)")
    if found.size and not 0 <= found.min() <= found.max() < n_symbols:
        raise ConfigError(f"the tokenizer gives id {found.max()}, but the learner predicts {n_symbols} symbols")
    return found.astype(np.int64, copy=False)


def spread_bits(bits: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The same of costs in bits, whole units of 2**-22."""
    return spread(np.rint(bits / UNIT_BITS).astype(np.int64), widths) * UNIT_BITS


def spread(units: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The cost of each byte, (sum of widths,), from the costs of ids (n,), in whole units. An id's bytes cost the same.

    The first byte takes what cannot be divided, also the cost of ids before it that stand for no byte.
    """
    starts = np.cumsum(widths) - widths
    costs = np.zeros(int(widths.sum()), np.int64)
    if not costs.size:
        return costs
    share, rest = np.divmod(units, np.maximum(widths, 1))
    costs += np.repeat(np.where(widths > 0, share, 0), widths)
    np.add.at(costs, np.minimum(starts, costs.size - 1), np.where(widths > 0, rest, units))
    return costs
