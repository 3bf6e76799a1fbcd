"""prequential decompress: .pq archives back to the files and folders they were made of."""

import argparse
import itertools
import sys
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from prequential.cli.failures import for_each
from prequential.cli.options import add_output, add_runtime, add_verbosity, runtime
from prequential.cli.progress import progress_bar
from prequential.errors import CorruptArchiveError, OutputError

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
        "--keep-going",
        action="store_true",
        help="of a damaged archive, also say which blocks behind the damage are intact, and save those stored raw",
    )
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run, shared="steps")


def run(args: argparse.Namespace) -> int:
    """Decompresses every archive; returns the exit code."""
    if len(args.names) > 1 and args.output not in (None, "-"):
        args.parser.error("-o names one output, and there are several archives")
    from prequential import api
    from prequential.online.workers.shared import run_by_all

    def decompress(machine: api.Runtime, name: str) -> None:
        output = _output(args, name)
        try:
            with progress_bar(name, quiet=args.quiet) as show:
                result = api.decompress(
                    sys.stdin.buffer if name == "-" else name,
                    output,
                    runtime=machine,
                    max_memory_bytes=args.max_memory,
                    overwrite=args.force,
                    resume=args.resume,
                    on_progress=show,
                )
        except CorruptArchiveError as error:
            if args.keep_going and name != "-" and isinstance(output, str):
                for line in _behind_the_damage(name, output):
                    error.add_note(line)
            raise
        if args.verbose and not args.quiet:
            print(f"{name}: {result.n_bytes} bytes, {result.wall_s:.1f} s", file=sys.stderr)

    return run_by_all(
        runtime(args), lambda machine: for_each(args.names, partial(decompress, machine), verbose=args.verbose)
    )


def _behind_the_damage(name: str, output: str) -> Iterator[str]:
    """What is left of a damaged archive behind the first bad block, in words; blocks stored raw are saved to files."""
    from prequential.codecs.archive_block import BlockKind
    from prequential.codecs.archive_summary import read_payload, survey
    from prequential.files import output_file

    found = survey(name)
    if not found.fault:
        yield "all checksums are right: the damage is not in the file"
    for intact, blocks in itertools.groupby(found.blocks, key=lambda block: block.head and block.head.kind):
        group = list(blocks)
        first, last = group[0], group[-1]
        if last.stop <= found.n_bytes_held:
            continue
        where = f"block {first.number}" if first is last else f"blocks {first.number}-{last.number}"
        where += f" (original bytes {first.start}-{last.stop})"
        if intact is None:
            yield f"{where} damaged"
        elif intact is BlockKind.CODED:
            yield f"{where} intact, but coded with what came before: lost unless the damage is repaired"
        else:
            for block in group:
                try:
                    with output_file(f"{output}.from-{block.start}") as sink:
                        sink.write(read_payload(name, block))
                except OutputError as error:
                    yield str(error)
            last_name = f" to {output}.from-{last.start}" if last is not first else ""
            yield f"{where} stored raw and intact: saved as {output}.from-{first.start}{last_name}"
    covered = found.blocks[-1].stop if found.blocks else 0
    if covered < found.header.n_bytes:
        yield f"original bytes {covered}-{found.header.n_bytes}: the archive ends before them, or its index is damaged too"


def _output(args: argparse.Namespace, name: str) -> str | BinaryIO:
    if args.stdout or args.output == "-" or (args.output is None and name == "-"):
        return sys.stdout.buffer
    if args.output is not None:
        return str(args.output)
    if not name.endswith(SUFFIX) or name == SUFFIX:
        raise OutputError(f"does not end in {SUFFIX}; name the output with -o")
    return name.removesuffix(SUFFIX)
