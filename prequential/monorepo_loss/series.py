"""A series of monorepo losses: one record a line, of one setting, never changed. A window begins where the last one ended."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from prequential_corpora.git_repository import find_repository
from prequential_corpora.git_rules import Rules
from prequential_corpora.git_window import GitDocuments, read_window

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, OutputError
from prequential.files import PathLike
from prequential.heldout_loss.heldout import Context, Policy
from prequential.model.config import Config
from prequential.records.forms import LOSSES, MonorepoRecord
from prequential.records.schema import append_record, check_record, parse_object, read_lines


@dataclass(frozen=True, kw_only=True)
class SeriesSetting:
    """What the points of a series share.

    train_limit_bytes: of a tree, in the order of paths; None: all. context, stride: of the frozen loss (`policy`).
    Raises ConfigError if the learner cannot be measured under the policy.
    """

    config: Config
    rules: Rules
    train_limit_bytes: int | None = None
    context: Context = "carried"
    stride: int | None = None

    def __post_init__(self) -> None:
        self.policy.stride_for(self.config)
        if self.train_limit_bytes is not None and self.train_limit_bytes < 1:
            raise ConfigError(f"the training limit is {self.train_limit_bytes} bytes: it must be at least 1")

    @property
    def policy(self) -> Policy:
        """The policy of the frozen loss."""
        return Policy(self.context, self.stride)

    def to_record(self) -> dict[str, Any]:
        """JSON values. The digest of the rules also covers their tables."""
        rules = {**asdict(self.rules), "digest": self.rules.digest()}
        return {**asdict(self), "config": self.config.to_dict(), "rules": rules}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "SeriesSetting":
        """The setting in the record of a point. Raises CorpusError if it is not valid, ConfigError for other rules of files."""
        try:
            values = dict(record["setting"])
            values.pop("fixed", None)  # of earlier versions
            given = dict(values["rules"])
            digest, languages = given.pop("digest"), given.pop("languages")
            rules = Rules(**given, languages=None if languages is None else tuple(languages))
            setting = cls(**{**values, "config": Config.from_record(values["config"]), "rules": rules})
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise CorpusError(f"the series has a record without a complete setting: {error}") from error
        if rules.digest() != digest:
            raise ConfigError("this program chooses files by other rules than the series: begin a new series")
        return setting

    def differing(self, other: "SeriesSetting") -> list[str]:
        """Names of the fields that differ. Points with different fields are not comparable."""
        return [field.name for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]


def read_series(path: PathLike) -> list[dict[str, Any]]:
    """The records of a series, oldest first. Raises CorpusError if there is no such file, or if a line is not a record.

    Examples:
        >>> import prequential
        >>> prequential.read_series("none.jsonl")
        Traceback (most recent call last):
        prequential.errors.CorpusError: 'none.jsonl' does not exist: name the file of a series
    """
    check_arguments(path=path)
    if not os.path.lexists(path):
        raise CorpusError(f"{os.fspath(path)!r} does not exist: name the file of a series")
    records = []
    for number, line in enumerate(read_lines(path), 1):
        where = f"line {number} of {os.fspath(path)!r}"
        try:
            if not line.endswith(b"\n"):
                raise CorpusError(f"{where} is cut off")
            records.append(check_record(parse_object(line, where), MonorepoRecord, where))
        except CorpusError as error:
            raise CorpusError(f"{error}: delete the line, or name another series") from error
    return records


def points_so_far(path: PathLike) -> list[dict[str, Any]]:
    """As `read_series`; none if the file does not exist yet."""
    return read_series(path) if os.path.lexists(path) else []


def append_point(
    path: PathLike, record: Mapping[str, Any], before: Sequence[Mapping[str, Any]], mode: int = 0o777
) -> None:
    """Appends a point without its documents. mode: the repository's. Raises OutputError if another run appended to `before`."""
    if len(points_so_far(path)) != len(before):
        raise OutputError(
            f"another run has appended a point to {os.fspath(path)!r}, so this one is not appended: run it again"
        )
    append_record(path, slim(record), mode)


def slim(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without its single documents, which may be thousands."""
    hidden = ("each", "all_others")
    losses = {name: {key: value for key, value in record[name].items() if key not in hidden} for name in LOSSES}
    return {**record, **losses}


# ---- the next point


@dataclass(frozen=True, kw_only=True)
class NextPoint:
    """What a point needs before it is computed. series: the file, if it belongs to one. records: its points so far."""

    repository: str
    series: Path | None
    records: Sequence[dict[str, Any]]
    setting: SeriesSetting
    window: GitDocuments


def series_path(folder: str, repository: str) -> Path:
    """The default file of the series of a repository: FOLDER/NAME.series.jsonl."""
    name = find_repository(repository).name
    return Path(folder) / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'repo'}.series.jsonl"


def next_window(
    repository: str, records: Sequence[dict[str, Any]], since: str, until: str, rules: Rules
) -> GitDocuments:
    """What the commits from `since` to `until` added. Raises CorpusError, ConfigError if it does not continue the series."""
    name, last = find_repository(repository).name, records[-1]["test"] if records else None
    if last and last["name"] != name:
        raise ConfigError(
            f"the series belongs to the repository {last['name']!r}, not to {name!r}: name another series"
        )
    window = read_window(repository, since, until, rules)
    if window.since is None:
        raise CorpusError(f"there is no tree to train on at {since}: the history begins later")
    if last and window.since != last["until"]:
        raise ConfigError(
            f"the series ended at {last['until'][:12]}, but the window begins at {window.since[:12]}: leave out since=, "
            "or name another series"
        )
    return window


def check_same_setting(previous: SeriesSetting, setting: SeriesSetting) -> None:
    """Raises ConfigError if points of the two settings are not comparable."""
    names = [name.removesuffix("_bytes") for name in previous.differing(setting)]
    if names:
        raise ConfigError(
            f"the series has another {', '.join(names)}, so the points would not be comparable: begin a new series"
        )
