"""prequential select: documents of a corpus ranked by their code length, and a subset of them within a budget."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import terminal
from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential_corpora.corpus import Document

    from prequential.model.config import Config
    from prequential.online.runtime import Runtime
    from prequential.online.source import Source
    from prequential.sweeps.selection import Choice

SUMMARY = "rank the documents of a corpus by their code length"
MEASURES, ORDERS = ("surprise", "novel", "progress"), ("high", "low", "middle")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "select",
        description="Rank the documents of a corpus by their cost under a learner that has read the others, and choose the first "
        "ones within a budget of bytes (docs/STUDIES.md).",
    )
    parser.add_argument("source", metavar="CORPUS", help="folder or hf:SOURCE; or a file, with --shard")
    parser.add_argument(
        "--by",
        choices=MEASURES,
        required=True,
        help="score of a document, in bits per byte: its code length (surprise), that without copies (novel), or what reading "
        "--target saves (progress; without --target, what a second reading saves)",
    )
    parser.add_argument(
        "--budget", type=options.byte_count, required=True, metavar="BYTES", help="total length of the chosen documents"
    )
    parser.add_argument(
        "--order",
        choices=ORDERS,
        default="high",
        help="highest score first, lowest first, or nearest to the median first (default: %(default)s)",
    )
    parser.add_argument("--target", metavar="OTHER", help="a corpus of the wanted kind, which the learner reads first")
    parser.add_argument(
        "--shard", type=options.byte_count, metavar="BYTES", help="rank pieces of this length instead of documents"
    )
    parser.add_argument(
        "--limit", type=options.byte_count, metavar="BYTES", help="use only the beginning of the corpus"
    )
    _add_outputs(parser)
    options.add_learner(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("source", "target"))


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="PATH", help="also write the order to this file, as JSON lines")
    output.add_argument("--json", action="store_true", help="print the complete order as JSON lines instead of a table")
    output.add_argument("--write", metavar="PATH", help="write the chosen documents into one file")
    output.add_argument(
        "--write-order",
        choices=("corpus", "rank"),
        default="corpus",
        help="order of the documents in that file (default: %(default)s)",
    )
    output.add_argument("-f", "--force", action="store_true", help="overwrite existing outputs")


def run(args: argparse.Namespace) -> int:
    """Scores, ranks and writes; returns the exit code."""
    from prequential.files import check_output
    from prequential.online.source import open_source

    config, runtime = options.learner_config(args), options.runtime(args)
    _check_usage(args)
    for path in filter(None, (args.output, args.write)):
        check_output(path, overwrite=args.force)
    runtime.check(config)
    with (
        open_source(args.source, args.limit) as source,
        open_source(args.target) if args.target else nullcontext() as target,
    ):
        documents = _documents(args, source)
        choices = _choices(args, source, target, documents, config, runtime)
        mode = source.mode & (target.mode if target else 0o777)
        if args.write:
            _write_subset(args, source, choices, mode)
        _write_order(args, _record(args, source, target, config, choices, len(documents)), choices, mode)
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    if args.shard == 0 or args.limit == 0 or args.budget == 0:
        args.parser.error("--shard, --limit and --budget must be at least 1")
    if args.output and args.write and os.path.realpath(args.output) == os.path.realpath(args.write):
        args.parser.error("-o and --write name the same file: give two different files")
    if "-" in (args.source, args.target) and args.source == args.target:
        args.parser.error("standard input cannot be read twice: give a file as CORPUS or --target")


def _documents(args: argparse.Namespace, source: Source) -> Sequence[Document]:
    """The documents to rank; a single document ends the program with a usage error."""
    from prequential.sweeps.selection import shards

    documents = shards(source.n_bytes, args.shard, source.name) if args.shard else source.documents
    if len(documents) == 1:
        args.parser.error(f"{args.source!r} is one document: cut it into pieces with --shard BYTES")
    shortest = min((document.n_bytes for document in documents if document.n_bytes), default=0)
    if args.budget < shortest:
        raise ConfigError(f"no document fits into {args.budget} bytes: the shortest has {shortest}")
    return documents


def _choices(
    args: argparse.Namespace,
    source: Source,
    target: Source | None,
    documents: Sequence[Document],
    config: Config,
    runtime: Runtime,
) -> list[Choice]:
    from prequential.sweeps.selection import choose, rank, score_documents

    with _progress_bar(quiet=args.quiet) as on_read:
        scored = score_documents(
            source.symbols[:],
            documents,
            args.by,
            config,
            runtime,
            target=target.symbols[:] if target else None,
            on_read=on_read,
        )
    return choose(rank(scored, args.order), args.budget)


def _record(
    args: argparse.Namespace,
    source: Source,
    target: Source | None,
    config: Config,
    choices: Sequence[Choice],
    n_documents: int,
) -> dict[str, Any]:
    """The first line of the order."""
    from prequential.sweeps.selection_text import selection_record
    from prequential.version import VERSION

    request = {
        "corpus": source.record(),
        "target": target.record() if target else None,
        "by": args.by,
        "order": args.order,
        "budget_bytes": args.budget,
        "shard_bytes": args.shard,
    }
    return {**selection_record(request, choices, n_documents), "config": config.to_dict(), "version": VERSION}


def _write_subset(args: argparse.Namespace, source: Source, choices: Sequence[Choice], mode: int) -> None:
    from prequential.files import output_file
    from prequential.sweeps.selection import subset

    with output_file(args.write, overwrite=args.force, mode=mode) as sink:
        for part in subset(source.symbols[:], choices, by_rank=args.write_order == "rank"):
            sink.write(part.tobytes())


def _write_order(args: argparse.Namespace, record: dict[str, Any], choices: Sequence[Choice], mode: int) -> None:
    """Writes one line about the selection, then one for each document, to a file, or with --json to standard output.

    Without --json a table of both ends of the order is printed.
    """
    from prequential.files import output_file
    from prequential.sweeps.selection_text import choice_record, format_selection

    lines = [json.dumps(line, allow_nan=False) + "\n" for line in (record, *map(choice_record, choices))]
    if args.output:
        with output_file(args.output, overwrite=args.force, mode=mode) as sink:
            for line in lines:
                sink.write(line.encode())
    if args.json:
        sys.stdout.writelines(lines)
    elif not (args.quiet and (args.output or args.write)):
        print(format_selection(record, choices))


@contextmanager
def _progress_bar(*, quiet: bool) -> Iterator[Callable[[int, int], object]]:
    """Shows on a terminal how many bytes were read."""
    from tqdm import tqdm

    is_hidden, file = quiet or not sys.stderr.isatty(), terminal(sys.stderr)
    with tqdm(unit="B", unit_scale=True, desc="select", leave=False, disable=is_hidden, file=file) as bar:

        def on_read(n_bytes: int, n_total: int) -> None:
            bar.total = n_total
            bar.update(n_bytes)

        yield on_read
