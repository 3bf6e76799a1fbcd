"""The description length of labels given their inputs: one field of each row is coded, the other is read and learned from.

A row becomes one line: the input, a tab, the label, a newline. The learner learns from all of it, but only the label and its
newline count. A decoder that has the inputs can follow, so the sum is a description length of the labels. A text stands as it is,
unless it could be read as JSON or has a line feed; it then stands as JSON, as all other values do. So no two labels look alike.

    online    sum of -log2 p(label i | input i, all rows before)
    marginal  the code of the labels without inputs: adaptive frequencies (n_k + 1/2) / (n + K / 2)
    entropy   n times the entropy of the frequencies
    uniform   log2 K for each row

The last three are told the K labels; the learner is not, and spells them.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.evaluation.curves import ShownAsTable, data_frame
from prequential.files import PathLike, open_regular
from prequential.files.strict_json import bounded_lines, parse_row
from prequential.learners.spec import code_lengths, reported
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.presets import preset
from prequential.online.coding import OnProgress, ignore
from prequential.online.runtime import Runtime
from prequential.printable import format_table
from prequential.records import environment

if TYPE_CHECKING:
    import pandas

RowsLike: TypeAlias = "PathLike | Sequence[Mapping[str, Any]] | pandas.DataFrame"

NAMES = {
    "online": "learner, online, given inputs",
    "marginal": "adaptive frequencies, no inputs",
    "entropy": "entropy of the frequencies",
    "uniform": "uniform",
}
PROOF_BITS = 10  # labels that are independent of their inputs save so many bits once in 1,024 times, or less often
MAX_ROW_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelCost(ShownAsTable):
    """Bits of n labels of n_labels kinds, given their inputs. str() is the report of the command.

    online (n,) float64: of each row. codes: the bits of each code by its name in the text above.

    Examples:
        >>> import numpy, prequential
        >>> codes = {"online": 49.5, "entropy": 99.0}
        >>> prequential.LabelCost(config=prequential.preset(1), n_labels=2, online=numpy.full(99, 0.5), codes=codes)
        <If the rows are in random order, their inputs tell the labels: 50 bits, 50% of the entropy.>
    """

    config: Config
    n_labels: int
    online: NDArray[np.float64]
    codes: dict[str, float]

    def to_frame(self) -> pandas.DataFrame:
        """A row for each code: bits and bits_per_label."""
        frame = data_frame({"code": list(self.codes), "bits": list(self.codes.values())})
        return frame.assign(bits_per_label=frame["bits"] / len(self.online))

    def __str__(self) -> str:
        n, uniform_bits = len(self.online), self.codes["uniform"]
        rows = [
            [NAMES[code], f"{bits:,.0f}", f"{bits / n:.4f}", f"{uniform_bits / bits:.2f}" if bits > 0 else "-"]
            for code, bits in self.codes.items()
        ]
        sizes = format_table(("code", "bits", "bits/label", "uniform / code"), rows)
        return f"{n:,} labels of {self.n_labels} kinds\n\n{sizes}\n\n{self._conclusion()}"

    def __repr__(self) -> str:
        return f"<{self._conclusion()}>"

    def _conclusion(self) -> str:
        """Whether the inputs tell the labels: a code that ignores them saves s bits of the entropy at most once in 2**s times."""
        entropy_bits = self.codes["entropy"]
        saved_bits = entropy_bits - self.codes["online"]
        if saved_bits < PROOF_BITS:
            return "Nothing shows that these inputs tell the labels: give more rows, other inputs or another learner."
        share = f"{saved_bits:,.0f} bits, {saved_bits / entropy_bits:.0%} of the entropy"
        return f"If the rows are in random order, their inputs tell the labels: {share}."


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

    rows: the name of a file of JSON lines ("-": standard input), a list of dicts, or a data frame.
    label: the field that costs bits. given_field: the one that is read (default: all others). config: of a fresh learner
    (default: preset 5). docs/LEARNERS.md explains the codes.

    Raises ConfigError for a wrong argument, and CorpusError for rows without these fields.

    Examples:
        >>> import prequential
        >>> rows = [{"n": i, "parity": ("even", "odd")[i % 2]} for i in range(300)]
        >>> cost = prequential.labels(rows, "parity", config=prequential.preset(1))
        >>> cost.n_labels, cost.codes["online"] < cost.codes["entropy"]
        (2, True)
    """
    check_arguments(label=label, given_field=given_field, config=config, runtime=runtime, on_progress=on_progress)
    config, runtime, read = config or preset(), runtime or Runtime(), read_rows(rows, label, given_field)
    symbols = np.frombuffer(b"".join(given + b"\t" + label + b"\n" for given, label in read), np.uint8)
    ends = np.cumsum([len(given) + len(label) + 2 for given, label in read])
    starts = ends - np.array([len(label) + 1 for _, label in read])
    costs = np.concatenate(list(reported(code_lengths(runtime.learner(config), symbols), symbols, on_progress)))
    total = np.concatenate(([0.0], np.cumsum(costs)))
    online, coded = np.asarray(total[ends] - total[starts]), [label for _, label in read]
    codes = {"online": float(online.sum()), **codes_without_inputs(coded)}
    return LabelCost(config=config, n_labels=len(set(coded)), online=online, codes=codes)


