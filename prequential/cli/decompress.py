"""prequential decompress: .pq archives back to the files and folders they were made of."""

import argparse
import sys
from typing import BinaryIO

from prequential.cli.failures import for_each
from prequential.cli.options import add_output, add_runtime, add_verbosity, runtime
from prequential.cli.progress import progress_bar
from prequential.errors import OutputError

SUFFIX = ".pq"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "decompress",
        help="give the originals back: FILE.pq to FILE",
        description="Give the original of each archive back: FILE.pq to FILE, or to a folder if it was one.",
    )
    parser.add_argument("names", nargs="*", default=["-"], metavar="FILE.pq", help="archive, or - (default: -)")
    add_output(parser)
    parser.add_argument(
        "--keep-partial", action="store_true", help="of a damaged archive, keep the good beginning as FILE.partial"
    )
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Decompresses every archive; returns the exit code."""
    if len(args.names) > 1 and args.output not in (None, "-"):
        args.parser.error("-o names one output, and there are several archives")
    from prequential import api

    machine = runtime(args)

    def decompress(name: str) -> None:
        with progress_bar(name, quiet=args.quiet) as show:
            result = api.decompress(
                sys.stdin.buffer if name == "-" else name,
                _output(args, name),
                runtime=machine,
                max_memory_bytes=args.max_memory,
                overwrite=args.force,
                keep_partial=args.keep_partial,
                on_progress=show,
            )
        if args.verbose and not args.quiet:
            print(f"{name}: {result.n_bytes} bytes, {result.wall_s:.1f} s", file=sys.stderr)

    return for_each(args.names, decompress, verbose=args.verbose)


def _output(args: argparse.Namespace, name: str) -> str | BinaryIO:
    if args.stdout or args.output == "-" or (args.output is None and name == "-"):
        return sys.stdout.buffer
    if args.output is not None:
        return str(args.output)
    if not name.endswith(SUFFIX) or name == SUFFIX:
        raise OutputError(f"does not end in {SUFFIX}; name the output with -o")
    return name.removesuffix(SUFFIX)
