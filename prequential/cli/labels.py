"""Measure the code length of labels, given their inputs.

The file holds JSON lines. One field of each row costs bits; the learner reads the other fields and learns from all
(docs/LEARNERS.md).
"""

import argparse
import json
from pathlib import Path

from prequential.cli import options
from prequential.cli.streams import progress_bar


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="FILE", help="JSON lines; -: standard input")
    parser.add_argument("--label", metavar="FIELD", required=True, help="the field of each row that costs bits")
    given = "the one field that is read (default: all others)"
    parser.add_argument("--given", dest="given_field", metavar="FIELD", help=given)
    options.add(parser, options.JSON | {"--output FILE.jsonl": "also append the record to this file"})
    options.add_learner(parser)
    parser.set_defaults(inputs=("name",))


def run(args: argparse.Namespace) -> int:
    from prequential.files.append import check_appendable
    from prequential.labels.labels import format_label_cost, label_cost, label_record, read_rows
    from prequential.online.source import mode_of
    from prequential.records.record import append_record

    config, runtime = options.learner_config(args), options.runtime(args)
    mode = mode_of(args.name if args.name == "-" else Path(args.name))
    if args.output is not None:
        check_appendable(args.output, mode)  # before the work, not after it
    rows = read_rows(args.name, args.label, args.given_field)
    with progress_bar(args.name, quiet=args.quiet) as show:
        cost = label_cost(rows, config, runtime, on_progress=show)
    record = label_record(cost, config, runtime)
    print(json.dumps(record) if args.json else format_label_cost(cost), flush=True)
    if args.output is not None:
        append_record(args.output, record, mode)
    return 0
