"""Train a learner and store it.

The learner reads the corpus from its first byte to its last. Its code length is printed, and the learner stored in a folder for
`heldout`, and for `load_model` in Python.
"""

import argparse

from prequential.cli import options
from prequential.cli.streams import print_result, progress_bar
from prequential.printable import printable

TRAIN = {
    "name: CORPUS": options.CORPUS,
    "-o, --output MODEL ! *": "the new folder of the learner",
    "--resume *": "resume an interrupted training of MODEL, if it left a checkpoint (docs/RELIABILITY.md)",
    **options.LIMIT,
    **options.JSON,
}


def run(args: argparse.Namespace) -> int:
    from prequential.files import check_new_folder
    from prequential.online.model_store import save_model
    from prequential.online.source import check_outside, open_source
    from prequential.online.training import train, training_checkpoints
    from prequential.version import VERSION

    config, runtime = options.learner_config(args), options.runtime(args)
    check_new_folder(args.output)
    check_outside(args.output, args.name)
    runtime.check(config)
    with training_checkpoints(args.output, resume=args.resume) as checkpoints:
        source, learner = open_source(args.name, args.limit), runtime.learner(config)
        source.check_not_empty("learn from")
        with progress_bar(args.name, quiet=args.quiet) as show:
            done = train(learner, source.symbols, show, (checkpoints, source.header(config.to_dict())))
        made = {"limit_bytes": args.limit, "code_bits": done.code_bits, "prequential": VERSION}
        trained_on = {**source.describe(), **made}
        digest = save_model(args.output, learner, trained_on, mode=source.mode)
    record = {"kind": "training", "model": args.output, "digest": digest, "trained_on": trained_on}
    figure = f"{done.code_bits / trained_on['n_bytes']:.4f}"
    read = f"{trained_on['name']}: {trained_on['n_bytes']:,} bytes read at {figure} bits/byte (prequential)"
    text = printable(f"{read}; model {digest[:16]} in {args.output}")
    print_result(args, text, {**record, "config": config.to_dict()}, figure=figure)
    return 0


OPTIONS = (options.Group(TRAIN), *options.LEARNER)
COMMAND = options.Command("train", __doc__, "-3 book.txt -o model", options=OPTIONS, run=run, inputs=("name",))
