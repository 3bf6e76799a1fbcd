"""Drawn orders of documents: the p of a model that has read the file and of one that has not; clusters by a field of the rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prequential_corpora.corpus import Document

import prequential
from prequential.cli.main import main
from prequential.comparison.clusters import Grouping
from prequential.errors import ConfigError
from prequential.heldout_loss.documents import HeldoutCorpus
from prequential.heldout_loss.order_test import order_test

N_DOCUMENTS = 12


def documents(n: int) -> HeldoutCorpus:
    """Documents of one byte, which is their number."""
    return HeldoutCorpus(
        symbols=np.arange(n, dtype=np.uint8),
        documents=[Document(str(i), i, 1) for i in range(n)],
        grouping=Grouping("document", [str(i) for i in range(n)]),
        about={},
    )


def p_value(cost: Callable[[HeldoutCorpus], float], n_orders: int = 19) -> float:
    whole = documents(N_DOCUMENTS)
    return order_test(cost(whole), cost, whole, n_orders).p_value


@pytest.mark.thorough
def test_a_model_that_knows_no_order_has_a_small_p_as_seldom_as_p_says() -> None:
    """The cost of a document depends on the one before it, in a way that has nothing to do with the file."""
    values = []
    for seed in range(200):
        after = np.random.default_rng(seed).normal(size=(N_DOCUMENTS, N_DOCUMENTS))
        values.append(p_value(lambda found, after=after: float(after[found.symbols[:-1], found.symbols[1:]].sum())))
    assert sum(p <= 0.05 for p in values) <= 0.05 * 200 + 3 * np.sqrt(200 * 0.05 * 0.95)
    assert sum(p <= 0.5 for p in values) == pytest.approx(100, abs=3 * np.sqrt(50))


def test_a_model_that_knows_a_little_of_the_order_has_the_smallest_p() -> None:
    def cost(found: HeldoutCorpus) -> float:
        return -float(np.count_nonzero(np.diff(found.symbols.astype(int)) == 1))  # a bit for each pair that it knows

    assert p_value(cost) == 0.05
    assert p_value(lambda found: 1.0) == 1.0  # every order costs the same


class Static:
    """A static model: 3 bits a byte, and 2 for the first byte of a row that follows the row before it in the file."""

    policy, n_symbols, run_symbols, knows = "none", 256, 1, True

    def __init__(self, name: str, **named: Any) -> None:
        self.name, self.context = name, named["context"]

    def costs(self, symbols: np.ndarray, documents: Any) -> tuple[np.ndarray, float]:
        starts = [document.offset for document in documents]
        rows = symbols[starts].astype(int)
        bits = np.full(len(symbols), 3.0)
        if self.knows and self.context == "carried":
            bits[np.array(starts)[1:][np.diff(rows) == 1]] = 2.0
        return bits, 0.0

    def weights_digest(self) -> str:
        return ""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve rows of three authors in a file of the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("prequential.adapters.static_model.StaticModel", Static)
    lines = [{"text": chr(65 + i) * (20 + i), "author": "abc"[i % 3]} for i in range(N_DOCUMENTS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "rows.jsonl"


def run(capsys: pytest.CaptureFixture[str], command: str, *options: str) -> tuple[int, str, str]:
    try:
        code = main([*command.split(), *options])
    except SystemExit as end:
        code = int(end.code or 0)
    return code, *capsys.readouterr()


@pytest.mark.parametrize("knows", [True, False])
def test_the_last_sentence_says_whether_a_model_has_read_the_file(
    rows: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    monkeypatch.setattr(Static, "knows", knows)
    code, out, errors = run(capsys, "heldout --static hf:m --test shards:rows.jsonl --orders 39")
    assert (code, errors) == (0, "")
    record = json.loads(Path("runs/heldout.jsonl").read_text())
    assert len(record["orders"]["shuffled_bits"]) == 39
    assert record["orders"]["canonical_bits"] == pytest.approx(record["frozen"]["total"]["bits"])
    assert record["orders"]["p_value"] == (1 / 40 if knows else 1.0)
    last = out.splitlines()[-2]
    if knows:
        assert "fewer bits in the order of this file" in last and "p = 0.025, 39 drawn orders" in last
        assert last.endswith("has read the file, so do not judge it by these documents")
    else:
        assert "no sign of having read this file (p = 1, 39 drawn orders)" in last


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        ("--static hf:m --test shards:rows.jsonl --orders 18", 2, "--orders takes 19 or more"),
        ("--static hf:m --test shards:rows.jsonl --orders 19 --context isolated", 2, "the context carried"),
        ("--train rows.jsonl --test shards:rows.jsonl --orders 19", 2, "--orders needs --static"),
        ("--static hf:m --test rows.jsonl --orders 19", 2, "--orders needs rows in the order of their file"),
        ("--static hf:m --test rows.jsonl --cluster author", 2, "have fields such as 'author': leave out --cluster"),
        ("--static hf:m --test shards:rows.jsonl --cluster year", 1, "there is no column 'year'"),
    ],
)
def test_what_has_no_order_or_no_field_is_refused_in_one_line(
    rows: Path, capsys: pytest.CaptureFixture[str], command: str, code: int, problem: str
) -> None:
    found, out, errors = run(capsys, f"heldout {command}")
    assert (found, out, len(errors.splitlines())) == (code, "", 1)
    assert problem in errors


@pytest.mark.parametrize("options", ["", "?column=text", "?column=text&rows=10"])
def test_rows_with_one_value_of_a_field_are_a_cluster(rows: Path, options: str) -> None:
    found = prequential.heldout(f"shards:rows.jsonl{options}", static="hf:m", cluster="author").record["frozen"]
    frame = prequential.heldout(f"shards:rows.jsonl{options}", static="hf:m").to_frame()
    order = [n - 20 for n in frame["n_bytes"]]  # a row's length tells its number
    expected: dict[str, int] = {}
    for i in order:
        expected["abc"[i % 3]] = expected.get("abc"[i % 3], 0) + 20 + i
    assert found["clusters"]["n_bytes"] == list(expected.values())
    assert (found["clusters"]["by"], found["interval"]["n_clusters"]) == ("author", 3)


def test_each_document_is_alone_on_request(rows: Path) -> None:
    for folder in ("a", "b", "c"):
        (Path("docs") / folder).mkdir(parents=True)
        for i in range(2):
            (Path("docs") / folder / f"{i}.txt").write_text(chr(70 + i) * 9)
    clusters = [
        prequential.heldout("docs", static="hf:m", cluster=by).record["frozen"]["clusters"] for by in (None, "document")
    ]
    assert [(found["by"], len(found["bits"])) for found in clusters] == [("folder", 3), ("document", 6)]
    with pytest.raises(ConfigError, match="orders= needs static="):
        prequential.heldout(b"text", train="docs", orders=19)
