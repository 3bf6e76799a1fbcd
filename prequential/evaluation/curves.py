"""Learning curves: cumulative bits against bytes, of the learner, its parts and the baselines; and their crossings.

A curve is known at some positions: the learner's at the end of every segment, a baseline's at log-spaced prefixes. Between them
it is a straight line.
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError, CorpusError
from prequential.records import MAX_COUNT, MAX_NUMBER

if TYPE_CHECKING:
    import pandas

MODEL, GPT, MIXER = "model", "gpt", "mixer"  # the complete learner, its GPT alone, its context mixer alone
GROUP = "group "  # begins the names of curves of the sources of a training run, each against its own bytes
FIRST_PREFIX = 1 << 10  # bytes
PREFIXES_PER_OCTAVE = 2
MAX_CURVE_FILE_BYTES = 1 << 30
MAX_CURVE_ROWS = 1 << 26  # of all curves; a corpus of 5 GB in segments of 256 bytes has as many
MAX_CURVE_BYTES = 1 << 31  # of all columns, uncompressed
MAX_SERIES, MAX_NAMES_BYTES = 1 << 10, 1 << 16
COLUMNS = {"series": "dictionary<values=string, indices=int32, ordered=0>", "n_bytes": "int64", "bits": "double"}


class ShownAsTable:
    """A result that a notebook shows as its repr and its data frame."""

    def to_frame(self) -> "pandas.DataFrame":
        """Its figures as a data frame."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return frame_html(repr(self), self.to_frame())


def frame_html(line: str, frame: "pandas.DataFrame") -> str:
    """A line, and below it the data frame, unless it is empty."""
    shown = {"index": False, "border": 0, "na_rep": "", "max_rows": 60, "float_format": "{:,.4f}".format}
    return f"<p>{escape(line)}</p>" + ("" if frame.empty else str(frame.to_html(**shown)))


