"""Which corpus teaches which: what each of several corpora costs alone, and what it saves after each other one was read.

L(X) is the code length of X under a fresh learner, L(X|Y) under one that has learned Y: exact sums of ideal code lengths. A long
text teaches more, so all are cut to the length of the shortest. The distance of two corpora is the share of bits that is left in
the better direction, min(L(X|Y) / L(X), L(Y|X) / L(Y)): a part is near its whole (Zhang et al. 2007). The distance of Li et al.
(2004), max(L(X|Y), L(Y|X)) / max(L(X), L(Y)), sees mainly the longer text. It can exceed 1: a learner may be misled.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prequential.arguments import check_arguments
from prequential.errors import CorpusError, wrong_argument
from prequential.learners.given import informed_learner, remembering
from prequential.learners.subject import follow
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.presets import DEFAULT_PRESET, preset
from prequential.online.loop import Learner
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, digest_of, open_source
from prequential.printable import format_table
from prequential.records.schema import environment

if TYPE_CHECKING:
    import pandas

SCHEMA = 3  # 1: distances of Li et al., texts of unequal lengths; 2: also after stored models


@dataclass(frozen=True, kw_only=True, repr=False)
class Matrix:
    """Code lengths of n corpora in bits, alone (n,) and after each of them (n, n), float64.

    names, n_bytes, blake2b: (n,), of the corpora. after[i, i] is L(X|X). str() is the report of the command.

    Examples:
        >>> import numpy, prequential
        >>> found = prequential.Matrix(
        ...     names=("a", "b"), n_bytes=(100, 100), blake2b=("", ""), config=prequential.preset(1),
        ...     alone=numpy.array([200.0, 400.0]), after=numpy.array([[20.0, 100.0], [300.0, 40.0]]),
        ... )
        >>> found.saved.tolist(), found.distances[0, 1].item(), found.saved_per_byte[0, 1].item()
        ([[0.9, 0.5], [0.25, 0.9]], 0.5, 1.0)
    """

    names: tuple[str, ...]
    n_bytes: tuple[int, ...]
    blake2b: tuple[str, ...]
    config: Config
    alone: NDArray[np.float64]
    after: NDArray[np.float64]

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each corpus and each other one that it was given: bits alone and after it, what it saves a byte, distance."""
        import pandas

        pairs = [(i, j) for i in range(len(self.names)) for j in range(len(self.names)) if i != j]
        rows = [
            {
                "corpus": self.names[i],
                "given": self.names[j],
                "n_bytes": self.n_bytes[i],
                "bits": self.alone[i],
                "bits_given": self.after[i, j],
                "saved_bits_per_byte": self.saved_per_byte[i, j],
                "distance": self.distances[i, j],
            }
            for i, j in pairs
        ]
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        return format_matrix(self)

    def __repr__(self) -> str:
        return f"<{_advice(self, short_names(self.names))}>"

    @property
    def saved(self) -> NDArray[np.float64]:
        """The share of the bits of each corpus that each one saves if it was read before, (n, n): 1 - L(X|Y) / L(X)."""
        return np.asarray(1.0 - self.after / self.alone[:, None])

    @property
    def saved_per_byte(self) -> NDArray[np.float64]:
        """The bits of a byte of each corpus that each one saves if it was read before, (n, n)."""
        return np.asarray((self.alone[:, None] - self.after) / np.array(self.n_bytes)[:, None])

    @property
    def distances(self) -> NDArray[np.float64]:
        """The distances of the corpora, (n, n), symmetric: the share of bits that is left in the better direction."""
        return np.asarray(1.0 - np.maximum(self.saved, self.saved.T))


@engine_call()
def measure_matrix(
    corpora: Sequence[str] | Mapping[str, CorpusLike],
    config: Config | None = None,
    runtime: Runtime | None = None,
    *,
    limit_bytes: int | None = None,
    whole: bool = False,
    on_step: Callable[[str], object] = lambda text: None,
) -> Matrix:
    """Reads n * n + 2 * n corpora: each alone, and each after each one, which is read once for it.

    corpora: names of corpora, or corpora by their names. config: by default preset 5. limit_bytes: of each corpus. whole: do not
    cut all to the length of the shortest. on_step: called with what comes next. Raises CorpusError for fewer than two different
    corpora or an empty one, and what reading raises.

    Examples:
        >>> import prequential
        >>> texts = {"a": b"one two " * 20, "b": b"one two three " * 20}
        >>> found = prequential.measure_matrix(texts, config=prequential.preset(1))
        >>> found.saved.shape, bool(found.after[0, 1] < found.alone[0])
        ((2, 2), True)
    """
    names = list(corpora) if isinstance(corpora, Mapping) else _names(corpora)
    check_arguments(config=config, runtime=runtime, limit_bytes=limit_bytes, whole=whole, on_step=on_step)
    if len(set(names)) < 2 or len(set(names)) != len(names):
        raise CorpusError("a matrix needs two corpora or more, each named once")
    config, runtime = config or preset(DEFAULT_PRESET), runtime or Runtime()
    texts = _texts(names, corpora if isinstance(corpora, Mapping) else {}, limit_bytes, whole=whole)
    alone = np.zeros(len(names))
    for i, text in enumerate(texts):
        on_step(names[i])
        alone[i] = _bits(runtime.learner(config), text)
    columns = []
    for name, text in zip(names, texts, strict=True):
        on_step(f"given {name}")
        columns.append(_after(texts, text.tobytes(), config, runtime))
    return Matrix(
        names=tuple(names),
        n_bytes=tuple(len(text) for text in texts),
        blake2b=tuple(digest_of(text).hex() for text in texts),
        config=config,
        alone=alone,
        after=np.stack(columns, axis=1),
    )


