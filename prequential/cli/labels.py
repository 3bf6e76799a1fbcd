"""Measure the code length of labels, given their inputs.

The file holds JSON lines. One field of each row costs bits; the learner reads the other fields and learns from all
(docs/LEARNERS.md).
"""

import argparse

from prequential.cli import options
from prequential.cli.streams import print_result, progress_bar

LABELS = {
    "name: FILE": "JSON lines; -: standard input",
    "--label FIELD ! *": "the field of each row that costs bits",
    "--given FIELD *": "the one field that is read (default: all others)",
}


def run(args: argparse.Namespace) -> int:
    from prequential.heldout_loss.labels import label_record, labels

    config, runtime = options.learner_config(args), options.runtime(args)
    with progress_bar(args.name, quiet=args.quiet) as show:
        cost = labels(args.name, args.label, args.given, config, runtime, on_progress=show)
    figure = f"{cost.codes['online'] / len(cost.online):.4f}"
    print_result(args, str(cost), label_record(cost, runtime), figure=figure, rows=cost.to_frame)
    return 0


OPTIONS = (options.Group(LABELS), options.FORMATS, *options.LEARNER)
EXAMPLE = "questions.jsonl --label answer"
COMMAND = options.Command("labels", __doc__, EXAMPLE, options=OPTIONS, run=run, inputs=("name",))