def read_rows(source: RowsLike, code: str, given: str | None = None) -> list[tuple[bytes, bytes]]:
    """Input and label of each row. given: the field of the input; None: all fields but `code`.

    Raises ConfigError if both are one field, and CorpusError, with the row, for a line without the fields.
    """
    if given == code:
        raise ConfigError(f"the labels are the inputs: {code!r} cannot be both coded and given")
    path = repr(str(source)) if isinstance(source, str | os.PathLike) else "rows"
    rows, number = [], 0
    try:
        for values in _values(source):
            if values is not None:
                rows.append(_row(values, code, given))
            number += 1
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise CorpusError(f"{path}, line {number + 1}: {error}") from error
    if not rows:
        raise CorpusError(f"{path} has no rows")
    return rows


def _values(source: Any) -> Iterator[Any]:
    """Each row, None for an empty line. Raises ConfigError for what cannot be rows, ValueError for a line that is not JSON."""
    if not isinstance(source, str | os.PathLike):
        rows = source.to_dict("records") if hasattr(source, "columns") else source
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            raise wrong_argument("rows", source, "the name of a file of JSON lines, a list of dicts, or a data frame")
        yield from rows
        return
    with nullcontext(sys.stdin.buffer) if source == "-" else open_regular(Path(source)) as file:
        for line in bounded_lines(file, MAX_ROW_BYTES):
            try:
                yield parse_row(line) if line.strip() else None  # as in shards of lines
            except ValueError as error:
                raise ValueError(f"not JSON: {error}") from error


def _row(values: Any, code: str, given: str | None) -> tuple[bytes, bytes]:
    """Input and label. Raises ValueError for a missing field, TypeError for a value that JSON does not have."""
    for name in (code, given):
        if not isinstance(values, Mapping) or (name is not None and name not in values):
            raise ValueError(f"no field {name!r}")
    inputs = values[given] if given is not None else {k: v for k, v in values.items() if k != code}
    texts = inputs if isinstance(inputs, str) else _as_json(inputs), spelled(values[code])
    text, label = (each.encode("utf-8", "surrogatepass") for each in texts)
    return text, label


def spelled(value: Any) -> str:
    """A label in one line. `value_of` gives it back."""
    stands_for_itself = isinstance(value, str) and "\n" not in value and value_of(value) is value
    return value if stands_for_itself else _as_json(value)


def value_of(text: str) -> Any:
    """The label that a line means: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def codes_without_inputs(labels: Sequence[bytes]) -> dict[str, float]:
    """The bits of labels under the codes that know nothing of their inputs, by the names in the text above."""
    totals, counts, marginal_bits = Counter(labels), Counter[bytes](), 0.0
    for n, label in enumerate(labels):
        marginal_bits -= math.log2((counts[label] + 0.5) / (n + len(totals) / 2))
        counts[label] += 1
    entropy_bits = sum(-n * math.log2(n / len(labels)) for n in totals.values())
    return {"marginal": marginal_bits, "entropy": entropy_bits, "uniform": len(labels) * math.log2(len(totals))}


def label_record(cost: LabelCost, runtime: Runtime) -> dict[str, Any]:
    """The costs as JSON values."""
    return {
        "schema": 1,
        "kind": "labels",
        "config": cost.config.to_dict(),
        "n_rows": len(cost.online),
        "n_labels": cost.n_labels,
        **{f"{name}_bits": bits for name, bits in cost.codes.items()},
        "environment": environment(runtime, cost.config),
    }
