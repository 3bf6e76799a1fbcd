"""A comparison of runs as text: the groups, the differences, then each difference in detail."""

from prequential.comparison.compare import Comparison, Difference, RunGroup
from prequential.comparison.intervals import MIN_CELLS, Interval
from prequential.comparison.prediction import HURST, LongMemory
from prequential.evaluation.summary import what_is_measured
from prequential.printable import format_table, printable

RUN_TITLES = ("", "learner", "runs", "seeds", "bits", "bits/byte")
DIFFERENCE_TITLES = ("", "bits", "bits/byte", "%")
MAX_SEEDS_LETTERS = 20


def format_comparison(comparison: Comparison) -> str:
    """The complete report, without a final newline."""
    corpus, groups = comparison.corpus, comparison.groups
    name = corpus.get("name") or "bytes"
    last = what_is_measured([group.is_coded for group in groups], "bits")
    parts = [
        printable(f"corpus {name}, {corpus['n_bytes']:,} bytes, BLAKE2b {corpus['blake2b'][:16]}"),
        format_table((*RUN_TITLES, last), [_group_row(group, corpus["n_bytes"]) for group in groups]),
        "\n".join(printable(f"{group.name} on {name}: {', '.join(group.runs)}") for group in groups),
        format_table(
            (*DIFFERENCE_TITLES, last), [_difference_row(difference) for difference in comparison.differences]
        ),
        *("\n".join(printable(f"{name:<20}{text}") for name, text in _details(d)) for d in comparison.differences),
        f"If this comparison is used to choose the best of these {comparison.n_runs} runs, the choice costs log2 "
        f"{comparison.n_runs} = {comparison.choice_bits:.2f} bits more.",
    ]
    return "\n\n".join(parts)


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


def _details(difference: Difference) -> list[tuple[str, str]]:
    """(name, text) of each line about one difference."""
    a, b = difference.reference.label, difference.other.label
    return [(f"{b} against {a}", _crossing(difference)), *_interval_lines(difference)]


def _crossing(difference: Difference) -> str:
    a, b, byte = difference.reference.name, difference.other.name, difference.crossing_byte
    if byte is None:
        return f"{b} is not below {a} at the end"
    return f"{b} is below {a} " + ("everywhere" if byte == 0 else f"from byte {byte:,} to the end")


def _interval_lines(difference: Difference) -> list[tuple[str, str]]:
    interval, long_memory = difference.interval, difference.long_memory
    if interval is None or long_memory is None:
        return [("intervals", f"none: the corpus has fewer than {MIN_CELLS} segments of the longest kind")]
    level = f"{100 * interval.bootstrap.confidence:g} %"
    expected = _bounds(long_memory.mean_low_bits, long_memory.mean_high_bits)
    another = _bounds(long_memory.text_low_bits, long_memory.text_high_bits)
    return [
        (f"{level} confidence", f"{expected}: {long_memory.mean_of}"),
        (f"{level} prediction", f"{another}: {long_memory.text_of}"),
        ("for long memory", _memory(long_memory)),
        (
            "if memory is short",
            f"{_bounds(interval.low_bits, interval.high_bits)}: {level} confidence by the bootstrap",
        ),
        ("resampled", _resampling(interval)),
    ]


def _bounds(low_bits: float, high_bits: float) -> str:
    return f"[{low_bits:+,.1f}, {high_bits:+,.1f}] bits"


def _memory(found: LongMemory) -> str:
    return (
        f"both intervals, with Hurst exponents from {HURST[0]} (no memory) to {HURST[-1]}; {found.n_cells} cells of "
        f"{found.cell_bytes:,} bytes"
    )


def _resampling(interval: Interval) -> str:
    bootstrap = interval.bootstrap
    return (
        f"{interval.n_cells:,} cells of {interval.cell_bytes:,} bytes, {bootstrap.n_resamples:,} times in moving blocks of "
        f"{interval.block_bytes:,} bytes, seed {bootstrap.seed}"
    )
