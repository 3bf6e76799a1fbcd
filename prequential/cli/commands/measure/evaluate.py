"""prequential evaluate: the prequential description length of a corpus, side by side with what others reach."""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from prequential.cli.failures import for_each
from prequential.cli.options import add_model, add_runtime, add_verbosity, config, count, n_bytes, runtime
from prequential.cli.progress import progress_bar


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "evaluate",
        help="measure how many bits a corpus costs a learner",
        description="Measure how many bits each corpus costs the learner, and what other compressors make of it.",
    )
    parser.add_argument(
        "names", nargs="+", metavar="CORPUS", help="file, folder, sample:NAME, hf:SOURCE, shards:FOLDER or -"
    )
    parser.add_argument("--verify", action="store_true", help="decode the archive and compare every byte")
    parser.add_argument("--limit", type=n_bytes, metavar="BYTES", help="only the beginning of the corpus")
    parser.add_argument("--json", action="store_true", help="print the record, one JSON object a line, not the report")
    parser.add_argument(
        "--baselines", metavar="NAMES", help="compressors to compare with: names joined by commas, all, or none"
    )
    parser.add_argument(
        "--estimate", action="store_true", help="first say what it will cost; record it beside what it did"
    )
    parser.add_argument("--tables", action="store_true", help="print where the bits went, too (docs/TABLES.md)")
    parser.add_argument("--output", metavar="FILE.jsonl", help="append the record to this file, too")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--runs", metavar="FOLDER", default="runs", help="where the run folder goes (default: %(default)s)"
    )
    where.add_argument("--no-run", action="store_true", help="leave no run folder")
    where.add_argument(
        "--resume", metavar="DRAFT", help="go on with the folder that the interrupted evaluation of this corpus left"
    )
    parser.add_argument(
        "--configs-tried", type=count, default=1, metavar="N", help="this is the best of N configurations"
    )
    parser.add_argument("--seeds-tried", type=count, default=1, metavar="N", help="this is the best of N seeds")
    add_model(parser)
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluates every corpus; returns the exit code."""
    from prequential import __version__, api
    from prequential.cli.commands.machine.estimate import estimate_before
    from prequential.measure.evaluation.breakdown_text import format_tables
    from prequential.measure.evaluation.runs import interrupted_run_folder, new_run_folder
    from prequential.measure.evaluation.summary import format_report
    from prequential.measure.record import append_record, check_writable, evaluation_record

    if args.resume is not None and len(args.names) > 1:
        args.parser.error("--resume goes on with one corpus, not with several")
    learner, machine, baselines = config(args), runtime(args), _baselines(args)

    def evaluate(name: str) -> None:
        if args.output is not None:
            check_writable(args.output)  # before the work, not after it
        expected = estimate_before(name, args, learner, machine) if args.estimate else None
        if args.resume is None:
            root, run_folder = Path(args.runs), nullcontext() if args.no_run else new_run_folder(args.runs, keep=True)
        else:
            root, run_folder = Path(args.resume).parent, interrupted_run_folder(args.resume)
        with run_folder as folder:
            with progress_bar(name, quiet=args.quiet) as show:
                evaluation = api.evaluate(
                    name,
                    config=learner,
                    limit_bytes=args.limit,
                    baselines=baselines,
                    verify=args.verify,
                    folder=folder.draft if folder else None,
                    keep=True,
                    resume=args.resume is not None,
                    n_configs=args.configs_tried,
                    n_seeds=args.seeds_tried,
                    runtime=machine,
                    max_memory_bytes=args.max_memory,
                    on_progress=show,
                )
            record = evaluation_record(evaluation, machine, __version__, show.health.findings, expected)
            path = folder.finish(root, record, evaluation.curves) if folder else None
        if args.json:
            print(json.dumps(record))
        else:
            pieces = [format_report(record), *([format_tables(record["tables"])] if args.tables else [])]
            print("\n\n".join(pieces) + (f"\n\nrun: {path}\n" if path else "\n"))
        sys.stdout.flush()
        if args.output is not None:
            append_record(args.output, record)

    return for_each(args.names, evaluate, verbose=args.verbose)


def _baselines(args: argparse.Namespace) -> Sequence[str]:
    """The names that --baselines stands for; an unknown one ends the program as an error of usage."""
    from prequential.codecs.baselines.registry import BASELINES, DEFAULT_BASELINES

    if args.baselines in (None, "all", "none"):
        return {None: DEFAULT_BASELINES, "all": tuple(BASELINES), "none": ()}[args.baselines]
    names = args.baselines.split(",")
    if unknown := [name for name in names if name not in BASELINES]:
        args.parser.error(f"no baseline {unknown[0]!r}; there are {', '.join(BASELINES)}")
    return tuple(dict.fromkeys(names))
