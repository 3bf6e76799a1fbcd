"""The baselines of an evaluation (prequential_codecs/baselines.py): their sizes, and curves of sizes."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.baselines import BASELINES, BaselineResult, measure_each
from prequential_corpora.corpus import Document

from prequential.errors import ConfigError, wrong_argument
from prequential.evaluation.curves import Curve, Curves, prefixes
from prequential.evaluation.ledger import bits_per_byte
from prequential.records import BaselineFields

if TYPE_CHECKING:
    from prequential.adapters.static_model import StaticModel

Baseline: TypeAlias = "str | StaticModel"


def checked_baselines(baselines: Any) -> tuple[Baseline, ...]:
    """The baselines as a tuple. Raises ConfigError for another value than a list of them, and for an unknown name."""
    if isinstance(baselines, str) or not isinstance(baselines, Iterable):
        raise wrong_argument("baselines", baselines, "a list of names, such as ['gzip'], or () for none")
    entries = tuple(baselines)
    for each in entries:
        if isinstance(each, str) and each not in BASELINES:
            raise ConfigError(f"unknown baseline {each!r}: the baselines are {', '.join(BASELINES)}")
        if not isinstance(each, str) and not callable(getattr(each, "costs", None)):
            raise wrong_argument("an entry of baselines", each, "a name, or an adapters.StaticModel")
    return entries


def measure_baselines(
    source: NDArray[np.uint8], baselines: Sequence[Baseline], documents: Sequence[Document] = (), given: bytes = b""
) -> tuple[list[BaselineFields], Curves, list[str]]:
    """Results on the corpus (n,) uint8; curves of sizes at prefixes; a note for each skipped baseline.

    given: what was known before; the size of a compressor is then what the corpus adds to it. Outputs are decoded again. Of a
    trained model there are two results: without and with the size of its weights. A second one of its name gets a number.
    """
    names, at = [each for each in baselines if isinstance(each, str)], prefixes(len(source))
    data = source.tobytes() if names else b""
    results, curves, n_named = list[BaselineFields](), Curves(), Counter[str]()

    def add(name: str, label: str, bits: NDArray[np.float64], wall_s: float) -> None:
        curves[name] = Curve(n_bytes=at, bits=bits)
        results.append(_fields(name, label, math.ceil(bits[-1] / 8), len(source), wall_s))

    measured, notes = measure_each(given + data, names)
    for each in measured:
        compressor = BASELINES[each.name]
        known = len(compressor.compress(given)) if given else 0
        sizes = [len(compressor.compress(given + data[:n])) for n in at[:-1].tolist()]
        bits = 8.0 * np.maximum(np.array([*sizes, each.compressed_bytes]) - known, 1)
        add(each.name, compressor.label + (", after what was given" if given else ""), bits, each.wall_s)
    for static in baselines:
        if not isinstance(static, str):
            n_named[static.name] += 1
            own = static.name + (f" ({n_named[static.name]})" if n_named[static.name] > 1 else "")
            costs, wall_s = static.costs(source, documents)
            sums = np.concatenate(([0.0], np.cumsum(costs)))[at]
            label = f"{static.policy}: code length, weights"
            add(own, f"{own}, {label} not counted", sums, wall_s)
            name = f"{own} + weights"
            add(name, f"{name}, {label} counted", sums + 8 * static.weights_bytes, wall_s)
    return results, curves, notes


def to_record(result: BaselineResult) -> BaselineFields:
    """A result of a compressor alone."""
    label = BASELINES[result.name].label
    return _fields(result.name, label, result.compressed_bytes, result.n_bytes, result.wall_s)


def _fields(name: str, label: str, size: int, n_bytes: int, wall_s: float) -> BaselineFields:
    rate = bits_per_byte(size, n_bytes)
    return BaselineFields(name=name, label=label, compressed_bytes=size, bits_per_byte=rate, wall_s=wall_s)
