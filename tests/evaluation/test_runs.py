"""Run folders: they are complete or absent, and later commands read the figures that were measured."""

import os
from pathlib import Path

import pytest
import zstandard

from prequential.errors import CorpusError, OutputError
from prequential.evaluation.runs import find_run, new_run_folder, pack_runs, read_run, read_runs, run_name, runs_so_far
from prequential.files import output_file
from prequential.records import MAX_RECORDS_BYTES, record_line


def test_a_whole_name_is_that_run_even_if_others_begin_so(tmp_path):
    for name in ("small", "small-2", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.jsonl").touch()
    found = {name: find_run(name, tmp_path) for name in ("small", "small-", "oth", "none")}
    assert found == {"none": "none"} | {
        name: str(tmp_path / whole) for name, whole in (("small", "small"), ("small-", "small-2"), ("oth", "other"))
    }
    with pytest.raises(CorpusError, match="2 runs"):
        find_run("smal", tmp_path)


def test_runs_are_listed_oldest_first_without_other_folders(run):
    root, _, found = run
    (root / "else").mkdir(exist_ok=True)
    assert [r.name for r in read_runs(root)] == [found.name] == [run_name(found.record)]
    assert runs_so_far(root / "missing") == []
    with pytest.raises(CorpusError, match="missing' does not exist"):
        read_runs(root / "missing")


def test_an_error_names_no_file_of_a_draft_that_is_deleted(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError) as failed,
        new_run_folder(tmp_path, hint=str) as folder,
        output_file(folder.path / "archive.pq") as sink,
    ):
        sink.write(b"a finished block")
        sink.sync()
        raise OutputError("no space left")
    assert not failed.value.__notes__ and not list(tmp_path.iterdir())


def test_a_name_that_another_process_has_just_taken_is_not_used(run, tmp_path, monkeypatch):
    _, result, found = run
    (tmp_path / found.name / "another's").mkdir(parents=True)
    exists, asked = os.path.lexists, []
    monkeypatch.setattr(os.path, "lexists", lambda path: asked.append(path) or (len(asked) > 1 and exists(path)))
    with new_run_folder(tmp_path) as folder:
        assert folder.finish(tmp_path, found.record, result.curves).name == f"{found.name}-2"
    assert [path.name for path in (tmp_path / found.name).iterdir()] == ["another's"]


def test_a_hostile_corpus_name_stays_within_the_folder(run):
    record = {**run[2].record, "corpus": {**run[2].record["corpus"], "name": "../../etc/\x00pass wd"}}
    name = run_name(record)
    assert "/" not in name and "\x00" not in name and name.startswith("pass-wd-")


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    for text, message in (
        ("", "not JSON"),
        ('{"schema": 1}', "not a record of the kind 'evaluation'"),
        ('{"kind": "evaluation", "schema": 99}', "not a record of the schema 1"),
    ):
        (tmp_path / "record.jsonl").write_text(text)
        with pytest.raises(CorpusError, match=message):
            read_run(tmp_path)
    with pytest.raises(CorpusError, match="missing' does not exist"):
        read_run(tmp_path / "missing")


def test_packed_runs_are_the_runs_of_the_folder_byte_for_byte(run, tmp_path):
    root, _, found = run
    packed = tmp_path / "runs.jsonl"
    assert [each.name for each in pack_runs(root, packed)] == [found.name]
    assert len(packed.read_text().splitlines()) == 1
    for other in (read_runs(packed)[0], read_run(packed / found.name)):
        assert (other.name, other.record) == (found.name, found.record)
        assert record_line(other.record) == record_line(found.record) == (found.path / "record.jsonl").read_bytes()
        assert other.curve_table() == (found.path / "curve.parquet").read_bytes()
        assert other.curves["model"].bits.tolist() == found.curves["model"].bits.tolist()


def test_packed_runs_may_be_compressed_with_zstd(run, tmp_path):
    packed, compressed = tmp_path / "runs.jsonl", tmp_path / "runs.jsonl.zst"
    pack_runs(run[0], packed)
    frame = zstandard.compress(packed.read_bytes())
    compressed.write_bytes(frame)
    assert read_runs(compressed)[0].record == read_runs(packed)[0].record
    of_unknown_length = zstandard.ZstdCompressor(write_content_size=False).compress(b"[]\n")
    of_great_length = zstandard.compress(bytes(MAX_RECORDS_BYTES + 1))
    for damaged in (frame[:-1], frame[:3], frame[:9], of_unknown_length, of_great_length):
        compressed.write_bytes(damaged)
        with pytest.raises(CorpusError, match=r"runs\.jsonl\.zst"):
            read_runs(compressed)


def test_packed_runs_overwrite_nothing_and_what_is_none_is_refused(run, tmp_path):
    packed = tmp_path / "runs.jsonl"
    packed.write_text("other")
    with pytest.raises(OutputError, match="exists"):
        pack_runs(run[0], packed)
    assert len(pack_runs(run[0], packed, overwrite=True)) == 1
    with pytest.raises(CorpusError, match="has no run 'other'"):
        read_run(packed / "other")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="no runs to pack"):
        pack_runs(tmp_path / "empty", tmp_path / "none.jsonl")
    for line in ("", "[]", "{}", "\xff", '{"kind": "other"}', '{"kind": "packed run", "name": "a"}'):
        packed.write_bytes(line.encode("latin-1") + b"\n")
        with pytest.raises(CorpusError, match=r"a line of .*runs.jsonl"):
            read_runs(packed)
