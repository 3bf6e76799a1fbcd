"""Make archives: FILE to FILE.pq."""

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential_corpora import is_path

from prequential.cli import options
from prequential.cli.streams import for_each, print_summary, progress_bar, resumable
from prequential.errors import OutputError

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", default=["-"], metavar="FILE", help=f"{options.CORPUS} (default: -)")
    options.add_output(parser)
    given = "what the learner reads first, or a model of `train`; decompress needs the same"
    options.add(parser, {"--given CORPUS|MODEL": given})
    options.add_learner(parser)
    parser.set_defaults(inputs=("names",), output_of=_output_path)


def run(args: argparse.Namespace) -> int:
    if len(args.names) > 1 and (args.output is not None or args.stdout):
        args.parser.error("one output cannot hold the archives of several inputs; compress their folder instead")
    work = partial(_compress, args, options.given_config(args), options.runtime(args))
    return for_each(args.names, work, verbose=args.verbose)


def _compress(args: argparse.Namespace, config: "Config | None", runtime: "Runtime", name: str) -> None:
    import prequential
    from prequential.learners.given import is_model
    from prequential.model.presets import name_of

    with resumable(args, names=[name]), progress_bar(name, quiet=args.quiet) as show:
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
    ledger, level = result.ledger, name_of(result.header.config)
    if config is None and not (args.given and is_model(args.given)):
        level = options.level_by_size(ledger.n_bytes)
    figures = f"{ledger.n_bytes:,} -> {ledger.archive_bytes:,} bytes, {result.wall_s:.1f} s"
    if ledger.n_bytes:
        rates = f"{ledger.archive_bytes / ledger.n_bytes:.2%}, {ledger.bits_per_byte:.4f} bits/byte"
        figures = f"{ledger.n_bytes:,} -> {ledger.archive_bytes:,} bytes, {rates}, {result.wall_s:.1f} s"
    print_summary(args, f"{name}: {figures}{f', {level}' if level else ''}")


def _output_path(args: argparse.Namespace, name: str) -> str | None:
    """The path of the archive; None for standard output."""
    if args.stdout or (args.output or name) == "-":
        return None
    if args.output is not None:
        return str(args.output)
    if not is_path(name):
        raise OutputError("this input has no file name to name the archive after: give -o NAME.pq")
    path = Path(name)
    if path.name not in ("", ".."):
        return f"{path}.pq"
    folder = path.resolve()
    command = shlex.join(["prequential", "compress", name, "-o", f"{folder.with_name(folder.name or 'root')}.pq"])
    raise OutputError(f"{name!r} is not a name that an archive could have: give -o, for instance `{command}`")