def _texts(
    corpora: Sequence[str], given: Mapping[str, CorpusLike], limit_bytes: int | None, *, whole: bool
) -> list[NDArray[np.uint8]]:
    """The bytes of each corpus, of equal lengths unless `whole`. Raises CorpusError for an empty one."""
    with ExitStack() as stack:
        sources = [stack.enter_context(open_source(given.get(name, name), limit_bytes)) for name in corpora]
        lengths = [source.n_bytes for source in sources]
        if not all(lengths):
            empty = corpora[lengths.index(0)]
            raise CorpusError(f"{empty!r} is empty: a matrix needs corpora of a byte or more")
        return [np.array(source.symbols[: None if whole else min(lengths)]) for source in sources]


def _names(values: Any) -> list[str]:
    """The names or paths as texts. Raises ConfigError for anything but a list of them."""
    if not isinstance(values, list | tuple) or not all(isinstance(each, str | os.PathLike) for each in values):
        raise wrong_argument("corpora", values, "a list of names")
    return [os.fspath(each) for each in values]


def _after(texts: Sequence[NDArray[np.uint8]], given: bytes, config: Config, runtime: Runtime) -> NDArray[np.float64]:
    """The code length of each text after `given`, in bits. The learner reads `given` once."""
    learner, _ = informed_learner(config, given, runtime)
    state = {key: array.copy() for key, array in learner.state().items()}
    reader = runtime.learner(remembering(config, len(given)))
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
        "code_bits_given": matrix.after.tolist(),
        "distances": matrix.distances.tolist(),
        "environment": environment(runtime, matrix.config),
    }


def format_matrix(matrix: Matrix) -> str:
    """Two tables, the bits that each given saves and the distances, and what to read first."""
    names = short_names(matrix.names)
    equal = f" (first {matrix.n_bytes[0]:,} bytes)" if len(set(matrix.n_bytes)) == 1 else ""
    alone = [f"{bits / n:.4f}" for bits, n in zip(matrix.alone, matrix.n_bytes, strict=True)]
    saved = [[cost, *row] for cost, row in zip(alone, _others(matrix.saved_per_byte, "{:.4f}"), strict=True)]
    tables = (
        (
            f"bits/byte of X{equal} alone, and what the given saves of them",
            ("X", "alone", *(f"| {each}" for each in names)),
            saved,
        ),
        (
            "distance: the share of bits left, in the better direction",
            ("", *names),
            _others(matrix.distances, "{:.3f}"),
        ),
    )
    shown = [
        f"{title}\n{format_table(columns, [[name, *row] for name, row in zip(names, rows, strict=True)])}"
        for title, columns, rows in tables
    ]
    return "\n\n".join([*shown, _advice(matrix, names)])


def _others(values: NDArray[np.float64], form: str) -> list[list[str]]:
    """The cells as texts; a corpus and itself have an empty one."""
    return [["" if i == j else form.format(value) for j, value in enumerate(row)] for i, row in enumerate(values)]


def _advice(matrix: Matrix, names: Sequence[str]) -> str:
    others = np.where(np.eye(*matrix.after.shape) == 1, -np.inf, matrix.saved_per_byte)
    i, j = divmod(int(others.argmax()), len(names))
    if others[i, j] <= 0:
        return "Nothing here saves bits of another text: read none first."
    saved = f"{others[i, j]:.4f} bits a byte, {matrix.saved[i, j]:.1%}"
    return f"Read {names[j]} before {names[i]}: it saves {saved}, the most of all pairs."


def short_names(names: Sequence[str]) -> list[str]:
    """The last parts of paths, if they differ; else the names as they are."""
    found = [name.rstrip("/").rpartition("/")[2] for name in names]
    return found if len(set(found)) == len(found) else list(names)
