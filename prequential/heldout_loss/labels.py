"""The description length of labels given their inputs: one field of each row is coded, the other is read and learned from.

A row becomes one line: the input, a tab, the label, a newline. The learner learns from all of it, but only the label and its
newline count. A decoder that has the inputs can follow, so the sum is a description length of the labels. A text stands as it is,
unless it could be read as JSON or has a line feed; it then stands as JSON, as all other values do. So no two labels look alike.

    online    sum of -log2 p(label i | input i, all rows before)
    blocks    rows are cut at the PERCENTAGES of Voita and Titov (2020). The rows of a block cost what the learner that has read
              all blocks before gives them, without learning within the block; those of the first block cost log2 K each, for K
              labels (Blier and Ollivier 2018)
    marginal  the code of the labels without inputs: adaptive frequencies (n_k + 1/2) / (n + K / 2)
    uniform   log2 K for each row

The last three are told the K labels; the learner is not, and spells them.
"""

import io
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.files import PathLike, open_regular
from prequential.files.strict_json import MAX_ROW_DIGITS, LongInteger, bounded_lines, parse_row
from prequential.learners.spec import code_lengths, reported
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.frozen import FrozenLearner
from prequential.model.presets import DEFAULT_PRESET, preset
from prequential.online.coding import OnProgress, ignore
from prequential.online.loop import Learner
from prequential.online.runtime import Runtime
from prequential.online.source import Data, Readable, in_memory
from prequential.online.training import finish
from prequential.printable import format_table
from prequential.records import environment

if TYPE_CHECKING:
    import pandas

Places = NDArray[np.int64]
# A path names a file of JSON lines. Bytes, and what an open file gives, are JSON lines.
RowsLike: TypeAlias = "PathLike | Data | Readable | Sequence[Mapping[str, Any]] | pandas.DataFrame"
ROWS = "a file of JSON lines, their bytes, a file open for bytes, a list of dicts, or a data frame"

