"""prequential compare: by how many bits runs over the same corpus differ, how sure that is, and where it arose."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from prequential.cli.options import add_verbosity, count, n_bytes

if TYPE_CHECKING:
    from prequential.measure.study.compare import Bootstrap, Comparison, Difference, Group, Interval

RUN_TITLES = ("", "runs", "seeds", "bits", "bits/byte", "archive bits")
DIFFERENCE_TITLES = ("", "bits", "bits/byte", "%", "archive bits")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "compare",
        help="compare runs over the same corpus, with intervals",
        description="Compare runs that `evaluate` left. The first is the reference; runs that differ only in the seed are one.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder; two or more")
    parser.add_argument(
        "--group",
        metavar="LABEL,...",
        type=lambda text: text.split(","),
        help="a label for each run, equal for those to be averaged (default: those that differ only in the seed)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, not the report")
    interval = parser.add_argument_group("interval")
    interval.add_argument("--confidence", type=float, default=0.95, metavar="P", help="(default: %(default)s)")
    interval.add_argument("--resamples", type=count, default=1999, metavar="N", help="(default: %(default)s)")
    interval.add_argument(
        "--block", type=n_bytes, metavar="BYTES", help="bytes resampled together (default: from the autocorrelation)"
    )
    interval.add_argument("--seed", type=int, default=0, metavar="N", help="of the resampling (default: %(default)s)")
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compares the runs; returns the exit code. Raises CorpusError, ConfigError."""
    bootstrap = _bootstrap(args)
    from prequential.measure.study.compare import compare

    comparison = compare(args.runs, groups=args.group, bootstrap=bootstrap)
    print(json.dumps(comparison.to_dict(), allow_nan=False) if args.json else format_comparison(comparison))
    return 0


def _bootstrap(args: argparse.Namespace) -> Bootstrap:
    """Anything wrong with the options, as far as they alone say, ends the program as an error of usage."""
    if len(args.runs) < 2:
        args.parser.error("give two runs or more")
    if args.group is not None and (len(args.group) != len(args.runs) or not all(args.group)):
        args.parser.error(f"--group needs {len(args.runs)} labels, one for each run")
    from prequential.errors import ConfigError
    from prequential.measure.study.compare import Bootstrap

    try:
        return Bootstrap(confidence=args.confidence, n_resamples=args.resamples, seed=args.seed, block_bytes=args.block)
    except ConfigError as error:
        args.parser.error(str(error))
        raise


def format_comparison(comparison: Comparison) -> str:
    """As a person reads it: the groups, the differences, then each difference in detail; no final newline."""
    from prequential.measure.table import format_table

    corpus, groups = comparison.corpus, comparison.groups
    parts = [
        f"corpus {corpus.get('name') or 'bytes'}, {corpus['n_bytes']:,} bytes, BLAKE2b {corpus['blake2b'][:16]}",
        format_table(RUN_TITLES, [_group_row(group, corpus["n_bytes"]) for group in groups]),
        "\n".join(f"{group.label}: {', '.join(group.runs)}" for group in groups),
        format_table(DIFFERENCE_TITLES, [_difference_row(difference) for difference in comparison.differences]),
        *("\n".join(f"{name:<20}{text}" for name, text in _details(d)) for d in comparison.differences),
        f"The best of these {comparison.n_runs} runs, if chosen by this comparison, costs log2 {comparison.n_runs} = "
        f"{comparison.choice_bits:.2f} bits more.",
    ]
    return "\n\n".join(parts)


def _group_row(group: Group, n_bytes: int) -> list[str]:
    seeds = ",".join(map(str, group.seeds))
    return [
        group.label,
        str(len(group.runs)),
        seeds if len(seeds) <= 20 else f"{seeds[:16]},...",
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
    """Name and text of each line on one difference."""
    a, b = difference.reference.label, difference.other.label
    behind, ahead = difference.furthest_behind, difference.furthest_ahead
    return [
        (f"{b} against {a}", _crossing(difference)),
        ("furthest behind", f"{behind[1]:+,.1f} bits at byte {behind[0]:,}"),
        ("furthest ahead", f"{ahead[1]:+,.1f} bits at byte {ahead[0]:,}"),
        *_interval_lines(difference),
        ("e-value", _e_value(difference)),
    ]


def _crossing(difference: Difference) -> str:
    a, b, byte = difference.reference.label, difference.other.label, difference.crossing_byte
    if byte is None:
        return f"{b} is not below {a} at the end"
    return f"{b} is below {a} " + ("all along" if byte == 0 else f"for good from byte {byte:,} on")


def _interval_lines(difference: Difference) -> list[tuple[str, str]]:
    from prequential.measure.study.compare import MIN_CELLS

    interval = difference.interval
    if interval is None:
        return [("interval", f"none: the corpus has fewer than {MIN_CELLS} segments of the longest kind")]
    bounds = f"[{interval.low_bits:+,.1f}, {interval.high_bits:+,.1f}] bits"
    return [
        (f"{100 * interval.bootstrap.confidence:g} % interval", f"{bounds}: {interval.population}"),
        ("resampled", _resampling(interval)),
    ]


def _resampling(interval: Interval) -> str:
    how = interval.bootstrap
    return (
        f"{interval.n_cells:,} cells of {interval.cell_bytes:,} bytes ({interval.n_interpolated:,} of their ends "
        f"interpolated), {how.n_resamples:,} times in moving blocks of {interval.block_bytes:,} bytes "
        f"({'from the autocorrelation' if interval.automatic else 'as given'}), seed {how.seed}"
    )


def _e_value(difference: Difference) -> str:
    from prequential.measure.study.compare import bounded_e_value

    a, log2_e = difference.reference.label, difference.log2_e
    value = f"2^{log2_e:,.1f} ({bounded_e_value(log2_e)}) against 'the data follow {a}'"
    if log2_e <= 0:
        return f"{value}: no evidence"
    return f"{value}: if they did, it would reach this, wherever one stops, with probability 2^{-log2_e:,.1f} at most"
