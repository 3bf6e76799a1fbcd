"""Make archives: FILE to FILE.pq."""

import argparse
import sys
from pathlib import Path

from prequential_corpora import is_path

from prequential.cli import options
from prequential.cli.streams import for_each, print_summary, progress_bar
from prequential.errors import OutputError

OPTIONS = (
    options.Group({"names: FILE ... [-]": options.CORPUS}),
    *options.OUTPUT,
    options.Group(options.GIVEN),
    *options.LEARNER,
)


def run(args: argparse.Namespace) -> int:
    if len(args.names) > 1 and (args.output is not None or args.stdout):
        args.parser.error("one output cannot hold the archives of several inputs; compress their folder instead")
    import prequential
    from prequential.model.presets import name_of

    config, runtime = options.given_config(args), options.runtime(args)
    chosen = {"given": args.given, "overwrite": args.force, "resume": args.resume}

    def compress(name: str) -> None:
        output = _output_path(args, name) or sys.stdout.buffer
        with progress_bar(name, quiet=args.quiet) as show:
            result = prequential.compress(name, output, config=config, runtime=runtime, **chosen, on_progress=show)
        figures = [f"{result.n_bytes:,} -> {result.archive_bytes:,} bytes"]
        if result.n_bytes:
            figures += [f"{result.archive_bytes / result.n_bytes:.2%}", f"{result.bits_per_byte:.4f} bits/byte"]
        figures += filter(None, [f"{result.wall_s:.1f} s", name_of(result.header.config)])
        print_summary(args, f"{name}: {', '.join(figures)}")

    return for_each(args.names, compress, verbose=args.verbose)


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
