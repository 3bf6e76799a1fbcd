"""Measure the held-out loss of a trained learner.

It is trained on one corpus, and its loss measured on another one: frozen (no learning on the test corpus) and dynamic (learning
continues); by document and by language, and by whether the text also occurs in the training corpus (docs/MEASURES.md).
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import foreign_code, progress_bar, warn
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.heldout_loss.run import LoadLearner
    from prequential.heldout_loss.trained import TrainedOn
    from prequential.model.config import Config
    from prequential.model.learner import OnlineLearner
    from prequential.online.runtime import Runtime

RECORDS = "heldout.jsonl"


def add_options(parser: argparse.ArgumentParser) -> None:
    train = "a corpus, a run folder of `evaluate`, or the folder of a stored model"
    parser.add_argument("--train", metavar="X", required=True, help=train)
    parser.add_argument("--test", metavar="CORPUS", required=True, help=options.CORPUS)
    options.add(
        parser,
        {
            **options.CONTEXT,
            "--no-overlap": "do not search for text of the test corpus in the training corpus",
            "--limit BYTES": "use only the beginning of the test corpus",
            "--train-limit BYTES": "use only the beginning of the training corpus",
            **options.JSON,
        },
    )
    for choice in (
        {"--frozen-only": "leave out the dynamic loss", "--dynamic-only": "leave out the frozen loss"},
        {"--runs FOLDER [runs]": f"append the record to {RECORDS} in it", "--no-run": "append no record"},
    ):
        options.add(parser.add_mutually_exclusive_group(), choice)
    options.add_learner(parser)
    options.add_other_learner(parser)
    parser.set_defaults(inputs=("train", "test"), context="carried")


def run(args: argparse.Namespace) -> int:
    _check_usage(args)
    from prequential.heldout_loss.heldout_text import format_heldout
    from prequential.online.source import mode_of
    from prequential.records.schema import append_record

    records = Path(args.runs) / RECORDS
    if not args.no_run:
        prepare(records, mode := mode_of(args.train, args.test))
    record = _measure(args, options.runtime(args))
    print(json.dumps(record) if args.json else format_heldout(record), flush=True)
    if not args.no_run:
        append_record(records, record, mode)
        if not args.json:
            print(f"appended to {printable(str(records))}")
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    if args.stride is not None and args.context != "strided":
        args.parser.error("--stride belongs to --context strided: give both, or leave out --stride")
    options.refuse(args, options.given_of(args, "audit_every"), "heldout has no audit")
    if args.train == "-" == args.test:
        args.parser.error("standard input cannot be both corpora: give a file as --train or --test")


def _measure(args: argparse.Namespace, runtime: Runtime) -> dict[str, Any]:
    from prequential.errors import CorpusError
    from prequential.heldout_loss.heldout import Policy
    from prequential.heldout_loss.run import Request, measure_heldout, measure_other_heldout
    from prequential.heldout_loss.trained import describe
    from prequential.online.source import open_source

    request = Request(
        frozen=None if args.dynamic_only else Policy(args.context, args.stride),
        dynamic=not args.frozen_only,
        overlap=not args.no_overlap,
    )
    other, stage = options.other_learner(args), partial(progress_bar, quiet=args.quiet)
    with open_source(args.test, args.limit) as source:
        if not source.n_bytes:
            raise CorpusError(f"nothing to score: the test corpus {args.test!r} is empty")
        if other:
            with open_source(args.train, args.train_limit) as train, foreign_code():
                measured = measure_other_heldout(other, train, source, request, stage=stage, warn=warn)
        else:
            measured = measure_heldout(_learner_loader(args, runtime), source, runtime, request, stage=stage, warn=warn)
        return measured.to_record({**describe(source), "limit_bytes": args.limit}, runtime)


def _learner_loader(args: argparse.Namespace, runtime: Runtime) -> LoadLearner:
    """A function that returns the trained learner. Everything that can be refused before the work is refused here."""
    from prequential.heldout_loss.trained import kind_of, load_trained, train_on
    from prequential.online.source import open_source

    kind = kind_of(args.train)
    if kind != "corpus":
        given = [*options.given_learner_options(args), *options.given_of(args, "train_limit")]
        options.refuse(args, given, f"--train names a {kind}, which is a trained learner")

        def load() -> tuple[OnlineLearner, TrainedOn]:
            with progress_bar(kind, quiet=args.quiet) as show:
                return load_trained(args.train, kind, runtime, partial(_check, args, runtime), show)

        return load

    config = options.learner_config(args)
    _check(args, runtime, config)

    def train() -> tuple[OnlineLearner, TrainedOn]:
        with open_source(args.train, args.train_limit) as source, progress_bar("training", quiet=args.quiet) as show:
            return train_on(source, runtime.learner(config), show)

    return train


def prepare(records: Path, mode: int) -> None:
    """Makes the folder of a file of records, before the work. Raises OutputError if it cannot be appended to."""
    from prequential.files import writing
    from prequential.files.append import check_appendable

    with writing(records):
        records.parent.mkdir(parents=True, exist_ok=True)
    check_appendable(records, mode)


def _check(args: argparse.Namespace, runtime: Runtime, config: Config) -> None:
    """Refuses a learner that is too large or too slow, or that cannot be frozen with the context of the options."""
    from prequential.heldout_loss.heldout import Policy

    runtime.check(config, extra_bytes=1 << config.schedule.history_bits)  # a frozen learner has a second ring
    if not args.dynamic_only:
        Policy(args.context, args.stride).stride_for(config)
