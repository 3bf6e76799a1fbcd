"""Which corpus teaches which: the code length of each of several corpora alone, and after each other one was read.

L(X) is the code length of X under a fresh learner, L(X|Y) under one that has learned Y: exact sums of ideal code lengths. The
distance is that of Li et al. (2004), with code lengths in place of Kolmogorov complexity (docs/LEARNERS.md). It can exceed 1,
because a learner may be misled.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import GIVEN

from prequential.arguments import check_arguments
from prequential.errors import CorpusError, wrong_argument
from prequential.learners.given import Given, informed_learner, remembering
from prequential.learners.subject import follow
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.online.loop import Learner
from prequential.online.runtime import Runtime
from prequential.online.source import open_source
from prequential.printable import format_table
from prequential.records.schema import environment

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Code lengths of n corpora in bits, alone (n,) and after each of n corpora and m stored models (n, n + m), float64.

    names, n_bytes, blake2b: (n,), of the corpora. givens (n + m,): names of what was given. after[i, i] is L(X|X).

    Examples:
        >>> import numpy, prequential
        >>> found = prequential.Matrix(
        ...     names=("a", "b"), n_bytes=(100, 100), blake2b=("", ""), givens=("a", "b"), config=prequential.preset(1),
        ...     alone=numpy.array([200.0, 400.0]), after=numpy.array([[20.0, 100.0], [300.0, 40.0]]),
        ... )
        >>> found.saved.tolist(), found.distances[0, 1].item()
        ([[0.9, 0.5], [0.25, 0.9]], 0.75)
    """

    names: tuple[str, ...]
    n_bytes: tuple[int, ...]
    blake2b: tuple[str, ...]
    givens: tuple[str, ...]
    config: Config
    alone: NDArray[np.float64]
    after: NDArray[np.float64]

    @property
    def saved(self) -> NDArray[np.float64]:
        """The share of the bits of each corpus that what was given saves, (n, n + m): 1 - L(X|Y) / L(X)."""
        return np.asarray(1.0 - self.after / self.alone[:, None])

    @property
    def distances(self) -> NDArray[np.float64]:
        """The normalised distances of the corpora, (n, n), symmetric."""
        square = self.after[:, : len(self.names)]
        return np.asarray(np.maximum(square, square.T) / np.maximum.outer(self.alone, self.alone))


@engine_call()
def measure_matrix(
    corpora: Sequence[str],
    models: Sequence[str],
    config: Config,
    runtime: Runtime,
    *,
    limit_bytes: int | None = None,
    on_step: Callable[[str], object] = lambda text: None,
) -> Matrix:
    """Reads n (n + m) + 2 n corpora: each alone, and each after each corpus, which is read once for it, and after each model.

    models: folders of stored models, which keep their own configuration. limit_bytes: of each corpus. on_step: called with what
    comes next. Raises CorpusError for fewer than two different corpora or an empty one, and what reading raises.

    Examples:
        >>> import tempfile, prequential
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     names = [str(Path(folder) / name) for name in ("a", "b")]
        ...     for name, text in zip(names, (b"one two " * 20, b"one two three " * 20)):
        ...         _ = Path(name).write_bytes(text)
        ...     found = prequential.measure_matrix(names, [], prequential.preset(1), prequential.Runtime())
        >>> found.saved.shape, bool(found.after[0, 1] < found.alone[0])
        ((2, 2), True)
    """
    corpora, models = _names("corpora", corpora), _names("models", models)
    for name, value, kind in (("config", config, Config), ("runtime", runtime, Runtime)):
        if not isinstance(value, kind):
            raise wrong_argument(name, value, f"a {kind.__name__}")
    check_arguments(limit_bytes=limit_bytes, on_step=on_step)
    if len(set(corpora)) < 2 or len(set(corpora)) != len(corpora):
        raise CorpusError("a matrix needs two corpora or more, each named once")
    found = []
    for name in corpora:
        with open_source(name, limit_bytes) as source:
            if not source.n_bytes:
                raise CorpusError(f"{name!r} is empty: a matrix needs corpora of a byte or more")
            found.append((np.array(source.symbols[:]), source.blake2b.hex()))
    texts = [symbols for symbols, _ in found]
    alone = np.zeros(len(corpora))
    for i, text in enumerate(texts):
        on_step(corpora[i])
        alone[i] = _bits(runtime.learner(config), text)
    columns = []
    givens: list[tuple[Given, Config | None]] = [(text.tobytes(), config) for text in texts]
    for name, (given, own) in zip((*corpora, *models), [*givens, *((name, None) for name in models)], strict=True):
        on_step(f"given {name}")
        columns.append(_after(texts, given, own, runtime))
    return Matrix(
        names=tuple(corpora),
        n_bytes=tuple(len(text) for text in texts),
        blake2b=tuple(digest for _, digest in found),
        givens=(*corpora, *models),
        config=config,
        alone=alone,
        after=np.stack(columns, axis=1),
    )


