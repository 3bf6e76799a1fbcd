"""Measure the code length of labels, given their inputs.

The file holds JSON lines. One field of each row costs bits; the learner reads the other fields and learns from all
(docs/LEARNERS.md).
"""

import argparse
import json

from prequential.cli import options
from prequential.cli.streams import fitted, progress_bar


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="FILE", help="JSON lines; -: standard input")
    parser.add_argument("--label", metavar="FIELD", required=True, help="the field of each row that costs bits")
    given = "the one field that is read (default: all others)"
    parser.add_argument("--given", dest="given_field", metavar="FIELD", help=given)
    options.add(parser, options.JSON)
    options.add_learner(parser)
    parser.set_defaults(inputs=("name",))


def run(args: argparse.Namespace) -> int:
    from prequential.heldout_loss.labels import label_record, labels

    config, runtime = options.learner_config(args), options.runtime(args)
    with progress_bar(args.name, quiet=args.quiet) as show:
        cost = labels(args.name, args.label, args.given_field, config, runtime, on_progress=show)
    print(json.dumps(label_record(cost, runtime)) if args.json else fitted(str(cost)))
    return 0
