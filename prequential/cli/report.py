"""Show runs as an HTML page, which loads nothing from elsewhere (docs/MEASURES.md)."""

import argparse
import sys
from contextlib import suppress

from prequential.cli import options
from prequential.printable import printable

DEFAULT_OUTPUT = "report.html"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="RUN", help=f"{options.RUN}; or a folder of runs: all of them")
    parser.set_defaults(runs_of=("names",))
    output = f"name of the page; - is standard output (default: {DEFAULT_OUTPUT})"
    target = {"-o, --output FILE.html": output, "-c, --stdout": "write the page to standard output"}
    options.add(parser.add_mutually_exclusive_group(), target)
    options.add(parser, options.FORCE)


def run(args: argparse.Namespace) -> int:
    from prequential.evaluation.runs import find_runs, holds_no_runs, mode_of_all
    from prequential.files import check_output, output_file, stream_output

    output = "-" if args.stdout else args.output or DEFAULT_OUTPUT
    overwrite = args.force or _is_own_page(output)
    if output != "-":
        check_output(output, overwrite=overwrite)
    others = [name for name in args.names if holds_no_runs(name)]
    runs = [run for name in args.names if name not in others or args.names == others for run in find_runs(name)]
    for name in others:
        print(printable(f"prequential: {name!r} holds no runs: left out"), file=sys.stderr)
    from prequential.report.page import html_report

    page = html_report(runs).encode("utf-8", "replace")  # JSON of unknown origin can hold half a surrogate pair
    if output == "-":
        with stream_output(sys.stdout.buffer, overwrite=args.force) as sink:
            sink.write(page)
        return 0
    with output_file(output, overwrite=overwrite, mode=mode_of_all(runs)) as file:
        file.write(page)
    if not args.quiet:
        print(printable(output), file=sys.stderr)
    return 0


def _is_own_page(path: str) -> bool:
    """Whether `report` wrote this file, so that it may be replaced. A link is not followed."""
    from prequential.files import open_regular
    from prequential.report.markup import MARK

    with suppress(OSError), open_regular(path, follow_links=False) as file:
        return MARK.encode() in file.read(1000)
    return False
