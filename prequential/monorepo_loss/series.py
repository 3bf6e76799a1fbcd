"""A series of monorepo losses: a file with one record a line, one for each point. Lines are appended and never changed.

All points of a series have the same Setting, so they are comparable. Each window begins at the commit where the previous one
ended, so windows neither overlap nor leave gaps.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from prequential_corpora.git.file_rules import Rules

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, OutputError
from prequential.evaluation.record import CONFIG_FORM
from prequential.files import PathLike
from prequential.heldout_loss.policy import Context, Policy
from prequential.model.config import Config
from prequential.monorepo_loss.monorepo import KIND, LOSSES, SCHEMA
from prequential.records.fields import COUNT, FLAG, NUMBER, TEXT, TIME, Form, check_fields, parse_object, read_lines
from prequential.records.record import append_record

_GROUP: Form = {"name": TEXT, "n_documents": COUNT, "n_bytes": COUNT, "bits": NUMBER}
_LOSS: Form = {
    **dict.fromkeys(("documents", "clean", "dirty", "novel"), _GROUP),
    "kinds": [_GROUP],
    "languages": [_GROUP],
}
# What a series, its picture and its page rely on (`check_fields`).
FORM: Form = {
    "test": {
        "n_bytes": COUNT,
        "n_commits": COUNT,
        "until_date": TIME,
        **dict.fromkeys(("name", "since", "until"), TEXT),
    },
    "train": {"until": TEXT},
    "overlap": {"train": {"byte_share": NUMBER}},
    "learner_digest": TEXT,
    "environment": {"versions": {"prequential": TEXT}},
    "setting": {"config?": CONFIG_FORM, "fixed?": FLAG, "context?": TEXT},
    **dict.fromkeys(LOSSES, _LOSS),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the points of a series share.

    train_limit_bytes: the learner is trained on so many bytes of a tree, in the order of paths; None: on all of them.
    context, stride: of the frozen loss (`policy`).
    fixed: one learner, trained on the tree at the beginning of the first window, measures all points. Otherwise each point has a
        learner of its own, trained on the tree at the beginning of its window.
    Raises ConfigError if the learner cannot be measured under the policy.
    """

    config: Config
    rules: Rules
    train_limit_bytes: int | None = None
    context: Context = "carried"
    stride: int | None = None
    fixed: bool = False

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
    def of(cls, record: Mapping[str, Any]) -> "Setting":
        """The setting in the record of a point.

        Raises CorpusError if it is incomplete or not valid, ConfigError if this program has other rules.
        """
        try:
            values = dict(record["setting"])
            given = dict(values["rules"])
            digest, languages = given.pop("digest"), given.pop("languages")
            rules = Rules(**given, languages=None if languages is None else tuple(languages))
            setting = cls(**{**values, "config": Config.from_record(values["config"]), "rules": rules})
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise CorpusError(f"the series has a record without a complete setting: {error}") from error
        if rules.digest() != digest:
            raise ConfigError("this program chooses files by other rules than the series: begin a new series")
        return setting

    def differing(self, other: "Setting") -> list[str]:
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
            record = parse_object(line, where) if line.endswith(b"\n") else None
        except CorpusError:
            record = None
        if not isinstance(record, dict) or record.get("kind") != KIND:
            raise CorpusError(f"{where} is not a complete record of a monorepo loss: delete it, or name another series")
        if record.get("schema") != SCHEMA:
            raise CorpusError(f"{where} has schema {record.get('schema')!r}; this version reads {SCHEMA}")
        check_fields(record, FORM, where)
        records.append(record)
    return records


def points_so_far(path: PathLike) -> list[dict[str, Any]]:
    """As `read_series`; none if the file does not exist yet."""
    return read_series(path) if os.path.lexists(path) else []


def append_point(
    path: PathLike, record: Mapping[str, Any], before: Sequence[Mapping[str, Any]], mode: int = 0o777
) -> None:
    """Appends a point, without its single documents. before: the points of the series when the run began.

    mode: the permissions of the repository (`append_line`).

    Raises OutputError if another run has appended a point since then.
    """
    if len(points_so_far(path)) != len(before):
        raise OutputError(
            f"another run has appended a point to {os.fspath(path)!r}, so this point is not appended: run it again"
        )
    append_record(path, slim(record), mode)


def slim(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without its single documents, which may be thousands."""

    def without_documents(loss: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in loss.items() if name not in ("each", "all_others")}

    return {**record, **{name: without_documents(record[name]) for name in LOSSES}}
