"""Measure the code length of a corpus under a learner.

The report shows it next to the sizes that other compressors reach (docs/MEASURES.md). Each of several corpora has a run
and a row. With -q it is one figure, in bits per byte.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import for_each, foreign_code, print_result, progress_bar
from prequential.machine.jobs import Jobs

if TYPE_CHECKING:
    from prequential.evaluation.baselines import Baseline
    from prequential.evaluation.runs import DraftFolder

Measured = tuple[dict[str, Any], Path | None, str]  # record, run folder, and the name of the corpus
MEASURE = {
    "names: CORPUS ...": options.CORPUS,
    "--joint *": "measure all of them as one corpus, in which each is a document",
    "--verify *": "decode the archive and compare every byte",
    **options.LIMIT,
    "--baselines NAMES *": "compressors to compare with: names separated by commas, all, or none",
    "--static hf:MODEL ...": "also measure this trained model, which learns nothing: a folder, or NAME@REVISION on the hub; "
    "repeatable",
    "--static-stride N": "with --static: tokens that the model scores at a time (default: its window)",
    "--tables": "also print the total cost, with the decoder, and tables of where the bits go",
    "--configs-tried N [1]": "the configuration is the best of N; the ledger counts the choice",
    "--seeds-tried N [1]": "the seed is the best of N; the ledger counts the choice",
    **options.GIVEN,
    **options.JOBS,
}
FOLDER = {
    **options.RUNS,
    "--no-run": "write no run folder",
    "--resume DRAFT": "resume an interrupted evaluation of this corpus from the folder that it left",
}
OWN = (options.Group(MEASURE), options.FORMATS, options.Group(FOLDER, is_choice=True))
OPTIONS = (*OWN, *options.LEARNER, options.OWN_LEARNER)


def run(args: argparse.Namespace) -> int:
    names = [" + ".join(args.names)] if args.joint else args.names
    if args.resume is not None and len(names) > 1:
        args.parser.error("--resume needs exactly one corpus: give the one corpus of the interrupted evaluation")
    if args.jobs and "-" in args.names:
        args.parser.error("--jobs opens each corpus in another process: save standard input to a file first")
    chosen, done = _chosen(args), list[Measured]()
    with Jobs(args.jobs) if args.jobs else nullcontext() as executor:
        alone = [executor.submit(_evaluate_alone, args.words, name) for name in names] if executor else []

        def measure(name: str) -> None:
            if alone:
                with progress_bar(f"{len(names) - len(alone)} of {len(names)} done", quiet=args.quiet):
                    measured = alone.pop(0).result()
            else:
                measured = _evaluate(args, chosen, name)
            if args.json or (args.quiet and not (args.csv or args.markdown)):
                print_result(args, "", measured[0], figure=f"{measured[0]['bits_per_byte']:.4f}")
            else:
                done.append(measured)

        try:
            return for_each(names, measure, verbose=args.verbose)
        finally:  # also what was measured before an interruption
            if done:
                _print_all(args, done, is_one=len(names) == 1)


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The learner, what it is compared with, and how."""
    learner, runtime = options.other_learner(args), options.runtime(args)
    config = None if learner else options.given_config(args)
    chosen = {"learner": learner, "config": config, "runtime": runtime, "baselines": _baselines(args)}
    return chosen | {name: getattr(args, name) for name in ("given", "limit", "verify")}


def _evaluate_alone(words: Sequence[str], name: str) -> Measured:
    """One corpus of this command line, in a process of its own."""
    from prequential.cli.main import build_parser

    args = build_parser().parse_args([words[0], "--quiet", *words[1:]])
    return _evaluate(args, _chosen(args), name)


def _evaluate(args: argparse.Namespace, chosen: dict[str, Any], name: str) -> Measured:
    from prequential.evaluation.evaluation import evaluate
    from prequential.online.source import mode_of, open_source

    with _run_folder(args) as folder:
        with foreign_code(), progress_bar(name, quiet=args.quiet) as show:
            corpus = [open_source(each).symbols.tobytes() for each in args.names] if args.joint else name
            evaluation = evaluate(corpus, **chosen, draft=folder, on_progress=show)
        evaluation = evaluation.declaring(n_configs=args.configs_tried, n_seeds=args.seeds_tried)
        record = evaluation.record
        root = Path(args.runs) if args.resume is None else Path(args.resume).parent
        mode = evaluation.mode & mode_of(*args.names) if args.joint else evaluation.mode
        return record, folder.finish(root, record, evaluation.curves, mode=mode) if folder else None, name


def _run_folder(args: argparse.Namespace) -> AbstractContextManager[DraftFolder | None]:
    from prequential.evaluation.runs import interrupted_run_folder, new_run_folder

    def hint(draft: Path) -> str:
        return f"with the same corpus and options, --resume {str(draft)!r} continues this run"

    if args.resume is not None:
        return interrupted_run_folder(args.resume, hint=hint)
    return nullcontext() if args.no_run else new_run_folder(args.runs, *args.names, args.given, hint=hint)


def _print_all(args: argparse.Namespace, done: Sequence[Measured], *, is_one: bool) -> None:
    """The report of a corpus, or a row for each; as a table, each compressor on each corpus."""
    from prequential.evaluation.breakdown import format_tables
    from prequential.evaluation.summary import format_report, format_runs, format_total, run_figures, sizes

    text, rows = "", [row for record, _, name in done for row in sizes(record, name)]
    for record, path, _ in done if is_one or args.tables else ():
        parts = [format_total(record), format_tables(record["tables"])] if args.tables else []
        text += ("\n\n" if text else "") + format_report(record, *parts, folder=path or "")
    text = text or format_runs([run_figures(path or name, record) for record, path, name in done])
    print_result(args, text, figure=f"{done[-1][0]['bits_per_byte']:.4f}" if is_one else "", rows=lambda: rows)


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


EXAMPLE = "-5 sample:christmas_carol --verify"
COMMAND = options.Command("evaluate", __doc__, EXAMPLE, options=OPTIONS, run=run, inputs=("names", "given"))