def _names(name: str, values: Any) -> list[str]:
    """The names or paths as texts. Raises ConfigError for anything but a list of them."""
    if not isinstance(values, list | tuple) or not all(isinstance(each, str | os.PathLike) for each in values):
        raise wrong_argument(name, values, "a list of names")
    return [os.fspath(each) for each in values]


def _after(
    texts: Sequence[NDArray[np.uint8]], given: Given, config: Config | None, runtime: Runtime
) -> NDArray[np.float64]:
    """The code length of each text after `given`, in bits. The learner reads `given` once."""
    learner, description = informed_learner(config, given, runtime)
    state = {key: array.copy() for key, array in learner.state().items()}
    own = Config.from_dict({k: v for k, v in description.items() if k != GIVEN})
    n_given = description[GIVEN]["n_symbols"] if description[GIVEN]["kind"] == "text" else 0
    reader = runtime.learner(remembering(own, n_given))
    bits = np.zeros(len(texts))
    for i, text in enumerate(texts):
        reader.load_state(state)
        bits[i] = _bits(reader, text)
    return bits


def _bits(learner: Learner, text: NDArray[np.uint8]) -> float:
    return float(sum(costs.sum() for costs in follow(learner, text)))


def matrix_record(matrix: Matrix, runtime: Runtime) -> dict[str, Any]:
    """The matrix as JSON values; bits are ideal code lengths."""
    corpora = zip(matrix.names, matrix.n_bytes, matrix.blake2b, matrix.alone.tolist(), strict=True)
    return {
        "schema": SCHEMA,
        "kind": "matrix",
        "config": matrix.config.to_dict(),
        "corpora": [{"name": n, "n_bytes": b, "blake2b": d, "code_bits": bits} for n, b, d, bits in corpora],
        "givens": list(matrix.givens),
        "code_bits_given": matrix.after.tolist(),
        "distances": matrix.distances.tolist(),
        "environment": environment(runtime, matrix.config),
    }


def format_matrix(matrix: Matrix) -> str:
    """Three tables: bits per byte alone and given the others, the share saved, the distances."""
    names, givens = short_names(matrix.names), short_names(matrix.givens)
    n_bytes = np.array(matrix.n_bytes)[:, None]
    rows = np.concatenate((matrix.alone[:, None], matrix.after), axis=1) / n_bytes
    given = [f"| {name}" for name in givens]
    tables = [
        ("bits/byte of X", ("X", "alone", *given), rows, "{:.4f}"),
        ("bits of X that the given saves, %", ("X", *given), 100 * matrix.saved, "{:.1f}"),
        ("distance", ("", *names), matrix.distances, "{:.3f}"),
    ]
    return "\n\n".join(
        f"{title}\n"
        + format_table(columns, [[name, *map(form.format, row)] for name, row in zip(names, values, strict=True)])
        for title, columns, values, form in tables
    )


def short_names(names: Sequence[str]) -> list[str]:
    """The last parts of paths, if they differ; else the names as they are."""
    found = [name.rstrip("/").rpartition("/")[2] for name in names]
    return found if len(set(found)) == len(found) else list(names)
