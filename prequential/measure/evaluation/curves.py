"""Learning curves: cumulative bits against bytes, of the learner, its parts and the baselines; and their crossings.

A curve is known at some positions: the learner's at the end of every segment, a baseline's at log-spaced prefixes, because each
prefix costs a run of the baseline. Between these positions, curves are straight lines.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from prequential.corpora.chunks import reading
from prequential.errors import CorpusError
from prequential.files import sync_file, writing

FIRST_PREFIX = 1 << 10  # bytes
PREFIXES_PER_OCTAVE = 2


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Cumulative `bits` (n,) float64 after n_bytes (n,) int64, ascending and positive. The last point is the complete corpus."""

    n_bytes: NDArray[np.int64]
    bits: NDArray[np.float64]

    def at(self, n_bytes: NDArray[np.int64] | int) -> NDArray[np.float64]:
        """Cumulative bits at these positions, by linear interpolation from (0, 0) on."""
        positions, totals = np.concatenate(([0], self.n_bytes)), np.concatenate(([0.0], self.bits))
        return np.asarray(np.interp(n_bytes, positions, totals), np.float64)

    def windows(self, n_windows: int = 64) -> "Curve":
        """Bits per byte in each of n_windows equal windows, at their ends: a curve whose `bits` are rates."""
        ends = np.unique(np.linspace(0, self.n_bytes[-1], n_windows + 1).astype(np.int64))
        return Curve(n_bytes=ends[1:], bits=np.diff(self.at(ends)) / np.diff(ends))


Curves = dict[str, Curve]


def prefixes(n_bytes: int) -> NDArray[np.int64]:
    """Log-spaced lengths, PREFIXES_PER_OCTAVE for each doubling. The last one is n_bytes."""
    n_octaves = max(0.0, np.log2(n_bytes / FIRST_PREFIX))
    steps = np.arange(int(np.ceil(n_octaves * PREFIXES_PER_OCTAVE)))
    return np.unique(np.append((FIRST_PREFIX * 2.0 ** (steps / PREFIXES_PER_OCTAVE)).astype(np.int64), n_bytes))


def crossing_byte(curve: Curve, other: Curve) -> int | None:
    """The byte from which on `curve` stays below `other` up to the end; 0: everywhere; None: it is not below at the end.

    It is searched at the positions of `other`, up to the end of `curve`, and between them by straight lines.
    """
    at = other.n_bytes[other.n_bytes <= curve.n_bytes[-1]]
    lead = other.at(at) - curve.at(at)  # bits by which `curve` is below `other`
    if not len(at) or lead[-1] <= 0:
        return None
    not_below = np.nonzero(lead <= 0)[0]
    if not len(not_below):
        return 0
    i = not_below[-1]
    share = -lead[i] / (lead[i + 1] - lead[i])
    return int(at[i] + np.ceil(share * (at[i + 1] - at[i])))


def write_curves(path: str | os.PathLike[str], curves: Mapping[str, Curve]) -> None:
    """Writes a Parquet table with the columns series, n_bytes, bits. Raises OutputError."""
    names = np.repeat(list(curves), [len(c.n_bytes) for c in curves.values()])
    table = pyarrow.table(
        {
            "series": pyarrow.array(names.tolist(), pyarrow.string()).dictionary_encode(),
            "n_bytes": np.concatenate([c.n_bytes for c in curves.values()]),
            "bits": np.concatenate([c.bits for c in curves.values()]),
        }
    )
    with writing(path):
        pyarrow.parquet.write_table(table, Path(path), compression="zstd")
        sync_file(path)


def read_curves(path: str | os.PathLike[str]) -> Curves:
    """The curves that `write_curves` wrote. Raises CorpusError.

    pandas.read_parquet(path) reads the same table.
    """
    with reading(path):
        table = Path(path).read_bytes()
    return parse_curves(table, path)


def parse_curves(table: bytes, path: str | os.PathLike[str]) -> Curves:
    """The curves in the contents of a file that `write_curves` wrote. Raises CorpusError, which names `path`."""
    try:
        columns: Any = pyarrow.parquet.read_table(pyarrow.BufferReader(table))
        series, n_bytes, bits = (columns[name].to_numpy() for name in ("series", "n_bytes", "bits"))
    except (pyarrow.ArrowException, KeyError) as error:
        raise CorpusError(f"{str(path)!r} is not a table of curves: {error}") from error
    names = list(dict.fromkeys(series.tolist()))
    return {name: Curve(n_bytes=n_bytes[series == name], bits=bits[series == name]) for name in names}
