"""Records, curves, forecasts, series and shards of strangers: pipes, bombs, wrong values, and bad runs among good ones."""

import base64
import json
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from limits import bounded
from msgspec import UNSET, Struct
from prequential_corpora.shard_files import read_rows

from prequential import records as schema
from prequential.cli.main import main
from prequential.errors import CorpusError, PrequentialError
from prequential.evaluation.curves import parse_curves
from prequential.evaluation.runs import CURVE, RECORD, Run, pack_runs, read_run, read_runs
from prequential.files.strict_json import MAX_DEPTH, parse_json, parse_row
from prequential.forecasting.registered import read_registered
from prequential.heldout_loss import labels as label_cost
from prequential.heldout_loss.labels import read_rows as read_labels
from prequential.heldout_loss.monorepo import read_series
from prequential.records import Absent, Count, Fields, Number, check_record, read_lines
from prequential.report.page import html_report
from prequential.report.run_panels import Panel, Series
from prequential.report.svg import html_figure

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
        (tmp_path / "runs" / name / RECORD).write_bytes(run.record_line())
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


def write_table(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, compression="zstd", **options)
    return path


def repeated(value: Any, n: int, kind: Any) -> Any:
    """n equal values of a dictionary, which take a few bytes in a file."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([value], kind))


@pytest.mark.thorough
def test_a_table_of_more_rows_than_a_run_has_is_not_expanded(tmp_path: Path) -> None:
    n, schema = 1 << 20, pa.schema([("series", pa.string()), ("n_bytes", pa.int64()), ("bits", pa.float64())])
    part = pa.table(
        [repeated("model", n, pa.string()).cast(pa.string()), np.ones(n, np.int64), np.ones(n)], schema=schema
    )
    with pq.ParquetWriter(tmp_path / CURVE, schema, compression="zstd") as writer:
        for _ in range(70):
            writer.write_table(part)
    assert (tmp_path / CURVE).stat().st_size < MIB
    with bounded(5.0, 64 * MIB), pytest.raises(CorpusError, match="rows"):
        parse_curves((tmp_path / CURVE).read_bytes(), CURVE)


def test_a_long_name_of_a_curve_is_not_repeated(tmp_path: Path) -> None:
    n = 1 << 16
    columns = {"series": repeated("m" * (16 * MIB), n, pa.string()), "n_bytes": np.arange(1, n + 1), "bits": np.ones(n)}
    write_table(tmp_path / CURVE, columns)
    with bounded(5.0, 256 * MIB), pytest.raises(CorpusError, match="names"):
        parse_curves((tmp_path / CURVE).read_bytes(), CURVE)


MODEL = ["model"]
POSITIONS = ([0], [2, 1], [1, 1], [0, 1], [(1 << 62) + 1, 1 << 62], [(1 << 63) - 1, -(1 << 63)])
BAD_TABLES: list[tuple[list[Any] | None, list[Any], list[Any]]] = [  # names, positions, bits
    (MODEL, [1.5], [1.0]), ([1], [1], [1.0]), (None, [1], [1.0]), (MODEL, [1], [None]), (MODEL, [1], [float("nan")]),
    (MODEL, [1], [-1.0]), *((MODEL * len(found), found, [1.0, 2.0][: len(found)]) for found in POSITIONS),
]  # fmt: skip


def test_a_table_that_is_not_one_of_curves_or_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / CURVE
    for series, n_bytes, bits in BAD_TABLES:
        columns = {"n_bytes": n_bytes, "bits": pa.array(bits, pa.float64())}
        write_table(path, columns if series is None else {"series": series, **columns})
        refused(lambda: parse_curves(path.read_bytes(), CURVE))
    column = pa.array([1, 2])
    pq.write_table(pa.Table.from_arrays([column] * 4, names=["series", "series", "n_bytes", "bits"]), path)
    refused(lambda: parse_curves(path.read_bytes(), CURVE))
    for data in (b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"no table"):
        path.write_bytes(data)
        refused(lambda: parse_curves(path.read_bytes(), CURVE))


@pytest.mark.parametrize("as_strings", [True, False])
def test_the_rows_of_a_shard_are_expanded_one_by_one(as_strings: bool, tmp_path: Path) -> None:
    text, column = "x" * (64 * MIB), {"text": repeated("x" * (64 * MIB), 1000, pa.string())}
    path = write_table(tmp_path / "bomb.parquet", column, store_schema=not as_strings)
    assert path.stat().st_size < MIB
    with bounded(30.0, 512 * MIB):
        rows = read_rows(path, "bomb.parquet", "table", "text")
        assert [len(next(rows)) for _ in range(5)] == [len(text)] * 5
        rows.close()


def test_a_row_of_a_shard_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prequential_corpora import shard_files

    monkeypatch.setattr(shard_files, "MAX_ROW_BYTES", 1000)
    path = write_table(tmp_path / "long.parquet", {"text": ["short", "x" * 1001]})
    rows = read_rows(path, "long.parquet", "table", "text")
    assert next(rows) == b"short"
    with pytest.raises(CorpusError, match=r"row 1: the text has 1,001 bytes"):
        next(rows)


def test_long_lines_and_files_of_records_are_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    with path.open("wb") as file:
        file.truncate(schema.MAX_RECORDS_BYTES + 1)  # a single line
    for read in (read_runs, read_series, read_registered):
        with bounded(5.0, 256 * MIB):
            assert "bytes" in refused(lambda read=read: read(path))
    monkeypatch.setattr(schema, "MAX_RECORDS_BYTES", 1000)
    path.write_bytes(b"{}\n" * 400)
    assert "split it" in refused(lambda: list(read_lines(path)))


def test_runs_that_could_not_be_read_again_are_not_packed(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prequential.evaluation.runs.MAX_RECORD_BYTES", 1000)
    with pytest.raises(CorpusError, match="too large to be packed"):
        pack_runs(runs_folder, tmp_path / "packed")
    assert not (tmp_path / "packed").exists()


MANY = b"[" + b"[]," * 3_000_000 + b"1]"
BAD_JSON = {
    "deep": b"[" * 100_000,
    "deep but closed": b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2),
    "deep objects": b'{"a":' * 900 + b"1" + b"}" * 900,
    "many values": MANY,
    "NaN": b'{"a": NaN}',
    "infinity": b'{"a": 1e999}',
    "long integer": b'{"a": ' + b"9" * 5000 + b"}",
    "half a pair": b'{"a": "\\ud800"}',
    "half a pair in a name": b'{"\\udc00": 1}',
    "not UTF-8": b'{"a": "\xff"}',
    "a key twice": b'{"a": 1, "a": 1}',
    "a key twice, inside": b'[{"a": {"b": 1, "c": 2, "b": 1}}]',
    "cut": b'{"a": ',
    "controls": b'{"a": "\x1b[2J"}',
    "nothing": b"",
}


def test_bad_json_is_refused_by_every_reader(tmp_path: Path) -> None:
    for data in BAD_JSON.values():
        (tmp_path / "x.json").write_bytes(data + b"\n")
        (tmp_path / RECORD).write_bytes(data)
        with bounded(5.0), pytest.raises(ValueError):
            parse_json(data)
        for read in (read_registered, read_series, read_runs):
            refused(lambda read=read: read(tmp_path / "x.json"))
        refused(lambda: read_run(tmp_path))
    text = '\\",[{:' * 500_000  # commas in texts are not values
    assert parse_json(json.dumps([text]).encode()) == [text]


def test_a_line_of_a_shard_or_of_labels_with_too_many_values_or_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text": "a", "x": "a", "y": 1, "more": ' + MANY + b"}\n")
    with bounded(5.0, 128 * MIB):
        assert "row 0" in refused(lambda: list(read_rows(path, "x", "lines", "text")))
    with bounded(5.0, 128 * MIB):
        assert "line 1: not JSON: it has more than" in refused(lambda: read_labels(path, "y", "x"))
    monkeypatch.setattr(label_cost, "MAX_ROW_BYTES", 1 << 20)
    path.write_bytes(b'{"x": "a", "y": 1}\n')
    with path.open("ab") as file:
        file.truncate(600 * MIB)
    with bounded(5.0, 32 * MIB):
        assert "line 2: the line is longer than 1,048,576 bytes" in refused(lambda: read_labels(path, "y"))


def test_an_object_with_many_keys_and_one_twice_is_refused_in_linear_time() -> None:
    row = b"{" + b"".join(b'"%d":0,' % n for n in range(300_000)) + b'"299999":0}'
    for read in (parse_json, parse_row):
        with bounded(5.0), pytest.raises(ValueError, match="an object has the key '299999' twice"):
            read(row)


# ---- values


class Inner(Struct):
    x: Number


class Planted(Struct):
    n: Count
    t: str | Absent | None = UNSET
    l: list[Inner] | Absent = UNSET  # noqa: E741
    m: dict[str, bool] | Absent = UNSET


def test_values_are_compared_with_a_schema() -> None:
    for good in ({"n": 0}, {"n": 1, "t": None, "l": [], "m": {"a": True}, "new": []}, {"n": 1, "l": [{"x": -1.5}]}):
        check_record(good, Planted, "x")
    bad_numbers = [{"n": 1, "l": [{"x": x}]} for x in (float("inf"), float("nan"), 1e31, 10**400, "1", True)]
    bad_others = [{"n": 1, "t": 1}, {"n": 1, "l": [{}]}, {"n": 1, "m": {"a": 1}}]
    for bad in ([], {}, *({"n": n} for n in (-1, True, 1.0, 2**70, 10**400)), *bad_others, *bad_numbers):
        with pytest.raises(CorpusError, match=r"'l\[0\]\.x'" if bad in bad_numbers else "."):
            check_record(bad, Planted, "x")
    record = Fields({"a": 1}, "'x'")
    assert (record["a"], record.get("b")) == (1, None)
    with pytest.raises(CorpusError, match="'x' is incomplete: it has no 'b'"):
        record["b"]


# ---- one bad run among good ones


BAD_RUNS: dict[str, Callable[[Path], object]] = {
    "no JSON": lambda folder: (folder / RECORD).write_bytes(b"\x1b{"),
    "not UTF-8": lambda folder: (folder / RECORD).write_bytes(b"\xff"),
    "deep": lambda folder: (folder / RECORD).write_bytes(b"[" * 100_000),
    "incomplete": lambda folder: (folder / RECORD).write_text('{"kind": "evaluation", "schema": 1, "time": "x"}'),
    "pipe": lambda folder: os.mkfifo(folder / RECORD),
    "folder": lambda folder: (folder / RECORD).mkdir(),
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


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["sweep", "sweep --ladder --sizes 16x1"])
def test_a_bad_run_does_not_stop_a_plan(command: str, runs_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs_folder / "bad").mkdir()
    BAD_RUNS["incomplete"](runs_folder / "bad")
    options = ["sample:christmas_carol", "--limit", "2K", "-5", "--dry-run", "--runs", str(runs_folder)]
    code, shown = main([*command.split(), *options]), capsys.readouterr()
    assert (code, shown.err.count("\n"), "bad" in shown.err) == (1, 1, True) and "runs of 2,048 bytes" in shown.out


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
    assert base64.b64decode(values["curves"])


# ---- pictures and pages


CONTROLS = "".join(map(chr, [*range(32), *range(127, 160), 0x202E, 0x2028, 0xD800, 0xFFFE, 0xFFFF]))


def test_names_with_controls_give_well_formed_pictures() -> None:
    line = Series(f"имя{CONTROLS}", np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    text = html_figure(Panel(f"b{CONTROLS}", [line]))
    shown = "".join(ElementTree.fromstring(text).itertext())
    assert "имя\\x00" in shown
    assert "\\x1b" in shown


def test_pages_have_no_controls(runs_folder: Path) -> None:
    record = json.loads((runs_folder / "a" / RECORD).read_bytes())
    record["corpus"]["name"] = "x\x1b[2J\x07\x9b\u202e"
    record["notes"] = [record["corpus"]["name"]]
    record["tables"] = {"/../../x": {"rows": [{"name": "1", "n_bytes": 100, "bits": {"model": 400.0}}]}}
    (runs_folder / "a" / RECORD).write_text(json.dumps(record))
    page = html_report([read_run(runs_folder / "a")])
    assert not set("\x1b\x07\x9b\u202e") & set(page)
