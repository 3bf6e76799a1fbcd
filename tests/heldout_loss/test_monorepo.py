"""Monorepo loss: a window is scored after its tree was read, points of a series meet and share their setting; their picture."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from git_history import Files, git, make
from matplotlib.figure import Figure
from prequential_codecs.bit_coder import SCORE, BitCoder
from prequential_corpora.git_window import open_documents, read_tree, read_window
from small import DEEPER

import prequential
from prequential import plots
from prequential.errors import CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.heldout_loss.heldout import code_frozen, traced
from prequential.learners.spec import code_lengths
from prequential.model.config import MixerConfig
from prequential.online.training import train
from prequential.report import run_panels

GIT = pytest.mark.skipif(shutil.which("git") is None, reason="reads repositories through git")
MIXER = replace(DEEPER, gpt=None, mixer=MixerConfig(contexts=("1", "2", "4"), table_bits=10))
OLD = b"".join(b"value_%d = compute(%d)\n" % (i, i * i) for i in range(30))
FIRST = b"".join(b"value_%d = compute(%d)\n" % (i, i * i) for i in range(30, 60))
SECOND = bytes(np.random.default_rng(1).integers(33, 127, 500, np.uint8)) + b"\n"  # nothing of it can be learned
RUNTIME = prequential.Runtime(threads=1, kernels="fused")
SINCE = "2026-01-01T12:00:00"

# A file that changes in two commits is two documents; then a new file, and one that is left out.
HISTORY: dict[int, Files] = {
    1: {b"a.py": OLD},
    2: {b"a.py": OLD + FIRST},
    3: {b"a.py": OLD + FIRST + SECOND},
    5: {b"main.rs": b"fn main() {}\n" * 8},
    6: {b"uv.lock": b"version = 1\n"},
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make(tmp_path / "p", HISTORY)


def by_hand(repo: Path) -> dict[str, Trace]:
    """The costs of the first two documents under each loss, of what the window is made of."""
    tree, window = open_documents(read_tree(repo, SINCE)), open_documents(read_window(repo, SINCE, "HEAD~2"))
    learner = RUNTIME.learner(MIXER)
    train(learner, tree.bytes())
    symbols = window.bytes()
    assert symbols.tobytes() == FIRST + b"\0" + SECOND + b"\0"
    frozen = traced(code_frozen(learner, symbols, window.documents, BitCoder(SCORE)), symbols)
    dynamic = traced(code_lengths(learner, symbols, learner.n_symbols), symbols)
    untrained = traced(code_lengths(RUNTIME.learner(MIXER), symbols), symbols)
    return {"frozen": frozen, "dynamic": dynamic, "untrained": untrained}


@GIT
def test_a_point_is_the_window_in_commit_order_scored_after_the_tree_and_each_change_has_its_own_rates(
    repo: Path,
) -> None:
    traces, sizes = by_hand(repo), (len(FIRST), len(SECOND))
    places = (slice(0, sizes[0]), slice(sizes[0] + 1, sum(sizes) + 1))
    rates = {loss: [trace.bits(MODEL, place).sum() for place in places] for loss, trace in traces.items()}
    rates = {loss: [bits / n for bits, n in zip(rates[loss], sizes, strict=True)] for loss in rates}
    point = prequential.monorepo(repo, since=SINCE, until="HEAD~2", config=MIXER, runtime=RUNTIME)
    assert all(point.record[loss]["total"]["bits"] == trace.total_bits(MODEL) for loss, trace in traces.items())
    commits = git(repo, "rev-list", "--reverse", "HEAD~2").split()[1:]
    lines = [line.split() for line in str(point).splitlines() if line.startswith("added/a.py ")]
    assert {line[1]: line[-3:] for line in lines} == {
        commit[:12]: [f"{rates[loss][i]:.4f}" for loss in rates] for i, commit in enumerate(commits)
    }
    for row in point.to_frame().to_dict("records"):
        assert row["bits_per_byte"] == pytest.approx(rates[row["loss"]][row["number"]], rel=1e-12)
        assert row["commit"] == commits[row["number"]]
    assert len({rate for of in rates.values() for rate in of}) == 6  # so that no rate can stand for another one
    for loss in rates:
        assert {(each["number"], each["commit"]) for each in point.record[loss]["each"]} == set(enumerate(commits))


@GIT
def test_the_next_point_begins_where_the_last_one_ended_with_the_same_setting(repo: Path, tmp_path: Path) -> None:
    series, arguments = (
        tmp_path / "s.jsonl",
        {"config": MIXER, "train_limit": 300, "languages": ["Python", "Rust"]},
    )
    prequential.monorepo(repo, since=SINCE, until="HEAD~2", series=series, runtime=RUNTIME, **arguments)
    for wrong, part in [
        ({"config": prequential.preset(1)}, "another config"),
        ({"languages": ["Rust"]}, "another languages"),
        ({"train_limit": 50}, "another train_limit"),
        ({"context": "isolated"}, "another context"),
        ({"since": SINCE}, "another until"),
    ]:
        with pytest.raises(CorpusError, match=part):
            prequential.monorepo(repo, series=series, runtime=RUNTIME, **wrong)
    point = prequential.monorepo(repo, until="HEAD~1", series=series, runtime=RUNTIME)
    first, second = prequential.read_series(series)
    assert second["test"]["since"] == first["test"]["until"] == second["train"]["until"]
    assert [point["train"]["n_bytes"] for point in (first, second)] == [300, 300]
    assert (second["setting"], [g["name"] for g in second["frozen"]["kinds"]]) == (first["setting"], ["new"])
    assert second["dynamic"]["total"] == point.record["dynamic"]["total"] and "each" not in second["dynamic"]
    nothing = prequential.monorepo(repo, series=series, runtime=RUNTIME)
    assert (nothing.records, len(prequential.read_series(series))) == ((), 2)
    assert "nothing to score, and nothing is appended; window: 1 commit after" in repr(nothing) and "1 lock" in repr(
        nothing
    )


# A series without a repository


def group(name: str, bits: float, n_bytes: int = 100) -> dict[str, Any]:
    return {"name": name, "n_documents": 1, "n_bytes": n_bytes, "bits": bits}


def record(day: int, rate: float) -> dict[str, Any]:
    """A point of day `day` of 2026 whose bytes all have the same cost."""
    loss = {
        **{name: group(name, 100 * rate) for name in ("total", "documents", "outside", "clean")},
        "dirty": group("dirty", 0.0, 0),
        "novel": group("novel", 50 * rate, 50),
        "clusters": {"n_documents": 1, "n_bytes": [100], "bits": [200.0]},
    }
    date = datetime.fromtimestamp(1767225600 + 86400 * (day - 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    setting = {"languages": None, "train_limit_bytes": None, "context": "carried"}
    return {
        "schema": 1,
        "kind": "monorepo",
        "config": MIXER.to_dict(),
        "test": {"name": "p", "until": "b" * 40, "until_date": date, "n_bytes": 101, "blake2b": "00"},
        "train": {"until": "a" * 40},
        "setting": {"config": MIXER.to_dict(), **setting},
        **dict.fromkeys(("frozen", "dynamic", "untrained"), loss),
        "environment": {"versions": {"prequential": "0"}},
    }


@pytest.mark.parametrize(
    ("where", "value"),
    [(("test", "until"), None), (("test", "until_date"), "soon"), (("dynamic",), []),
     (("setting",), None), (("environment",), [])],
)  # fmt: skip
def test_a_record_that_lacks_a_field_is_refused(tmp_path: Path, where: tuple[str, ...], value: object) -> None:
    broken = json.loads(json.dumps(record(1, 2.0)))
    inner = broken
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = value
    (tmp_path / "s.jsonl").write_text(json.dumps(record(1, 2.0)) + "\n" + json.dumps(broken) + "\n")
    with pytest.raises(CorpusError, match="line 2 of"):
        prequential.read_series(tmp_path / "s.jsonl")


# Its picture


def test_lines_have_dates_and_leave_out_points_without_bytes() -> None:
    panel = run_panels.monorepo([record(1, 2.0), record(32, 3.0), record(60, 1.0)])
    assert [line.name for line in panel.series] == [
        "frozen", "dynamic", "untrained", "frozen, clean documents", "frozen, novel bytes",
    ]  # fmt: skip
    assert panel.series[0].y.tolist() == [2.0, 3.0, 1.0]
    assert np.diff(panel.series[0].x).tolist() == [31.0, 28.0]


def test_a_picture_has_dates_on_its_axis_and_an_empty_series_is_not_drawn() -> None:
    points = [record(1, 2.0), record(90, 3.0)]
    ax = plots.monorepo(points, ax=Figure(figsize=(8.0, 5.0), layout="constrained").subplots())
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_xticklabels()] == ["Jan", "15", "Feb", "15", "Mar", "15", "Apr"]
    with pytest.raises(CorpusError, match="no points yet"):
        run_panels.monorepo([])
