"""Static models and scores of a cluster: costs of documents, records, the difference of two models, and refusals."""

import json
import math
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from git_history import make
from prequential_corpora.sources import sample_path
from small import BOTH
from tiny_models import plain_nats, save_model

import prequential
from prequential.cli.main import main
from prequential.comparison.documents import compare_documents, read_document_losses
from prequential.errors import ConfigError, CorpusError

pytest.importorskip("transformers")
TEXT = sample_path("christmas_carol").read_text(encoding="utf-8")
STREAM = "".join(TEXT[900 * i : 900 * i + 60 + 30 * i] for i in range(12))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models a and b."""
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate("ab"):
        save_model(folder / name, seed)
    return folder


@pytest.fixture
def corpus(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: `docs` with twelve documents and an empty one, and the models."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / name).symlink_to(models / name)
    docs = tmp_path / "docs"
    docs.mkdir()
    for i in range(12):
        (docs / f"{i:02}.{'py' if i % 2 else 'md'}").write_text(TEXT[900 * i : 900 * i + 60 + 30 * i], encoding="utf-8")
    (docs / "empty.py").write_bytes(b"")
    return docs


@pytest.fixture
def small_config(corpus: Path) -> Path:
    (corpus.parent / "config.json").write_text(json.dumps(BOTH.to_dict()))
    return corpus.parent / "config.json"


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `prequential ARGS` in this process; exit code, stdout and stderr."""

    def call(*args: str) -> tuple[int, str, str]:
        try:
            code = main(args)
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call


