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
    picture = {"--picture FILE": "draw the bits saved and the distances as a PNG file (needs matplotlib)"}
    options.add(parser, options.LIMIT | whole | options.JSON | picture | options.FORCE)
    options.add_learner(parser)


def run(args: argparse.Namespace) -> int:
    if len(args.names) < 2 or len(set(args.names)) < len(args.names):
        args.parser.error("give two corpora or more, each once")
    if args.picture and not args.picture.endswith(".png"):
        args.parser.error(f"--picture {args.picture}: the name must end in .png")
    from prequential.files import check_output
    from prequential.matrix import matrix_record, measure_matrix
    from prequential.online.source import mode_of
    from prequential.report import plots
    from prequential.report.figures import check_matplotlib, new_figure, save_png

    config, runtime = options.learner_config(args), options.runtime(args)
    if args.picture:
        check_output(args.picture, overwrite=args.force)
        check_matplotlib()  # before the work

    def say(text: str) -> None:
        if not args.quiet:
            print(f"prequential: {text}", file=sys.stderr)

    found = measure_matrix(args.names, config, runtime, limit_bytes=args.limit, whole=args.whole, on_step=say)
    print(json.dumps(matrix_record(found, runtime)) if args.json else fitted(str(found)))
    if args.picture:
        size = 3.0 + 0.6 * len(found.names)
        figure = new_figure(2 * size, size)
        left, right = figure.subplots(1, 2)
        plots.matrix(found, "saved", ax=left)
        plots.matrix(found, "distance", ax=right)
        save_png(figure, args.picture, overwrite=args.force, mode=mode_of(*args.names))
    return 0
