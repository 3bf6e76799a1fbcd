"""Records, curves, forecasts, series and shards of strangers: pipes, bombs, wrong values, and bad runs among good ones."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from limits import bounded
from prequential_corpora.shards import read_rows

from prequential.cli.main import main
from prequential.errors import CorpusError, PrequentialError
from prequential.evaluation.curves import parse_curves
from prequential.evaluation.runs import CURVE, RECORD, Run, pack_runs, read_run, read_runs
from prequential.files.strict_json import MAX_DEPTH, parse_json, parse_row
from prequential.heldout_loss import labels as label_cost
from prequential.heldout_loss.labels import read_rows as read_labels
from prequential.records import record_line
from prequential.report.page import html_report

FORECASTS = Path(__file__).parents[2] / "benchmarks" / "forecasts" / "enwik8-contexts"
MIB = 1 << 20


@pytest.fixture(scope="module")
def ladder() -> list[Run]:
    """Recorded runs of several learners over the same bytes."""
    runs = read_runs(FORECASTS / "ladder.jsonl.zst")
    return [run for run in runs if run.record["corpus"] == runs[0].record["corpus"]]


@pytest.fixture
def runs_folder(tmp_path: Path, ladder: list[Run]) -> Path:
    """A folder with two runs, a and b."""
    for name, run in zip("ab", ladder, strict=False):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / RECORD).write_bytes(record_line(run.record))
        (tmp_path / "runs" / name / CURVE).write_bytes(run.curve_table())
    return tmp_path / "runs"


def refused(work: Callable[[], object]) -> str:
    with bounded(10.0), pytest.raises(PrequentialError) as error:
        work()
    message = str(error.value)
    assert message.isprintable()
    assert len(message) < 1000
    return message


# ---- pipes and devices


PIPED = (
    "compress --config pipe a", "list pipe", "forecast runs --score pipe", "compress shards:pipe.parquet -o x", "runs list pipe",
    "compress shards:pipe.jsonl?column=t -o x", "report pipe", "runs show runs/a",
    "report runs/b", "labels pipe --label y", "heldout --train pipe --test a",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_no_command_waits_for_a_pipe(
    kind: str, runs_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs_folder.parent)
    Path("a").write_bytes(b"text")
    for path in ("pipe", "pipe.parquet", "pipe.jsonl", f"runs/a/{RECORD}", f"runs/b/{CURVE}"):
        Path(path).unlink(missing_ok=True)
        os.mkfifo(path) if kind == "pipe" else Path(path).symlink_to("/dev/zero")
    for args in PIPED:
        with bounded(20.0):
            code = run_program(args.split())
        assert code in (1, 2), args
        assert len([line for line in capsys.readouterr().err.splitlines() if line.startswith("prequential: ")]) == 1


def run_program(args: list[str]) -> int:
    try:
        return main(args)
    except SystemExit as end:
        return int(end.code or 0)


# ---- bombs


def write_table(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path, compression="zstd")
    return path


def repeated(value: Any, n: int, kind: Any) -> Any:
    """n equal values of a dictionary, which take a few bytes in a file."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([value], kind))


@pytest.mark.thorough
def test_a_table_of_more_rows_than_a_run_has_is_not_expanded(tmp_path: Path) -> None:
    n = 1 << 20
    names = repeated("model", n, pa.string()).cast(pa.string())
    part = pa.table({"series": names, "n_bytes": np.ones(n, np.int64), "bits": np.ones(n)})
    with pq.ParquetWriter(tmp_path / CURVE, part.schema, compression="zstd") as writer:
        for _ in range(70):
            writer.write_table(part)
    assert (tmp_path / CURVE).stat().st_size < MIB
    with bounded(5.0, 64 * MIB), pytest.raises(CorpusError, match="rows"):
        parse_curves((tmp_path / CURVE).read_bytes(), CURVE)


