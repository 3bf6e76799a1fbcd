"""Measure the loss of the text that new commits add to a git repository.

The learner is trained on the tree of the repository at --since, and its loss measured on the text that later commits added. Each
measurement is a point of a series; the next point begins where the last one ended (docs/MEASURES.md). Without REPO, draws the
series of --series.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.heldout import prepare
from prequential.cli.streams import progress_bar, warn
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.heldout_loss.run import LoadLearner
    from prequential.heldout_loss.trained import TrainedOn
    from prequential.model.learner import OnlineLearner
    from prequential.monorepo_loss.series import NextPoint, SeriesSetting
    from prequential.online.runtime import Runtime


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repository", nargs="?", metavar="REPO", help="root of a git repository")
    window = {
        "--since DATE|COMMIT": "beginning of a new series; an existing series continues from its end",
        "--until DATE|COMMIT": "end of the window (default: HEAD)",
        "--languages NAMES": "use only these languages, such as Python,Rust (default: all known languages)",
        **options.CONTEXT,
        "--train-limit BYTES": "train only on the beginning of the tree",
        "--model DIR": "use one model for all points; the first point trains it and stores it there",
    }
    output = {
        "--series FILE": "append the point to this file (default: REPO.series.jsonl in the folder of --runs)",
        "--runs FOLDER [runs]": "folder of the series",
        "--picture FILE": "draw the series as a PNG file (needs matplotlib)",
    }
    options.add(parser.add_argument_group("window"), window)
    options.add(parser.add_argument_group("output"), output | options.FORCE | options.JSON)
    options.add_learner(parser)
    parser.set_defaults(inputs=("repository",))


def run(args: argparse.Namespace) -> int:
    from prequential.files import check_output
    from prequential.report.figures import new_figure

    _check_usage(args)
    if args.picture:
        check_output(args.picture, overwrite=args.force)
        new_figure(1.0, 1.0)  # raises without matplotlib, before the work
    series = Path(args.series) if args.repository is None else _add_point(args)
    if args.picture:
        _draw(series, args.picture, overwrite=args.force)
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    error = args.parser.error
    if args.repository is None and not (args.series and args.picture):
        error("give REPO to measure a point, or --series FILE and --picture FILE to draw a series")
    if args.repository is None and (args.since or args.until or args.model):
        error("--since, --until and --model need REPO")
    if args.picture and Path(args.picture).suffix != ".png":
        error(f"--picture {args.picture}: the name must end in .png")
    options.refuse(args, options.given_of(args, "audit_every"), "monorepo has no audit")


def _add_point(args: argparse.Namespace) -> Path:
    """Measures the next point and appends it, if there is anything to measure; returns the series."""
    from prequential_corpora.git.window import open_documents

    from prequential.monorepo_loss.monorepo import format_empty_window, format_point, measure_point
    from prequential.monorepo_loss.series import append_point, slim

    runtime = options.runtime(args)
    point = _next_point(args)
    with open_documents(point.window) as window:
        if not window.documents:  # the next window begins where this one does
            print("null" if args.json else format_empty_window(window), flush=True)
            return point.series
        _check_before(point, runtime)
        load, stage = _learner_loader(args, point, runtime), partial(progress_bar, quiet=args.quiet)
        setting = point.setting
        record = measure_point(load, window, runtime, setting.policy, setting.to_record(), stage=stage, warn=warn)
    print(json.dumps(slim(record), allow_nan=False) if args.json else format_point(record), flush=True)
    append_point(point.series, record, point.records, _mode(args.repository))  # it may fail: the point has been printed
    if not args.json:
        print(f"\npoint {len(point.records) + 1} of {printable(str(point.series))}", flush=True)
    return point.series


def _next_point(args: argparse.Namespace) -> NextPoint:
    """Reads the series and finds the window; nothing is computed or written yet."""
    from prequential.monorepo_loss.series import NextPoint, next_window, points_so_far, series_path

    series = Path(args.series) if args.series else series_path(args.runs, args.repository)
    records = points_so_far(series)
    if not (args.since or records):
        args.parser.error(f"{series} has no points yet: give --since, the beginning of the series")
    since = args.since or records[-1]["test"]["until"]
    setting = _setting(args, records)
    window = next_window(args.repository, records, since, args.until or "HEAD", setting.rules)
    return NextPoint(repository=args.repository, series=series, records=records, setting=setting, window=window)


def _setting(args: argparse.Namespace, records: list[dict[str, Any]]) -> SeriesSetting:
    """The setting of the series, with which the given options must agree; of a new series, that of the options."""
    from prequential_corpora.git.file_rules import Rules

    from prequential.monorepo_loss.series import SeriesSetting, check_same_setting

    previous = SeriesSetting.of(records[-1]) if records else None
    with options.usage_errors(args):
        given: dict[str, Any] = {"fixed": args.model is not None}
        if previous is None or options.given_learner_options(args):
            given["config"] = options.learner_config(args)
        if previous is None or args.languages:
            given["rules"] = Rules(languages=tuple(args.languages) if args.languages else None)
        values = {"train_limit_bytes": args.train_limit, "context": args.context, "stride": args.stride}
        given |= {name: value for name, value in values.items() if value is not None}
        setting = replace(previous, **given) if previous else SeriesSetting(**given)
    if previous:
        check_same_setting(previous, setting)
    return setting


def _check_before(point: NextPoint, runtime: Runtime) -> None:
    """Refuses what cannot succeed, and makes the folder of the series."""
    from prequential.version import VERSION

    config = point.setting.config
    runtime.check(config, extra_bytes=1 << config.schedule.history_bits)  # a frozen learner has a second ring
    prepare(point.series, _mode(point.repository))
    if point.records:
        version = point.records[-1]["environment"]["versions"]["prequential"]
        if version != VERSION:
            warn(f"the last point was made by version {version}, this one by {VERSION}: the learner may have changed")


def _learner_loader(args: argparse.Namespace, point: NextPoint, runtime: Runtime) -> LoadLearner:
    """A function that returns the learner trained on the tree before this window; with --model, before the first window."""
    from prequential_corpora.git.window import read_tree

    from prequential.files import check_new_folder
    from prequential.monorepo_loss.monorepo import train_on_tree
    from prequential.monorepo_loss.series import load_series_model
    from prequential.online.model_store import save_model
    from prequential.version import VERSION

    setting = point.setting
    if args.model and (point.records or Path(args.model).exists()):
        return partial(load_series_model, args.model, point, runtime)

    def train() -> tuple[OnlineLearner, TrainedOn]:
        if args.model:
            check_new_folder(args.model)
        tree = read_tree(args.repository, str(point.window.since), setting.rules)
        with progress_bar("training", quiet=args.quiet) as show:
            make = partial(runtime.learner, setting.config)
            learner, trained_on = train_on_tree(tree, setting.train_limit_bytes, make, show)
        if args.model:
            about = {**trained_on.about, "prequential": VERSION}
            save_model(args.model, learner, about, mode=_mode(args.repository))
        return learner, trained_on

    return train


def _mode(repository: str) -> int:
    """The permissions that the repository, its folder `.git` and the folder of its objects have in common."""
    from prequential_corpora.git.session import find_repository

    from prequential.files import common_mode

    found = find_repository(repository)
    return common_mode(found.path, found.objects, found.objects.parent)


def _draw(series: Path, picture: str, *, overwrite: bool) -> None:
    from prequential.files import common_mode
    from prequential.monorepo_loss.series import points_so_far
    from prequential.report import plots

    plots.save_png(plots.monorepo(points_so_far(series)), picture, overwrite=overwrite, mode=common_mode(series))
