"""Show the contents of archives.

Reads the header and the index of each. `prequential test` checks its data.
"""

import argparse
import json
import sys
from typing import Any

from prequential.cli import options
from prequential.cli.streams import for_each


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="FILE.pq", help="archive, or -")
    options.add(parser, {"--json": "print one JSON object a line, with configuration and blocks"})
    parser.set_defaults(inputs=("names",))


def run(args: argparse.Namespace) -> int:
    from prequential_codecs.archive_summary import TITLES, format_archive

    titles = [] if args.json or args.quiet else [TITLES]

    def show(name: str) -> None:
        record = _record(name)
        while titles:
            print(titles.pop())
        print(json.dumps(record) if args.json else format_archive(record))

    return for_each(args.names, show, verbose=args.verbose)


def _record(name: str) -> dict[str, Any]:
    """The description of an archive; of standard input a copy is read, because the index is at its end."""
    from prequential_codecs.archive_summary import archive_record
    from prequential_corpora.chunks import read_chunks, spool

    from prequential.files import reading

    with reading(name):
        if name != "-":
            return archive_record(name)
        with spool(read_chunks(sys.stdin.buffer, "standard input"), None) as copy:
            copy.flush()
            return archive_record(copy.name) | {"archive": name}
