"""prequential decompress: the original files and folders of archives."""

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import for_each
from prequential.cli.progress import progress_bar, shows_summary
from prequential.cli.resuming import resumable
from prequential.errors import CorpusError, CorruptArchiveError, OutputError
from prequential.files import reading
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime

SUMMARY = "restore the originals: FILE.pq to FILE"
SUFFIX = ".pq"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "decompress",
        description="Restore the original of each archive: FILE.pq to FILE, or to a folder if it was a folder.",
    )
    parser.add_argument("names", nargs="*", default=["-"], metavar="FILE.pq", help="archive, or - (default: -)")
    options.add_output(parser)
    options.add_given(parser, "the corpus or model that the archive was given")
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="if an archive is damaged, also list the intact blocks after the damage, and save those that are stored raw",
    )
    options.add_decoding_limits(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("names",), output_of=_output_file, shared="steps")


def run(args: argparse.Namespace) -> int:
    """Decompresses every archive; returns the exit code."""
    if len(args.names) > 1 and args.output not in (None, "-"):
        args.parser.error("-o names one output, but there are several archives: leave out -o")
    from prequential.online.workers.command import run_by_all

    def decompress_all(runtime: "Runtime") -> int:
        return for_each(args.names, partial(_decompress, args, runtime), verbose=args.verbose)

    return run_by_all(options.runtime(args), decompress_all)


def _decompress(args: argparse.Namespace, runtime: "Runtime", name: str) -> None:
    from prequential_codecs.archive_summary import recover_blocks

    import prequential

    output = _output_path(args, name) or sys.stdout.buffer
    try:
        with resumable(args, names=[name]), progress_bar(name, quiet=args.quiet) as show:
            result = prequential.decompress(
                sys.stdin.buffer if name == "-" else name,
                output,
                given=args.given,
                runtime=runtime,
                overwrite=args.force,
                resume=args.resume,
                max_output_bytes=args.max_output,
                max_decoding_s=args.max_time,
                on_progress=show,
            )
    except CorruptArchiveError as error:
        if args.keep_going and name != "-" and isinstance(output, str):
            for line in recover_blocks(name, output, overwrite=args.force):
                error.add_note(line)
        raise
    if shows_summary(quiet=args.quiet, verbose=args.verbose):
        to = f" -> {printable(output)}" if isinstance(output, str) else ""
        print(f"{printable(name)}{to}: {result.n_bytes:,} bytes, {result.wall_s:.1f} s", file=sys.stderr)


def _output_file(args: argparse.Namespace, name: str) -> str | None:
    """The path of the output, unless it is a folder: an archive may restore one that is empty."""
    path = _output_path(args, name)
    return None if path is None or os.path.isdir(path) else path  # noqa: PTH112  # raises nothing, however long the path is


def _check_archive(name: str) -> None:
    """Raises CorruptArchiveError if the file does not begin as an archive does, CorpusError for a folder."""
    if os.path.isdir(name):  # noqa: PTH112
        raise CorpusError("this is a folder, not an archive")
    if os.path.isfile(name):  # noqa: PTH113  # a pipe could be read only once
        from prequential_codecs.archive_header import MAGIC

        with reading(name), open(name, "rb") as file:  # noqa: PTH123
            if (beginning := file.read(len(MAGIC))) != MAGIC:
                what = "it starts with other bytes" if beginning else "it is empty"
                raise CorruptArchiveError(f"not a .pq archive: {what}")


def _output_path(args: argparse.Namespace, name: str) -> str | None:
    """The path of the restored file or folder; None for standard output."""
    if args.stdout or args.output == "-" or (args.output is None and name == "-"):
        return None
    if args.output is not None:
        return str(args.output)
    if not name.endswith(SUFFIX) or name == SUFFIX:
        _check_archive(name)
        raise OutputError(f"the name does not end in {SUFFIX}; name the output with -o")
    return name.removesuffix(SUFFIX)
