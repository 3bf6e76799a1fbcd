"""Make archives: FILE to FILE.pq."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential_corpora import is_path

from prequential.cli import options
from prequential.cli.streams import for_each, print_summary, progress_bar
from prequential.errors import OutputError

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime


OPTIONS = (
    options.Group({"names: FILE ... [-]": options.CORPUS}),
    *options.OUTPUT,
    options.Group(options.GIVEN),
    *options.LEARNER,
)


def run(args: argparse.Namespace) -> int:
    if len(args.names) > 1 and (args.output is not None or args.stdout):
        args.parser.error("one output cannot hold the archives of several inputs; compress their folder instead")
    work = partial(_compress, args, options.given_config(args), options.runtime(args))
    return for_each(args.names, work, verbose=args.verbose)


def _compress(args: argparse.Namespace, config: "Config | None", runtime: "Runtime", name: str) -> None:
    import prequential
    from prequential.model.presets import name_of

    with progress_bar(name, quiet=args.quiet) as show:
        result = prequential.compress(
            name,
            _output_path(args, name) or sys.stdout.buffer,
            config=config,
            given=args.given,
            runtime=runtime,
            overwrite=args.force,
            resume=args.resume,
            on_progress=show,
        )
    figures = [f"{result.n_bytes:,} -> {result.archive_bytes:,} bytes"]
    if result.n_bytes:
        figures += [f"{result.archive_bytes / result.n_bytes:.2%}", f"{result.bits_per_byte:.4f} bits/byte"]
    level = name_of(result.header.config)
    print_summary(args, f"{name}: {', '.join([*figures, f'{result.wall_s:.1f} s', *([level] if level else [])])}")


def _output_path(args: argparse.Namespace, name: str) -> str | None:
    """The path of the archive; None for standard output."""
    if args.stdout or (args.output or name) == "-":
        return None
    if args.output is not None:
        return str(args.output)
    if not is_path(name) or Path(name).name in ("", ".."):
        raise OutputError("this input has no file name to name the archive after: give -o NAME.pq")
    return f"{Path(name)}.pq"


COMMAND = options.Command("compress", __doc__, "-5 book.txt", options=OPTIONS, run=run, inputs=("names", "given"))
