"""Measure the held-out loss of a trained learner, or of trained models of transformers.

With --train, a learner reads one corpus, and its loss is measured on another corpus: frozen (no learning on the test corpus) and
dynamic (learning continues). With --static, trained models are scored; two models are compared document by document, with an
interval. Losses are also given by document and by language (docs/MEASURES.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import foreign_code, is_text, print_result, progress_bar
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.heldout_loss.request import Heldout

RECORDS = "heldout.jsonl"
ONLY_TRAINED = ("train_limit", "no_overlap", "learner")
LOSS = {
    "--train CORPUS|MODEL *": "what is read first, or a model of `train`",
    "--test CORPUS ! *": options.CORPUS,
    **options.CONTEXT,
    "--stride N": "of static models: tokens that are scored at a time (default: the window)",
    "--cluster FIELD *": "what depends on each other: rows with one value of this field; 2: documents of one folder, two levels "
    "deep; document: none (default: 1)",
    "--orders N": "of static models: also score so many drawn orders of the rows (19 or more), to see whether one has read this "
    "file",
    "--no-overlap": "do not search for text of the test corpus in the training corpus",
    "--limit BYTES": "use only the beginning of the test corpus",
    "--train-limit BYTES": "use only the beginning of the training corpus",
    **options.FORCE,
}
RECORD = {"--runs FOLDER [runs]": f"append the record to {RECORDS} in it", "--no-run": "append no record"}
OPTIONS = (
    options.Group(LOSS),
    options.FORMATS,
    options.Group(RECORD, is_choice=True),
    options.SCORED,
    *options.LEARNER,
    options.OWN_LEARNER,
)


def run(args: argparse.Namespace) -> int:
    _check_usage(args)
    if args.documents:
        return _write_documents(args)
    from prequential.heldout_loss.request import heldout
    from prequential.online.source import mode_of

    def ignore(record: dict[str, Any]) -> None: ...

    keep = ignore if args.no_run else keeper(args.runs, mode_of(args.train, args.test))
    learner = options.other_learner(args)
    runs_foreign_code = foreign_code() if learner or args.static else nullcontext()
    with runs_foreign_code, progress_bar("", quiet=args.quiet) as watch:
        measured = heldout(
            args.test,
            static=args.static,
            scores=args.scores,
            train=args.train,
            config=options.given_config(args),
            learner=learner,
            context=args.context,
            stride=args.stride,
            cluster=args.cluster,
            orders=args.orders,
            overlap=not args.no_overlap,
            limit=args.limit,
            train_limit=args.train_limit,
            runtime=options.runtime(args),
            on_progress=watch,
            keep=ignore if args.train else keep,
        )
    show(args, measured)
    if args.train:  # it may fail: the record has been printed
        keep(measured.record)
    if is_text(args) and not args.no_run:
        print(f"appended to {printable(str(Path(args.runs) / RECORDS))}")
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    if args.documents:
        used = options.given_of(args, "static", "scores", "context", "stride", "cluster", "orders")
        options.refuse(args, used, "--documents writes the documents and measures nothing")
    if args.static or args.scores or args.documents:
        given = [*options.given_of(args, "train", *ONLY_TRAINED), *options.given_learner_options(args)]
        options.refuse(args, given, "--static, --scores and --documents train no learner")
    options.refuse(args, options.given_of(args, "audit_every"), "heldout has no audit")


def _write_documents(args: argparse.Namespace) -> int:
    from prequential.heldout_loss.documents import documents_of, grouping_of, write_documents
    from prequential.online.source import open_source

    with open_source(args.test, args.limit) as source:
        write_documents(documents_of(source, grouping_of(source), {}), args.documents, overwrite=args.force)
    return 0


def show(args: argparse.Namespace, measured: Heldout) -> None:
    """Prints the result: of each model the loss, and what they differ in."""
    losses = [record["dynamic"] or record["frozen"] for record in measured.records]
    figure = "\n".join(f"{loss['bits_per_byte']:.4f}" for loss in losses)
    comparison = [measured.comparison.to_dict()] if measured.comparison else []
    print_result(args, str(measured), *measured.records, *comparison, figure=figure, rows=measured.to_frame)


def keeper(runs: str, mode: int) -> Callable[[dict[str, Any]], object]:
    """A function that appends a record to the file RECORDS in this folder. Raises OutputError if this cannot succeed."""
    from prequential.files.outputs import prepare_records
    from prequential.records import append_record

    path = Path(runs) / RECORDS
    prepare_records(path, mode)
    return lambda record: append_record(path, record, mode)


COMMAND = options.Command(
    "heldout", __doc__, "--train old-code/ --test new-code/", options=OPTIONS, run=run, inputs=("train", "test")
)
