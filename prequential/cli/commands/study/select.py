"""prequential select: documents of a corpus ranked by what they cost a learner, and a subset of them under a budget."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prequential.cli.options import Parser, add_model, add_runtime, add_verbosity, config, n_bytes, runtime
from prequential.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prequential.corpora.corpus import Corpus, Document
    from prequential.measure.study.selection import Choice
    from prequential.model.config import Config

SCHEMA = 1
MEASURES, ORDERS = ("surprise", "novel", "progress"), ("high", "low", "middle")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "select",
        help="rank documents by their code length under a learner",
        description="Rank the documents of a corpus by what they cost a learner that knows the others, and choose the best "
        "ones under a budget of bytes. The order is written as lines of JSON.",
    )
    parser.add_argument("source", metavar="CORPUS", help="folder, hf:SOURCE; or a file, with --shard")
    parser.add_argument("--by", choices=MEASURES, required=True, help="what a document is ranked by, in bits per byte")
    parser.add_argument("--budget", type=n_bytes, required=True, metavar="BYTES", help="of the documents to choose")
    parser.add_argument(
        "--order",
        choices=ORDERS,
        default="high",
        help="highest first, lowest first, nearest to the median first (default: %(default)s)",
    )
    parser.add_argument("--target", metavar="OTHER", help="a corpus of the wanted kind, which the learner reads before")
    parser.add_argument("--shard", type=n_bytes, metavar="BYTES", help="rank equal pieces of the corpus, not documents")
    parser.add_argument("--limit", type=n_bytes, metavar="BYTES", help="only the beginning of the corpus")
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="PATH", help="where the order goes (default: standard output)")
    output.add_argument("--write", metavar="PATH", help="write the chosen documents into one file")
    output.add_argument(
        "--write-order",
        choices=("corpus", "rank"),
        default="corpus",
        help="of the documents in that file (default: %(default)s)",
    )
    output.add_argument("-f", "--force", action="store_true", help="overwrite existing outputs")
    add_model(parser)
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Scores, ranks and writes; returns the exit code."""
    from prequential.files import check_output
    from prequential.measure.study.selection import choose, rank, score_documents
    from prequential.online.flops import check_work
    from prequential.online.limits import check_memory

    learner, machine = config(args), runtime(args)
    _check_usage(args)
    for path in filter(None, (args.output, args.write)):
        check_output(path, overwrite=args.force)
    check_memory(learner, args.max_memory, machine)
    check_work(learner)
    with _opened(args.source, args.limit) as (source, corpus), _opened(args.target) as (target, other):
        documents = _documents(args, corpus, len(source))
        if args.budget < (shortest := min((d.n_bytes for d in documents if d.n_bytes), default=0)):
            raise ConfigError(f"no document fits into {args.budget} bytes: the shortest has {shortest}")
        with _bar(quiet=args.quiet) as on_read:
            scored = score_documents(
                source, documents, args.by, learner, machine, target=target if other else None, on_read=on_read
            )
        choices = choose(rank(scored, args.order), args.budget)
        head = {
            "schema": SCHEMA,
            "kind": "selection",
            "corpus": _about(corpus, source),
            "target": _about(other, target) if other else None,
        } | _head(args, learner, len(documents), choices)
        if args.write:
            _write_subset(args, source, choices)
        _write_order(args, head, choices)
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    parser: Parser = args.parser
    if args.shard == 0 or args.limit == 0 or args.budget == 0:
        parser.error("--shard, --limit and --budget are at least 1")
    if args.output and args.write and os.path.realpath(args.output) == os.path.realpath(args.write):
        parser.error("-o and --write name the same file")
    if "-" in (args.source, args.target) and args.source == args.target:
        parser.error("standard input can be read but once")


@contextmanager
def _opened(name: str | None, limit_bytes: int | None = None) -> Iterator[tuple[NDArray[np.uint8], Corpus | None]]:
    """The beginning of a corpus; no bytes and no corpus of None."""
    import numpy as np

    from prequential.corpora.sources import open_corpus

    if name is None:
        yield np.zeros(0, np.uint8), None
        return
    with open_corpus(name) as corpus:
        yield corpus.bytes()[:limit_bytes], corpus