SCHEMA = 1
PERCENTAGES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25, 50)  # of the rows: where blocks end
NAMES = {
    "online": "learner, online, given inputs",
    "blocks": "learner, blocks, given inputs",
    "marginal": "adaptive frequencies, no inputs",
    "entropy": "entropy of the frequencies",
    "uniform": "uniform",
}
PROOF_BITS = 10  # labels that are independent of their inputs save so many bits once in 1,024 times, or less often
MAX_ROW_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelCost:
    """Bits of n labels of n_labels kinds, given their inputs. str() is the report of the command.

    online (n,) float64: of each row. block_bits: of the blocks that end at the rows block_ends. marginal_bits, entropy_bits: of
    the labels without inputs.

    Examples:
        >>> import numpy, prequential
        >>> found = prequential.LabelCost(
        ...     config=prequential.preset(1), n_labels=2, online=numpy.full(99, 0.5), block_ends=(99,), block_bits=(60.0,),
        ...     marginal_bits=101.0, entropy_bits=99.0,
        ... )
        >>> found
        <If the rows are in random order, their inputs tell the labels: 50 bits, 50% of the entropy.>
        >>> found.to_frame().set_index("code")["bits"].to_dict()
        {'online': 49.5, 'blocks': 60.0, 'marginal': 101.0, 'entropy': 99.0, 'uniform': 99.0}
    """

    config: Config
    n_labels: int
    online: NDArray[np.float64]
    block_ends: tuple[int, ...]
    block_bits: tuple[float, ...]
    marginal_bits: float
    entropy_bits: float

    @property
    def n_rows(self) -> int:
        """The number of labels."""
        return len(self.online)

    @property
    def online_bits(self) -> float:
        """The online code."""
        return float(self.online.sum())

    @property
    def uniform_bits(self) -> float:
        """The uniform code."""
        return self.n_rows * math.log2(max(self.n_labels, 1))

    @property
    def codes(self) -> dict[str, float]:
        """The bits of each code by its name in the text above."""
        return {
            "online": self.online_bits,
            "blocks": sum(self.block_bits),
            "marginal": self.marginal_bits,
            "entropy": self.entropy_bits,
            "uniform": self.uniform_bits,
        }

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each code: bits and bits_per_label."""
        import pandas

        rows = [{"code": name, "bits": bits, "bits_per_label": bits / self.n_rows} for name, bits in self.codes.items()]
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        rows = [
            [
                NAMES[code],
                f"{bits:,.0f}",
                f"{bits / self.n_rows:.4f}",
                f"{self.uniform_bits / bits:.2f}" if bits > 0 else "-",
            ]
            for code, bits in self.codes.items()
        ]
        sizes = format_table(("code", "bits", "bits/label", "uniform / code"), rows)
        return f"{self.n_rows:,} labels of {self.n_labels} kinds\n\n{sizes}\n\n{_conclusion(self)}"

    def __repr__(self) -> str:
        return f"<{_conclusion(self)}>"


@engine_call()
def labels(
    rows: RowsLike,
    label: str,
    given_field: str | None = None,
    config: Config | None = None,
    runtime: Runtime | None = None,
    *,
    on_progress: OnProgress = ignore,
) -> LabelCost:
    """The code length of one field of each row, given the other fields, under a learner that has read the rows before.

    rows: a file of JSON lines ("-": standard input), or what such lines hold: bytes, an open file, a list of dicts, a data frame.
    label: the field that costs bits. given_field: the one that is read (default: all others). config: of a fresh learner
    (default: preset 5). Takes as long as two runs over the rows. docs/LEARNERS.md explains the codes.

    Raises ConfigError for a wrong argument, and CorpusError for rows without these fields.

    Examples:
        >>> import prequential
        >>> rows = [{"n": i, "parity": ("even", "odd")[i % 2]} for i in range(300)]
        >>> found = prequential.labels(rows, "parity", config=prequential.preset(1))
        >>> found.n_labels, found.online_bits < found.entropy_bits
        (2, True)
    """
    check_arguments(config=config, runtime=runtime, on_progress=on_progress)
    for name, value in {"label": label, "given_field": given_field}.items():
        if not (isinstance(value, str) or (value is None and name == "given_field")):
            raise wrong_argument(name, value, "the name of a field")
    read = read_rows(rows, label, given_field)
    return label_cost(read, config or preset(DEFAULT_PRESET), runtime or Runtime(), on_progress=on_progress)


def read_rows(source: RowsLike, code: str, given: str | None = None) -> list[tuple[bytes, bytes]]:
    """Input and label of each row. given: the field of the input; None: all fields but `code`.

    Raises ConfigError if both are one field, and CorpusError, with the row, for a line without the fields.
    """
    if given == code:
        raise ConfigError(f"the labels are the inputs: {code!r} cannot be both coded and given")
    path = source if isinstance(source, str | os.PathLike) else "rows"
    rows, number = [], 0
    try:
        with _opened(source) as file:
            for line in bounded_lines(file, MAX_ROW_BYTES):
                if line.strip():  # as in shards of lines
                    rows.append(_row(line, code, given))
                number += 1
    except OSError as error:
        raise CorpusError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise CorpusError(f"{str(path)!r}, line {number + 1}: {error}") from error
    if not rows:
        raise CorpusError(f"{str(path)!r} has no rows")
    return rows


def _opened(source: Any) -> Any:
    """The JSON lines as an open file. Raises ConfigError for what cannot be rows, ValueError for values that JSON lacks."""
    if isinstance(source, str | os.PathLike):
        return nullcontext(sys.stdin.buffer) if source == "-" else open_regular(Path(source))
    if len(columns := list(map(str, getattr(source, "columns", ())))) > len(set(columns)):
        raise ConfigError("two columns have one name, so one of them would be lost: rename it")
    held: Any = source.to_dict("records") if hasattr(source, "columns") else in_memory(source)
    if isinstance(held, list | tuple) and all(isinstance(row, Mapping) for row in held):
        held = "".join(_as_json(dict(row)) + "\n" for row in held).encode("utf-8", "surrogatepass")
    if not isinstance(held, bytes | bytearray | memoryview):
        raise wrong_argument("rows", source, ROWS)
    return io.BytesIO(held)


def _row(line: bytes, code: str, given: str | None) -> tuple[bytes, bytes]:
    """Input and label. Raises ValueError."""
    try:
        values = parse_row(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    for name in (code, given):
        if not isinstance(values, dict) or (name is not None and name not in values):
            raise ValueError(f"no field {name!r}")
    inputs = values[given] if given is not None else {k: v for k, v in values.items() if k != code}
    return _bytes(inputs if isinstance(inputs, str) else _as_json(inputs)), _bytes(spelled(values[code]))


def spelled(value: Any) -> str:
    """A label in one line. `value_of` gives it back. Raises ValueError for an integer that cannot be written."""
    stands_for_itself = isinstance(value, str) and "\n" not in value and value_of(value) is value
    return value if stands_for_itself else _as_json(value)


def value_of(text: str) -> Any:
    """The label that a line means: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_unwritable)