def test_a_long_name_of_a_curve_is_not_repeated(tmp_path: Path) -> None:
    n = 1 << 16
    names = repeated("m" * (16 * MIB), n, pa.string())
    write_table(tmp_path / CURVE, {"series": names, "n_bytes": np.arange(1, n + 1), "bits": np.ones(n)})
    with bounded(5.0, 256 * MIB), pytest.raises(CorpusError, match="names"):
        parse_curves((tmp_path / CURVE).read_bytes(), CURVE)


BAD_TABLES: list[tuple[Any, ...]] = [  # names, positions, bits
    (["model"], [1.5], [1.0]), ([1], [1], [1.0]), (["model"], [1], [None]), (["model"], [1], [float("nan")]),
    (["model"], [1], [-1.0]), (["model"], [0], [1.0]), (["model"] * 2, [2, 1], [1.0, 2.0]),
]  # fmt: skip


def test_a_table_that_is_not_one_of_curves_or_is_damaged_is_refused(tmp_path: Path) -> None:
    tables = [pa.table({"series": s, "n_bytes": n, "bits": pa.array(b, pa.float64())}) for s, n, b in BAD_TABLES]
    column = pa.array([1, 2])
    for table in (
        *tables,
        pa.table({"n_bytes": column, "bits": column}),
        pa.Table.from_arrays([column] * 4, names=["series", "series", "n_bytes", "bits"]),
    ):
        pq.write_table(table, tmp_path / CURVE)
        refused(lambda: parse_curves((tmp_path / CURVE).read_bytes(), CURVE))
    for data in (b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"no table"):
        refused(lambda data=data: parse_curves(data, CURVE))


def test_the_rows_of_a_shard_are_expanded_one_by_one(tmp_path: Path) -> None:
    text, column = "x" * (64 * MIB), {"text": repeated("x" * (64 * MIB), 1000, pa.string())}
    path = write_table(tmp_path / "bomb.parquet", column)
    assert path.stat().st_size < MIB
    with bounded(30.0, 512 * MIB):
        rows = read_rows(path, "bomb.parquet", "table", "text")
        assert [len(next(rows)) for _ in range(5)] == [len(text)] * 5
        rows.close()


def test_a_long_line_of_records_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with bounded(5.0, 256 * MIB):
        assert "bytes" in refused(lambda: read_runs(path))


MANY = b"[" + b"[]," * 3_000_000 + b"1]"
BAD_JSON = {
    "deep": b"[" * 100_000,
    "deep but closed": b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2),
    "many values": MANY,
    "NaN": b'{"a": NaN}',
    "long integer": b'{"a": ' + b"9" * 5000 + b"}",
    "half a pair": b'{"a": "\\ud800"}',
    "not UTF-8": b'{"a": "\xff"}',
    "a key twice": b'{"a": 1, "a": 1}',
    "cut": b'{"a": ',
    "controls": b'{"a": "\x1b[2J"}',
}


def test_bad_json_is_refused(tmp_path: Path) -> None:
    for data in BAD_JSON.values():
        (tmp_path / "x.json").write_bytes(data + b"\n")
        (tmp_path / RECORD).write_bytes(data)
        with bounded(5.0), pytest.raises(ValueError):
            parse_json(data)
        refused(lambda: read_runs(tmp_path / "x.json"))
        refused(lambda: read_run(tmp_path))
    text = '\\",[{:' * 500_000  # commas in texts are not values
    assert parse_json(json.dumps([text]).encode()) == [text]


def test_a_line_of_a_shard_or_of_labels_with_too_many_values_or_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text": "a", "x": "a", "y": 1, "more": ' + MANY + b"}\n")
    with bounded(10.0, 128 * MIB):
        assert "row 0" in refused(lambda: list(read_rows(path, "x", "lines", "text")))
        assert "line 1: not JSON: it has more than" in refused(lambda: read_labels(path, "y", "x"))
    monkeypatch.setattr(label_cost, "MAX_ROW_BYTES", 1 << 20)
    path.write_bytes(b'{"x": "a", "y": 1}\n')
    with path.open("ab") as file:
        file.truncate(600 * MIB)
    with bounded(5.0, 32 * MIB):
        assert "line 2: the line is longer than 1,048,576 bytes" in refused(lambda: read_labels(path, "y"))


