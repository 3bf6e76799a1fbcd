"""Differences between groups of runs: what a comparison found, as values, as a table and as text."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prequential.comparison.prediction import MIN_CELLS, Intervals
from prequential.evaluation.curves import Curve
from prequential.printable import format_table, printable

if TYPE_CHECKING:
    import pandas

GROUP_TITLES = ("", "learner", "runs", "seeds", "bits", "bits/byte")
DIFFERENCE_TITLES = ("", "bits", "bits/byte", "%")
MAX_SEEDS_LETTERS = 20


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Runs of one configuration, ascending by seed. bits: ideal code lengths. learner: its preset or own name."""

    label: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    config: Mapping[str, Any]
    bits: tuple[float, ...]
    curves: tuple[Curve, ...] = field(repr=False, compare=False)
    learner: str = ""

    @property
    def name(self) -> str:
        """The label with the learner, unless that is the label."""
        return f"{self.label} ({self.learner})" if self.learner not in ("", self.label) else self.label

    @property
    def mean_bits(self) -> float:
        """Mean ideal code length of the runs, in bits."""
        return math.fsum(self.bits) / len(self.bits)

    def to_dict(self) -> dict[str, Any]:
        """All but the curves, as JSON values."""
        lists = {name: list(getattr(self, name)) for name in ("runs", "seeds", "bits")}
        return {"label": self.label, "learner": self.learner, "config": dict(self.config), **lists}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A group compared with the reference. bits: other - reference over all bytes, exact if both groups have one run.

    intervals: of confidence and of prediction; None with fewer than MIN_CELLS cells. crossing_byte: from there on the other is
    below; 0: everywhere, None: never. n_bytes (n,) int64 and running_bits (n,) float64, both from 0 on: the difference so far, at
    every byte where a run ends a segment.
    """

    reference: RunGroup
    other: RunGroup
    bits: float
    intervals: Intervals | None
    crossing_byte: int | None
    n_bytes: NDArray[np.int64] = field(repr=False, compare=False)
    running_bits: NDArray[np.float64] = field(repr=False, compare=False)

    @property
    def is_none(self) -> bool:
        """Whether both cost the same up to every byte."""
        return not self.bits and not self.running_bits.any()

    @property
    def bits_per_byte(self) -> float:
        """The difference per byte of the corpus."""
        return self.bits / int(self.n_bytes[-1])

    @property
    def percent(self) -> float:
        """The difference in percent of the reference's ideal code length; 0 if that is 0."""
        return self.in_percent(self.bits)

    def in_percent(self, bits: float) -> float:
        """These bits in percent of the reference's ideal code length; 0 if that is 0."""
        return 100 * bits / self.reference.mean_bits if self.reference.mean_bits else 0.0

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as JSON values."""
        figures = {name: getattr(self, name) for name in ("bits", "bits_per_byte", "percent", "crossing_byte")}
        intervals = None if self.intervals is None else asdict(self.intervals)
        return {"reference": self.reference.label, "other": self.other.label, **figures, "intervals": intervals}


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Groups of runs over one corpus. The first group is the reference of every difference. str() is the report of the command.

    proof, rows: of reported runs, what they are and what is known about their data; None: both were coded from equal bytes.

    Examples:
        >>> import prequential
        >>> runs = prequential.read_runs("benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst")
        >>> found = prequential.compare(runs[:2], groups=["small", "large"])
        >>> found.to_frame()[["reference", "other", "n_cells"]].values.tolist()
        [['small', 'large', 78]]
    """

    corpus: Mapping[str, Any]
    groups: tuple[RunGroup, ...]
    differences: tuple[Difference, ...]
    proof: str | None = None
    rows: str | None = None

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each group but the first: bits, bits_per_byte and percent above it, and the intervals.

        mean_low_bits to mean_high_bits: of the expected difference on such text; text_low_bits to text_high_bits: of the
        difference on another such text; missing for short texts.
        """
        import pandas

        rows = [difference.to_dict() for difference in self.differences]
        return pandas.DataFrame([row | (row.pop("intervals") or {}) for row in rows])

    def __str__(self) -> str:
        corpus, groups, differences = self.corpus, self.groups, self.differences
        name, n_bytes = corpus.get("name") or "bytes", corpus["n_bytes"]
        reported = [] if self.rows is None else [[f"proof {self.proof}", f"rows  {self.rows}"]]
        group_rows = [
            [g.label, g.learner, str(len(g.runs)), _seeds(g), f"{g.mean_bits:,.1f}", f"{g.mean_bits / n_bytes:.4f}"]
            for g in groups
        ]
        rows = [
            [
                f"{d.other.label} - {d.reference.label}",
                f"{d.bits:+,.1f}",
                f"{d.bits_per_byte:+.5f}",
                f"{d.percent:+.3f}",
            ]
            for d in differences
        ]
        parts = [
            [f"corpus {name}, {n_bytes:,} bytes, BLAKE2b {corpus['blake2b'][:16]}"],
            *reported,
            format_table(GROUP_TITLES, group_rows).split("\n"),
            [f"{group.name} on {name}: {', '.join(group.runs)}" for group in groups],
            format_table(DIFFERENCE_TITLES, rows).split("\n"),
            *([f"{title:<20}{text}" for title, text in _details(each)] for each in differences),
            map(sentence, differences),
        ]
        return "\n\n".join("\n".join(map(printable, lines)) for lines in parts)

    def __repr__(self) -> str:
        return f"<{' '.join(map(sentence, self.differences))}>"

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as JSON values."""
        return {
            "kind": "comparison",
            "corpus": dict(self.corpus),
            "groups": [group.to_dict() for group in self.groups],
            "differences": [difference.to_dict() for difference in self.differences],
            **({} if self.rows is None else {"proof": self.proof, "rows": self.rows}),
        }