def _unwritable(value: Any) -> NoReturn:
    is_long = isinstance(value, LongInteger)
    what = f"an integer has more than {MAX_ROW_DIGITS} digits" if is_long else f"JSON has no {type(value).__name__}"
    raise ValueError(f"{what}; write it as a text")


def label_cost(
    rows: Sequence[tuple[bytes, bytes]],
    config: Config,
    runtime: Runtime,
    *,
    percentages: Sequence[float] = PERCENTAGES,
    on_progress: OnProgress = ignore,
) -> LabelCost:
    """The cost of the labels of rows (input, label), at least one, under a fresh learner. Takes as long as two runs."""
    stream = b"".join(source + b"\t" + label + b"\n" for source, label in rows)
    ends = np.cumsum([len(source) + len(label) + 2 for source, label in rows])
    starts = ends - np.array([len(label) + 1 for _, label in rows])
    symbols = np.frombuffer(stream, np.uint8)
    costs = np.concatenate(
        [bits for bits in reported(code_lengths(runtime.learner(config), symbols), symbols, on_progress)]
    )
    labels = [label for _, label in rows]
    n_labels = len(set(labels))
    cuts = sorted({max(1, round(len(rows) * each / 100)) for each in percentages} | {len(rows)})
    blocks = _block_bits(symbols, starts, ends, cuts, math.log2(n_labels), runtime.learner(config))
    return LabelCost(
        config=config,
        n_labels=n_labels,
        online=_sums(costs, starts, ends),
        block_ends=tuple(cuts),
        block_bits=tuple(blocks),
        marginal_bits=marginal_bits(labels),
        entropy_bits=entropy_bits(labels),
    )


def _block_bits(
    symbols: NDArray[np.uint8], starts: Places, ends: Places, cuts: Sequence[int], uniform: float, learner: Learner
) -> Iterator[float]:
    """The bits of each block. The learner learns the rows of a block after they were scored."""
    yield cuts[0] * uniform
    for first, last in pairwise((0, *cuts)):
        part = slice(int(ends[first - 1]) if first else 0, int(ends[last - 1]))
        if first:
            frozen = np.concatenate([bits for bits in code_lengths(FrozenLearner(learner), symbols[part])])  # type: ignore[arg-type]
            yield float(_sums(frozen, starts[first:last] - part.start, ends[first:last] - part.start).sum())
        if last < len(ends):
            for _ in code_lengths(learner, symbols[part]):
                pass
            finish(learner)


def _sums(costs: NDArray[np.float64], starts: Places, ends: Places) -> NDArray[np.float64]:
    total = np.concatenate(([0.0], np.cumsum(costs)))
    return np.asarray(total[ends] - total[starts])


def marginal_bits(labels: Sequence[bytes]) -> float:
    """The adaptive code of labels without inputs, in bits: each costs -log2 (n_k + 1/2) / (n + K / 2)."""
    counts, n_kinds, bits = Counter[bytes](), len(set(labels)), 0.0
    for n, label in enumerate(labels):
        bits -= math.log2((counts[label] + 0.5) / (n + n_kinds / 2))
        counts[label] += 1
    return bits


def entropy_bits(labels: Sequence[bytes]) -> float:
    """n times the entropy of the frequencies of n labels, in bits."""
    return sum(-n * math.log2(n / len(labels)) for n in Counter(labels).values())


def label_record(cost: LabelCost, runtime: Runtime) -> dict[str, Any]:
    """The costs as JSON values."""
    blocks_of = zip(cost.block_ends, cost.block_bits, strict=True)
    return {
        "schema": SCHEMA,
        "kind": "labels",
        "config": cost.config.to_dict(),
        "n_rows": cost.n_rows,
        "n_labels": cost.n_labels,
        "online_bits": cost.online_bits,
        "blocks": [{"end": end, "bits": bits} for end, bits in blocks_of],
        "block_code_bits": sum(cost.block_bits),
        "marginal_bits": cost.marginal_bits,
        "entropy_bits": cost.entropy_bits,
        "uniform_bits": cost.uniform_bits,
        "environment": environment(runtime, cost.config),
    }


def _conclusion(cost: LabelCost) -> str:
    """Whether the inputs tell the labels: a code that ignores them saves s bits of the entropy at most once in 2**s times."""
    saved_bits = cost.entropy_bits - cost.online_bits
    if saved_bits < PROOF_BITS:
        return "Nothing shows that these inputs tell the labels: give more rows, other inputs or another learner."
    share = saved_bits / cost.entropy_bits
    return f"If the rows are in random order, their inputs tell the labels: {saved_bits:,.0f} bits, {share:.0%} of the entropy."