def test_an_object_with_many_keys_and_one_twice_is_refused_in_linear_time() -> None:
    row = b"{" + b"".join(b'"%d":0,' % n for n in range(100_000)) + b'"99999":0}'
    for read in (parse_json, parse_row):
        with bounded(20.0), pytest.raises(ValueError, match="an object has the key '99999' twice"):
            read(row)


# ---- values


WRONG = [
    *(("archive_bytes", value) for value in (-1, True, 1.5, "1", 2**70, None)),
    *(("code_bits", value) for value in ("1", True, 1e31)), ("corpus", []), ("parts", {"gpt": "1"}), ("tables", 1),
]  # fmt: skip


def test_a_record_with_a_value_of_another_kind_or_range_is_refused(runs_folder: Path) -> None:
    path = runs_folder / "a" / RECORD
    record = json.loads(path.read_bytes())
    for name, value in WRONG:
        path.write_text(json.dumps(record | {name: value}))
        assert name in refused(lambda: read_run(runs_folder / "a")), (name, value)
    path.write_text(json.dumps(record | {"new": [1]}))  # of a later version
    assert read_run(runs_folder / "a").record["archive_bytes"] == record["archive_bytes"]


# ---- one bad run among good ones


BAD_RUNS: dict[str, Callable[[Path], object]] = {
    "no JSON": lambda folder: (folder / RECORD).write_bytes(b"\x1b{"),
    "incomplete": lambda folder: (folder / RECORD).write_text('{"kind": "evaluation", "schema": 1, "time": "x"}'),
    "pipe": lambda folder: os.mkfifo(folder / RECORD),
    "broken link": lambda folder: (folder / RECORD).symlink_to("nowhere"),
}


def test_a_bad_run_is_named_and_the_others_are_listed(runs_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for make in BAD_RUNS.values():
        (runs_folder / "bad\x1b").mkdir()
        make(runs_folder / "bad\x1b")
        code = main(["runs", "list", str(runs_folder)])
        shown = capsys.readouterr()
        assert code == 1
        assert [line.split()[0] for line in shown.out.splitlines()] == ["run", "a", "b"]
        assert re.fullmatch(r"prequential: .*bad\\x1b.*\n", shown.err)
        with pytest.raises(CorpusError):
            read_runs(runs_folder)
        shutil.rmtree(runs_folder / "bad\x1b")


def test_a_bad_line_of_packed_runs_is_named_and_the_others_are_listed(
    runs_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = runs_folder.with_name("packed.jsonl")
    pack_runs(runs_folder, packed)
    lines = packed.read_bytes().splitlines(keepends=True)
    values = json.loads(lines[0])
    for bad in ({"name": "../../x"}, {"curves": "!"}, {"record": {}}):
        line = json.dumps(values | bad).encode() + b"\n"
        packed.write_bytes(line + lines[1])
        assert main(["runs", "list", str(packed)]) == 1
        shown = capsys.readouterr()
        assert (shown.out.count("\n"), shown.err.count("\n")) == (2, 1)


# ---- pages


def test_pages_have_no_controls(runs_folder: Path) -> None:
    record = json.loads((runs_folder / "a" / RECORD).read_bytes())
    record["corpus"]["name"] = "x\x1b[2J\x07\x9b\u202e"
    record["notes"] = [record["corpus"]["name"]]
    record["tables"] = {"/../../x": {"rows": [{"name": "1", "n_bytes": 100, "bits": {"model": 400.0}}]}}
    (runs_folder / "a" / RECORD).write_text(json.dumps(record))
    page = html_report([read_run(runs_folder / "a")])
    assert not set("\x1b\x07\x9b\u202e") & set(page)
