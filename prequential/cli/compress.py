"""Make archives: FILE to FILE.pq."""

import argparse
import sys
from pathlib import Path

from prequential_corpora import is_path

from prequential.cli import options
from prequential.cli.streams import for_each, print_summary, progress_bar

NAMELESS = "this input has no file name to name the archive after: give -o NAME.pq"
NAMES = {"names: FILE ... [-]": options.CORPUS}
OPTIONS = (options.Group(NAMES), *options.OUTPUT, options.Group(options.GIVEN), *options.LEARNER)


def run(args: argparse.Namespace) -> int:
    if len(args.names) > 1 and (args.output is not None or args.stdout):
        args.parser.error("one output cannot hold the archives of several inputs; compress their folder instead")
    import prequential
    from prequential.model.presets import name_of

    config, runtime = options.given_config(args), options.runtime(args)
    chosen = {"given": args.given, "overwrite": args.force, "resume": args.resume}

    def compress(name: str) -> None:
        has_name = is_path(name) and Path(name).name not in ("", "..")
        path = options.output_path(args, name, f"{Path(name)}.pq" if has_name else None, NAMELESS)
        with progress_bar(name, quiet=args.quiet) as show:
            result = prequential.compress(
                name, path or sys.stdout.buffer, config=config, runtime=runtime, **chosen, on_progress=show
            )
        figures = [f"{result.n_bytes:,} -> {result.archive_bytes:,} bytes"]
        if result.n_bytes:
            figures += [f"{result.archive_bytes / result.n_bytes:.2%}", f"{result.bits_per_byte:.4f} bits/byte"]
        figures += filter(None, [f"{result.wall_s:.1f} s", name_of(result.header.config)])
        print_summary(args, f"{name}: {', '.join(figures)}")

    return for_each(args.names, compress, verbose=args.verbose)


COMMAND = options.Command("compress", __doc__, "-5 book.txt", options=OPTIONS, run=run, inputs=("names", "given"))
