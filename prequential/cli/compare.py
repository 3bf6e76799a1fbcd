"""Compare runs over the same corpus, with confidence and prediction intervals.

The first run of `evaluate` is the reference. Runs that differ only in the seed form one group. Records of `heldout` or `monorepo`
over the same documents are compared, too (docs/MEASURES.md).
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.streams import fitted

if TYPE_CHECKING:
    from prequential.comparison.compare import Comparison
    from prequential.comparison.documents import DocumentComparison


def add_options(parser: argparse.ArgumentParser) -> None:
    names = "run folder, or FILE.jsonl:NUMBER of a record (without a number: the last); two or more"
    parser.add_argument("runs", nargs="+", metavar="RUN", help=names)
    group = (
        "labels, one for each run; runs with the same label are averaged (default: those that differ only in the seed)"
    )
    options.add(parser, {"--group NAMES": group} | options.JSON)
    options.add(parser.add_argument_group("interval"), {"--confidence P [0.95]": "level of the intervals"})


def run(args: argparse.Namespace) -> int:
    from prequential.cli.runs import DEFAULT_FOLDER
    from prequential.comparison import documents
    from prequential.evaluation.runs import find_run

    found: DocumentComparison | Comparison
    if any(map(documents.names_a_record, args.runs)):
        options.refuse(args, options.given_of(args, "group"), "records of documents have no groups")
        _check(args)
        found = documents.compare_documents(list(map(documents.read_document_losses, args.runs)), args.confidence)
        text = documents.format_document_comparison(found)
    else:
        _check(args)
        from prequential.comparison.compare import compare
        from prequential.comparison.compare_text import format_comparison

        runs = [find_run(name, DEFAULT_FOLDER) for name in args.runs]
        found = compare(runs, groups=args.group, confidence=args.confidence)
        text = format_comparison(found)
    print(json.dumps(found.to_dict(), allow_nan=False) if args.json else fitted(text))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Wrong options end the program with a usage error."""
    from prequential.comparison.intervals import check_confidence

    if len(args.runs) < 2:
        args.parser.error("a comparison needs two runs or more")
    if args.group is not None and (len(args.group) != len(args.runs) or not all(args.group)):
        args.parser.error(f"--group needs {len(args.runs)} labels, one for each run")
    with options.usage_errors(args):
        check_confidence(args.confidence)
