"""prequential train: a learner that has read a corpus, stored in a folder."""

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import for_each
from prequential.cli.progress import progress_bar
from prequential.cli.resuming import resumable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

SUMMARY = "train a learner on a corpus, and store it"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "train",
        description="Train a learner on a corpus from its first byte to its last, print the code length, and store the learner "
        "in a folder for `heldout` and `export`, and for `load_model` in Python (docs/DATA.md).",
    )
    parser.add_argument("name", metavar="CORPUS", help=options.CORPUS)
    parser.add_argument("-o", "--output", metavar="MODEL", required=True, help="the new folder")
    parser.add_argument(
        "--limit", type=options.byte_count, metavar="BYTES", help="use only the beginning of the corpus"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="resume an interrupted training of MODEL, if it left a checkpoint (docs/RELIABILITY.md)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a line")
    options.add_learner(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("name",))


def run(args: argparse.Namespace) -> int:
    """Trains and stores the learner; returns the exit code."""
    config, runtime = options.learner_config(args), options.runtime(args)
    return for_each([args.name], partial(_train, args, config, runtime), verbose=args.verbose)


def _train(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> None:
    from prequential.export.export_text import format_training
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
        learner = runtime.learner(config)
        with progress_bar(name, quiet=args.quiet) as show:
            done = train(learner, source.symbols[:], show, (checkpoints, source.header(config)))
        trained_on = {
            **describe(source),
            "limit_bytes": args.limit,
            "code_bits": done.code_bits,
            "prequential": VERSION,
        }
        digest = save_model(args.output, learner, trained_on, mode=source.mode)
    record = {"kind": "training", "model": args.output, "digest": digest, "trained_on": trained_on}
    print(json.dumps({**record, "config": config.to_dict()}) if args.json else format_training(record), flush=True)
