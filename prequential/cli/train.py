"""Train a learner and store it, or export its GPT as a module.

The learner reads the corpus from its first byte to its last. Its code length is printed, and the learner stored in a folder for
`heldout`, and for `load_model` in Python. --export writes its GPT as plain PyTorch; without -o, it trains nothing and exports
that of a stored model (docs/DATA.md).
"""

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.streams import fitted, for_each, progress_bar, resumable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.model_store import StoredModel
    from prequential.online.runtime import Runtime


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="CORPUS", help=f"{options.CORPUS}; without -o, the folder of a stored model")
    outputs = {
        "-o, --output MODEL": "the new folder of the learner",
        "--export FOLDER": "write the GPT as plain PyTorch, which does not need this program, to this new folder",
        "--check CORPUS": "with --export: the loss of the frozen GPT and of the module on this corpus",
    }
    resume = {"--resume": "resume an interrupted training of MODEL, if it left a checkpoint (docs/RELIABILITY.md)"}
    options.add(parser, {**outputs, **options.LIMIT, **resume, **options.JSON})
    options.add_learner(parser)
    parser.set_defaults(inputs=("name", "check"))


def run(args: argparse.Namespace) -> int:
    _check_usage(args)
    config = options.learner_config(args) if args.output is not None else None
    return for_each([args.name], partial(_run, args, config, options.runtime(args)), verbose=args.verbose)


def _check_usage(args: argparse.Namespace) -> None:
    """Ends the program with a usage error for options that do not go together."""
    if args.check is not None and args.export is None:
        args.parser.error("--check is for an exported module: give --export FOLDER, or leave out --check")
    if args.output is None:
        if args.export is None:
            args.parser.error("give -o MODEL to train, or --export FOLDER to export a stored model")
        training = [*options.given_learner_options(args), *options.given_of(args, "resume")]
        options.refuse(args, training, "without -o MODEL nothing is trained")
        if args.limit is not None and args.check is None:
            args.parser.error("--limit applies to a corpus: give -o MODEL or --check CORPUS, or leave out --limit")
    elif args.export is not None and os.path.realpath(args.output) == os.path.realpath(args.export):
        args.parser.error("-o and --export name the same folder: give two different folders")


def _run(args: argparse.Namespace, config: "Config | None", runtime: "Runtime", name: str) -> None:
    from prequential.export.export import check_exportable
    from prequential.files import check_new_folder
    from prequential.online.model_store import load_model
    from prequential.online.source import mode_of

    for folder in filter(None, (args.output, args.export)):
        check_new_folder(folder)
    if config is None:
        model, mode = load_model(name, runtime), mode_of(Path(name))
    else:
        if args.export is not None:
            check_exportable(config)  # before the work, not after it
        model, mode = _train(args, config, runtime, name)
    if args.export is not None:
        _export(args, model, runtime, mode)


def _train(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> "tuple[StoredModel, int]":
    """The model, and the permissions of its corpus."""
    from prequential.export.export import format_training
    from prequential.heldout_loss.trained import describe
    from prequential.online.model_store import StoredModel, save_model
    from prequential.online.source import open_source
    from prequential.online.training import train, training_checkpoints
    from prequential.version import VERSION

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
    print(
        json.dumps({**record, "config": config.to_dict()}) if args.json else fitted(format_training(record)), flush=True
    )
    return StoredModel(learner=learner, trained_on=trained_on, digest=digest), mode


def _export(args: argparse.Namespace, model: "StoredModel", runtime: "Runtime", mode: int) -> None:
    """Writes the module and prints its record, with both losses if they are asked for."""
    from prequential.export.export import export, format_export, losses
    from prequential.online.source import open_source

    module, record = export(args.export, model, mode=mode)
    if args.check is not None:
        with open_source(args.check, args.limit) as source:
            found = losses(model.learner, module, source.symbols[:], runtime)
        record["check"] = {"corpus": dict(source.origin), **vars(found), "difference": found.difference}
    print(json.dumps(record) if args.json else fitted(format_export(record)), flush=True)
