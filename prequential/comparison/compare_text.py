"""A comparison of runs as text."""

import math
from collections.abc import Iterator, Sequence

from prequential.comparison.compare import Comparison, Difference, RunGroup
from prequential.comparison.prediction import MIN_CELLS
from prequential.evaluation.summary import what_is_measured
from prequential.printable import format_table, printable

RUN_TITLES = ("", "learner", "runs", "seeds", "bits", "bits/byte")
DIFFERENCE_TITLES = ("", "bits", "bits/byte", "%")
MAX_SEEDS_LETTERS = 20


def format_comparison(comparison: Comparison) -> str:
    """The complete report, without a final newline."""
    corpus, groups = comparison.corpus, comparison.groups
    name = corpus.get("name") or "bytes"
    last = [what_is_measured([group.is_coded for group in groups], "bits")] if comparison.rows is None else []
    parts = [
        printable(f"corpus {name}, {corpus['n_bytes']:,} bytes, BLAKE2b {corpus['blake2b'][:16]}"),
        *([] if comparison.rows is None else [f"proof {comparison.proof}\nrows  {comparison.rows}"]),
        _table((*RUN_TITLES, *last), [_group_row(group, corpus["n_bytes"]) for group in groups]),
        "\n".join(printable(f"{group.name} on {name}: {', '.join(group.runs)}") for group in groups),
        _table((*DIFFERENCE_TITLES, *last), [_difference_row(difference) for difference in comparison.differences]),
        *("\n".join(printable(f"{name:<20}{text}") for name, text in _details(d)) for d in comparison.differences),
        f"If this comparison is used to choose the best of these {comparison.n_runs} runs, the choice costs log2 "
        f"{comparison.n_runs} = {comparison.choice_bits:.2f} bits more.",
        "\n".join(printable(sentence(difference)) for difference in comparison.differences),
    ]
    return "\n\n".join(parts)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Without the last column of each row if it has no title: reported runs have one code length."""
    return format_table(titles, [row[: len(titles)] for row in rows])


def _group_row(group: RunGroup, n_bytes: int) -> list[str]:
    seeds = ",".join(map(str, group.seeds))
    return [
        group.label,
        group.learner,
        str(len(group.runs)),
        seeds if len(seeds) <= MAX_SEEDS_LETTERS else f"{seeds[:16]},...",
        f"{group.mean_bits:,.1f}",
        f"{group.mean_bits / n_bytes:.4f}",
        f"{group.mean_archive_bits:,.0f}",
    ]


def _difference_row(difference: Difference) -> list[str]:
    return [
        f"{difference.other.label} - {difference.reference.label}",
        f"{difference.bits:+,.1f}",
        f"{difference.bits_per_byte:+.5f}",
        f"{difference.percent:+.3f}",
        f"{difference.archive_bits:+,.0f}",
    ]


def _details(difference: Difference) -> Iterator[tuple[str, str]]:
    """(name, text) of each line about one difference."""
    a, b, byte = difference.reference, difference.other, difference.crossing_byte
    place = f"not below {a.name} at the end" if byte is None else f"below {a.name} from byte {byte:,} to the end"
    yield f"{b.label} against {a.label}", f"{b.name} is {f'below {a.name} everywhere' if byte == 0 else place}"
    found = difference.intervals
    if found is not None:
        level = f"{100 * found.confidence:g} %"
        yield f"{level} confidence", f"{_bounds(found.mean_low_bits, found.mean_high_bits)}: {found.mean_of}"
        yield f"{level} prediction", f"{_bounds(found.text_low_bits, found.text_high_bits)}: {found.text_of}"


def _bounds(low_bits: float, high_bits: float) -> str:
    return f"[{low_bits:+,.1f}, {high_bits:+,.1f}] bits"


def sentence(difference: Difference) -> str:
    """What the difference is and what to expect on another text, for a reader who decides by it."""
    a, b, found = difference.reference.label, difference.other.label, difference.intervals
    saved = -difference.percent
    if found is None:
        few = f"with fewer than {MIN_CELLS} segments it is too short to say more"
        return f"{b} needs {_fewer(saved, 1)} bits than {a} on this text; {few}."
    half, text = (
        difference.in_percent(high - difference.bits) for high in (found.mean_high_bits, found.text_high_bits)
    )
    digits = min(4, max(1, -math.floor(math.log10(half)))) if half else 1
    claim = f"{b} needs {abs(saved):.{digits}f} ± {half:.{digits}f} % {'fewer' if saved >= 0 else 'more'} bits than {a}"
    doubt = ", so either may be the better" if abs(saved) <= half else ""
    low, high = sorted((saved - text, saved + text), key=abs)
    both = f"{_fewer(low, digits)} to {_fewer(high, digits)}"
    same = f"{abs(low):.{digits}f} to {abs(high):.{digits}f} %"
    return f"{claim}{doubt}; expect {same if low * high > 0 else both} on another such text."


def _fewer(saved: float, digits: int) -> str:
    return f"{abs(saved):.{digits}f} % {'fewer' if saved >= 0 else 'more'}"
