"""The parts of a code length as values, as JSON, as a table and as text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prequential.decomposition.expected import LEVEL, MIN_CELLS, ExpectedCurve, curve_record
from prequential.evaluation.curves import Curve, import_pandas
from prequential.printable import format_table, printable

if TYPE_CHECKING:
    import pandas

ROWS = {
    "code_bits": "prequential code length",
    "data_bits": "= data, at the expected final rate",
    "learning_bits": "+ learning (epiplexity, estimated)",
    "hindsight_bits": "hindsight, without the last weights",
    "regret_bits": "regret to hindsight",
    "weights_bits": "the last weights, as int8 levels",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Decomposition:
    """What a code length consists of. str() is the report of the command.

    online: the learning curve. expected: the law fitted to it, with `learning_bits`, `final_rate` and `surplus_bits(epsilon)`;
    each has `point`, `low` and `high`. epsilons: rates in bits per byte. hindsight: the curve under the last weights, which take
    weights_bytes; None for a run. about: JSON values of corpus and learner.

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
    epsilons: tuple[float, ...] = ()
    hindsight: Curve | None = None
    weights_bytes: int | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The figures, corpus and learner as JSON values."""
        record = {"kind": "decomposition", **self.about, **curve_record(self.expected, self.epsilons)}
        if self.hindsight is not None and self.weights_bytes is not None:
            hindsight = float(self.hindsight.bits[-1])
            record |= {"hindsight_bits": hindsight, "regret_bits": float(self.online.bits[-1]) - hindsight}
            record |= {"weights_bits": 8 * self.weights_bytes}
        return record

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each part: bits, low_bits and high_bits (90 %; missing where there are none), and bits_per_byte.

        Raises MissingDependencyError without pandas.
        """
        rows = [
            {
                "part": name,
                "bits": point,
                "low_bits": low,
                "high_bits": high,
                "bits_per_byte": point / self.expected.n_bytes,
            }
            for name, (point, low, high) in _parts(self.to_dict())
        ]
        return import_pandas().DataFrame(rows)

    def __str__(self) -> str:
        record, columns = self.to_dict(), ("part", "bits", "bits/byte", f"{LEVEL:.0%} from", "to")
        titles = [ROWS[name] for name in ROWS if name in record]
        titles += [f"surplus over {epsilon:g} bits/byte" for epsilon in self.epsilons]
        never = len(titles) - len(self.epsilons)
        rows = [
            _row(title, self.expected.n_bytes, part) for title, (_, part) in zip(titles, _parts(record), strict=True)
        ]
        for i, threshold in enumerate(record["thresholds"], never):
            if not threshold["is_reached"]:  # only what this text shows of the surplus is known
                rows[i] = [rows[i][0], f"> {rows[i][1]}", f"> {rows[i][2]}", "", ""]
        notes = [self.note] * bool(self.note)
        return "\n\n".join([printable(self.title), format_table(columns, rows), *notes, _conclusion(record)])

    def __repr__(self) -> str:
        return f"<{_conclusion(self.to_dict())}>"


Part = tuple[float, float | None, float | None]


def _parts(record: dict[str, Any]) -> Iterator[tuple[str, Part]]:
    """Name, and point, low and high in bits, of each part and each surplus."""
    found = {name.removesuffix("_bits"): record[name] for name in ROWS if name in record}
    found |= {f"surplus over {each['epsilon']:g}": each["surplus_bits"] for each in record["thresholds"]}
    for name, bits in found.items():
        yield name, (bits["point"], bits["low"], bits["high"]) if isinstance(bits, dict) else (bits, None, None)


def _row(title: str, n_bytes: int, part: Part) -> list[str]:
    """An end that is not known is empty."""
    point, *ends = ("" if bits is None else f"{bits:,.0f}" for bits in part)
    return [title, point, f"{part[0] / n_bytes:.4f}", *ends]


def _conclusion(record: dict[str, Any]) -> str:
    if changes := record["changes"]:
        where = ", ".join(f"{each['byte']:,} ({each['bits_per_byte']:+.2f} bits/byte)" for each in changes)
        remedy = "give --orders 4" if "hindsight_bits" in record else "shuffle it"
        return f"warning: the text changes at byte {where}: split it there, or {remedy}, before you trust the parts."
    learning, rate = record["learning_bits"], record["final_bits_per_byte"]
    if learning["low"] is None:
        return f"Give a longer text: {record['n_cells']} cells are too few for intervals, {MIN_CELLS} are needed."
    low, high = (learning[end] / record["code_bits"] for end in ("low", "high"))
    paid = f"{max(low, 0):.0%} to {high:.0%} of the bits paid for learning" if high > 0 else "No bits paid for learning"
    return f"{paid}; expect {rate['low']:.2f} to {rate['high']:.2f} bits/byte of more such text."
