"""Decode archives and check them.

Every block and the complete original are compared with their digests. Nothing is written.
"""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.decompress import decoded
from prequential.cli.streams import for_each, print_summary

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime


OPTIONS = (options.Group(options.ARCHIVES), options.RUNTIME)


def run(args: argparse.Namespace) -> int:
    return for_each(args.names, partial(_test, args, options.runtime(args)), verbose=args.verbose)


def _test(args: argparse.Namespace, runtime: "Runtime", name: str) -> None:
    with Path(os.devnull).open("wb") as devnull:
        result = decoded(args, runtime, name, devnull)
    print_summary(args, f"{name}: ok, {result.n_bytes:,} bytes, {result.wall_s:.1f} s")


COMMAND = options.Command("test", __doc__, "book.txt.pq", options=OPTIONS, run=run, inputs=("names", "given"))
