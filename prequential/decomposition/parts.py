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
        frame = import_pandas().DataFrame(
            _rows(self.to_dict()), columns=["part", "", ">", "bits", "low_bits", "high_bits"]
        )
        return frame.drop(columns=["", ">"]).assign(bits_per_byte=frame["bits"] / self.expected.n_bytes)

    def __str__(self) -> str:
        record, n_bytes = self.to_dict(), self.expected.n_bytes
        rows = [
            [
                title,
                f"{sign}{bits:,.0f}",
                f"{sign}{bits / n_bytes:.4f}",
                *("" if end is None else f"{end:,.0f}" for end in ends),
            ]
            for _, title, sign, bits, *ends in _rows(record)
        ]
        table = format_table(("part", "bits", "bits/byte", f"{LEVEL:.0%} from", "to"), rows)
        return "\n\n".join(filter(None, [printable(self.title), table, self.note, _conclusion(record)]))

    def __repr__(self) -> str:
        return f"<{_conclusion(self.to_dict())}>"


def _rows(record: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Name, title and sign of each part and each surplus; its point, and the ends of its interval or None, in bits."""
    for name, title in ROWS.items():
        if name in record:
            bits = record[name]
            yield (
                name.removesuffix("_bits"),
                title,
                "",
                *(bits.values() if isinstance(bits, dict) else (bits, None, None)),
            )
    for each in record["thresholds"]:
        name, (bits, *ends) = f"surplus over {each['epsilon']:g}", each["surplus_bits"].values()
        known = (
            ("", bits, *ends) if each["is_reached"] else ("> ", bits, None, None)
        )  # a part of it lies beyond this text
        yield name, f"{name} bits/byte", *known


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
