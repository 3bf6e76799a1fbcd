"""Curves and tables as pandas data frames. They need the extra `notebooks`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prequential.errors import ConfigError, MissingDependencyError
from prequential.evaluation.curves import Curve

if TYPE_CHECKING:
    import pandas

MEANT = {
    "n_bytes": "bytes",
    "n_documents": "documents",
    "n_words": "words",
    "n_distinct": "distinct",
    "mean_k": "mean k",
}


def curve_frame(curves: Mapping[str, Curve]) -> "pandas.DataFrame":
    """A table of all curves with the columns series, n_bytes, bits and bits_per_byte. Raises MissingDependencyError."""
    pandas = _pandas()
    frames = [
        pandas.DataFrame({"series": name, "n_bytes": c.n_bytes, "bits": c.bits, "bits_per_byte": c.bits / c.n_bytes})
        for name, c in curves.items()
    ]
    return pandas.concat(frames, ignore_index=True)


def cost_frame(tables: Mapping[str, Any], name: str) -> "pandas.DataFrame":
    """One table of where the bits went: a row for each kind of byte, with its bytes, bits, shares in %, and bits/byte by part.

    tables: of an Evaluation or a record. The shares are of the first part. Raises ConfigError if there is no such table,
    MissingDependencyError without pandas.
    """
    pandas = _pandas()
    if name not in tables:
        raise ConfigError(f"no table is called {name!r}: there are {', '.join(tables)}")
    rows = [row for row in tables[name]["rows"] if row["n_bytes"]]
    first = next(iter(rows[0]["bits"]), "") if rows else ""
    n_bytes, bits = (
        sum(values) for values in zip(*((row["n_bytes"], row["bits"][first]) for row in rows), strict=True)
    )
    return pandas.DataFrame(
        {
            **{text: row[key] for key, text in MEANT.items() if key in row},
            "bits": row["bits"][first],
            "of bytes, %": 100 * row["n_bytes"] / n_bytes,
            "of bits, %": 100 * row["bits"][first] / (bits or 1.0),
            **{f"bits/byte, {part}": total / row["n_bytes"] for part, total in row["bits"].items()},
        }
        | {"": row["name"]}
        for row in rows
    ).set_index("")


def result_frame(results: Sequence[Mapping[str, Any]]) -> "pandas.DataFrame":
    """A row for each result, with the fields of the first as columns. Raises MissingDependencyError without pandas."""
    return _pandas().DataFrame(results)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingDependencyError("tables need pandas: pip install 'prequential[notebooks]'") from error
    return pandas