def _documents(args: argparse.Namespace, corpus: Corpus | None, length: int) -> list[Document]:
    """What is to be ranked; a single document is none, an error of usage."""
    from prequential.corpora.corpus import beginning
    from prequential.measure.study.selection import shards

    assert corpus
    if args.shard:
        documents = shards(length, args.shard, corpus.name)
    else:
        documents = beginning(corpus.documents, length)
    if len(documents) == 1:
        args.parser.error(f"{args.source!r} is one document: cut it into pieces with --shard BYTES")
    return documents


def _about(corpus: Corpus | None, source: NDArray[np.uint8]) -> dict[str, Any]:
    assert corpus
    digest = hashlib.blake2b(source.data, digest_size=32).hexdigest()
    return {**corpus.describe(), "n_bytes": len(source), "blake2b": digest}


def _head(args: argparse.Namespace, learner: Config, n_listed: int, choices: list[Choice]) -> dict[str, Any]:
    """What the whole order is of; nothing that depends on machine or time."""
    from prequential import __version__

    chosen = [choice.scored for choice in choices if choice.selected]
    return {
        "by": args.by,
        "order": args.order,
        "budget_bytes": args.budget,
        "shard_bytes": args.shard,
        "n_documents": len(choices),
        "n_empty": n_listed - len(choices),
        "n_selected": len(chosen),
        "selected_bytes": sum(scored.document.n_bytes for scored in chosen),
        "code_bits": sum(choice.scored.code_bits for choice in choices),
        "config": learner.to_dict(),
        "version": __version__,
    }


def choice_record(choice: Choice) -> dict[str, Any]:
    """A document's line, as JSON values."""
    rank, scored, selected = choice
    return {
        "kind": "document",
        "rank": rank,
        "name": scored.document.name,
        "start": scored.document.offset,
        "n_bytes": scored.document.n_bytes,
        "bits": scored.bits,
        "code_bits": scored.code_bits,
        "score": scored.score,
        "selected": selected,
    }


def _write_subset(args: argparse.Namespace, source: NDArray[np.uint8], choices: list[Choice]) -> None:
    from prequential.files import output_file
    from prequential.measure.study.selection import subset

    with output_file(args.write, overwrite=args.force) as sink:
        for part in subset(source, choices, by_rank=args.write_order == "rank"):
            sink.write(part.tobytes())


def _write_order(args: argparse.Namespace, head: dict[str, Any], choices: list[Choice]) -> None:
    """One line of the whole, then one for each document; on standard output, or in a file and a summary beside it."""
    from prequential.files import output_file

    lines = (json.dumps(record, allow_nan=False) + "\n" for record in (head, *map(choice_record, choices)))
    if not args.output:
        sys.stdout.writelines(lines)
        return
    with output_file(args.output, overwrite=args.force) as sink:
        for line in lines:
            sink.write(line.encode())
    if not args.quiet:
        print(format_choice(head, choices))


def format_choice(head: dict[str, Any], choices: list[Choice]) -> str:
    """As a person reads it: how much was chosen, and the two ends of the order."""
    from prequential.measure.table import format_table, printable

    shown = choices if len(choices) <= 10 else [*choices[:5], *choices[-5:]]
    rows = [
        [
            printable(scored.document.name), str(rank), f"{scored.document.n_bytes:,}", f"{scored.bits:,.1f}",
            f"{scored.score:.4f}", "*" if selected else "",
        ]
        for rank, scored, selected in shown
    ]  # fmt: skip
    return (
        f"{head['n_selected']:,} of {head['n_documents']:,} documents chosen, {head['selected_bytes']:,} of "
        f"{head['budget_bytes']:,} bytes, by {head['by']}, {head['order']} first\n\n"
        + format_table(("document", "rank", "bytes", "bits", "bits/byte", "chosen"), rows)
    )


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[int, int], object]]:
    """Shows on a terminal how much was read."""
    from tqdm import tqdm

    hidden = quiet or sys.stderr is None or not sys.stderr.isatty()
    with tqdm(unit="B", unit_scale=True, desc="select", leave=False, disable=hidden) as bar:

        def on_read(n_bytes: int, n_in_all: int) -> None:
            bar.total = n_in_all
            bar.update(n_bytes)

        yield on_read
