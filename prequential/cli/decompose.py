"""Compare a code length with that of the end.

The learner is the GPT alone. Its code length is compared with the code length under its last weights. For a run, also of a
training loop, only the last tenth of its curve is compared (docs/MEASURES.md).
"""

import argparse
import json
import sys

from prequential.cli import options
from prequential.cli.streams import fitted, for_each
from prequential.printable import printable


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="CORPUS|RUN", help=f"{options.CORPUS}; or {options.RUN}")
    parser.set_defaults(inputs=("names",), runs_of=("names",))
    options.add(parser, options.LIMIT | options.JSON)
    options.add_learner(parser)


def run(args: argparse.Namespace) -> int:
    from prequential.evaluation.runs import is_run

    are_runs = [is_run(name) for name in args.names]
    if any(are_runs):
        given = [*options.given_learner_options(args), *options.given_of(args, "limit")]
        options.refuse(args, given, "a run has its learner and its bytes")
    from prequential.decomposition.decompose import decompose

    args.pure = args.config is None  # a preset is taken without its mixer; a file must have none
    config, runtime = (None, None) if all(are_runs) else (options.learner_config(args), options.runtime(args))

    def split(name: str) -> None:
        def say(step: str) -> None:
            if not args.quiet and sys.stderr.isatty():
                print(f"{printable(name)}: {step}", file=sys.stderr)

        own = {"config": config, "runtime": runtime, "limit_bytes": args.limit, "on_step": say}
        found = decompose(name, **({} if is_run(name) else own))
        print(json.dumps(found.to_dict()) if args.json else fitted(f"{found}\n"), flush=True)

    return for_each(args.names, split, verbose=args.verbose)
