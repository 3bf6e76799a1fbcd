"""Measure the code length of a corpus under a learner.

The report shows it next to the sizes that other compressors reach (docs/MEASURES.md). With -q it is one figure, in bits per byte.
"""

import argparse
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prequential.cli import options
from prequential.cli.streams import command_line, fitted, for_each, foreign_code, print_summary, progress_bar

if TYPE_CHECKING:
    from prequential.evaluation.baselines import Baseline
    from prequential.evaluation.runs import RunFolder
    from prequential.learners.spec import LearnerSpec
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpora(parser)
    options.add(
        parser,
        {
            "--verify": "decode the archive and compare every byte",
            **options.LIMIT,
            "--baselines NAMES": "compressors to compare with: names separated by commas, all, or none",
            "--static hf:MODEL ...": "also measure this trained model, which learns nothing: a folder, or NAME@REVISION on the "
            "hub; repeatable",
            "--static-window N": "with --static: tokens that the model sees at a time (default: what its configuration says, or "
            "2,048)",
            "--static-stride N": "with --static: tokens that the model scores at a time (default: its window)",
            "--static-apart": "with --static: the model begins each document with an empty context",
            "--tables": "also print the total cost, with the decoder, and tables of where the bits go",
            "--configs-tried N [1]": "the configuration is the best of N; the ledger counts the choice",
            "--seeds-tried N [1]": "the seed is the best of N; the ledger counts the choice",
            **options.JSON,
            "--given CORPUS|MODEL": "what the learner reads first, or a model of `train`",
        },
    )
    folder = {
        "--runs FOLDER [runs]": "folder of the new run folder",
        "--no-run": "write no run folder",
        "--resume DRAFT": "resume an interrupted evaluation of this corpus from the folder that it left",
    }
    options.add(parser.add_mutually_exclusive_group(), folder)
    options.add_learner(parser)
    options.add_other_learner(parser)


def run(args: argparse.Namespace) -> int:
    if args.resume is not None and len(args.names) > 1:
        args.parser.error("--resume needs exactly one corpus: give the one corpus of the interrupted evaluation")
    names = _baseline_names(args)
    learner, runtime = _learner(args), options.runtime(args)
    baselines = [*names, *_statics(args)]
    return for_each(args.names, partial(_evaluate, args, learner, runtime, baselines), verbose=args.verbose)


def _learner(args: argparse.Namespace) -> "Config | LearnerSpec | None":
    """The learner of the options; None: the model of --given, or the corpus, decides. A contradiction is a usage error."""
    other = options.other_learner(args)
    if args.given is not None and other:
        args.parser.error("--given does not go together with --learner")
    if args.given is None:
        return other or options.given_config(args)
    from prequential.learners.given import is_model

    if not is_model(args.given):
        return options.given_config(args)
    options.refuse(args, options.given_learner_options(args), "a model has its own configuration")
    return None


def _evaluate(
    args: argparse.Namespace,
    learner: "Config | LearnerSpec | None",
    runtime: "Runtime",
    baselines: "Sequence[Baseline]",
    name: str,
) -> None:
    from msgspec.structs import replace

    from prequential.evaluation.evaluation import evaluate
    from prequential.evaluation.scoring import DraftFolder
    from prequential.learners.given import is_model
    from prequential.learners.spec import LearnerSpec
    from prequential.model.config import Config

    with _run_folder(args, name) as folder:
        with foreign_code(), progress_bar(name, quiet=args.quiet) as show:
            evaluation = evaluate(
                name,
                config=learner if isinstance(learner, Config) else None,
                given=args.given,
                learner=learner if isinstance(learner, LearnerSpec) else None,
                limit_bytes=args.limit,
                baselines=baselines,
                verify=args.verify,
                draft=DraftFolder(path=folder.draft, keep=True, resume=args.resume is not None) if folder else None,
                runtime=runtime,
                on_progress=show,
            ).declaring(n_configs=args.configs_tried, n_seeds=args.seeds_tried)
        record = replace(evaluation, findings=show.health.findings).to_record()
        root = Path(args.runs) if args.resume is None else Path(args.resume).parent
        path = folder.finish(root, record, evaluation.curves, mode=evaluation.mode) if folder else None
    if learner is None and not (args.given and is_model(args.given)):
        print_summary(args, f"{name}: {options.level_by_size(evaluation.corpus['n_bytes'])}")
    _print_record(args, record, path)


def _run_folder(args: argparse.Namespace, name: str) -> "AbstractContextManager[RunFolder | None]":
    from prequential.evaluation.runs import interrupted_run_folder, new_run_folder

    def hint(draft: Path) -> str:
        command = command_line(args, names=[name], resume=str(draft), runs=args.parser.get_default("runs"))
        return f"`{command}` continues this run"

    if args.resume is not None:
        return interrupted_run_folder(args.resume, hint=hint)
    return nullcontext() if args.no_run else new_run_folder(args.runs, hint=hint)


def _print_record(args: argparse.Namespace, record: dict[str, Any], run_folder: Path | None) -> None:
    from prequential.evaluation.breakdown import format_tables
    from prequential.evaluation.summary import format_report, format_total

    if args.json:
        print(json.dumps(record), flush=True)
        return
    if args.quiet:
        print(f"{record['bits_per_byte']:.4f}", flush=True)
        return
    parts = [format_total(record), format_tables(record["tables"])] if args.tables else []
    report = format_report(record, *parts, folder=run_folder or "")
    print(fitted(report), end="\n\n" if len(args.names) > 1 else "\n", flush=True)


def _statics(args: argparse.Namespace) -> "list[Baseline]":
    """The models of --static. Raises what StaticModel raises."""
    if not args.static:
        return []
    from prequential.adapters import StaticModel

    context: Literal["document", "carried"] = "document" if args.static_apart else "carried"
    with foreign_code():
        return [
            StaticModel(
                name,
                context=context,
                stride=args.static_stride,
                max_length=args.static_window,
                max_memory_bytes=args.max_memory,
            )
            for name in args.static
        ]


def _baseline_names(args: argparse.Namespace) -> Sequence[str]:
    """The names that --baselines means; an unknown name ends the program with a usage error."""
    from prequential_codecs.baselines import BASELINES, DEFAULT_BASELINES

    names = DEFAULT_BASELINES if args.baselines is None else args.baselines
    if names in (["all"], ["none"]):
        return tuple(BASELINES) if names == ["all"] else ()
    if unknown := [name for name in names if name not in BASELINES]:
        args.parser.error(f"there is no baseline {unknown[0]!r}; the baselines are {', '.join(BASELINES)}")
    return tuple(dict.fromkeys(names))
