"""prequential export: the GPT of a stored model as an ordinary torch module."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from prequential.cli.failures import for_each
from prequential.cli.options import add_runtime, add_verbosity, n_bytes, runtime

if TYPE_CHECKING:
    from prequential.measure.export.export import Losses

LEFT_OUT = "its context mixer is left out: without it the GPT predicts worse than the model does"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "export",
        help="write a model's GPT as a plain torch module",
        description="Write the GPT of a stored model as gpt.py, config.json and model.safetensors: plain PyTorch with float32 "
        "weights, without this program (docs/MODELS.md).",
    )
    parser.add_argument("name", metavar="MODEL", help="a folder that `train` made")
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="the new folder")
    parser.add_argument(
        "--check", metavar="CORPUS", help="also say what this corpus costs the frozen GPT, exactly and by the module"
    )
    parser.add_argument("--limit", type=n_bytes, metavar="BYTES", help="with --check: only the beginning of the corpus")
    parser.add_argument("--json", action="store_true", help="one JSON object, not lines")
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exports; returns the exit code."""
    if args.limit is not None and args.check is None:
        args.parser.error("--limit is of the corpus of --check")
    from prequential.corpora.sources import open_corpus
    from prequential.files import check_new_folder
    from prequential.measure.export.export import export, losses
    from prequential.online.flops import check_work
    from prequential.online.model_store import load_model

    machine = runtime(args)

    def export_model(name: str) -> None:
        check_new_folder(args.output)
        model = load_model(name, machine, args.max_memory)
        about = {
            "from": {"digest": model.digest, "config": model.config.to_dict(), "trained_on": model.trained_on},
            "left_out": ["mixer"] if model.config.mixer else [],
        }
        module = export(args.output, model.learner, about)
        record = {
            "kind": "export",
            "folder": args.output,
            "n_parameters": sum(weight.numel() for weight in module.parameters()),
            **about,
        }
        found = None
        if args.check is not None:
            check_work(model.config)
            with open_corpus(args.check) as corpus:
                found = losses(model.learner, module, corpus.bytes()[: args.limit], machine)
            record["check"] = {"corpus": corpus.describe(), **vars(found), "difference": found.difference}
        print(json.dumps(record) if args.json else _report(record, args.check, found))
        sys.stdout.flush()

    return for_each([args.name], export_model, verbose=args.verbose)


def _report(record: dict[str, Any], check: str | None, found: "Losses | None") -> str:
    lines = [f"{record['folder']}: a GPT of {record['n_parameters']:,} parameters; gpt.py reads it"]
    if record["left_out"]:
        lines.append(LEFT_OUT)
    if found:
        exact, plain = (bits / found.n_bytes for bits in (found.exact_bits, found.float_bits))
        lines.append(
            f"{check}, {found.n_bytes:,} bytes, weights frozen: {exact:.4f} bits/byte exactly, {plain:.4f} by the module "
            f"({found.difference:+.3%})"
        )
    return "\n".join(lines)
