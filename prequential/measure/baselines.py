"""Results of the compressors that a learner is compared with (codecs/baselines.py), in the terms of the ledger."""

from prequential.codecs import BASELINES, BaselineResult
from prequential.measure.ledger import bits_per_byte


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
