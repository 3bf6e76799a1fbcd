"""Decode archives and check them.

Every block and the complete original are compared with their digests. Nothing is written.
"""

import argparse
import os
from pathlib import Path

from prequential.cli import options
from prequential.cli.decompress import decode
from prequential.cli.streams import for_each

OPTIONS = (options.Group(options.ARCHIVES), options.RUNTIME)


def run(args: argparse.Namespace) -> int:
    runtime = options.runtime(args)

    def test(name: str) -> None:
        with Path(os.devnull).open("wb") as devnull:
            decode(args, name, devnull, f"{name}: ok,", runtime=runtime)

    return for_each(args.names, test, verbose=args.verbose)


COMMAND = options.Command("test", __doc__, "book.txt.pq", options=OPTIONS, run=run, inputs=("names", "given"))
