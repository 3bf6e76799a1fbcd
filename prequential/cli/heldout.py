"""Measure the held-out loss of a trained learner, or of trained models of transformers.

With --train, a learner reads one corpus, and its loss is measured on another corpus: frozen (no learning on the test corpus) and
dynamic (learning continues). With --static, trained models are scored; two models are compared document by document, with an
interval. Losses are also given by document and by language (docs/MEASURES.md). What has a record already is not measured again.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import for_each, foreign_code, is_text, print_result, progress_bar
from prequential.machine.jobs import Jobs
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.heldout_loss.request import Heldout

ONLY_TRAINED = ("train_limit", "no_overlap", "learner")
OF_EQUAL_NAME = ("static", "scores", "train", "context", "stride", "cluster", "orders", "limit", "train_limit")
LOSS = {
    "--train CORPUS|MODEL *": "what is read first, or a model of `train`",
    "--test CORPUS ! ... *": f"{options.CORPUS}; repeatable",
    **options.CONTEXT,
    "--stride N": "of static models: tokens that are scored at a time (default: the window)",
    "--cluster FIELD *": "groups of dependent documents: rows with one value of this field; 2: folders, two levels deep; "
    "document: each alone (default: commits, or else 1)",
    "--orders N": "of static models: also score N random orders of the rows (19 or more), to see whether one has read this "
    "file",
    "--no-overlap": "do not search for text of the test corpus in the training corpus",
    "--limit BYTES": "use only the beginning of the test corpus",
    "--train-limit BYTES": "use only the beginning of the training corpus",
    **options.JOBS,
    **options.FORCE,
}
RECORD = {"--runs FOLDER [runs]": "folder of heldout.jsonl, which has the records", "--no-run": "append no record"}
OWN = (options.Group(LOSS), options.FORMATS, options.Group(RECORD, is_choice=True), options.SCORED)
OPTIONS = (*OWN, *options.LEARNER, options.OWN_LEARNER)


def run(args: argparse.Namespace) -> int:
    _check_usage(args)
    if args.documents:
        from prequential.heldout_loss.documents import HeldoutCorpus, write_documents
        from prequential.online.source import check_outside, open_source

        check_outside(args.documents, args.test[0])
        texts = HeldoutCorpus.of(open_source(args.test[0], args.limit)).texts()
        write_documents(texts, args.documents, overwrite=args.force)
        return 0
    from prequential.heldout_loss.request import RECORDS, heldout

    learner, found, code = options.other_learner(args), list[Any](), 0
    runs_foreign_code = foreign_code() if learner or args.static else nullcontext()
    with (
        runs_foreign_code,
        progress_bar("", quiet=args.quiet) as watch,
        ThreadPool(len(args.test)) as threads,  # daemons, which only wait for the jobs
        Jobs(args.jobs) if args.jobs else nullcontext() as executor,
    ):
        measure: Any = partial(
            heldout,
            **{name: getattr(args, name) for name in OF_EQUAL_NAME},
            config=options.given_config(args),
            learner=learner,
            overlap=not args.no_overlap,
            runtime=options.runtime(args),
            runs=None if args.no_run else args.runs,
            executor=executor,
            on_progress=watch,
        )
        if len(args.test) == 1:
            found.append(measure(args.test[0]))
        else:
            calls = {
                test: threads.apply_async(measure, (test,)).get if executor else partial(measure, test)
                for test in args.test
            }
            code = for_each(args.test, lambda test: found.append(calls[test]()), verbose=args.verbose)
    if found:
        show(args, *found)
    if found and is_text(args) and not args.no_run:
        path, n_new = printable(str(Path(args.runs) / RECORDS)), sum(each.n_new for each in found)
        print(f"appended to {path}: {n_new}" if n_new else f"nothing is new: {path} had all records")
    return code


def _check_usage(args: argparse.Namespace) -> None:
    if args.documents:
        options.refuse(args, ["all but one --test"] if len(args.test) > 1 else [], "--documents writes one corpus")
        used = options.given_of(args, "static", "scores", "context", "stride", "cluster", "orders")
        options.refuse(args, used, "--documents writes the documents and measures nothing")
    if args.static or args.scores or args.documents:
        given = [*options.given_of(args, "train", *ONLY_TRAINED), *options.given_learner_options(args)]
        options.refuse(args, given, "--static, --scores and --documents train no learner")
    if "-" in args.test and len(args.static + args.scores) > 1:
        args.parser.error("each model reads the test corpus again: save standard input to a file first")
    options.refuse(args, options.given_of(args, "audit_every"), "heldout has no audit")
    if args.jobs:
        options.refuse(args, options.given_of(args, "learner"), "--jobs takes learners of this program")


def show(args: argparse.Namespace, *found: Heldout) -> None:
    """Prints the results, one for each test corpus: of each model the loss, and what they differ in."""
    records = [record for each in found for record in each.records]
    comparisons = [each.comparison.to_dict() for each in found if each.comparison]
    figure = "\n".join(f"{(each['dynamic'] or each['frozen'])['bits_per_byte']:.4f}" for each in records)
    rows = [{"test": each.record["test"].get("name"), **row} for each in found for row in each.rows]
    print_result(args, "\n\n".join(map(str, found)), *records, *comparisons, figure=figure, rows=lambda: rows)


EXAMPLE = "--train old-code/ --test new-code/"
COMMAND = options.Command("heldout", __doc__, EXAMPLE, options=OPTIONS, run=run, inputs=("train", "test"))
