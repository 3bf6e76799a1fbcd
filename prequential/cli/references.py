"""prequential references: other codes of the same corpus, which explain the code length of a learner."""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import for_each
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

SUMMARY = "explain a code length by other codes of the same corpus"
FIRST_BLOCK_BYTES = 1 << 10


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "references",
        description="Split the code length of each corpus into the cost of learning and that of the data. For this, code it in "
        "several ways: with the GPT alone while it learns, with its last weights, with weights trained on another corpus, with a "
        "GPT retrained at each doubling, and by counting bytes (docs/MEASURES.md).",
    )
    parser.add_argument("names", nargs="+", metavar="CORPUS", help=options.CORPUS)
    parser.add_argument("--train", metavar="OTHER", help="for the row `frozen`: a corpus to train on first")
    parser.add_argument(
        "--limit", type=options.byte_count, metavar="BYTES", help="use only the beginning of each corpus"
    )
    parser.add_argument(
        "--first-block",
        type=options.byte_count,
        default=FIRST_BLOCK_BYTES,
        metavar="BYTES",
        help="for the row `blocks`: length of the first block, which is sent raw (default: 1K)",
    )
    parser.add_argument(
        "--epochs",
        type=options.positive_integer,
        default=1,
        metavar="N",
        help="for the row `blocks`: passes over all earlier blocks before each block (default: 1)",
    )
    parser.add_argument(
        "--window",
        type=options.byte_count,
        metavar="BYTES",
        help="for the row `learning by the last ... bytes`: the mean cost of so many last bytes is taken as the final loss "
        "(default: an eighth of the corpus, at most 64K)",
    )
    parser.add_argument(
        "--epsilon",
        type=float,
        action="append",
        metavar="BITS",
        help="threshold in bits/byte; can be repeated (default: 0.1, 0.5 and 1 above the rate at the end)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of tables")
    options.add_learner(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("names",))


def run(args: argparse.Namespace) -> int:
    """Measures every corpus; returns the exit code."""
    if args.first_block < 1 or args.limit == 0 or args.window == 0:
        args.parser.error("--first-block, --limit and --window must be at least 1")
    if args.train == "-" and ("-" in args.names or len(args.names) > 1):  # each corpus needs --train again
        args.parser.error("standard input cannot be read twice: give a file as CORPUS or --train")
    config, runtime = _gpt_config(args), options.runtime(args)
    return for_each(args.names, partial(_measure, args, config, runtime), verbose=args.verbose)


def _gpt_config(args: argparse.Namespace) -> "Config":
    """The GPT of the options, without mixer and contexts, so that its weights can be sent; or a usage error."""
    args.pure = args.config is None  # a preset is taken without its mixer; a file must have none
    config = options.learner_config(args)
    if config.gpt is None or config.mixer is not None:
        args.parser.error('references use the GPT alone: give a --config with a GPT and with "mixer": null')
    assert config.gpt
    return replace(config, gpt=replace(config.gpt, contexts=()))


def _measure(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> None:
    from prequential.decomposition.decompose import measure_references
    from prequential.decomposition.decompose_text import format_references, references_record
    from prequential.errors import ConfigError
    from prequential.online.source import open_source
    from prequential.records.record import environment

    runtime.check(config)
    with (
        open_source(name, args.limit) as source,
        open_source(args.train, args.limit) if args.train else nullcontext() as train,
    ):
        if args.window is not None and args.window > source.n_bytes:
            raise ConfigError(f"--window {args.window} is longer than the corpus, which has {source.n_bytes} bytes")
        found = measure_references(
            source.symbols[:],
            config,
            runtime,
            other=train.symbols[:] if train else None,
            first_bytes=args.first_block,
            epochs=args.epochs,
            window_bytes=args.window,
            on_stage=_stage_printer(name, quiet=args.quiet),
        )
        corpora = {"corpus": source.record(), "train": train.record() if train else None}
    record = references_record(found, args.epsilon)
    if args.json:
        about = {"kind": "references", **corpora, "config": config.to_dict()}
        print(json.dumps({**about, **record, "environment": environment(runtime, config)}), flush=True)
    else:
        gpt = config.gpt
        assert gpt
        shape = f"GPT {gpt.n_layers} x {gpt.width}, window {gpt.window}, without contexts"
        title = f"{printable(name)}, {found.split.code_bits:,.0f} bits (ideal code length) by the {shape}, as it learns"
        print(f"{title}\n\n{format_references(record)}\n", flush=True)


def _stage_printer(name: str, *, quiet: bool) -> Callable[[str], object]:
    """Prints each stage on stderr, if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        return lambda stage: None
    return lambda stage: print(f"{printable(name)}: {stage}", file=sys.stderr)
