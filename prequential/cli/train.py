"""Train a learner and store it.

The learner reads the corpus from its first byte to its last. Its code length is printed, and the learner stored in a folder for
`heldout`, and for `load_model` in Python.
"""

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.streams import fitted, for_each, progress_bar, resumable
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="CORPUS", help=options.CORPUS)
    parser.add_argument("-o", "--output", metavar="MODEL", required=True, help="the new folder of the learner")
    resume = {"--resume": "resume an interrupted training of MODEL, if it left a checkpoint (docs/RELIABILITY.md)"}
    options.add(parser, {**options.LIMIT, **resume, **options.JSON})
    options.add_learner(parser)
    parser.set_defaults(inputs=("name",))


def run(args: argparse.Namespace) -> int:
    config = options.learner_config(args)
    return for_each([args.name], partial(_train, args, config, options.runtime(args)), verbose=args.verbose)


def _train(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> None:
    from prequential.files import check_new_folder
    from prequential.heldout_loss.trained import describe
    from prequential.online.model_store import save_model
    from prequential.online.source import open_source
    from prequential.online.training import train, training_checkpoints
    from prequential.version import VERSION

    check_new_folder(args.output)
    runtime.check(config)
    with (
        resumable(args),
        training_checkpoints(args.output, resume=args.resume) as checkpoints,
        open_source(name, args.limit) as source,
    ):
        learner, mode = runtime.learner(config), source.mode
        with progress_bar(name, quiet=args.quiet) as show:
            done = train(learner, source.symbols[:], show, (checkpoints, source.header(config)))
        trained_on = {
            **describe(source),
            "limit_bytes": args.limit,
            "code_bits": done.code_bits,
            "prequential": VERSION,
        }
        digest = save_model(args.output, learner, trained_on, mode=mode)
    record = {"kind": "training", "model": args.output, "digest": digest, "trained_on": trained_on}
    rate = done.code_bits / trained_on["n_bytes"]
    line = f"{trained_on['name']}: {trained_on['n_bytes']:,} bytes read at {rate:.4f} bits/byte (prequential); model "
    shown = printable(f"{line}{digest[:16]} in {args.output}")
    print(json.dumps({**record, "config": config.to_dict()}) if args.json else fitted(shown), flush=True)
