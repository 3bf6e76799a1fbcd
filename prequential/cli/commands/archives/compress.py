"""prequential compress: files, folders, standard input or samples to .pq archives."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import BinaryIO

from prequential.cli.failures import for_each
from prequential.cli.options import add_model, add_output, add_runtime, add_verbosity, config, runtime
from prequential.cli.progress import progress_bar
from prequential.errors import OutputError


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "compress", help="make archives: FILE to FILE.pq", description="Make an archive of each input: FILE to FILE.pq."
    )
    parser.add_argument(
        "names",
        nargs="*",
        default=["-"],
        metavar="FILE",
        help="file, folder, sample:NAME, hf:SOURCE, shards:FOLDER or - (default: -)",
    )
    add_output(parser)
    add_model(parser)
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run, shared="steps")


def run(args: argparse.Namespace) -> int:
    """Compresses every input; returns the exit code."""
    if len(args.names) > 1 and (args.output is not None or args.stdout):
        args.parser.error("several inputs cannot go into one archive; compress their folder instead")
    from prequential import api
    from prequential.online.workers.shared import run_by_all

    learner = config(args)

    def compress(machine: api.Runtime, name: str) -> None:
        with progress_bar(name, quiet=args.quiet) as show:
            result = api.compress(
                name,
                _output(args, name),
                config=learner,
                runtime=machine,
                max_memory_bytes=args.max_memory,
                overwrite=args.force,
                resume=args.resume,
                on_progress=show,
            )
        if args.verbose and not args.quiet:
            ledger = result.ledger
            print(
                f"{name}: {ledger.n_bytes} -> {ledger.archive_bytes} bytes, {ledger.bits_per_byte:.4f} bits/byte, "
                f"{result.wall_s:.1f} s",
                file=sys.stderr,
            )

    return run_by_all(
        runtime(args), lambda machine: for_each(args.names, partial(compress, machine), verbose=args.verbose)
    )


def _output(args: argparse.Namespace, name: str) -> str | BinaryIO:
    if args.stdout or args.output == "-" or (args.output is None and name == "-"):
        return sys.stdout.buffer
    if args.output is not None:
        return str(args.output)
    if name.startswith(("sample:", "hf:", "shards:")):
        raise OutputError("has no file to name the archive after; name it with -o")
    path = Path(name)
    return f"{path.absolute() if path.name in ('', '..') else path}.pq"
