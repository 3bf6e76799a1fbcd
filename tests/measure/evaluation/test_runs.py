"""Run folders: they appear whole or not at all, and what is read is what was measured."""

import json
from pathlib import Path

import numpy as np
import pytest

import prequential
from prequential.errors import CorpusError, OutputError
from prequential.measure.evaluation.runs import new_run_folder, read_run, read_runs, run_name
from prequential.measure.record import evaluation_record

PLAIN = prequential.Runtime(kernels="plain")
CONFIG = prequential.Config(
    gpt=prequential.GPTConfig(n_layers=1, width=32, n_heads=2, window=16),
    mixer=prequential.MixerConfig(contexts=("1", "2", "4"), table_bits=10),
)


def evaluated(root, n_bytes=3000):
    with new_run_folder(root) as folder:
        result = prequential.evaluate(
            "sample:christmas_carol",
            config=CONFIG,
            limit_bytes=n_bytes,
            runtime=PLAIN,
            baselines=("gzip", "xz"),
            folder=folder.draft,
        )
        record = evaluation_record(result, PLAIN, "0")
        return result, folder.finish(root, record, result.curves)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    result, path = evaluated(root)
    return root, result, read_run(path)


def test_the_archive_in_the_folder_is_as_long_as_the_ledger_says_and_decodes(run):
    _, result, found = run
    archive = found.archive.read_bytes()
    assert 8 * len(archive) == result.ledger.archive_bits == found.record["archive_bits"]
    text = prequential.decompress(archive, runtime=PLAIN)
    assert len(text) == 3000


def test_entries_of_the_ledger_add_up_to_the_total_and_those_of_the_archive_to_its_size(run):
    _, result, found = run
    bits = {row["entry"]: row["bits"] for row in found.record["ledger"]}
    assert sum(bits.values()) == found.record["total_bits"] == result.ledger.total_bits
    inside = ("header", "alphabet", "ideal code length", "coder overhead", "container")
    assert sum(bits[name] for name in inside) == 8 * found.archive.stat().st_size


def test_bits_of_segments_add_up_to_the_ledgers_ideal_bits_for_the_model_and_to_the_parts_totals(run):
    _, result, found = run
    assert found.curves["model"].bits[-1] == result.ledger.code_bits == found.record["parts"]["model"]
    for part in ("model", "gpt", "mixer"):
        assert np.diff(found.curves[part].bits, prepend=0).sum() == found.record["parts"][part]
        assert result.trace.bits(part).sum() == found.record["parts"][part]


def test_the_mixers_part_is_what_the_mixer_costs_when_it_is_the_learner(run):
    _, result, _ = run
    alone = prequential.evaluate(
        "sample:christmas_carol",
        config=prequential.Config(gpt=None, mixer=CONFIG.mixer),
        limit_bytes=3000,
        runtime=PLAIN,
        baselines=(),
    )
    assert alone.ledger.code_bits == result.trace.total_bits("mixer")


def test_the_gpts_part_is_near_what_the_gpt_costs_when_it_is_the_learner(run):
    """Alone it codes a byte by eight decisions of 16 bits, which round its frequencies."""
    _, result, _ = run
    alone = prequential.evaluate(
        "sample:christmas_carol",
        config=prequential.Config(gpt=CONFIG.gpt, mixer=None),
        limit_bytes=3000,
        runtime=PLAIN,
        baselines=(),
    )
    assert alone.ledger.code_bits == pytest.approx(result.trace.total_bits("gpt"), rel=1e-3)


def test_a_rerun_agrees_in_every_bit(run, tmp_path):
    _, _, found = run
    _, path = evaluated(tmp_path)
    again = read_run(path)
    assert again.archive.read_bytes() == found.archive.read_bytes()
    for name, curve in found.curves.items():
        assert again.curves[name].bits.tolist() == curve.bits.tolist()
    measured = ("ledger", "parts", "crossings", "tables", "archive_bits", "code_bits", "total_bits")
    assert {n: again.record[n] for n in measured} == {n: found.record[n] for n in measured}


def test_runs_are_listed_oldest_first_and_other_folders_passed_over(run):
    root, _, found = run
    (root / "else").mkdir(exist_ok=True)
    assert [r.name for r in read_runs(root)] == [found.name] == [run_name(found.record)]
    assert read_runs(root / "missing") == []


def test_a_run_that_fails_leaves_no_folder(tmp_path):
    with pytest.raises(ZeroDivisionError), new_run_folder(tmp_path / "runs") as folder:
        (folder.draft / "archive.pq").write_bytes(b"half")
        raise ZeroDivisionError
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_second_run_of_the_same_second_gets_a_name_of_its_own(run, tmp_path):
    _, result, found = run
    paths = []
    for _ in range(3):
        with new_run_folder(tmp_path) as folder:
            paths.append(folder.finish(tmp_path, found.record, result.curves).name)
    assert paths == [found.name, f"{found.name}-2", f"{found.name}-3"]


def test_a_name_that_another_process_takes_meanwhile_is_left_to_it(run, tmp_path, monkeypatch):
    _, result, found = run
    (tmp_path / found.name / "another's").mkdir(parents=True)
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.name != found.name and exists(path))  # a moment ago
    with new_run_folder(tmp_path) as folder:
        assert folder.finish(tmp_path, found.record, result.curves).name == f"{found.name}-2"
    assert [path.name for path in (tmp_path / found.name).iterdir()] == ["another's"]


def test_a_hostile_corpus_name_stays_within_the_folder(run):
    record = {**run[2].record, "corpus": {**run[2].record["corpus"], "name": "../../etc/\x00pass wd"}}
    name = run_name(record)
    assert "/" not in name and "\x00" not in name and name.startswith("pass-wd-")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no record"), ("{}", "no record of an evaluation"), ('{"kind": "evaluation", "schema": 99}', "schema 99")],
)
def test_what_is_no_run_is_refused(tmp_path, text, message):
    (tmp_path / "record.jsonl").write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_run(tmp_path)
    with pytest.raises(CorpusError, match="cannot read"):
        read_run(tmp_path / "missing")


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"), new_run_folder(tmp_path / "file"):
        raise AssertionError("the work began")


def test_records_are_strict_json(run):
    text = (run[2].path / "record.jsonl").read_text()
    assert text.count("\n") == 1
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
