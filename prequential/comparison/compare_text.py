"""A comparison of runs as text."""

from collections.abc import Iterator, Sequence

from prequential.comparison.compare import Comparison, Difference, RunGroup
from prequential.comparison.intervals import MIN_CELLS
from prequential.comparison.prediction import HURST
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
    found, long = difference.interval, difference.long_memory
    if found is None or long is None:
        yield "intervals", f"none: the corpus has fewer than {MIN_CELLS} segments of the longest kind"
        return
    bootstrap = found.bootstrap
    level = f"{100 * bootstrap.confidence:g} %"
    yield f"{level} confidence", f"{_bounds(long.mean_low_bits, long.mean_high_bits)}: {long.mean_of}"
    yield f"{level} prediction", f"{_bounds(long.text_low_bits, long.text_high_bits)}: {long.text_of}"
    memory = f"both intervals, with Hurst exponents from {HURST[0]} (no memory) to {HURST[-1]}"
    yield "for long memory", f"{memory}; {long.n_cells} cells of {long.cell_bytes:,} bytes"
    yield "if memory is short", f"{_bounds(found.low_bits, found.high_bits)}: {level} confidence by the bootstrap"
    times = f"{bootstrap.n_resamples:,} times in moving blocks of {found.block_bytes:,} bytes, seed {bootstrap.seed}"
    yield "resampled", f"{found.n_cells:,} cells of {found.cell_bytes:,} bytes, {times}"


def _bounds(low_bits: float, high_bits: float) -> str:
    return f"[{low_bits:+,.1f}, {high_bits:+,.1f}] bits"
