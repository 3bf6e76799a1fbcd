"""Restore the originals: FILE.pq to FILE, or to a folder if it was a folder."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import for_each, print_summary, progress_bar
from prequential.errors import OutputError

if TYPE_CHECKING:
    from prequential.decompression import DecompressionResult

SUFFIX = ".pq"
OPTIONS = (options.Group(options.ARCHIVES), *options.OUTPUT, options.RUNTIME)


def run(args: argparse.Namespace) -> int:
    if len(args.names) > 1 and args.output not in (None, "-"):
        args.parser.error("-o names one output, but there are several archives: leave out -o")
    chosen = {"runtime": options.runtime(args), "overwrite": args.force, "resume": args.resume}

    def decompress(name: str) -> None:
        path = _output_path(args, name)
        result = decoded(args, name, path or sys.stdout.buffer, **chosen)
        to = f" -> {path}" if path else ""
        print_summary(args, f"{name}{to}: {result.n_bytes:,} bytes, {result.wall_s:.1f} s")

    return for_each(args.names, decompress, verbose=args.verbose)


def decoded(args: argparse.Namespace, name: str, output: Any, **chosen: Any) -> "DecompressionResult":
    """Decodes the archive to the output, with the options of `decompress` and `test`."""
    import prequential

    with progress_bar(name, quiet=args.quiet) as show:
        return prequential.decompress(
            sys.stdin.buffer if name == "-" else name,
            output,
            given=args.given,
            max_output_bytes=args.max_output,
            on_progress=show,
            **chosen,
        )


def _output_path(args: argparse.Namespace, name: str) -> str | None:
    """The path of the restored file or folder; None for standard output."""
    if args.stdout or (args.output or name) == "-":
        return None
    if args.output is not None:
        return str(args.output)
    if not name.endswith(SUFFIX) or name == SUFFIX:
        raise OutputError(f"the name does not end in {SUFFIX}; name the output with -o")
    return name.removesuffix(SUFFIX)


COMMAND = options.Command("decompress", __doc__, "book.txt.pq", options=OPTIONS, run=run, inputs=("names", "given"))