# ---- text


def _seeds(group: RunGroup) -> str:
    seeds = ",".join(map(str, group.seeds))
    return seeds if len(seeds) <= MAX_SEEDS_LETTERS else f"{seeds[:16]},..."


def _details(difference: Difference) -> Iterator[tuple[str, str]]:
    """(name, text) of each line about one difference."""
    a, b, byte, both = difference.reference, difference.other, difference.crossing_byte, difference.intervals
    place = f"not below {a.name} at the end" if byte is None else f"below {a.name} from byte {byte:,} to the end"
    yield f"{b.label} against {a.label}", f"{b.name} is {f'below {a.name} everywhere' if byte == 0 else place}"
    if both is not None:
        level = f"{100 * both.confidence:g} %"
        for kind, low, high, what in (
            ("confidence", both.mean_low_bits, both.mean_high_bits, both.mean_of),
            ("prediction", both.text_low_bits, both.text_high_bits, both.text_of),
        ):
            yield f"{level} {kind}", f"[{low:+,.1f}, {high:+,.1f}] bits: {what}"


def sentence(difference: Difference) -> str:
    """What the difference is and what to expect on another text, for a reader who decides by it."""
    a, b, both = difference.reference.label, difference.other.label, difference.intervals
    if difference.is_none:
        return f"{b} and {a} are equal: they cost the same everywhere."
    saved = -difference.percent
    if both is None:
        few = f"with fewer than {MIN_CELLS} segments it is too short to say more"
        return f"{b} needs {_fewer(saved, 1)} bits than {a} on this text; {few}."
    half, text = (difference.in_percent(high - difference.bits) for high in (both.mean_high_bits, both.text_high_bits))
    digits = min(4, max(1, -math.floor(math.log10(half)))) if half else 1
    claim = f"{b} needs {abs(saved):.{digits}f} ± {half:.{digits}f} % {'fewer' if saved >= 0 else 'more'} bits than {a}"
    doubt = ", so either may be the better" if abs(saved) <= half else ""
    low, high = sorted((saved - text, saved + text), key=abs)
    both_ways = f"{_fewer(low, digits)} to {_fewer(high, digits)}"
    expected = f"{abs(low):.{digits}f} to {abs(high):.{digits}f} %" if low * high > 0 else both_ways
    return f"{claim}{doubt}; expect {expected} on another such text."


def _fewer(saved: float, digits: int) -> str:
    return f"{abs(saved):.{digits}f} % {'fewer' if saved >= 0 else 'more'}"