def records(path: str = "runs/heldout.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


# Costs


@pytest.mark.parametrize("stride", [16, None])
@pytest.mark.first_quick
def test_the_nats_of_each_document_are_those_of_a_plain_loop(corpus: Path, stride: int | None) -> None:
    frame = prequential.heldout(corpus, static="hf:a", stride=stride).to_frame()
    assert len(frame) == 12 and list(frame["document"]) == sorted(frame["document"])
    for row in frame.to_dict("records"):
        text = (corpus / row["document"]).read_text(encoding="utf-8")
        nats, n_ids = plain_nats(Path("a"), text, stride or 64)
        assert abs(row["nats"] - nats) < 1e-4 * n_ids
        assert (row["n_bytes"], row["language"]) == (
            len(text.encode()),
            "Python" if "py" in row["document"] else "Markdown",
        )


def test_with_a_carried_context_the_documents_are_one_stream(corpus: Path) -> None:
    frame = prequential.heldout(corpus, static="hf:a", context="carried").to_frame()
    nats, n_ids = plain_nats(Path("a"), STREAM)
    assert abs(frame["nats"].sum() - nats) < 1e-4 * n_ids
    apart = prequential.heldout(corpus, static="hf:a").to_frame()
    assert (frame["nats"][1:] != apart["nats"][1:]).all()


# Records


def test_each_model_has_a_record_with_the_digest_of_its_weights(corpus: Path, call: Any) -> None:
    code, out, errors = call("heldout", "--static", "hf:a", "--static", "hf:b", "--test", "docs", "--stride", "32")
    assert (code, errors) == (0, "")
    first, second = records()
    for name, record in zip("ab", (first, second), strict=True):
        weights = (corpus.parent / name / "model.safetensors").read_bytes()
        assert record["learner_digest"] == blake2b(weights, digest_size=32).hexdigest()
        assert record["config"]["learner"]["name"] == f"hf:{name}"
        assert record["policy"] == "isolated: window 64, stride 32, id 0 before the first window, documents apart"
        assert record["dynamic"] is record["untrained"] is record["overlap"] is None
        assert record["coding"] == "code length, no archive"
        assert {group["name"] for group in record["frozen"]["languages"]} == {"Python", "Markdown"}
        assert record["frozen"]["documents"]["n_bytes"] == sum(len(path.read_bytes()) for path in corpus.iterdir())
    assert out.splitlines()[-2].startswith("B (hf:b) needs ")
    code, compared, _ = call("compare", "runs/heldout.jsonl:1", "runs/heldout.jsonl:2")
    assert code == 0 and "trained on unknown text" in compared and "frozen" in compared


def test_the_difference_of_two_models_is_paired_by_document(corpus: Path) -> None:
    found = prequential.heldout(corpus, static=["hf:a", "hf:b"])
    assert found.comparison is not None
    (difference,) = found.comparison.differences
    frame = found.to_frame().pivot(index="document", columns="model", values="bits")
    n_bytes = sum(len(path.read_bytes()) for path in corpus.iterdir())
    assert difference.bits_per_byte == pytest.approx((frame["B hf:b"] - frame["A hf:a"]).sum() / n_bytes)
    (mirrored,) = prequential.heldout(corpus, static=["hf:b", "hf:a"]).comparison.differences  # type: ignore[union-attr]
    assert difference.equal and mirrored.equal
    assert difference.equal.low_bits_per_byte == pytest.approx(-mirrored.equal.high_bits_per_byte)
    assert repr(found).startswith("<B (hf:b) needs ") and "\n" not in repr(found)


def test_documents_that_are_not_utf8_are_left_out_with_a_warning(corpus: Path, call: Any) -> None:
    (corpus / "latin.py").write_bytes("é".encode("latin-1") * 9)
    code, out, errors = call("heldout", "--static", "hf:a", "--test", "docs")
    assert code == 0 and "12 documents\n" in out
    assert errors == "prequential: warning: 1 of 13 documents are left out: they are not UTF-8\n"


def test_a_second_model_that_cannot_be_loaded_loses_no_record(corpus: Path, call: Any) -> None:
    shutil.copytree("a", "broken", ignore=shutil.ignore_patterns("*.safetensors"))
    code, out, errors = call("heldout", "--static", "hf:a", "--static", "hf:broken", "--test", "docs")
    assert (code, out, len(errors.splitlines()), len(records())) == (2, "", 1, 1)
    assert "the model 'broken' cannot be loaded" in errors


# Scores of a cluster


def write_scores(lines: list[dict[str, Any]]) -> None:
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def cluster_scores() -> list[dict[str, Any]]:
    """What a cluster would write: the documents of out.jsonl under the model a."""
    documents = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    return [
        {"id": d["id"], "nats": plain_nats(Path("a"), d["text"])[0], "bytes": d["bytes"]} for d in reversed(documents)
    ]


def test_scores_of_a_cluster_make_the_record_of_the_model_itself(corpus: Path, call: Any) -> None:
    assert call("heldout", "--test", "docs", "--documents", "out.jsonl") == (0, "", "")
    written = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [line["text"].encode() for line in written] == [p.read_bytes() for p in sorted(corpus.glob("[01]*"))]
    assert [line["bytes"] for line in written] == [len(line["text"].encode()) for line in written]
    assert not Path("runs").exists()
    write_scores(cluster_scores())
    code, out, errors = call("heldout", "--test", "docs", "--static", "hf:a", "--scores", "in.jsonl")
    assert (code, errors) == (0, "")
    computed, reported = records()
    assert reported["coding"] == "reported, not computed here"
    assert "B (scores of in.jsonl): isolated" in out and "  reported, not computed here; " in out
    assert reported["frozen"]["bits_per_byte"] == pytest.approx(computed["frozen"]["bits_per_byte"], rel=1e-4)
    assert reported["frozen"]["clusters"]["bits"] == pytest.approx(computed["frozen"]["clusters"]["bits"], rel=1e-3)
    assert reported["test"] == computed["test"]
    compare_documents([read_document_losses(f"runs/heldout.jsonl:{number}") for number in (1, 2)])


GOOD = '{"id": ID, "nats": 9.5, "bytes": 5}\n'


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("", "has no score of 1 of 1 documents, such as '0-"),
        (GOOD + GOOD, "line 2 of 'in.jsonl' scores the document '0-"),
        (GOOD.replace("5}", "6}"), "of 6 bytes, which is no document of this test corpus"),
        (GOOD.replace("ID", '"0-0"'), "has the id '0-0' of 5 bytes, which is no document of this test corpus"),
        (GOOD.replace("9.5", "NaN"), "line 1 of 'in.jsonl' is not JSON: NaN is not a finite number"),
        (GOOD.replace("9.5", "-1.0"), "Expected `float` >= 0.0 - at `$.nats`"),
        (GOOD.replace('"nats": 9.5, ', ""), "missing required field `nats`"),
    ],
)
def test_wrong_scores_are_refused_in_one_line(
    lines: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_bytes(b"text\n")
    id_ = json.dumps(f"0-{blake2b(b'text' + bytes([10]), digest_size=8).hexdigest()}")
    Path("in.jsonl").write_text(lines.replace("ID", id_))
    code, out, errors = call("heldout", "--test", "text", "--scores", "in.jsonl", "--no-run")
    assert (code, out, len(errors.splitlines())) == (1, "", 1)
    assert problem in errors
    Path("in.jsonl").write_text(GOOD.replace("ID", id_))
    assert prequential.heldout("text", scores="in.jsonl").record["frozen"]["total"]["bits"] == 9.5 / math.log(2)


# A window of a repository


@pytest.mark.skipif(shutil.which("git") is None, reason="reads repositories through git")
@pytest.mark.first_quick
def test_a_window_is_scored_by_kind_and_commit_and_its_documents_can_be_scored_elsewhere(
    corpus: Path, call: Any
) -> None:
    old = [b"line %d of the old file\n" % i for i in range(5)]
    history: dict[int, dict[bytes, bytes]] = {
        day + 1: {b"old.py": b"".join(old[: day + 1]), b"new%d.py" % day: TEXT[300 * day : 300 * day + 90].encode()}
        for day in range(5)
    }
    make(Path("project"), history)
    window = "git:project?since=2026-01-02"
    assert call("heldout", "--test", window, "--documents", "out.jsonl") == (0, "", "")
    write_scores(cluster_scores())
    code, out, errors = call(
        "heldout", "--test", window, "--static", "hf:a", "--static", "hf:b", "--scores", "in.jsonl"
    )
    assert (code, errors) == (0, "") and "window: 4 commits after " in out
    for record in records():
        loss, commits = record["frozen"], record["frozen"]["commits"]
        assert [(g["name"], g["n_documents"]) for g in loss["kinds"]] == [("new", 4), ("added", 4)]
        assert [commit["date"][:10] for commit in commits] == [f"2026-01-{day + 1:02}" for day in range(1, 5)]
        assert sum(commit["bits"] for commit in commits) == pytest.approx(loss["documents"]["bits"])
        assert (loss["clusters"]["by"], loss["interval"]["n_clusters"]) == ("commit", 4)
    assert "4 commits do not tell which is better" in out
    again = prequential.heldout(window, static=["hf:a"])
    assert again.record["frozen"] == records()[0]["frozen"]
    assert set(again.to_frame()["commit"]) == {commit["name"] for commit in records()[0]["frozen"]["commits"]}


# A learner of this program, through the function


def test_the_function_gives_the_record_of_the_command(corpus: Path, call: Any, small_config: Path) -> None:
    Path("train").write_text(TEXT[:3000], encoding="utf-8")
    options = ("--config", str(small_config), "--kernels", "fused", "--context", "isolated", "--json")
    code, out, _ = call("heldout", "--train", "train", "--test", "docs", *options)
    config = prequential.Config.from_dict(json.loads(small_config.read_text()))
    runtime = prequential.Runtime(kernels="fused")
    found = prequential.heldout("docs", train="train", config=config, context="isolated", runtime=runtime)
    assert code == 0
    ours, theirs = json.loads(json.dumps(found.record)), json.loads(out)
    for name in ("frozen", "dynamic", "untrained", "test", "config", "learner_digest"):
        assert ours[name] == theirs[name]
    assert set(found.to_frame()["loss"]) == {"frozen", "dynamic", "untrained"}
    assert "the learner that read train needs " in repr(found) and "\n" not in repr(found)


# Sentences and refusals


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        ("heldout --test text", 2, "either --train, or models with --static or --scores"),
        ("heldout --test text --train text --static hf:a", 2, "leave out --train"),
        ("heldout --test text --static hf:a -1", 2, "leave out -1..-6"),
        ("heldout --test text --documents o.jsonl --static hf:a", 2, "leave out --static"),
        ("heldout --test text --static /missing/model", 2, "'/missing/model' does not exist"),
        ("heldout --test empty --scores missing.jsonl", 1, "nothing to score: the corpus 'empty' is empty"),
        ("heldout --test . --documents o.jsonl", 2, "'o.jsonl' lies in '.', which it would change"),
        ("heldout --test empty --documents o.jsonl", 1, "nothing to score: the corpus 'empty' is empty"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    command: str, code: int, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_bytes(b"text\n")
    Path("empty").write_bytes(b"")
    found, out, errors = call(*command.split())
    assert (found, out, len(errors.splitlines())) == (code, "", 1)
    assert problem in errors
    assert not Path("o.jsonl").exists()


def test_wrong_arguments_of_the_function_are_named() -> None:
    for wrong in (
        {},
        {"static": 3},
        {"static": [""]},
        {"static": "hf:a", "train": "x"},
        {"static": "hf:a", "context": "x"},
        {"static": "hf:a", "cluster": 3},
        {"static": "hf:a", "orders": "x"},
        {"train": "a", "config": prequential.preset(1), "learner": object()},
    ):
        with pytest.raises(ConfigError):
            prequential.heldout(b"text", **wrong)  # type: ignore[arg-type]
    with pytest.raises(CorpusError, match="no document that is UTF-8"):
        prequential.heldout(np.array([255], np.uint8), static="hf:a")


def test_bytes_in_memory_are_one_document(corpus: Path) -> None:
    data = TEXT[:200].encode()
    (row,) = prequential.heldout(data, static="hf:a").to_frame().to_dict("records")
    assert (row["document"], row["n_bytes"]) == ("bytes", len(data))
    runtime = prequential.Runtime(kernels="fused")
    trained = prequential.heldout(data, train="docs", config=BOTH, runtime=runtime)
    assert trained.record["frozen"]["documents"]["n_documents"] == 1
