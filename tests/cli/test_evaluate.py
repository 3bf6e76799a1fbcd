"""evaluate: records, and a report with all figures in one table."""

import json

import pytest

from prequential.evaluation.runs import read_run, read_runs


@pytest.fixture(scope="module")
def evaluated(run, text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "a").write_bytes(text)
    done = run(folder, "evaluate", "--verify", "--limit", "3K", "a", "missing", "a")
    return folder, done, [each.record for each in read_runs(folder / "runs")]


def test_records_have_the_measurement_the_machine_and_the_versions(evaluated):
    _, _, (record, again) = evaluated
    assert record["corpus"]["n_bytes"] == 3072
    assert record["verified"] is True
    assert record["archive_bits"] == 8 * record["archive_bytes"]
    assert record["archive_bytes"] == record["header_bytes"] + record["payload_bytes"] + record["container_bytes"]
    assert record["environment"]["kernels"] == "fused"
    assert record["environment"]["machine"]["n_cores"] >= 1
    assert "torch" in record["environment"]["versions"]
    assert record["code_bits"] == again["code_bits"]


def test_the_report_has_every_baseline_in_one_table(evaluated):
    report = evaluated[1].stdout.decode()
    for label in ("gzip", "bzip2", "xz", "zstd", "brotli", "ppmd", "order 0", "prequential"):
        assert f"\n{label}" in report


def test_a_report_fits_a_terminal_and_ends_with_the_ranking_and_the_main_figure(evaluated):
    first = evaluated[1].stdout.decode().partition("\ncorpus")[0].rstrip().splitlines()
    assert len(first) + len(["the command", "its level", "the next prompt"]) <= 24
    assert max(map(len, first)) <= 80
    assert first[-1].startswith("description length  ")
    assert sum(line.startswith(("prequential  ", "gzip", "order 0")) for line in first[-11:-1]) == 3


def test_after_a_missing_corpus_the_next_one_is_recorded(evaluated):
    assert (evaluated[1].returncode, len(evaluated[1].stderr.splitlines())) == (1, 1)


def test_each_evaluation_leaves_a_run_folder_with_its_archive(evaluated):
    folder, done, _ = evaluated
    found = [read_run(path) for path in (folder / "runs").iterdir()]
    assert len(found) == 2
    for run in found:
        assert 8 * run.archive.stat().st_size == run.record["archive_bits"]
        assert f"run                 {run.path.relative_to(folder)}\n" in done.stdout.decode()


def test_the_named_baselines_are_measured(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text[:1000])
    for names, expected in (("gzip,order0", ["gzip", "order0"]), ("none", [])):
        done = run(tmp_path, "evaluate", "--no-run", "--json", "--baselines", names, "a")
        assert [b["name"] for b in json.loads(done.stdout)["baselines"]] == expected
    done = run(tmp_path, "evaluate", "--baselines", "gzip,arj", "a")
    assert done.returncode == 2 and b"no baseline 'arj'; the baselines are gzip" in done.stderr


def test_tables_are_printed_on_request(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text[:2000])
    tables = [run(tmp_path, "evaluate", "--no-run", *more, "a").stdout.decode() for more in ((), ("--tables",))]
    assert ["By the value of the byte." in output for output in tables] == [False, True]


def test_without_a_run_folder_nothing_is_left(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text[:1000])
    done = run(tmp_path, "evaluate", "--no-run", "--seeds-tried", "8", "--json", "a")
    record = json.loads(done.stdout)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert record["ledger"][-1] == {"entry": "choice among 8 seeds", "bits": 3.0}
