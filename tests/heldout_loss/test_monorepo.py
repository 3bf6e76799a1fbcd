"""Monorepo loss without a repository: kinds, settings of a series, and the picture of a series."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from prequential_corpora import git_rules as file_rules
from prequential_corpora.corpus import Document
from prequential_corpora.git_rules import Rules

from prequential.errors import ConfigError, CorpusError, OutputError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.heldout_loss.monorepo import SeriesSetting, append_point, read_series
from prequential.heldout_loss.summary import kinds_of, summarise_heldout
from prequential.model.config import Config, ScheduleConfig
from prequential.report import plots, run_panels

SETTING = SeriesSetting(config=Config(gpt=None, schedule=ScheduleConfig(history_bits=14)), rules=Rules())
TEXT = b"".join(b"a line of code that is number %d\n" % i for i in range(99))


BYTES = {"n_bytes": 101, "blake2b": "00"}
CLUSTERS = {"n_documents": 1, "n_bytes": [100], "bits": [200.0]}


def group(name: str, bits: float, n_bytes: int = 100) -> dict[str, Any]:
    rate = bits / n_bytes if n_bytes else None
    return {"name": name, "n_documents": 1, "n_bytes": n_bytes, "bits": bits, "bits_per_byte": rate}


def record(day: int, rate: float, languages: tuple[str, ...] = ("Python",), name: str = "project") -> dict[str, Any]:
    """A point of day `day` of 2026 whose bytes all have the same cost."""
    loss = {
        "documents": group("documents", 100 * rate),
        "kinds": [group("new", 100 * rate)],
        "languages": [group(language, 100 * rate) for language in languages],
        "clean": group("clean", 100 * rate),
        "dirty": group("dirty", 0.0, 0),
        "novel": group("novel", 50 * rate, 50),
        "each": [group("new/a.py", 100 * rate)],
        "all_others": None,
        "interval": None,
        "clusters": CLUSTERS,
    }
    date = datetime.fromtimestamp(1767225600 + 86400 * (day - 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "schema": 1,
        "kind": "monorepo",
        "config": SETTING.config.to_dict(),
        "policy": "carried",
        "test": {"name": name, "since": "a" * 40, "until": "b" * 40, "until_date": date, "n_commits": 3, **BYTES},
        "train": {"until": "a" * 40},
        "learner_digest": "00",
        "setting": SETTING.to_record(),
        "overlap": {"train": {"byte_share": 0.25}},
        "frozen": loss,
        "dynamic": loss,
        "untrained": loss,
        "environment": {"versions": {"prequential": "0"}},
    }


def trace_of(bits: np.ndarray) -> Trace:
    trace = Trace((MODEL,), len(bits))
    trace.append(MODEL, bits)
    return trace


# A point


def test_kinds_are_the_first_parts_of_names_and_sum_to_all_documents() -> None:
    documents = [Document("new/added/a.py", 0, 5), Document("added/new", 6, 3), Document("new/b.py", 9, 0)]
    loss = summarise_heldout(trace_of(np.arange(10.0)), documents)
    new, added = kinds_of(loss)
    assert (new.name, new.n_documents, new.n_bytes, new.bits) == ("new", 2, 5, 10.0)
    assert (added.name, added.n_documents, added.n_bytes, added.bits) == ("added", 1, 3, 21.0)
    assert new.bits + added.bits == loss.documents.bits


# A series


def test_a_setting_comes_back_from_its_record_through_json() -> None:
    setting = SeriesSetting(config=SETTING.config, rules=Rules(languages=("Python", "C")), train_limit_bytes=9)
    assert SeriesSetting.of(json.loads(json.dumps({"setting": setting.to_record()}))) == setting
    assert setting.differing(SETTING) == ["rules", "train_limit_bytes"]
    assert setting.differing(setting) == []


def test_an_incomplete_setting_or_other_tables_of_rules_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for broken in ({"config": {}}, {"rules": 3}, {"train_limit_bytes": 0}, {"context": "none"}):
        with pytest.raises(CorpusError, match="complete setting"):
            SeriesSetting.of({"setting": {**SETTING.to_record(), **broken}})
    with pytest.raises(CorpusError, match="complete setting"):
        SeriesSetting.of({"setting": {}})
    old = {"setting": SETTING.to_record() | {"fixed": False}}
    assert SeriesSetting.of(old) == SETTING
    monkeypatch.setitem(file_rules.EXTENSIONS, "new", "New")
    with pytest.raises(ConfigError, match="other rules"):
        SeriesSetting.of(old)


def test_points_are_appended_without_their_documents_and_not_after_another_run(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    append_point(path, record(1, 2.0), [])
    (found,) = read_series(path)
    assert "each" not in found["frozen"]
    assert found["frozen"]["documents"]["bits"] == 200.0
    assert found["frozen"]["clusters"] == CLUSTERS  # costs without names
    with pytest.raises(OutputError, match="another run"):
        append_point(path, record(2, 2.0), [])
    assert len(read_series(path)) == 1


@pytest.mark.parametrize(
    ("where", "value"),
    [(("test", "until"), None), (("test", "until_date"), "soon"), (("frozen", "novel"), None), (("dynamic",), []),
     (("overlap", "train", "byte_share"), "1"), (("setting",), None), (("environment",), [])],
)  # fmt: skip
def test_a_record_that_lacks_a_field_is_refused(tmp_path: Path, where: tuple[str, ...], value: object) -> None:
    broken = json.loads(json.dumps(record(1, 2.0)))
    inner = broken
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = value
    (tmp_path / "s.jsonl").write_text(json.dumps(record(1, 2.0)) + "\n" + json.dumps(broken) + "\n")
    with pytest.raises(CorpusError, match="line 2 of"):
        read_series(tmp_path / "s.jsonl")


# Its picture


def test_lines_have_dates_and_leave_out_points_without_bytes() -> None:
    points = [record(1, 2.0), record(32, 3.0, ("Rust",)), record(60, 1.0, ("Python", "Rust"))]
    panel = run_panels.monorepo(points)
    assert [line.name for line in panel.series] == [
        "frozen", "dynamic", "untrained", "frozen, clean documents", "frozen, novel bytes",
    ]  # fmt: skip
    assert panel.series[0].y.tolist() == [2.0, 3.0, 1.0]
    assert np.diff(panel.series[0].x).tolist() == [31.0, 28.0]


def test_a_picture_has_dates_on_its_axis() -> None:
    points = [record(1, 2.0), record(90, 3.0)]
    ax = plots.monorepo(points, ax=Figure(figsize=(8.0, 5.0), layout="constrained").subplots())
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_xticklabels()] == [
        "Jan",
        "15",
        "Feb",
        "15",
        "Mar",
        "15",
        "Apr",
    ]


def test_an_empty_series_is_not_drawn() -> None:
    with pytest.raises(CorpusError, match="no points yet"):
        run_panels.monorepo([])
