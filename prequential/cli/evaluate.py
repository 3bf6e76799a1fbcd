"""Measure the code length of a corpus under a learner.

The report shows it next to the sizes that other compressors reach (docs/MEASURES.md). With -q it is one figure, in bits per byte.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import fitted, for_each, foreign_code, progress_bar

if TYPE_CHECKING:
    from prequential.evaluation.baselines import Baseline
    from prequential.evaluation.runs import DraftFolder
    from prequential.online.runtime import Runtime

MEASURE = {
    "names: CORPUS ...": options.CORPUS,
    "--verify": "decode the archive and compare every byte",
    **options.LIMIT,
    "--baselines NAMES": "compressors to compare with: names separated by commas, all, or none",
    "--static hf:MODEL ...": "also measure this trained model, which learns nothing: a folder, or NAME@REVISION on the hub; "
    "repeatable",
    "--static-stride N": "with --static: tokens that the model scores at a time (default: its window)",
    "--tables": "also print the total cost, with the decoder, and tables of where the bits go",
    "--configs-tried N [1]": "the configuration is the best of N; the ledger counts the choice",
    "--seeds-tried N [1]": "the seed is the best of N; the ledger counts the choice",
    **options.JSON,
    **options.GIVEN,
}
FOLDER = {
    **options.RUNS,
    "--no-run": "write no run folder",
    "--resume DRAFT": "resume an interrupted evaluation of this corpus from the folder that it left",
}
OPTIONS = (options.Group(MEASURE), options.Group(FOLDER, is_choice=True), *options.LEARNER, options.OWN_LEARNER)


def run(args: argparse.Namespace) -> int:
    if args.resume is not None and len(args.names) > 1:
        args.parser.error("--resume needs exactly one corpus: give the one corpus of the interrupted evaluation")
    learner, runtime = options.other_learner(args), options.runtime(args)
    choice = {"learner": learner, "config": None if learner else options.given_config(args)}
    work = partial(_evaluate, args, choice, runtime, _baselines(args))
    return for_each(args.names, work, verbose=args.verbose)


def _evaluate(
    args: argparse.Namespace, choice: dict[str, Any], runtime: Runtime, baselines: Sequence[Baseline], name: str
) -> None:
    from prequential.evaluation.evaluation import evaluate

    with _run_folder(args) as folder:
        with foreign_code(), progress_bar(name, quiet=args.quiet) as show:
            evaluation = evaluate(
                name,
                **choice,
                given=args.given,
                limit=args.limit,
                baselines=baselines,
                verify=args.verify,
                draft=folder,
                runtime=runtime,
                on_progress=show,
            ).declaring(n_configs=args.configs_tried, n_seeds=args.seeds_tried)
        record = evaluation.record
        root = Path(args.runs) if args.resume is None else Path(args.resume).parent
        path = folder.finish(root, record, evaluation.curves, mode=evaluation.mode) if folder else None
    _print_record(args, record, path)


def _run_folder(args: argparse.Namespace) -> AbstractContextManager[DraftFolder | None]:
    from prequential.evaluation.runs import interrupted_run_folder, new_run_folder

    def hint(draft: Path) -> str:
        return f"with the same corpus and options, --resume {str(draft)!r} continues this run"

    if args.resume is not None:
        return interrupted_run_folder(args.resume, hint=hint)
    return nullcontext() if args.no_run else new_run_folder(args.runs, hint=hint)


def _print_record(args: argparse.Namespace, record: dict[str, Any], run_folder: Path | None) -> None:
    from prequential.evaluation.breakdown import format_tables
    from prequential.evaluation.summary import format_report, format_total

    if args.json or args.quiet:
        print(json.dumps(record) if args.json else f"{record['bits_per_byte']:.4f}", flush=True)
        return
    parts = [format_total(record), format_tables(record["tables"])] if args.tables else []
    report = format_report(record, *parts, folder=run_folder or "")
    print(fitted(report), end="\n\n" if len(args.names) > 1 else "\n", flush=True)


def _baselines(args: argparse.Namespace) -> list[Baseline]:
    """Those of --baselines and --static. Raises what StaticModel raises."""
    from prequential_codecs.baselines import BASELINES

    names = tuple(BASELINES) if args.baselines is None else args.baselines
    named: Sequence[str] = {("all",): tuple(BASELINES), ("none",): ()}.get(tuple(names), names)
    if not args.static:
        return [*named]
    from prequential.adapters import StaticModel

    sizes = {"stride": args.static_stride, "max_memory_bytes": args.max_memory}
    with foreign_code():
        return [*named, *(StaticModel(name, **sizes) for name in args.static)]


COMMAND = options.Command(name="evaluate", text=__doc__, options=OPTIONS, run=run, inputs=("names", "given"))
