"""Split a code length into the cost of learning and the rest.

The code is that of the GPT alone. It is compared with the code length under the GPT's last weights (docs/MEASURES.md).
"""

import argparse
import json
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.streams import for_each
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpora(parser)
    epsilon = "threshold in bits/byte; can be repeated (default: 0.1, 0.5 and 1 above the rate at the end)"
    options.add(parser, options.LIMIT | {"--epsilon BITS ...": epsilon} | options.JSON)
    options.add_learner(parser)


def run(args: argparse.Namespace) -> int:
    config, runtime = _gpt_config(args), options.runtime(args)
    return for_each(args.names, partial(_measure, args, config, runtime), verbose=args.verbose)


def _gpt_config(args: argparse.Namespace) -> "Config":
    """The GPT of the options, without mixer and contexts, so that its weights can be sent; or a usage error."""
    args.pure = args.config is None  # a preset is taken without its mixer; a file must have none
    config = options.learner_config(args)
    if config.gpt is None or config.mixer is not None:
        args.parser.error('decompose uses the GPT alone: give a --config with a GPT and with "mixer": null')
    assert config.gpt
    return replace(config, gpt=replace(config.gpt, contexts=()))


def _measure(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> None:
    from prequential.decomposition.decompose import decompose, decomposition_record, format_decomposition
    from prequential.online.source import open_source
    from prequential.records.record import environment

    def say(stage: str) -> None:
        if not args.quiet and sys.stderr.isatty():
            print(f"{printable(name)}: {stage}", file=sys.stderr)

    runtime.check(config)
    with open_source(name, args.limit) as source:
        found = decompose(source.symbols[:], config, runtime, on_stage=say)
        corpus = source.record()
    record = decomposition_record(found, args.epsilon or None)
    if args.json:
        about = {"kind": "decomposition", "corpus": corpus, "config": config.to_dict()}
        print(json.dumps({**about, **record, "environment": environment(runtime, config)}), flush=True)
        return
    gpt = config.gpt
    assert gpt
    shape = f"GPT {gpt.n_layers} x {gpt.width}, window {gpt.window}, without contexts"
    title = f"{printable(name)}, {record['code_bits']:,.0f} bits (ideal code length) by the {shape}, as it learns"
    print(f"{title}\n\n{format_decomposition(record)}\n", flush=True)
