"""Differences between groups of runs: what a comparison found, as values, as a table and as text."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prequential.comparison.clusters import LEVEL, MIN_CLUSTERS, Clusters, by_holm
from prequential.comparison.data_multiple import EqualLoss
from prequential.comparison.evidence import MIN_EFFECTIVE, N_PARTS, Interval
from prequential.evaluation.curves import Curve, ShownAsTable
from prequential.printable import format_table, printable

if TYPE_CHECKING:
    import pandas

FRAME_COLUMNS = (
    "reference", "other", "bits", "bits_per_byte", "percent", "crossing_byte", "n_documents", "seeds_low_percent",
    "seeds_high_percent", "texts_low_percent", "texts_high_percent", "eighths",
)  # fmt: skip
SEEDS_DIFFER = 1.4  # percent: the largest of 48 differences of two seeds of one small GPT, on ten ladders
SEEDS_DOUBT = "seeds could make this difference"
MOST_DIVIDED = 6  # eighths of one sign: with more, the text is of one mind


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Runs of one configuration, by seed. bits: ideal code lengths. learner: its name. documents: their mean costs, if known."""

    label: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    config: Mapping[str, Any]
    bits: tuple[float, ...]
    curves: tuple[Curve, ...] = field(repr=False, compare=False)
    documents: Clusters | None = field(default=None, repr=False, compare=False)
    learner: str = ""

    @property
    def name(self) -> str:
        """The label with the learner, unless that is the label."""
        return f"{self.label} ({self.learner})" if self.learner not in ("", self.label) else self.label

    @property
    def has_seeds(self) -> bool:
        """Whether a seed may change its figures: a mixer alone has nothing random."""
        return self.config.get("gpt", True) is not None

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

    parts_percent: in each eighth of the text; () if segments are long. seeds, texts: what it says about others; None: nothing.
    n_documents, n_effective: of the text, and how many of equal length it is worth; 0 and infinite if it has none.
    crossing_byte: from there on the other is below; 0: everywhere, None: never. n_bytes (n,) int64 and running_bits (n,) float64,
    both from 0 on: the difference so far, at every byte where a run ends a segment. equal_loss: of training runs.
    """

    reference: RunGroup
    other: RunGroup
    bits: float
    parts_percent: tuple[float, ...]
    seeds: Interval | None
    texts: Interval | None
    n_documents: int
    n_effective: float
    crossing_byte: int | None
    n_bytes: NDArray[np.int64] = field(repr=False, compare=False)
    running_bits: NDArray[np.float64] = field(repr=False, compare=False)
    equal_loss: EqualLoss | None = field(default=None, repr=False, compare=False)

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
        return 100 * self.bits / self.reference.mean_bits if self.reference.mean_bits else 0.0

    @property
    def needs_seeds(self) -> bool:
        """Whether a second seed could turn it: one seed each, and a small difference of learners that have seeds."""
        has_seeds = self.reference.has_seeds or self.other.has_seeds
        return self.seeds is None and has_seeds and abs(self.percent) < SEEDS_DIFFER

    @property
    def n_same_sign(self) -> int:
        """The eighths of the text in which the difference has its sign."""
        return int((np.sign(self.parts_percent) == np.sign(self.bits)).sum())

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as JSON values."""
        figures = {name: getattr(self, name) for name in ("bits", "bits_per_byte", "percent", "crossing_byte")}
        figures |= {"parts_percent": list(self.parts_percent), "n_documents": self.n_documents}
        answers = {name: value and asdict(value) for name, value in (("seeds", self.seeds), ("texts", self.texts))}
        equal = self.equal_loss and {"ratio": self.equal_loss.ratio, "bits_per_byte": self.equal_loss.bits_per_byte}
        names = {"reference": self.reference.label, "other": self.other.label}
        return {**names, **figures, **answers, "equal_loss": equal}


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(ShownAsTable):
    """Groups of runs over one corpus. The first group is the reference of every difference. str() is the report of the command.

    proof, rows: of reported runs, what they are and what is known about their data; None: both were coded from equal bytes.
    sources: name, bytes and the mean bits of each group of runs, of the parts of the data that training loops named.

    Examples:
        >>> import prequential
        >>> runs = prequential.read_runs("benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst")
        >>> comparison = prequential.compare(runs[:2], groups=["small", "large"])
        >>> comparison.to_frame()[["reference", "other", "eighths"]].values.tolist()
        [['small', 'large', 5]]
    """

    corpus: Mapping[str, Any]
    groups: tuple[RunGroup, ...]
    differences: tuple[Difference, ...]
    proof: str | None = None
    rows: str | None = None
    sources: tuple[tuple[str, int, tuple[float, ...]], ...] = ()

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each group but the first: bits, bits_per_byte and percent above it, and the eighths of the text that agree.

        seeds_low_percent, seeds_high_percent, texts_low_percent, texts_high_percent: the intervals; missing where there is none.
        """
        import pandas

        rows = [difference.to_dict() | {"eighths": difference.n_same_sign} for difference in self.differences]
        return pandas.json_normalize(rows, sep="_").reindex(columns=FRAME_COLUMNS)

    def __str__(self) -> str:
        corpus, groups, differences = self.corpus, self.groups, self.differences
        name, n_bytes = corpus.get("name") or "bytes", corpus["n_bytes"]
        reported = [] if self.rows is None else [[f"proof {self.proof}", f"rows  {self.rows}"]]
        group_rows = []
        for g in groups:
            seeds, rate = ",".join(map(str, g.seeds)), f"{g.mean_bits / n_bytes:.4f}"
            group_rows.append([g.label, g.learner, str(len(g.runs)), seeds, f"{g.mean_bits:,.1f}", rate])
        names = [f"{d.other.label} - {d.reference.label}" for d in differences]
        figures = [[f"{d.bits:+,.1f}", f"{d.bits_per_byte:+.5f}", f"{d.percent:+.3f}"] for d in differences]
        rows = [[name, *row] for name, row in zip(names, figures, strict=True)]
        parts = [
            [f"corpus {name}, {n_bytes:,} bytes, BLAKE2b {corpus['blake2b'][:16]}"],
            *reported,
            format_table(("", "learner", "runs", "seeds", "bits", "bits/byte"), group_rows).split("\n"),
            [f"{group.name} on {name}: {', '.join(group.runs)}" for group in groups],
            format_table(("", "bits", "bits/byte", "%"), rows).split("\n"),
            *([format_table(*self._source_table()).split("\n")] if self.sources else []),
            *([f"{title:<20}{text}" for title, text in _details(each)] for each in differences),
            map(sentence, differences),
        ]
        return "\n\n".join("\n".join(map(printable, lines)) for lines in parts)

    def _source_table(self) -> tuple[list[str], list[list[str]]]:
        """Titles and rows: bits per byte of each group of runs, by the source of rows."""
        labels, rows = [group.label for group in self.groups], []
        for name, n, bits in self.sources:
            more = [f"{100 * (each / bits[0] - 1):+.3f}" if bits[0] else "" for each in bits[1:]]
            rows.append([name, f"{n:,}", *(f"{each / n:.4f}" for each in bits), *more])
        return ["group", "bytes", *(f"{x} b/B" for x in labels), *(f"{x} - {labels[0]} %" for x in labels[1:])], rows

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
            **({"sources": [list(each) for each in self.sources]} if self.sources else {}),
        }


# ---- text


def _details(difference: Difference) -> Iterator[tuple[str, str]]:
    """(name, text) of each line about one difference."""
    a, b, byte = difference.reference, difference.other, difference.crossing_byte
    place = f"not below {a.name} at the end" if byte is None else f"below {a.name} from byte {byte:,} to the end"
    yield f"{b.label} against {a.label}", f"{b.name} is {f'below {a.name} everywhere' if byte == 0 else place}"
    if parts := difference.parts_percent:
        yield "eighths of the text", " ".join(f"{percent:+.1f}" for percent in parts) + " %"
    if equal := difference.equal_loss:
        more = f"{a.label} needs {equal.ratio:.2f} times the data of {b.label}"
        yield "data at equal loss", f"{more} to reach {equal.bits_per_byte:.4f} bits/byte"


def sentence(difference: Difference) -> str:
    """What the difference says: on this text, with other seeds, on other texts. For a reader who decides by it."""
    a, b, percent = difference.reference, difference.other, difference.percent
    if difference.is_none:
        return f"{b.label} and {a.label} are equal: they cost the same everywhere."
    same, parts = difference.n_same_sign, difference.parts_percent
    how = "exact" if len(a.runs) == len(b.runs) == 1 else "means over seeds"
    lines = [
        f"On this text {b.label} needs {abs(percent):.2f} % {'fewer' if percent < 0 else 'more'} bits than {a.label} ({how})"
        + (f", in {same} of {N_PARTS} eighths of it ({min(parts):+.1f} to {max(parts):+.1f} %)" if parts else "")
        + (": the text is divided." if parts and same <= MOST_DIVIDED else ".")
    ]
    if seeds := difference.seeds:
        doubt = "" if seeds.decides else f": {by_holm(seeds.low_percent, seeds.high_percent)}{SEEDS_DOUBT}"
        lines.append(f"Over other seeds: {seeds.low_percent:+.2f} to {seeds.high_percent:+.2f} % ({LEVEL}){doubt}.")
    elif difference.needs_seeds:
        lines.append(f"One seed each, and two seeds of one GPT differ by up to {SEEDS_DIFFER} %: run a second seed.")
    if 0 < difference.n_documents < MIN_CLUSTERS:
        lines.append(f"{difference.n_documents} documents are too few to speak of other texts.")
    elif difference.n_effective < MIN_EFFECTIVE:
        worth = f"{difference.n_effective:.1f} equal documents"
        lines.append(f"The text is worth {worth}: too few to speak of other texts.")
    elif texts := difference.texts:
        turns = texts.decides and texts.low_percent * percent < 0 and texts.high_percent * percent < 0
        doubt = ": a few long documents turn this text" * turns
        if not texts.decides:
            doubt = f": {by_holm(texts.low_percent, texts.high_percent)}measure a second text"
        ends = f"{texts.low_percent:+.1f} to {texts.high_percent:+.1f} %"
        lines.append(f"For other texts of this kind: {ends} ({LEVEL}, by {texts.over}){doubt}.")
    return " ".join(lines)
