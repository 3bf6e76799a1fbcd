"""evaluate: records, and a report with all figures in one table."""

import argparse
import csv
import io
import json
import re

import pytest

import prequential
from prequential.cli.streams import PrintableStream, print_result
from prequential.evaluation.runs import read_runs


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


def test_a_report_fits_a_terminal_has_every_baseline_and_ends_with_the_main_figure(evaluated, run):
    first = run(evaluated[0], "evaluate", "--no-run", "a").stdout.decode().splitlines()
    assert len(first) + len(["the command", "its level", "the next prompt"]) <= 24 and max(map(len, first)) <= 80
    assert first[-1].startswith("description length  ")
    for label in ("gzip", "bzip2", "xz", "zstd", "brotli", "ppmd", "prequential"):
        assert any(line.startswith(label) for line in first), label


def test_each_evaluation_leaves_a_run_folder_with_its_archive_also_after_a_missing_corpus(evaluated):
    folder, done, _ = evaluated
    runs = read_runs(folder / "runs")
    assert (len(runs), done.returncode, len(done.stderr.splitlines())) == (2, 1, 1)
    _, *rows = done.stdout.decode().splitlines()  # a row each
    for run, row in zip(runs, rows, strict=True):
        assert 8 * run.archive.stat().st_size == run.record["archive_bits"]
        assert run.name.startswith(row.split()[0]) and f"{run.record['bits_per_byte']:.4f}" in row


def test_joint_corpora_are_the_documents_of_one_corpus(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text[:1000])
    (tmp_path / "b").write_bytes(text[1000:1500])
    (tmp_path / "b").chmod(0o600)
    assert run(tmp_path, "evaluate", "--joint", "--baselines", "none", "a", "b").returncode == 0
    (joint,) = read_runs(tmp_path / "runs")
    assert prequential.decompress(joint.archive) == text[:1000] + b"\0" + text[1000:1500] + b"\0"
    assert joint.record["tables"]["documents"]["n_documents"] == 2
    assert joint.archive.stat().st_mode & 0o777 == 0o600


def test_tables_of_several_corpora_have_a_row_for_each_compressor(run, text, tmp_path):
    for name in ("a", "b|c"):
        (tmp_path / name).write_bytes(text[:1000])
    given = ("evaluate", "--no-run", "--baselines", "xz", "a", "b|c")
    rows = list(csv.DictReader(run(tmp_path, *given, "--csv").stdout.decode().splitlines()))
    expected = [(corpus, program) for corpus in ("a", "b|c") for program in ("prequential", "xz -9e")]
    assert sorted((row["corpus"], row["program"]) for row in rows) == expected
    assert all(float(row["bits_per_byte"]) == 8 * int(row["compressed_bytes"]) / 1000 for row in rows)
    title, _, *lines = run(tmp_path, *given, "--markdown").stdout.decode().splitlines()
    assert title.startswith("| corpus | n_bytes | program |") and len(lines) == 4
    assert (
        lines[-1].startswith(f"| b\\|c | 1,000 | {rows[-1]['program']} |")
        and f"{float(rows[-1]['bits_per_byte']):.4f}" in lines[-1]
    )
    assert run(tmp_path, *given, "--csv", "--json").returncode == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_has_the_main_figure_in_colour_unless_no_color_is_set(no_color, monkeypatch):
    monkeypatch.setenv("NO_COLOR", no_color)
    shown = Terminal()
    monkeypatch.setattr("sys.stdout", PrintableStream(shown, is_output=True))
    print_result(argparse.Namespace(json=False, quiet=False), "xz 2.5\nx\x1b 2.5 bits", figure="2.5")
    expected = "xz 2.5\nx\\x1b 2.5 bits\n" if no_color else "xz 2.5\nx\\x1b \x1b[1;32m2.5\x1b[0m bits\n"
    assert shown.getvalue() == expected


def test_the_named_baselines_are_measured(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text[:1000])
    for names, expected in (("gzip,bzip2", ["gzip", "bzip2"]), ("none", [])):
        done = run(tmp_path, "evaluate", "--no-run", "--json", "--baselines", names, "a")
        assert [b["name"] for b in json.loads(done.stdout)["baselines"]] == expected


def test_tables_are_printed_on_request_and_with_quiet_only_the_figure(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text[:2000])
    plain, tables, quiet = (
        run(tmp_path, "evaluate", "--no-run", "--baselines", "none", *more, "a").stdout.decode()
        for more in ((), ("--tables",), ("-q",))
    )
    assert ["By the value of the byte." in output for output in (plain, tables)] == [False, True]
    assert re.fullmatch(r"\d\.\d{4}\n", quiet)


def test_without_a_run_folder_nothing_is_left(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text[:1000])
    done = run(tmp_path, "evaluate", "--no-run", "--seeds-tried", "8", "--json", "a")
    record = json.loads(done.stdout)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert record["ledger"][-1] == {"entry": "choice among 8 seeds", "bits": 3.0}


@pytest.mark.thorough
def test_jobs_give_the_table_of_one_process_in_the_same_order(run, text, tmp_path):
    for i, name in enumerate("abc"):
        (tmp_path / name).write_bytes(text[1000 * i : 1000 * (i + 1) + 500])
    tables = []
    for jobs in ((), ("--jobs", "2")):
        done = run(tmp_path, "evaluate", "--csv", "--baselines", "xz", *jobs, "a", "missing", "b", "c", fresh=True)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        rows = csv.DictReader(done.stdout.decode().splitlines())
        tables.append([(row["corpus"], row["program"], row["compressed_bytes"]) for row in rows])
    assert tables[0] == tables[1] and len(tables[0]) == 6
    assert len(read_runs(tmp_path / "runs")) == 6
