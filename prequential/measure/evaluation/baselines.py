"""Results of the compressors that a learner is compared with (codecs/baselines/registry.py), in the terms of the ledger."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.registry import BASELINES, BaselineResult, measure_installed
from prequential.measure.evaluation.curves import Curve, Curves, prefixes
from prequential.measure.evaluation.ledger import bits_per_byte


def measure_baselines(
    source: NDArray[np.uint8], names: Sequence[str]
) -> tuple[list[BaselineResult], Curves, list[str]]:
    """Sizes of the whole corpus (n,) uint8, decoded again; curves of sizes at log-spaced prefixes; notes on what was skipped.

    The corpus is held in memory. The prefixes together cost some 2.4 times the whole.
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
    """The baseline's name with its settings, as a table prints it."""
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
