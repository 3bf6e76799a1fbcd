"""prequential export: the GPT of a stored model as an ordinary torch module."""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.failures import for_each

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime

SUMMARY = "write the GPT of a stored model as a plain torch module"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "export",
        description="Write the GPT of a stored model as gpt.py, config.json and model.safetensors: plain PyTorch with float32 "
        "weights, which does not need this program (docs/DATA.md).",
    )
    parser.add_argument("name", metavar="MODEL", help="folder of a model that `train` stored")
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="the new folder")
    parser.add_argument(
        "--check", metavar="CORPUS", help="also measure the loss of the frozen GPT and of the module on this corpus"
    )
    parser.add_argument(
        "--limit", type=options.byte_count, metavar="BYTES", help="with --check: use only the beginning of the corpus"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("name",))


def run(args: argparse.Namespace) -> int:
    """Exports the model; returns the exit code."""
    if args.limit is not None and args.check is None:
        args.parser.error("--limit applies to the corpus of --check: give --check CORPUS, or leave out --limit")
    return for_each([args.name], partial(_export, args, options.runtime(args)), verbose=args.verbose)


def _export(args: argparse.Namespace, runtime: "Runtime", name: str) -> None:
    from prequential.export.export import export, losses
    from prequential.export.export_text import format_export
    from prequential.files import check_new_folder
    from prequential.online.model_store import load_model
    from prequential.online.source import mode_of, open_source

    check_new_folder(args.output)
    model = load_model(name, runtime)
    about = {
        "from": {"digest": model.digest, "config": model.config.to_dict(), "trained_on": model.trained_on},
        "left_out": ["mixer"] if model.config.mixer else [],
    }
    module = export(args.output, model.learner, about, mode=mode_of(Path(name)))
    n_parameters = sum(weight.numel() for weight in module.parameters())
    record: dict[str, Any] = {"kind": "export", "folder": args.output, "n_parameters": n_parameters, **about}
    if args.check is not None:
        with open_source(args.check, args.limit) as source:
            found = losses(model.learner, module, source.symbols[:], runtime)
        record["check"] = {"corpus": dict(source.origin), **vars(found), "difference": found.difference}
    print(json.dumps(record) if args.json else format_export(record), flush=True)
