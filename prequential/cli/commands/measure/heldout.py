"""prequential heldout: what a test corpus costs a learner that was trained on another one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential.cli.commands.measure.monorepo import add_repo_options, run_repo
from prequential.cli.options import add_model, add_runtime, add_verbosity, config, n_bytes, runtime
from prequential.cli.progress import progress_bar

if TYPE_CHECKING:
    from prequential.measure.heldout.trained import TrainedOn
    from prequential.model.config import Config
    from prequential.model.learner import Learner
    from prequential.online.runtime import Runtime

    Load = Callable[[], tuple[Learner, TrainedOn]]

RECORDS = "heldout.jsonl"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "heldout",
        help="measure what a test corpus costs a learner that was trained on another",
        description="Train on one corpus, and measure what another costs: with all that was learned frozen, and as learning "
        "goes on; by document and language, seen before or not.",
    )
    parser.add_argument(
        "--train",
        metavar="X",
        help="a corpus; a run folder of `evaluate`; a model's folder; or NAME.checkpoint of an interrupted run",
    )
    parser.add_argument("--test", metavar="CORPUS", help="file, folder, sample:NAME, hf:SOURCE, shards:FOLDER or -")
    parser.add_argument(
        "--context",
        choices=("carried", "isolated", "strided"),
        help="what else a frozen symbol is predicted from: the stream before it (default); its own document; a strided window",
    )
    parser.add_argument("--stride", type=int, metavar="N", help="of --context strided (default: half the GPT's window)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--frozen-only", action="store_true", help="leave out the dynamic loss")
    which.add_argument("--dynamic-only", action="store_true", help="leave out the frozen loss")
    parser.add_argument(
        "--no-overlap", action="store_true", help="do not look for the test corpus in the training corpus"
    )
    parser.add_argument("--limit", type=n_bytes, metavar="BYTES", help="only the beginning of the test corpus")
    parser.add_argument(
        "--train-limit", type=n_bytes, metavar="BYTES", help="only the beginning of the training corpus"
    )
    parser.add_argument("--save-model", metavar="DIR", help="store the trained learner in this new folder")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--runs", metavar="FOLDER", default="runs", help=f"{RECORDS} in it gets the record (default: %(default)s)"
    )
    where.add_argument("--no-run", action="store_true", help="keep no record")
    parser.add_argument("--json", action="store_true", help="print the record, one JSON object, not the tables")
    add_repo_options(parser)
    add_model(parser)
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Trains, measures, prints; returns the exit code."""
    if args.repo is not None or args.series is not None:
        return run_repo(args)
    _check_usage(args)
    from prequential import __version__
    from prequential.corpora.corpus import beginning
    from prequential.corpora.sources import open_corpus
    from prequential.errors import CorpusError
    from prequential.files import writing
    from prequential.measure.heldout.run import measure_heldout
    from prequential.measure.heldout.text import format_heldout
    from prequential.measure.heldout.trained import describe
    from prequential.measure.record import append_record, check_writable

    machine = runtime(args)
    records = None if args.no_run else Path(args.runs) / RECORDS
    if records:
        with writing(args.runs):
            records.parent.mkdir(parents=True, exist_ok=True)
        check_writable(records)  # before the work, not after it
    with open_corpus(args.test) as corpus:
        symbols = corpus.bytes()[: args.limit]
        if not len(symbols):
            raise CorpusError(f"nothing to score: the test corpus {args.test!r} is empty")
        measured = measure_heldout(
            _loader(args, machine),
            symbols,
            beginning(corpus.documents, len(symbols)),
            machine,
            context=args.context,
            stride=args.stride,
            frozen=not args.dynamic_only,
            dynamic=not args.frozen_only,
            overlap=not args.no_overlap,
            stage=partial(progress_bar, quiet=args.quiet),
            warn=lambda text: print(f"prequential: WARNING: {text}", file=sys.stderr),
        )
        record = measured.to_record({**describe(corpus, symbols), "limit_bytes": args.limit}, machine, __version__)
    print(json.dumps(record) if args.json else format_heldout(record))
    sys.stdout.flush()
    if records:
        append_record(records, record)
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    if args.train is None or args.test is None:
        args.parser.error("say --train X and --test CORPUS, or --repo PATH")
    args.context = args.context or "carried"
    if args.limit == 0 or args.train_limit == 0:
        args.parser.error("--limit and --train-limit are at least 1")
    if args.stride is not None and args.context != "strided":
        args.parser.error("--stride belongs to --context strided")
    if args.audit_every:
        args.parser.error("heldout has no audit: leave out --audit-every")
    if args.train == "-" == args.test:
        args.parser.error("standard input is one corpus, not two")


def _loader(args: argparse.Namespace, machine: Runtime) -> Load:
    """What gives the trained learner. What can be refused before the work, is refused here."""
    from prequential.measure.heldout.trained import kind_of

    kind = kind_of(args.train)
    if kind == "corpus":
        return _from_corpus(args, machine)
    own = {"-1..-9 or --config": args.preset or args.config, "--pure": args.pure, "--seed": args.seed is not None}
    own |= {"--train-limit": args.train_limit, "--save-model": args.save_model}
    if given := [option for option, value in own.items() if value]:
        args.parser.error(f"--train names a {kind}, which is a trained learner: leave out {', '.join(given)}")

    def load() -> tuple[Learner, TrainedOn]:
        from prequential.measure.heldout.trained import load_trained

        with progress_bar(kind, quiet=args.quiet) as show:
            return load_trained(args.train, kind, machine, args.max_memory, partial(_check, args, machine), show)

    return load


def _from_corpus(args: argparse.Namespace, machine: Runtime) -> Load:
    """What trains a learner, and stores it if it is to be stored."""
    from prequential import __version__
    from prequential.corpora.sources import open_corpus
    from prequential.files import check_new_folder
    from prequential.measure.heldout.trained import train_on
    from prequential.online.model_store import save_model

    learned = config(args)
    _check(args, machine, learned)
    if args.save_model:
        check_new_folder(args.save_model)

    def train() -> tuple[Learner, TrainedOn]:
        with open_corpus(args.train) as corpus, progress_bar("training", quiet=args.quiet) as show:
            learner, trained_on = train_on(corpus, args.train_limit, machine.learner(learned), show)
        if args.save_model:
            save_model(args.save_model, learner, {**trained_on.about, "prequential": __version__})
        return learner, trained_on

    return train


def _check(args: argparse.Namespace, machine: Runtime, learned: Config) -> None:
    """Refuses a learner that is too large or too slow, or cannot be frozen as was asked."""
    from prequential.measure.heldout.heldout import check_context
    from prequential.online.flops import check_work
    from prequential.online.limits import check_memory

    check_memory(
        learned, args.max_memory - (1 << learned.schedule.history_bits), machine
    )  # frozen, it has a second ring
    check_work(learned)
    if not args.dynamic_only:
        check_context(learned, args.context, args.stride)
