"""Measure the loss of the text that new commits add to a git repository.

The learner is trained on the tree of the repository at --since. Its loss is measured on the text that later commits added. Each
measurement is a point of a series; the next point begins where the last point ended (docs/MEASURES.md). With --static, trained
models are scored on the added text, and nothing is trained.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.heldout import RECORDS, check_models, keeper, show, show_place, trains_nothing
from prequential.cli.streams import fitted, foreign_code, progress_bar, warn
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.heldout_loss.monorepo import MonorepoRequest

ONLY_TRAINED = ("train_limit", "series")
WINDOW = {
    "repository: REPO": "root of a git repository",
    "--since DATE|COMMIT": "beginning of a new series; an existing series continues from its end",
    "--until DATE|COMMIT": "end of the window (default: HEAD)",
    "--languages NAMES": "use only these languages, such as Python,Rust (default: all known languages)",
    **options.CONTEXT,
    "--train-limit BYTES": "train only on the beginning of the tree",
    "--series FILE": "append the point to this file (default: REPO.series.jsonl in the folder of --runs)",
    "--runs FOLDER [runs]": f"folder of the series, or of {RECORDS} with the records of --static",
    **options.FORCE,
    **options.JSON,
}


def run(args: argparse.Namespace) -> int:
    check_models(args, *ONLY_TRAINED)
    options.refuse(args, options.given_of(args, "audit_every"), "monorepo has no audit")
    if not trains_nothing(args):
        return _add_point(args)
    if not args.since:
        args.parser.error("give --since, the beginning of the window")
    return _score(args)


def _score(args: argparse.Namespace) -> int:
    """Scores models on the window, or writes its documents."""
    from prequential.heldout_loss.documents import write_documents
    from prequential.heldout_loss.monorepo import measure_window, open_window, window_documents

    request = _request(args)
    if args.documents:
        with open_window(request) as window:
            write_documents(window_documents(window, request.mode), args.documents, overwrite=args.force)
        return 0
    keep = keeper(args.runs, request.mode)
    with foreign_code():
        found = measure_window(request, stage=partial(progress_bar, quiet=args.quiet), warn=warn, keep=keep)
    show(found, as_json=args.json)
    if found.records:
        show_place(args)
    return 0


def _add_point(args: argparse.Namespace) -> int:
    """Measures the next point and appends it, if there is anything to measure."""
    from prequential.heldout_loss.monorepo import append_point, measure_next, next_point, series_path, slim

    series = Path(args.series) if args.series else series_path(args.runs, args.repository)
    args.series = str(series)
    if not (args.since or os.path.lexists(series)):
        args.parser.error(f"{series} has no points yet: give --since, the beginning of the series")
    request = _request(args)
    point = next_point(request)
    found = measure_next(request, point, stage=partial(progress_bar, quiet=args.quiet), warn=warn)
    if not found.records:
        print("null" if args.json else fitted(str(found)), flush=True)
        return 0
    print(json.dumps(slim(found.record), allow_nan=False) if args.json else fitted(str(found)), flush=True)
    append_point(series, found.record, point.records, request.mode)  # it may fail: the point has been printed
    if not args.json:
        print(f"\npoint {len(point.records) + 1} of {printable(str(series))}", flush=True)
    return 0


def _request(args: argparse.Namespace) -> MonorepoRequest:
    from prequential_corpora.git_rules import Rules

    from prequential.heldout_loss.monorepo import MonorepoRequest

    models, is_given = options.models(args), options.given_learner_options(args)
    with options.usage_errors(args):
        rules = Rules(languages=tuple(args.languages)) if args.languages else None
    return MonorepoRequest(
        repository=args.repository,
        since=args.since,
        until=args.until or "HEAD",
        rules=rules,
        models=models,
        config=options.learner_config(args) if is_given else None,
        context=args.context,
        stride=args.stride,
        train_limit_bytes=args.train_limit,
        series=args.series,
        runtime=options.runtime(args),
    )


OPTIONS = (options.Group(WINDOW), options.SCORED, *options.LEARNER)
COMMAND = options.Command(name="monorepo", text=__doc__, options=OPTIONS, run=run, inputs=("repository",))
