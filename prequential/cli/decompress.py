"""Restore the originals: FILE.pq to FILE, or to a folder if it was a folder."""

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential_codecs.archive_header import MAGIC

from prequential.cli import options
from prequential.cli.streams import for_each, print_summary, progress_bar, resumable
from prequential.errors import CorpusError, CorruptArchiveError, OutputError
from prequential.files import reading

if TYPE_CHECKING:
    from prequential.decompression import DecompressionResult
    from prequential.online.runtime import Runtime

SUFFIX = ".pq"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", default=["-"], metavar="FILE.pq", help="archive, or - (default: -)")
    options.add_output(parser)
    options.add(parser, options.DECODING)
    options.add_runtime(parser)
    parser.set_defaults(inputs=("names",), output_of=_output_file)


def run(args: argparse.Namespace) -> int:
    if len(args.names) > 1 and args.output not in (None, "-"):
        args.parser.error("-o names one output, but there are several archives: leave out -o")
    return for_each(args.names, partial(_decompress, args, options.runtime(args)), verbose=args.verbose)


def _decompress(args: argparse.Namespace, runtime: "Runtime", name: str) -> None:
    path = _output_path(args, name)
    with resumable(args, names=[name]):
        result = decoded(args, runtime, name, path or sys.stdout.buffer, overwrite=args.force, resume=args.resume)
    to = f" -> {path}" if path else ""
    print_summary(args, f"{name}{to}: {result.n_bytes:,} bytes, {result.wall_s:.1f} s")


def decoded(
    args: argparse.Namespace, runtime: "Runtime", name: str, output: Any, **keywords: Any
) -> "DecompressionResult":
    """Decodes the archive to the output, with the options of `decompress` and `test`."""
    import prequential

    with progress_bar(name, quiet=args.quiet) as show:
        return prequential.decompress(
            sys.stdin.buffer if name == "-" else name,
            output,
            given=args.given,
            runtime=runtime,
            max_output_bytes=args.max_output,
            on_progress=show,
            **keywords,
        )


def _output_file(args: argparse.Namespace, name: str) -> str | None:
    """The path of the output, unless it is a folder: an archive may restore one that is empty."""
    path = _output_path(args, name)
    return None if path is None or os.path.isdir(path) else path  # noqa: PTH112  # raises nothing, however long the path is


def _output_path(args: argparse.Namespace, name: str) -> str | None:
    """The path of the restored file or folder; None for standard output."""
    if args.stdout or (args.output or name) == "-":
        return None
    if args.output is not None:
        return str(args.output)
    if not name.endswith(SUFFIX) or name == SUFFIX:
        if os.path.isdir(name):  # noqa: PTH112
            raise CorpusError("this is a folder, not an archive")
        if (beginning := beginning_of(name)) not in (None, MAGIC):
            raise CorruptArchiveError(
                f"not a .pq archive: {'it starts with other bytes' if beginning else 'it is empty'}"
            )
        raise OutputError(f"the name does not end in {SUFFIX}; name the output with -o")
    return name.removesuffix(SUFFIX)


def beginning_of(name: str) -> bytes | None:
    """As many bytes as an archive's magic; None unless this is a regular file: a pipe could be read only once."""
    if not os.path.isfile(name):  # noqa: PTH113
        return None
    with reading(name), open(name, "rb") as file:  # noqa: PTH123
        return file.read(len(MAGIC))
