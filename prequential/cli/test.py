"""prequential test: decodes archives, checks every block and the complete original, and writes nothing."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import for_each
from prequential.cli.progress import progress_bar, shows_summary
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime

SUMMARY = "decode archives and check them"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "test",
        description="Decode each archive, check every block and the complete original against their digests, and write nothing.",
    )
    parser.add_argument("names", nargs="*", default=["-"], metavar="FILE.pq", help="archive, or - (default: -)")
    options.add_given(parser, "the corpus or model that the archives were given")
    options.add_decoding_limits(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("names",))


def run(args: argparse.Namespace) -> int:
    """Tests every archive; returns the exit code."""
    return for_each(args.names, partial(_test, args, options.runtime(args)), verbose=args.verbose)


def _test(args: argparse.Namespace, runtime: "Runtime", name: str) -> None:
    import prequential

    with progress_bar(name, quiet=args.quiet) as show, Path(os.devnull).open("wb") as devnull:
        result = prequential.decompress(
            sys.stdin.buffer if name == "-" else name,
            devnull,
            given=args.given,
            runtime=runtime,
            max_output_bytes=args.max_output,
            max_decoding_s=args.max_time,
            on_progress=show,
        )
    if shows_summary(quiet=args.quiet, verbose=args.verbose):
        print(f"{printable(name)}: ok, {result.n_bytes:,} bytes, {result.wall_s:.1f} s", file=sys.stderr)
