"""The baselines of an evaluation (prequential_codecs/baselines.py): sizes, curves of sizes, and records."""

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.baselines import BASELINES, BaselineResult, measure_installed
from prequential_corpora.corpus import Document

from prequential.errors import ConfigError, wrong_argument
from prequential.evaluation.curves import Curve, Curves, prefixes
from prequential.evaluation.ledger import bits_per_byte
from prequential.records import BaselineFields, record_of

if TYPE_CHECKING:
    from prequential.adapters.static_model import StaticModel

Baseline: TypeAlias = "str | StaticModel"


def checked_baselines(baselines: Any) -> tuple[Baseline, ...]:
    """The baselines as a tuple. Raises ConfigError for another value than a list of them, and for an unknown name."""
    if isinstance(baselines, str) or not isinstance(baselines, Iterable):
        raise wrong_argument("baselines", baselines, "a list of names, such as ['gzip'], or () for none")
    found = tuple(baselines)
    for each in found:
        if isinstance(each, str) and each not in BASELINES:
            near = difflib.get_close_matches(each, BASELINES, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"unknown baseline {each!r}: {hint}the baselines are {', '.join(BASELINES)}")
        if not isinstance(each, str) and not callable(getattr(each, "costs", None)):
            raise wrong_argument("an entry of baselines", each, "a name, or an adapters.StaticModel")
    return found


def measure_baselines(
    source: NDArray[np.uint8], baselines: Sequence[Baseline], documents: Sequence[Document] = (), given: bytes = b""
) -> tuple[list[BaselineResult], Curves, list[str]]:
    """Results on the corpus (n,) uint8; curves of sizes at prefixes; a note for each skipped baseline.

    given: what was known before; the size of a compressor is then what the corpus adds to it. Outputs are decoded again. Of a
    trained model there are two results: without and with the size of its weights. A second one of its name gets a number.
    """
    results, curves, notes = _compressors(source, [each for each in baselines if isinstance(each, str)], given)
    n_named = Counter[str]()
    for static in baselines:
        if not isinstance(static, str):
            n_named[static.name] += 1
            number = f" ({n_named[static.name]})" if n_named[static.name] > 1 else ""
            more, more_curves = _of_static(source, static, static.name + number, documents)
            results, curves = results + more, curves | more_curves
    return results, curves, notes


def _of_static(
    source: NDArray[np.uint8], static: "StaticModel", own: str, documents: Sequence[Document]
) -> tuple[list[BaselineResult], Curves]:
    costs, wall_s = static.costs(source, documents)
    at, sums = prefixes(len(source)), np.concatenate(([0.0], np.cumsum(costs)))
    results, curves = [], {}
    for suffix, weights_bits, are in (("", 0, "not counted"), (" + weights", 8 * static.weights_bytes, "counted")):
        name, bits = f"{own}{suffix}", sums[at] + weights_bits
        text, size = f"{name}, {static.policy}: code length, weights {are}", math.ceil(bits[-1] / 8)
        results.append(BaselineResult(name=name, n_bytes=len(source), compressed_bytes=size, wall_s=wall_s, label=text))
        curves[name] = Curve(n_bytes=at, bits=bits)
    return results, curves


def _compressors(
    source: NDArray[np.uint8], names: Sequence[str], given: bytes
) -> tuple[list[BaselineResult], Curves, list[str]]:
    if not names:
        return [], {}, []
    data = source.tobytes()
    found, notes = measure_installed(given + data, names)
    at, results, curves = prefixes(len(data)), [], {}
    for result in found:
        compress = BASELINES[result.name].compress
        known = len(compress(given)) if given else 0
        size, text = max(1, result.compressed_bytes - known), f"{label(result)}, after what was given" if given else ""
        results.append(replace(result, n_bytes=len(data), compressed_bytes=size, label=text))
        sizes = [max(1, len(compress(given + data[:n])) - known) for n in at[:-1].tolist()]
        curves[result.name] = Curve(n_bytes=at, bits=8.0 * np.array([*sizes, size]))
    return results, curves, notes


def label(result: BaselineResult) -> str:
    """The baseline's name with its settings, for tables."""
    return result.label or BASELINES[result.name].label


def to_record(result: BaselineResult) -> dict[str, Any]:
    """JSON values of one result."""
    rate = bits_per_byte(result.compressed_bytes, result.n_bytes)
    return record_of(BaselineFields, result, label=label(result), bits_per_byte=rate)
