"""The part of `prequential heldout` that is about a git repository: a point of a series, and the picture of one."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prequential.cli.options import Parser, config, runtime
from prequential.cli.progress import progress_bar
from prequential.errors import ConfigError, CorpusError

if TYPE_CHECKING:
    from prequential.corpora.git.window import GitCorpus, GitDocuments
    from prequential.measure.heldout.trained import TrainedOn
    from prequential.measure.monorepo.series import Setting
    from prequential.model.learner import Learner
    from prequential.online.runtime import Runtime

    Load = Callable[[], tuple[Learner, TrainedOn]]

# Options of `heldout` without --repo, and what they are when nobody gave them.
ELSEWHERE = {"train": None, "test": None, "limit": None, "save_model": None} | dict.fromkeys(
    ("frozen_only", "dynamic_only", "no_overlap", "no_run"), False
)


def add_repo_options(parser: argparse.ArgumentParser) -> None:
    """What `heldout` takes to read a git repository."""
    group = parser.add_argument_group("git repository (docs/MONOREPO.md)")
    group.add_argument("--repo", metavar="PATH", help="train on the tree as of --since, score what came later")
    group.add_argument(
        "--since", metavar="DATE|COMMIT", help="where a new series begins; a series goes on where it ended"
    )
    group.add_argument("--until", metavar="DATE|COMMIT", help="where the window ends (default: HEAD)")
    group.add_argument(
        "--languages", metavar="A,B", help="only these, such as Python,Rust (default: all that are known)"
    )
    group.add_argument(
        "--series", metavar="FILE", help="append the point to this file (default: RUNS/REPO.series.jsonl)"
    )
    group.add_argument("--model", metavar="DIR", help="one model for all points: trained and stored there by the first")
    group.add_argument("--picture", metavar="FILE", help="draw the series: .svg, .png (needs matplotlib) or .html")
    group.add_argument("-f", "--force", action="store_true", help="overwrite the picture")


def run_repo(args: argparse.Namespace) -> int:
    """Measures and appends one point, draws the series, or both; returns the exit code."""
    from prequential.files import check_output

    _check_usage(args)
    if args.picture:
        check_output(args.picture, overwrite=args.force)
    path = Path(args.series) if args.repo is None else _add_point(args)
    if args.picture:
        _draw(path, args.picture, overwrite=args.force)
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    error = args.parser.error
    for name, unused in ELSEWHERE.items():
        if getattr(args, name) != unused:
            error(f"--{name.replace('_', '-')} goes with --train and --test, not with --repo or --series")
    if args.repo is None and not args.picture:
        error("--series without --repo is there to be drawn: give --picture")
    if args.repo is None and (args.since or args.until or args.model):
        error("--since, --until and --model go with --repo")
    if args.picture and Path(args.picture).suffix not in (".svg", ".png", ".html"):
        error(f"--picture {args.picture}: name a file with .svg, .png or .html")
    if args.audit_every:
        error("heldout has no audit: leave out --audit-every")
    if args.train_limit == 0:
        error("--train-limit is at least 1")


class _Work(NamedTuple):
    """What a point needs: the series it goes to, its records, what its points share, and the window's documents."""

    path: Path
    records: list[dict[str, Any]]
    setting: Setting
    window: GitDocuments


def _add_point(args: argparse.Namespace) -> Path:
    """Measures the next point and appends it, if there is anything to measure; the series."""
    from prequential import __version__
    from prequential.corpora.git.window import open_documents
    from prequential.measure.monorepo.monorepo import measure_point
    from prequential.measure.monorepo.series import append_point, slim
    from prequential.measure.monorepo.text import format_point
    from prequential.measure.table import printable

    machine = runtime(args)
    work = _prepare(args)
    with open_documents(work.window) as window:
        if not window.documents:
            _nothing_new(args, window)
            return work.path
        _check_before(args, work, machine)
        point = measure_point(
            _loader(args, work, machine),
            window,
            machine,
            context=work.setting.context,
            stride=work.setting.stride,
            stage=partial(progress_bar, quiet=args.quiet),
            warn=_warn,
        )
        record = point.to_record(work.setting.to_record(), machine, __version__)
    append_point(work.path, record, work.records)
    print(
        json.dumps(slim(record), allow_nan=False)
        if args.json
        else f"{format_point(record)}\n\npoint {len(work.records) + 1} of {printable(str(work.path))}"
    )
    sys.stdout.flush()
    return work.path


def _prepare(args: argparse.Namespace) -> _Work:
    """Reads the series and finds the window; nothing is computed or written yet."""
    from prequential.corpora.git.session import find_objects
    from prequential.corpora.git.window import read_window
    from prequential.measure.monorepo.series import read_series

    name = find_objects(args.repo).name
    file = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'repo'}.series.jsonl"
    path = Path(args.series or Path(args.runs) / file)
    records = read_series(path)
    last = records[-1]["test"] if records else None
    since = args.since or (last["until"] if last else None)
    if since is None:
        parser: Parser = args.parser
        parser.error(f"{path} has no points yet: say with --since where the series begins")
    if last and last["name"] != name:
        raise ConfigError(f"the series is of the repository {last['name']!r}, not of {name!r}")
    setting = _setting(args, records)
    window = read_window(args.repo, since, args.until or "HEAD", setting.rules)
    if window.since is None:
        raise CorpusError(f"there is no tree as old as {args.since} to train on: the history begins later")
    if last and window.since != last["until"]:
        raise ConfigError(
            f"the series ended at {last['until'][:12]}, and the window begins at {window.since[:12]}: leave out --since, or "
            "name another --series"
        )
    return _Work(path, records, setting, window)


