"""Restore the originals: FILE.pq to FILE, or to a folder if it was a folder."""

import argparse
import sys
from typing import Any

from prequential.cli import options
from prequential.cli.streams import for_each, print_summary, progress_bar

SUFFIX = ".pq"
NAMELESS = f"the name does not end in {SUFFIX}; name the output with -o"
OPTIONS = (options.Group(options.ARCHIVES), *options.OUTPUT, options.RUNTIME)


def run(args: argparse.Namespace) -> int:
    if len(args.names) > 1 and args.output not in (None, "-"):
        args.parser.error("-o names one output, but there are several archives: leave out -o")
    chosen = {"runtime": options.runtime(args), "overwrite": args.force, "resume": args.resume}

    def decompress(name: str) -> None:
        has_suffix = name.endswith(SUFFIX) and name != SUFFIX
        path = options.output_path(args, name, name.removesuffix(SUFFIX) if has_suffix else None, NAMELESS)
        decode(args, name, path or sys.stdout.buffer, f"{name} -> {path}:" if path else f"{name}:", **chosen)

    return for_each(args.names, decompress, verbose=args.verbose)


def decode(args: argparse.Namespace, name: str, output: Any, heading: str, **chosen: Any) -> None:
    """Decodes the archive to the output, with the options of `decompress` and `test`. Says so, after the heading."""
    import prequential

    archive = sys.stdin.buffer if name == "-" else name
    chosen |= {"given": args.given, "max_output_bytes": args.max_output}
    with progress_bar(name, quiet=args.quiet) as show:
        result = prequential.decompress(archive, output, **chosen, on_progress=show)
    print_summary(args, f"{heading} {result.n_bytes:,} bytes, {result.wall_s:.1f} s")


COMMAND = options.Command("decompress", __doc__, "book.txt.pq", options=OPTIONS, run=run, inputs=("names", "given"))
