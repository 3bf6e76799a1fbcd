"""Measure which corpora teach which: the bits of each that are saved by reading another one first.

All are cut to the length of the shortest, because a longer text teaches more (docs/STUDIES.md). n corpora are read n * n + 2 * n
times.
"""

import argparse
import json
import sys

from prequential.cli import options
from prequential.cli.streams import fitted


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpora(parser)
    whole = {"--whole": "do not cut the corpora to the length of the shortest"}
    options.add(parser, options.LIMIT | whole | options.JSON)
    options.add_learner(parser)


def run(args: argparse.Namespace) -> int:
    if len(args.names) < 2 or len(set(args.names)) < len(args.names):
        args.parser.error("give two corpora or more, each once")
    from prequential.matrix import matrix_record, measure_matrix

    config, runtime = options.learner_config(args), options.runtime(args)

    def say(text: str) -> None:
        if not args.quiet:
            print(f"prequential: {text}", file=sys.stderr)

    found = measure_matrix(args.names, config, runtime, limit_bytes=args.limit, whole=args.whole, on_step=say)
    print(json.dumps(matrix_record(found, runtime)) if args.json else fitted(str(found)))
    return 0
