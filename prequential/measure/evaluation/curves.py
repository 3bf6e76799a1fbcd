"""Learning curves: cumulative bits against bytes, for the learner, its parts and the baselines; where one overtakes another.

A curve is known at some positions. The learner's is known at every segment's end, a baseline's at prefixes that are log-spaced,
because each costs a run of its own. Between two of its positions a curve is taken to be straight.
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
    """After n_bytes (n,) int64, ascending and positive, `bits` (n,) float64 had been spent. The last point is the whole."""

    n_bytes: NDArray[np.int64]
    bits: NDArray[np.float64]

    def at(self, n_bytes: NDArray[np.int64] | int) -> NDArray[np.float64]:
        """Cumulative bits at these positions, between the curve's own ones by a straight line, from (0, 0) on."""
        positions, totals = np.concatenate(([0], self.n_bytes)), np.concatenate(([0.0], self.bits))
        return np.asarray(np.interp(n_bytes, positions, totals), np.float64)

    def windows(self, n_windows: int = 64) -> "Curve":
        """Bits per byte of each of n_windows equal stretches, at their ends: `bits` of this curve are rates."""
        ends = np.unique(np.linspace(0, self.n_bytes[-1], n_windows + 1).astype(np.int64))
        return Curve(n_bytes=ends[1:], bits=np.diff(self.at(ends)) / np.diff(ends))


Curves = dict[str, Curve]


def prefixes(n_bytes: int) -> NDArray[np.int64]:
    """Log-spaced lengths up to n_bytes, which is the last: PREFIXES_PER_OCTAVE for each doubling."""
    n_octaves = max(0.0, np.log2(n_bytes / FIRST_PREFIX))
    steps = np.arange(int(np.ceil(n_octaves * PREFIXES_PER_OCTAVE)))
    return np.unique(np.append((FIRST_PREFIX * 2.0 ** (steps / PREFIXES_PER_OCTAVE)).astype(np.int64), n_bytes))


def crossing_byte(curve: Curve, other: Curve) -> int | None:
    """Where `curve` comes to lie below `other` and stays there to the end; 0: everywhere; None: at the end it does not.

    Looked for at the positions of `other`, to which both are known, and from there by straight lines.
    """
    at = other.n_bytes[other.n_bytes <= curve.n_bytes[-1]]
    lead = other.at(at) - curve.at(at)  # bits that `curve` is ahead by
    if not len(at) or lead[-1] <= 0:
        return None
    behind = np.nonzero(lead <= 0)[0]
    if not len(behind):
        return 0
    i = behind[-1]
    share = -lead[i] / (lead[i + 1] - lead[i])
    return int(at[i] + np.ceil(share * (at[i + 1] - at[i])))


def write_curves(path: str | os.PathLike[str], curves: Mapping[str, Curve]) -> None:
    """As a Parquet table of the columns series, n_bytes, bits. Raises OutputError."""
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
    """What `write_curves` wrote. Raises CorpusError.

    The same table for pandas: pandas.read_parquet(path).
    """
    with reading(path):
        try:
            table: Any = pyarrow.parquet.read_table(Path(path))
            series, n_bytes, bits = (table[name].to_numpy() for name in ("series", "n_bytes", "bits"))
        except (pyarrow.ArrowException, KeyError) as error:
            raise CorpusError(f"{str(path)!r} is no table of curves: {error}") from error
    names = list(dict.fromkeys(series.tolist()))
    return {name: Curve(n_bytes=n_bytes[series == name], bits=bits[series == name]) for name in names}
