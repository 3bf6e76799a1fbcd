"""The baselines of an evaluation (codecs/baselines/registry.py): sizes, curves of sizes, and records."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.registry import BASELINES, BaselineResult, measure_installed
from prequential.measure.evaluation.curves import Curve, Curves, prefixes
from prequential.measure.evaluation.ledger import bits_per_byte


def measure_baselines(
    source: NDArray[np.uint8], names: Sequence[str]
) -> tuple[list[BaselineResult], Curves, list[str]]:
    """Results on the corpus (n,) uint8, which are decoded again; curves of sizes at prefixes; a note for each skipped baseline.

    The corpus is held in memory. All prefixes together cost about 2.4 times as much as the complete corpus.
    """
    if not names:
        return [], {}, []
    data = source.tobytes()
    results, notes = measure_installed(data, names)
    at = prefixes(len(data))
    curves = {
        result.name: Curve(
            n_bytes=at,
            bits=8.0 * np.array([*(_size(result.name, data[:n]) for n in at[:-1].tolist()), result.compressed_bytes]),
        )
        for result in results
    }
    return results, curves, notes


def _size(name: str, data: bytes) -> int:
    return len(BASELINES[name].compress(data))


def label(result: BaselineResult) -> str:
    """The baseline's name with its settings, for tables."""
    return BASELINES[result.name].label


def to_record(result: BaselineResult) -> dict[str, str | int | float]:
    """JSON values of one result."""
    return {
        "name": result.name,
        "label": label(result),
        "compressed_bytes": result.compressed_bytes,
        "bits_per_byte": bits_per_byte(result.compressed_bytes, result.n_bytes),
        "wall_s": result.wall_s,
    }