class Split(NamedTuple):
    """A code length in two parts: the rate of the last tenth, in bits per byte, for all bytes, and the bits above it.

    It describes one run. It says nothing about other text, nor about what was learned: a schedule that ends, or text that becomes
    easier, moves it as well.
    """

    rate_of_last_tenth: float
    above_rate_of_last_tenth: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Curve(ShownAsTable):
    """Cumulative `bits` (n,) float64 after n_bytes (n,) int64, ascending and positive. The last point is the complete corpus.

    Examples:
        >>> import numpy as np, prequential
        >>> curve = prequential.Curve(n_bytes=np.array([100, 200]), bits=np.array([500.0, 800.0]))
        >>> curve.windows(2).bits.tolist()
        [5.0, 3.0]
    """

    n_bytes: NDArray[np.int64]
    bits: NDArray[np.float64]

    def at(self, n_bytes: NDArray[np.int64] | NDArray[np.float64] | int) -> NDArray[np.float64]:
        """Cumulative bits at these positions, by linear interpolation from (0, 0) on."""
        positions, totals = np.concatenate(([0], self.n_bytes)), np.concatenate(([0.0], self.bits))
        return np.asarray(np.interp(n_bytes, positions, totals), np.float64)

    def windows(self, n_windows: int = 64) -> "Curve":
        """Bits per byte in each of n_windows equal windows, at their ends: a curve whose `bits` are rates."""
        ends = np.unique(np.linspace(0, self.n_bytes[-1], n_windows + 1).astype(np.int64))
        return Curve(n_bytes=ends[1:], bits=np.diff(self.at(ends)) / np.diff(ends))

    def split(self) -> Split:
        """The bits of the complete corpus in two parts, which sum to them: rate_of_last_tenth times the bytes, and the rest."""
        n_bytes, bits = float(self.n_bytes[-1]), float(self.bits[-1])
        rate = (bits - float(self.at(np.array([0.9 * n_bytes]))[0])) / (0.1 * n_bytes)
        return Split(rate, bits - rate * n_bytes)

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each position: n_bytes, bits and bits_per_byte up to there."""
        return curve_frame({"": self}).drop(columns="series")

    def __repr__(self) -> str:
        n_bytes, bits = self.n_bytes[-1], self.bits[-1]
        return f"<Curve of {len(self.bits):,} points: {bits:,.0f} bits after {n_bytes:,} bytes, {bits / n_bytes:.4f} bits/byte>"


Curves = dict[str, Curve]


def prefixes(n_bytes: int) -> NDArray[np.int64]:
    """Log-spaced lengths, PREFIXES_PER_OCTAVE for each doubling. The last one is n_bytes."""
    n_octaves = max(0.0, np.log2(n_bytes / FIRST_PREFIX))
    steps = np.arange(int(np.ceil(n_octaves * PREFIXES_PER_OCTAVE)))
    return np.unique(np.append((FIRST_PREFIX * 2.0 ** (steps / PREFIXES_PER_OCTAVE)).astype(np.int64), n_bytes))


def mean_curve(curves: Sequence[Curve], at: NDArray[np.int64] | None = None) -> Curve:
    """The mean of curves over the same bytes, at these positions (n,); by default at those of the first curve."""
    n_bytes = curves[0].n_bytes if at is None else at
    return Curve(n_bytes=n_bytes, bits=np.sum([curve.at(n_bytes) for curve in curves], axis=0) / len(curves))


def crossing_byte(curve: Curve, other: Curve) -> int | None:
    """The byte from which on `curve` stays below `other`, at the earliest the first one that is known; None: not at the end."""
    at = other.n_bytes[other.n_bytes <= curve.n_bytes[-1]]
    lead = other.at(at) - curve.at(at)  # bits by which `curve` is below `other`
    if not len(at) or lead[-1] <= 0:
        return None
    not_below = np.nonzero(lead <= 0)[0]
    if not len(not_below):
        return int(at[0])
    i = not_below[-1]
    share = -lead[i] / (lead[i + 1] - lead[i])
    return int(at[i] + np.ceil(share * (at[i + 1] - at[i])))


def curve_table(curves: Mapping[str, Curve]) -> bytes:
    """The contents of curve.parquet: a Parquet table with the columns series, n_bytes, bits."""
    import pyarrow.parquet  # it takes a quarter of a second

    names = np.repeat(list(curves), [len(c.n_bytes) for c in curves.values()])
    table = pyarrow.table(
        {
            "series": pyarrow.array(names.tolist(), pyarrow.string()).dictionary_encode(),
            "n_bytes": np.concatenate([c.n_bytes for c in curves.values()]),
            "bits": np.concatenate([c.bits for c in curves.values()]),
        }
    )
    contents = io.BytesIO()
    pyarrow.parquet.write_table(table, contents, compression="zstd")
    return contents.getvalue()


def parse_curves(table: bytes, path: str | os.PathLike[str]) -> Curves:
    """The curves in the contents of a curve.parquet. Raises CorpusError, which names `path`."""
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(pyarrow.BufferReader(table), read_dictionary=["series"]) as file:
            if {field.name: str(field.type) for field in file.schema_arrow} != COLUMNS:
                raise ValueError("it needs the columns series (strings), n_bytes (int64) and bits (double)")
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            n_bytes = sum(group.total_byte_size for group in groups)
            if sum(group.num_rows for group in groups) > MAX_CURVE_ROWS or n_bytes > MAX_CURVE_BYTES:
                raise ValueError(f"it has more than {MAX_CURVE_ROWS:,} rows, or {MAX_CURVE_BYTES:,} bytes")
            return _curves(file.read(use_threads=False).unify_dictionaries())
    except (pyarrow.ArrowException, KeyError, OSError, ValueError) as error:  # Arrow raises all four
        raise CorpusError(f"{str(path)!r} is not a table of curves: {error}") from error


def _curves(table: Any) -> Curves:
    """The curves of a table. Raises ValueError unless each ascends, and its bits are numbers from 0."""
    series, n_bytes, bits = (table[name].combine_chunks() for name in COLUMNS)
    if len(series.dictionary) > MAX_SERIES or series.dictionary.nbytes > MAX_NAMES_BYTES:
        raise ValueError("it has too many names, or too long ones")
    if series.null_count or n_bytes.null_count or bits.null_count:
        raise ValueError("a value is missing")
    curves, rows = Curves(), series.indices.to_numpy()
    for i in np.unique(rows).tolist():
        ends, totals, name = n_bytes.to_numpy()[rows == i], bits.to_numpy()[rows == i], series.dictionary[i].as_py()
        ascends = ends[0] > 0 and np.all(ends[1:] > ends[:-1]) and ends[-1] <= MAX_COUNT
        if not ascends or not np.all((totals >= 0) & (totals <= MAX_NUMBER)):  # also for NaN
            raise ValueError(f"the curve {name!r} does not ascend, or is not finite")
        curves[name] = Curve(n_bytes=ends, bits=totals)
    return curves


# ---- curves, and tables of where the bits went, as data frames

COUNTS = {"n_documents": "documents", "n_words": "words", "n_distinct": "distinct"}  # columns of some tables


def data_frame(rows: Any, **options: Any) -> "pandas.DataFrame":
    """A data frame of these rows, or columns. pandas is imported when one is made: it is slow."""
    import pandas

    return pandas.DataFrame(rows, **options)


def curve_frame(curves: Mapping[str, Curve]) -> "pandas.DataFrame":
    """A table of all curves with the columns series, n_bytes, bits and bits_per_byte."""
    import pandas

    frames = [
        pandas.DataFrame({"series": name, "n_bytes": c.n_bytes, "bits": c.bits, "bits_per_byte": c.bits / c.n_bytes})
        for name, c in curves.items()
    ]
    return pandas.concat(frames, ignore_index=True)


def table_of(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The table of this name. Raises ConfigError if there is none."""
    if name not in tables:
        raise ConfigError(f"no table is called {name!r}: there are {', '.join(tables) or 'none'}")
    table: Mapping[str, Any] = tables[name]
    return table


def cost_columns(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    """A row for each kind of byte: name (under ""), bytes, counts, bits, shares in % (of the first part), bits/byte by part."""
    rows = [row for row in table["rows"] if row["n_bytes"]]
    parts = list(rows[0]["bits"]) if rows else []
    n_bytes, bits = [row["n_bytes"] for row in rows], [row["bits"][parts[0]] for row in rows]
    counts = {text: [row.get(key) for row in rows] for key, text in COUNTS.items() if any(key in row for row in rows)}
    return {
        "": [row["name"] for row in rows],
        "bytes": n_bytes,
        **counts,
        "bits": bits,
        "of bytes, %": [100 * n / sum(n_bytes) for n in n_bytes],
        "of bits, %": [100 * each / (sum(bits) or 1.0) for each in bits],
        **{f"bits/byte, {part}": [row["bits"][part] / row["n_bytes"] for row in rows] for part in parts},
    }
