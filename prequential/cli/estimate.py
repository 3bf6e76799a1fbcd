"""Estimate time and memory before a run.

A short part of each corpus is coded, and the cost of the complete run follows from it (docs/MACHINES.md).
"""

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.streams import fitted, for_each
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

SCHEMA = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpora(parser)
    probe = "length of the part that is coded (default: what takes 1.2 s, without a GPT 3.6 s; 48K at most)"
    options.add(parser, options.LIMIT | {"--probe BYTES": probe} | options.JSON)
    options.add_learner(parser)


def run(args: argparse.Namespace) -> int:
    config, runtime = options.given_config(args), options.runtime(args)
    return for_each(args.names, partial(_estimate, args, config, runtime), verbose=args.verbose)


def _estimate(args: argparse.Namespace, config: "Config | None", runtime: "Runtime", name: str) -> None:
    from dataclasses import asdict

    from prequential.estimation import estimate, format_estimate
    from prequential.model.presets import default_for
    from prequential.online.source import open_source
    from prequential.records.schema import environment

    if config:
        runtime.check(config)  # before the corpus is read
    by_size = config is None
    with open_source(name, args.limit, in_order=True) as source:
        config = config or default_for(source.n_bytes)
        runtime.check(config)
        title = f"{name}: {options.level_by_size(source.n_bytes)}" if by_size else name
        found, corpus = estimate(source, config, runtime, probe_bytes=args.probe), dict(source.origin)
    if args.json:
        record = {"schema": SCHEMA, "kind": "estimate", "corpus": corpus, "config": config.to_dict(), **asdict(found)}
        print(json.dumps({**record, "environment": environment(runtime, config)}, allow_nan=False), flush=True)
    else:
        print(fitted(f"{printable(title)}\n{format_estimate(found)}\n"), flush=True)
