"""prequential test: decode archives, check every block and the whole, write nothing."""

import argparse
import os
import sys
from pathlib import Path

from prequential.cli.failures import for_each
from prequential.cli.options import add_runtime, add_verbosity, runtime
from prequential.cli.progress import progress_bar


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "test",
        help="decode archives and check them",
        description="Decode each archive, check every block and the whole against their digests, and write nothing.",
    )
    parser.add_argument("names", nargs="*", default=["-"], metavar="FILE.pq", help="archive, or - (default: -)")
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Tests every archive; returns the exit code."""
    from prequential import api

    machine = runtime(args)

    def test(name: str) -> None:
        with progress_bar(name, quiet=args.quiet) as show, Path(os.devnull).open("wb") as nowhere:
            result = api.decompress(
                sys.stdin.buffer if name == "-" else name,
                nowhere,
                runtime=machine,
                max_memory_bytes=args.max_memory,
                on_progress=show,
            )
        if args.verbose and not args.quiet:
            print(f"{name}: whole, {result.n_bytes} bytes, {result.wall_s:.1f} s", file=sys.stderr)

    return for_each(args.names, test, verbose=args.verbose)
