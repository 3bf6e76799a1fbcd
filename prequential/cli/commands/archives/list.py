"""prequential list: the contents of archives, from their headers and indexes alone; needs no learner and decodes nothing."""

import argparse
import json

from prequential.cli import options
from prequential.cli.failures import for_each

SUMMARY = "show the contents of archives"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "list",
        description="Show the contents of each archive, from its header and its index. `prequential test` checks its data.",
    )
    parser.add_argument("names", nargs="+", metavar="FILE.pq", help="archive (a file, because the index is at its end)")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a line, with configuration and blocks"
    )
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("names",))


def run(args: argparse.Namespace) -> int:
    """Lists every archive; returns the exit code."""
    from prequential.codecs.archive_text import archive_record, format_archive, format_titles
    from prequential.corpora.chunks import reading

    if not args.json and not args.quiet:
        print(format_titles())

    def show(name: str) -> None:
        with reading(name):
            record = archive_record(name)
        print(json.dumps(record) if args.json else format_archive(record))

    return for_each(args.names, show, verbose=args.verbose)