def _setting(args: argparse.Namespace, records: list[dict[str, Any]]) -> Setting:
    """That of the series, with which the options given must agree; of a new series that of the options."""
    from prequential.corpora.git.file_rules import Rules
    from prequential.measure.monorepo.series import Setting

    chosen = args.preset is not None or args.config is not None or args.pure or args.seed is not None
    languages = tuple(args.languages.split(",")) if args.languages else None
    old = Setting.of(records[-1]) if records else None
    try:
        new = Setting(
            config=old.config if old and not chosen else config(args),
            rules=old.rules if old and languages is None else Rules(languages=languages),
            train_limit_bytes=old.train_limit_bytes if old and args.train_limit is None else args.train_limit,
            context=args.context or (old.context if old else "carried"),
            stride=old.stride if old and args.stride is None else args.stride,
            fixed=args.model is not None,
        )
    except ConfigError as error:
        args.parser.error(str(error))
    if old and (names := old.differing(new)):
        what = ", ".join("model" if name == "fixed" else name.removesuffix("_bytes") for name in names)
        raise ConfigError(f"the series has another {what}: its points would not be comparable; begin a new --series")
    return new


def _nothing_new(args: argparse.Namespace, window: GitCorpus) -> None:
    """Says so; the next window begins where this one did."""
    from prequential.measure.monorepo.monorepo import reasons

    origin = window.origin
    line = f"{window.name}: {origin['n_commits']} commits after {str(origin['since'])[:12]} bring nothing to score"
    print("null" if args.json else f"{line}{reasons(window.excluded)}; nothing is appended")


def _check_before(args: argparse.Namespace, work: _Work, machine: Runtime) -> None:
    """Refuses what cannot end well before anything is computed, and makes the series' folder."""
    from prequential import __version__
    from prequential.files import writing
    from prequential.measure.record import check_writable
    from prequential.online.flops import check_work
    from prequential.online.limits import check_memory

    learned = work.setting.config
    check_memory(
        learned, args.max_memory - (1 << learned.schedule.history_bits), machine
    )  # frozen, it has a second ring
    check_work(learned)
    with writing(work.path):
        work.path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(work.path)
    if work.records:
        old, new = work.records[-1]["environment"]["versions"]["prequential"], __version__
        if old != new:
            _warn(
                f"the last point was made by version {old}, this one by {new}: the learner may have changed between them"
            )


def _loader(args: argparse.Namespace, work: _Work, machine: Runtime) -> Load:
    """What gives the learner that has read the tree before the window; or, with --model, before the first window."""
    from prequential import __version__
    from prequential.corpora.git.window import read_tree
    from prequential.measure.monorepo.monorepo import train_on_tree

    setting = work.setting
    if args.model and (work.records or Path(args.model).exists()):
        return partial(_stored, args, work, machine)

    def train() -> tuple[Learner, TrainedOn]:
        from prequential.files import check_new_folder
        from prequential.online.model_store import save_model

        if args.model:
            check_new_folder(args.model)
        tree = read_tree(args.repo, str(work.window.since), setting.rules)
        with progress_bar("training", quiet=args.quiet) as show:
            learner, trained_on = train_on_tree(
                tree, setting.train_limit_bytes, lambda: machine.learner(setting.config), show
            )
        if args.model:
            save_model(args.model, learner, {**trained_on.about, "prequential": __version__})
        return learner, trained_on

    return train


def _stored(args: argparse.Namespace, work: _Work, machine: Runtime) -> tuple[Learner, TrainedOn]:
    """The learner in --model, if it is the series' own, and the tree that it has read.

    Raises ConfigError for another model, CorpusError for one that was trained on a tree that does not lie before the window.
    """
    from prequential.corpora.corpus import beginning
    from prequential.corpora.git.window import read_tree, read_window
    from prequential.measure.heldout.trained import TrainedOn, describe
    from prequential.measure.monorepo.monorepo import open_tree
    from prequential.online.model_store import load_model

    stored = load_model(args.model, machine, args.max_memory)
    about, commit = stored.trained_on, stored.trained_on.get("until")
    if work.records and stored.learner.digest().hex() != work.records[-1]["learner_digest"]:
        raise ConfigError(f"the model in {args.model!r} is not that of the series")
    if stored.config != work.setting.config or about.get("read") != "tree" or not isinstance(commit, str):
        raise ConfigError(f"the model in {args.model!r} has another configuration, or was not trained on a git tree")
    read_window(args.repo, commit, str(work.window.since))  # raises where that tree is not before the window
    with open_tree(read_tree(args.repo, commit, work.setting.rules)) as corpus:
        symbols = corpus.bytes()[: work.setting.train_limit_bytes]
        if describe(corpus, symbols)["blake2b"] != about.get("blake2b"):
            raise ConfigError(f"the model in {args.model!r} was trained on other bytes of that tree")
        documents = beginning(corpus.documents, len(symbols))
    return stored.learner, TrainedOn(kind="model", about=about, symbols=symbols, documents=documents)


def _warn(text: str) -> None:
    print(f"prequential: warning: {text}", file=sys.stderr)


def _draw(series: Path, picture: str, *, overwrite: bool) -> None:
    from prequential.files import output_file
    from prequential.measure.monorepo.series import read_series
    from prequential.report import monorepo_picture, plots

    records, kind = read_series(series), Path(picture).suffix
    if kind == ".png":
        data = plots.file_of(monorepo_picture.figure(records), "png")
    else:
        text = monorepo_picture.svg_file(records) if kind == ".svg" else monorepo_picture.page(records)
        data = text.encode("utf-8", "replace")
    with output_file(picture, overwrite=overwrite) as sink:
        sink.write(data)
