"""prequential compare: the difference in bits between runs over the same corpus, its intervals, and where it arose."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.comparison.intervals import Bootstrap

SUMMARY = "compare runs over the same corpus, with confidence and prediction intervals"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "compare",
        description="Compare runs of `evaluate` over the same corpus. The first run is the reference. Runs that differ only in "
        "the seed form one group. Or compare records of `heldout` or `monorepo` over the same documents (docs/MEASURES.md).",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run folder, or FILE.jsonl:NUMBER of a record (without a number: the last); two or more",
    )
    parser.add_argument(
        "--group",
        metavar="LABEL,...",
        type=lambda text: text.split(","),
        help="one label for each run; runs with the same label are averaged (default: runs that differ only in the seed)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the report")
    interval = parser.add_argument_group("interval")
    interval.add_argument(
        "--confidence", type=float, default=0.95, metavar="P", help="level of the intervals (default: %(default)s)"
    )
    interval.add_argument(
        "--resamples",
        type=options.positive_integer,
        default=1999,
        metavar="N",
        help="number of bootstrap resamples (default: %(default)s)",
    )
    interval.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the resampling (default: %(default)s)"
    )
    options.add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compares the runs; returns the exit code. Raises CorpusError, ConfigError."""
    from prequential.comparison.documents import names_a_record

    if any(map(names_a_record, args.runs)):
        return _compare_records(args)
    from prequential.cli.runs import DEFAULT_FOLDER
    from prequential.evaluation.runs import find_run

    args.runs = [find_run(name, DEFAULT_FOLDER) for name in args.runs]
    bootstrap = _bootstrap(args)
    from prequential.comparison.compare import compare
    from prequential.comparison.compare_text import format_comparison

    comparison = compare(args.runs, groups=args.group, bootstrap=bootstrap)
    print(json.dumps(comparison.to_dict(), allow_nan=False) if args.json else format_comparison(comparison))
    return 0


def _compare_records(args: argparse.Namespace) -> int:
    """Compares held-out or monorepo records; returns the exit code."""
    from prequential.comparison.documents import compare_documents, format_document_comparison, read_document_losses

    if args.group is not None:
        args.parser.error("--group is for run folders: leave it out with records of documents")
    bootstrap = _bootstrap(args)
    comparison = compare_documents([read_document_losses(name) for name in args.runs], bootstrap)
    print(json.dumps(comparison.to_dict(), allow_nan=False) if args.json else format_document_comparison(comparison))
    return 0


def _bootstrap(args: argparse.Namespace) -> Bootstrap:
    """The resampling of the options; wrong options end the program with a usage error."""
    if len(args.runs) < 2:
        args.parser.error("a comparison needs two runs or more")
    if args.group is not None and (len(args.group) != len(args.runs) or not all(args.group)):
        args.parser.error(f"--group needs {len(args.runs)} labels, one for each run")
    from prequential.comparison.intervals import Bootstrap

    try:
        return Bootstrap(confidence=args.confidence, n_resamples=args.resamples, seed=args.seed)
    except ConfigError as error:
        options.usage_error(args, error)
