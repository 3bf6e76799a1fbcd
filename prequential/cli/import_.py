"""Make a run from the log of a training run.

The log is a trainer_state.json of transformers, CSV, as Weights & Biases and TensorBoard export it, or JSON lines. Order and
repeats of the data are unknown, and every page says so. prequential.Recorder measures a run while it trains (docs/RECORDING.md).
"""

import argparse
import json

from prequential.cli import options
from prequential.cli.runs import DEFAULT_FOLDER
from prequential.cli.streams import fitted

OPTIONS = ("tokens", "loss", "bytes_per_token", "tokens_per_step", "epochs", "name", "data")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="FILE", help="trainer_state.json, CSV with a line of names, or JSON lines")
    parser.add_argument("--tokens", metavar="NAME", required=True, help="column with the tokens so far (or the steps)")
    parser.add_argument(
        "--loss", metavar="NAME", required=True, help="column with the mean loss since the last line, in nats"
    )
    parser.add_argument(
        "--bytes-per-token", type=float, metavar="X", required=True, help="mean bytes per token of this text"
    )
    parser.add_argument("--tokens-per-step", type=int, metavar="N", help="needed if --tokens names a column of steps")
    epochs = "epochs that the log covers, whatever its column `epoch` says; only the first counts"
    parser.add_argument("--epochs", type=float, metavar="X", help=epochs)
    parser.add_argument("--name", metavar="NAME", help="name of the model (default: the file)")
    parser.add_argument(
        "--parameters", type=int, metavar="N", help="parameters of the model, which a forecast of a larger one needs"
    )
    parser.add_argument(
        "--data", metavar="NAME", help="name of the data; runs with equal names and lengths can be compared"
    )
    parser.add_argument("--runs", metavar="FOLDER", default=DEFAULT_FOLDER, help=f"default: {DEFAULT_FOLDER}")
    options.add(parser, options.JSON)
    parser.set_defaults(inputs=("log",))


def run(args: argparse.Namespace) -> int:
    from prequential.evaluation.summary import format_report
    from prequential.recording.imported import import_log

    names = {name: getattr(args, name) for name in OPTIONS}
    arguments = {"n_parameters": args.parameters} if args.parameters else {}
    found = import_log(args.log, args.runs, **names, arguments=arguments)
    if args.json or not args.quiet:
        print(json.dumps(found.record) if args.json else fitted(format_report(found.record, folder=found.path)))
    return 0
