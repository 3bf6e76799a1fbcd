"""The parts of a code length as values, as JSON, as a table and as text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prequential.decomposition.expected import ExpectedCurve
from prequential.evaluation.curves import Curve
from prequential.printable import format_table, printable

if TYPE_CHECKING:
    import pandas

ROWS = {
    "code_bits": "prequential code length",
    "hindsight_bits": "hindsight, without the last weights",
    "regret_bits": "regret to hindsight",
    "weights_bits": "the last weights, as int8 levels",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Decomposition:
    """What a code length consists of. str() is the report of the command.

    online: the learning curve. expected: a law fitted to it; it is not reported, because its intervals miss the truth where the
    learning rate decays at the end. hindsight: the curve under the last weights, which take weights_bytes; None for a run. about:
    JSON values of corpus and learner.

    Examples:
        >>> import prequential
        >>> run = prequential.read_runs("benchmarks/forecasts/enwik8-contexts/ladder.jsonl")[0]
        >>> found = prequential.decompose(run)
        >>> round(found.expected.code_bits) == round(found.to_dict()["code_bits"]), found.hindsight
        (True, None)
    """

    title: str
    about: Mapping[str, Any]
    online: Curve
    expected: ExpectedCurve
    hindsight: Curve | None = None
    weights_bytes: int | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The figures, corpus and learner as JSON values."""
        n_bytes, code_bits = int(self.online.n_bytes[-1]), float(self.online.bits[-1])
        before, last = (np.diff(self.online.at(n_bytes * np.array([0.8, 0.9, 1.0]))) / (0.1 * n_bytes)).tolist()
        record = {"kind": "decomposition", **self.about, "n_bytes": n_bytes, "code_bits": code_bits}
        record |= {"last_tenth_bits_per_byte": last, "tenth_before_bits_per_byte": before}
        if self.hindsight is not None and self.weights_bytes is not None:
            hindsight = float(self.hindsight.bits[-1])
            record |= {"hindsight_bits": hindsight, "regret_bits": code_bits - hindsight}
            record |= {"weights_bits": 8 * self.weights_bytes}
        return record

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each part: bits and bits_per_byte."""
        import pandas

        record = self.to_dict()
        rows = [(name.removesuffix("_bits"), record[name]) for name in ROWS if name in record]
        frame = pandas.DataFrame(rows, columns=["part", "bits"])
        return frame.assign(bits_per_byte=frame["bits"] / record["n_bytes"])

    def __str__(self) -> str:
        record = self.to_dict()
        rows = [
            (title, f"{record[name]:,.0f}", f"{record[name] / record['n_bytes']:.4f}")
            for name, title in ROWS.items()
            if name in record
        ]
        table = format_table(("part", "bits", "bits/byte"), rows)
        return "\n\n".join(filter(None, [printable(self.title), table, self.note, _conclusion(record)]))

    def __repr__(self) -> str:
        return f"<{_conclusion(self.to_dict())}>"


def _conclusion(record: Mapping[str, Any]) -> str:
    mean, last = record["code_bits"] / record["n_bytes"], record["last_tenth_bits_per_byte"]
    before = record["tenth_before_bits_per_byte"]
    return f"{mean:.2f} bits/byte; the last tenth of the bytes {last:.2f}, the tenth before it {before:.2f}."
