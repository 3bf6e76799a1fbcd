"""Data sets through the real `datasets` package: local files of each format, names, and refusals."""

import contextlib
import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from prequential_corpora.dataset_spec import DatasetSpec
from prequential_corpora.sources import open_corpus

from prequential.errors import CorpusError, MissingDependencyError

pytest.importorskip("datasets")

TEXTS = ["first", "zwölf\nlines", "", "last"]


def write_rows(path: Path) -> None:
    """Writes TEXTS and a second column of numbers, in the format of the suffix."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({"n": list(range(len(TEXTS))), "body": TEXTS})
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(table.to_pylist()))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv", ".parquet"])
def test_the_rows_of_a_local_file_each_end_in_nul(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}"
    write_rows(path)
    options = "?column=body" if suffix == ".csv" else ""  # numbers in CSV are text, too
    with open_corpus(f"hf:{path}{options}") as corpus:
        data = corpus.bytes().tobytes()
        assert data == "".join(text + "\0" for text in TEXTS).encode()
        assert [data[d.offset : d.offset + d.n_bytes].decode() for d in corpus.documents] == TEXTS
        assert (corpus.kind, corpus.name, corpus.n_bytes) == ("dataset", path.name, len(data))


WRITTEN = ["NA", "null", "None", "nan", "", "007", "1.0", "1e5", "True", "2024-01-01", "", ' "x"\r\ny, z', "-"]


@pytest.mark.parametrize("name", ["rows.csv", "set/rows.csv", "set/rows.tsv", "set/rows.csv.gz"])
def test_the_texts_of_a_csv_file_are_not_interpreted(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    quoted = [WRITTEN[0], *WRITTEN[1:-2], '" ""x""\r\ny, z"', WRITTEN[-1]]
    data = "\ufefftext\n" + "\n".join(quoted) + "\n"
    if name == "set/rows.tsv":
        data = data.replace("text\n", "text\tn\n").replace("-\n", "-\t5\n")
    path.write_bytes(gzip.compress(data.encode()) if path.suffix == ".gz" else data.encode())
    with open_corpus(f"hf:{path if path.parent == tmp_path else path.parent}?column=text") as corpus:
        assert corpus.bytes().tobytes() == "".join(text + "\0" for text in WRITTEN).encode()
        assert corpus.describe()["n_null_rows"] == 0


def test_the_columns_of_csv_files_are_found_by_name_in_each_file(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("n,text\n1,NA\n")
    (tmp_path / "test.csv").write_text("text,n\nnull,1\n")
    for split, text in (("train", b"NA"), ("test", b"null")):
        with open_corpus(f"hf:{tmp_path}?column=text&split={split}") as corpus:
            assert corpus.bytes().tobytes() == text + b"\0"


def test_metadata_may_name_the_columns_of_a_csv_file(tmp_path: Path) -> None:
    text = "configs:\n- config_name: default\n  data_files: a.csv\n  names: [n, text]\n  sep: ;\n"
    (tmp_path / "README.md").write_text(f"---\n{text}---\n")
    (tmp_path / "a.csv").write_text("1;NA\n2;b\n")
    with open_corpus(f"hf:{tmp_path}?column=text") as corpus:
        assert corpus.bytes().tobytes() == b"NA\0b\0"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("text,n,text\na,1,b\n", "has several columns 'text'; give each column its own name"),
        ("n,text\n1,a\n", r"does not have one string column; choose with \?column= from \['n', 'text'\]"),
        ("text\na,b\nc,d\n", "does not match length of data"),
    ],
    ids=["twice", "several", "more fields than names"],
)
def test_a_csv_file_whose_texts_are_not_clear_is_refused(data: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(data)
    options = "?column=text" if reason.startswith("has several") else ""
    with pytest.raises(CorpusError, match=reason):
        open_corpus(f"hf:{tmp_path}/rows.csv{options}")


def test_a_key_twice_in_json_is_refused(tmp_path: Path) -> None:
    for name, data in (("a.jsonl", '{"text": "a", "text": "b"}\n'), ("a.json", '[{"text": "a", "text": "b"}]')):
        (tmp_path / name).write_text(data)
        with pytest.raises(CorpusError, match="twice"):
            open_corpus(f"hf:{tmp_path}/{name}")


def test_a_time_that_the_package_may_have_rewritten_is_refused(tmp_path: Path) -> None:
    """It reads 10 MiB at a time. In a part that has only times, it takes them for times, and not for the texts of before."""
    row = b'{"text": "%s"}\n' % (b"x" * 1000)
    n_rows = (10 << 20) // len(row) + 1
    (tmp_path / "a.jsonl").write_bytes(row * n_rows + b'{"text": "2024-01-01T10:00:00Z"}\n')
    with pytest.raises(CorpusError, match=r"has the text '2024-01-01 10:00:00': .* read JSON lines as shards:"):
        open_corpus(f"hf:{tmp_path}/a.jsonl")
    with open_corpus(f"shards:{tmp_path}") as corpus:
        assert corpus.symbols()[corpus.n_bytes - 21 :].tobytes() == b"2024-01-01T10:00:00Z\0"


def test_the_lines_of_a_text_file_are_its_rows(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    with open_corpus(f"hf:{tmp_path}/lines.txt?separator=%0A") as corpus:
        assert corpus.bytes().tobytes() == b"one\ntwo\n"
        assert [document.n_bytes for document in corpus.documents] == [3, 3]


def test_the_splits_of_a_local_folder_follow_from_its_file_names(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.jsonl")
    (tmp_path / "test.jsonl").write_text('{"n": 0, "body": "held out"}\n')
    for split, texts in (("test", b"held out\0"), ("train[-1:]", b"last\0")):
        with open_corpus(f"hf:{tmp_path}?split={split}") as corpus:
            assert corpus.bytes().tobytes() == texts


def test_the_description_identifies_the_data_set(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"body": "a"}\n{"body": null}\n')
    with open_corpus(f"hf:{tmp_path}/rows.jsonl?separator=--") as corpus:
        description = json.loads(json.dumps(corpus.describe()))
        assert description.pop("fingerprint")
        assert description == {
            "kind": "dataset", "name": "rows.jsonl", "revision": None, "commit": None, "config": None, "split": "train",
            "column": "body", "separator": "--", "n_rows": 2, "n_null_rows": 1,
        }  # fmt: skip
        assert corpus.bytes().tobytes() == b"a----"


def test_a_column_is_selected_by_name(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": "x", "b": "y"}\n')
    with open_corpus(f"hf:{tmp_path}/rows.jsonl?column=b") as corpus:
        assert corpus.bytes().tobytes() == b"y\0"
    with pytest.raises(CorpusError, match=r"one string column; choose with \?column= from \['a', 'b'\]"):
        open_corpus(f"hf:{tmp_path}/rows.jsonl")
    with pytest.raises(CorpusError, match=r"a string column 'c'"):
        open_corpus(f"hf:{tmp_path}/rows.jsonl?column=c")


def test_a_data_set_leaves_no_files_or_settings_and_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import datasets

    settings = datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    write_rows(tmp_path / "rows.jsonl")
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spool"))
    with open_corpus(f"hf:{tmp_path}/rows.jsonl") as corpus:
        assert len(list((tmp_path / "spool").iterdir())) == 1  # the package's tables
        corpus.bytes()
        assert len(list((tmp_path / "spool").iterdir())) == 1
        assert (datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()) == settings
    assert list((tmp_path / "spool").iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        ('{"a": "x"}\n{"a": ', "", "cannot load"),
        ('{"a": "x"}\n', "?split=nope", "Unknown split"),
        ("", "", "cannot load"),
    ],
    ids=["malformed", "unknown split", "empty"],
)
def test_a_data_set_that_cannot_be_loaded_is_refused_in_one_line(
    content: str, options: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "rows.pickle").write_bytes(b"x")
    with pytest.raises(CorpusError, match=r"known are \.json, \.jsonl, \.csv, \.txt, \.parquet"):
        open_corpus(f"hf:{tmp_path}/rows.pickle")
    (tmp_path / "rows.jsonl").write_text(content)
    with contextlib.redirect_stderr(io.StringIO()), pytest.raises(CorpusError, match=reason) as refusal:
        open_corpus(f"hf:{tmp_path}/rows.jsonl{options}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *[(name, "pin a revision") for name in ("squad", "squad@", "squad@main", "stanfordnlp/imdb@refs/pr/1")],
        *[(name, "neither a file, a folder nor a name on the hub") for name in ("/missing.jsonl", "a/b/c@v1", "")],
    ],
)
def test_a_name_that_is_no_path_and_no_fixed_revision_on_the_hub_is_refused(name: str, reason: str) -> None:
    with pytest.raises(CorpusError, match=reason):
        DatasetSpec.parse(name)


@pytest.mark.parametrize("query", ["splt=test", "split=a&split=b", "split", "revision=main", "separator=%ff"])
def test_invalid_options_are_refused(query: str) -> None:
    with pytest.raises(CorpusError, match="cannot read the options"):
        DatasetSpec.parse(f"squad@v1?{query}")


def test_every_part_of_a_name_is_parsed() -> None:
    text = "stanfordnlp/imdb@v1?config=plain&split=test&column=text&separator=%0A%00"
    assert DatasetSpec.parse(text) == DatasetSpec(
        source="stanfordnlp/imdb", revision="v1", config="plain", split="test", column="text", separator="\n\0"
    )


def test_a_local_file_has_priority_over_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("squad@v1").touch()
    assert DatasetSpec.parse("squad@v1") == DatasetSpec(source="squad@v1", revision=None)


def test_without_the_package_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "rows.jsonl")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'prequential\[hub\]'"):
        open_corpus(f"hf:{tmp_path}/rows.jsonl")
