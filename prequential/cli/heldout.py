"""Measure the held-out loss of a trained learner, or of trained models of transformers.

With --train, a learner reads one corpus, and its loss is measured on another corpus: frozen (no learning on the test corpus) and
dynamic (learning continues). With --static, trained models are scored; two models are compared document by document, with an
interval. Losses are also given by document and by language (docs/MEASURES.md).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.streams import fitted, foreign_code, progress_bar, warn
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.heldout_loss.request import Heldout, HeldoutRequest, Keep

RECORDS = "heldout.jsonl"
ONLY_TRAINED = ("train_limit", "frozen_only", "dynamic_only", "no_overlap", "learner")
LOSS = {
    "--train X": "a corpus, a run of `evaluate` (its folder, latest ...), or the folder of a stored model",
    "--test CORPUS !": options.CORPUS,
    **options.CONTEXT,
    "--cluster FIELD": "what depends on each other: rows with one value of this field; 2: documents of one folder, two levels "
    "deep; document: none (default: 1)",
    "--orders K": "of static models: also score so many drawn orders of the rows (19 or more), to see whether one has read this "
    "file",
    "--no-overlap": "do not search for text of the test corpus in the training corpus",
    "--limit BYTES": "use only the beginning of the test corpus",
    "--train-limit BYTES": "use only the beginning of the training corpus",
    **options.FORCE,
    **options.JSON,
}
LOSSES = {"--frozen-only": "leave out the dynamic loss", "--dynamic-only": "leave out the frozen loss"}
RECORD = {"--runs FOLDER [runs]": f"append the record to {RECORDS} in it", "--no-run": "append no record"}
OPTIONS = (
    options.Group(LOSS),
    options.Group(LOSSES, is_choice=True),
    options.Group(RECORD, is_choice=True),
    options.SCORED,
    *options.LEARNER,
    options.OWN_LEARNER,
)


def run(args: argparse.Namespace) -> int:
    _check_usage(args)
    if args.documents:
        return _write_documents(args)
    from prequential.online.source import mode_of

    keep = None if args.no_run else keeper(args.runs, mode_of(args.train, args.test))
    from prequential.heldout_loss.request import keep_nothing, measure

    request, stage = _request(args), partial(progress_bar, quiet=args.quiet)
    runs_foreign_code = request.learner or request.models.static
    with foreign_code() if runs_foreign_code else nullcontext():
        found = measure(request, stage=stage, warn=warn, keep=keep if keep and request.models else keep_nothing)
    show(found, as_json=args.json)
    if keep and not request.models:  # it may fail: the record has been printed
        keep(found.record)
    if keep:
        show_place(args)
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    check_models(args, "train", *ONLY_TRAINED, only_scored=("cluster", "orders"))
    if args.orders and not args.static:
        args.parser.error("--orders needs --static: what a learner read that is trained here is known")
    if not (args.train or trains_nothing(args)):
        args.parser.error("give --train, --static or --scores to measure a loss, or --documents to write the documents")
    if args.train and args.stride is not None and args.context != "strided":
        args.parser.error("--stride belongs to --context strided: give both, or leave out --stride")
    options.refuse(args, options.given_of(args, "audit_every"), "heldout has no audit")
    if args.train == "-" == args.test:
        args.parser.error("standard input cannot be both corpora: give a file as --train or --test")
    if args.train:
        from prequential.heldout_loss.trained import kind_of

        if (kind := kind_of(args.train)) != "corpus":
            given = [*options.given_learner_options(args), *options.given_of(args, "train_limit")]
            options.refuse(args, given, f"--train names a {kind}, which is a trained learner")


def trains_nothing(args: argparse.Namespace) -> bool:
    """Whether an option of `add_models` says what to do."""
    return bool(args.static or args.scores or args.documents)


def check_models(args: argparse.Namespace, *only_trained: str, only_scored: Sequence[str] = ()) -> None:
    """Refuses options of training together with the options of `add_models`, and --documents with a measurement."""
    if args.documents:
        used = options.given_of(args, "static", "scores", "context", "stride", *only_scored)
        options.refuse(args, used, "--documents writes the documents and measures nothing")
    if trains_nothing(args):
        given = [*options.given_of(args, *only_trained), *options.given_learner_options(args)]
        options.refuse(args, given, "--static, --scores and --documents train no learner")


def _write_documents(args: argparse.Namespace) -> int:
    from prequential.heldout_loss.documents import documents_of, write_documents
    from prequential.online.source import open_source

    with open_source(args.test, args.limit) as source:
        write_documents(documents_of(source), args.documents, overwrite=args.force)
    return 0


def _request(args: argparse.Namespace) -> HeldoutRequest:
    from prequential.heldout_loss.heldout import Policy
    from prequential.heldout_loss.request import HeldoutRequest
    from prequential.heldout_loss.trained import kind_of

    learner = options.other_learner(args)
    is_ours = args.train and not learner and kind_of(args.train) == "corpus"
    return HeldoutRequest(
        test=args.test,
        models=options.models(args),
        train=args.train,
        config=options.learner_config(args) if is_ours else None,
        learner=learner,
        policy=None if args.dynamic_only else Policy(args.context or "carried", args.stride),
        dynamic=not args.frozen_only,
        overlap=not args.no_overlap,
        cluster=args.cluster,
        limit_bytes=args.limit,
        train_limit_bytes=args.train_limit,
        runtime=options.runtime(args),
    )


def show(found: Heldout, *, as_json: bool) -> None:
    """Prints the records and the comparison as JSON lines, or the report."""
    if not as_json:
        print(fitted(str(found)), flush=True)
        return
    for record in (*found.records, *([found.comparison.to_dict()] if found.comparison else [])):
        print(json.dumps(record, allow_nan=False), flush=True)


def show_place(args: argparse.Namespace) -> None:
    """Prints where the records are, except among JSON lines."""
    if not args.json:
        print(f"appended to {printable(str(Path(args.runs) / RECORDS))}")


def keeper(runs: str, mode: int) -> Keep:
    """A function that appends a record to the file RECORDS in this folder. Raises OutputError if this cannot succeed."""
    from prequential.files.outputs import prepare_records
    from prequential.records import append_record

    path = Path(runs) / RECORDS
    prepare_records(path, mode)
    return lambda record: append_record(path, record, mode)


COMMAND = options.Command(
    name="heldout", text=__doc__, options=OPTIONS, run=run, inputs=("train", "test"), runs_of=("train",)
)
