"""A series of monorepo losses: a file of lines, one record a point, whose windows meet. Lines are appended, never changed.

Points are comparable where they share a Setting, and a series has one. The next window begins at the commit where the last one
ended, so that windows neither overlap nor leave gaps.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from prequential.corpora.chunks import reading
from prequential.corpora.git.file_rules import Rules
from prequential.errors import ConfigError, CorpusError, OutputError
from prequential.measure.heldout.heldout import Context, check_context
from prequential.measure.monorepo.monorepo import KIND, LOSSES, SCHEMA
from prequential.measure.record import append_record
from prequential.model.config import Config

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the points of a series share. Raises ConfigError for a context that the learner cannot have.

    train_limit_bytes: of each tree only so many bytes are trained on, in the order of paths; None: all. fixed: the model was
    trained once, on the tree at the beginning of the first window; else each point's model is trained on the tree at its own.
    """

    config: Config
    rules: Rules
    train_limit_bytes: int | None = None
    context: Context = "carried"
    stride: int | None = None
    fixed: bool = False

    def __post_init__(self) -> None:
        check_context(self.config, self.context, self.stride)
        if self.train_limit_bytes is not None and self.train_limit_bytes < 1:
            raise ConfigError("the training limit is at least 1 byte")

    def to_record(self) -> dict[str, Any]:
        """JSON values; rules with their digest, which stands for the tables, too."""
        rules = {**asdict(self.rules), "digest": self.rules.digest()}
        return {**asdict(self), "config": self.config.to_dict(), "rules": rules}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Setting":
        """The setting of a record's point. Raises CorpusError for what is none, ConfigError where this program's rules differ."""
        try:
            values = dict(record["setting"])
            given = dict(values["rules"])
            digest, languages = given.pop("digest"), given.pop("languages")
            rules = Rules(**given, languages=None if languages is None else tuple(languages))
            setting = cls(**{**values, "config": Config.from_record(values["config"]), "rules": rules})
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise CorpusError(f"the series has a record without a whole setting: {error}") from error
        if rules.digest() != digest:
            raise ConfigError("this program chooses files by other rules than the series: begin a new one with --since")
        return setting

    def differing(self, other: "Setting") -> list[str]:
        """Names of what differs; with it points are not comparable."""
        return [field.name for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]


def read_series(path: PathLike) -> list[dict[str, Any]]:
    """The records of a series, oldest first; none if there is no such file. Raises CorpusError for what is no whole series."""
    if not Path(path).exists():
        return []
    with reading(path):
        data = Path(path).read_bytes()
    records = []
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        where = f"line {number} of {os.fspath(path)!r}"
        try:
            record = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or record.get("kind") != KIND:
            raise CorpusError(f"{where} is no whole record of a monorepo loss; take it away, or name another series")
        if record.get("schema") != SCHEMA:
            raise CorpusError(f"{where} has schema {record.get('schema')!r}; this version reads {SCHEMA}")
        check_point(record, where)
        records.append(record)
    return records


def check_point(record: Mapping[str, Any], where: str) -> None:
    """Raises CorpusError where the record lacks what a series, its picture and its page need."""
    try:
        window = record["test"]
        numbers = [window["n_bytes"], window["n_commits"], record["overlap"]["train"]["byte_share"]]
        texts = [window[name] for name in ("name", "since", "until", "until_date")]
        texts += [record["learner_digest"], record["train"]["until"], record["environment"]["versions"]["prequential"]]
        for loss in (record[name] for name in LOSSES):
            groups = [
                loss["documents"],
                *loss["kinds"],
                *loss["languages"],
                loss["clean"],
                loss["dirty"],
                loss["novel"],
            ]
            numbers += [group[value] for group in groups for value in ("n_documents", "n_bytes", "bits")]
            texts += [group["name"] for group in groups]
        whole = all(type(n) in (int, float) for n in numbers) and all(isinstance(text, str) for text in texts)
        whole = whole and isinstance(record["setting"], dict) and datetime.fromisoformat(window["until_date"]).year > 0
    except (KeyError, TypeError, AttributeError, ValueError):
        whole = False
    if not whole:
        raise CorpusError(f"{where} is no whole record of a monorepo loss: fields are missing or of another type")


def append_point(path: PathLike, record: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> None:
    """Adds a point, without its single documents, to the series, which held `before` when the work began.

    Raises OutputError where another run was faster.
    """
    if len(read_series(path)) != len(before):
        raise OutputError(f"another run appended to {os.fspath(path)!r} meanwhile; this point is not appended")
    append_record(path, slim(record))


def slim(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without single documents, of which a series would hold thousands."""

    def without_documents(loss: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in loss.items() if name not in ("each", "all_others")}

    return {**record, **{name: without_documents(record[name]) for name in LOSSES}}
