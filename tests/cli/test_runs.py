"""runs: a row for each run, one run as `evaluate` printed it, and files of packed runs."""

import json
import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def made(run, text, tmp_path_factory):
    """A folder with two runs, what evaluate printed for the second, and the path of that run."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "a").write_bytes(text)
    run(folder, "evaluate", "--limit", "2K", "a")
    printed = run(folder, "evaluate", "--limit", "3K", "--verify", "a").stdout.decode()
    return folder, printed, re.search(r"^run +(.*)$", printed, re.MULTILINE)[1]


@pytest.mark.first_quick
def test_the_list_has_a_row_for_each_run_oldest_first(run, made):
    folder, printed, last = made
    titles, *rows = run(folder, "runs", "list").stdout.decode().splitlines()
    assert titles.split() == ["run", "bytes", "model", "bits/byte", "verified"]
    assert [re.search(r"(2,048|3,072).* (yes|no)$", row)[2] for row in rows] == ["no", "yes"]
    begins = [row.split()[0] for row in rows]
    assert all(len(row) <= 80 for row in rows) and begins[0] != begins[1]
    assert Path(last).name.startswith(begins[1])
    assert run(folder, "runs", "show", begins[1]).stdout.decode().endswith(printed.splitlines()[-1] + "\n")
    entries = [json.loads(line) for line in run(folder, "runs", "list", "--json", "runs").stdout.splitlines()]
    record = json.loads((folder / last / "record.jsonl").read_text())
    assert [entry["n_bytes"] for entry in entries] == [2048, 3072] and entries[1]["run"] == last
    for name in ("archive_bytes", "bits_per_byte", "bytes_per_s", "verified", "time"):
        assert entries[1][name] == record[name]


def test_a_run_is_shown_as_it_was_printed_and_with_its_crossings(run, made):
    folder, printed, last = made
    before, after = printed.split("\n\n", 1)
    shown = run(folder, "runs", "show", last).stdout.decode()
    assert shown.startswith(before) and shown.endswith(after)
    crossings = shown.removeprefix(before).removesuffix(after)
    record = json.loads((folder / last / "record.jsonl").read_text())
    for baseline in record["baselines"]:
        byte = record["crossings"][baseline["name"]]
        match = re.search(re.escape(baseline["label"]) + r" +(\S+)$", crossings, re.MULTILINE)
        assert match[1] == ("never" if byte is None else f"{byte:,}")
    assert json.loads(run(folder, "runs", "show", "--json", last).stdout) == record


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        ("runs", "show"),
        ("report", "-c"),
        ("compare", "latest"),
        ("forecast", "runs", "--target-parameters", "9", "--target-bytes", "9K", "-o", "f", "--proxy"),
    ],
)
def test_every_command_that_takes_a_run_takes_the_latest(run, made, command):
    folder, _, last = made
    latest, same = (run(folder, *command, name) for name in ("latest", last))
    assert (latest.stdout, latest.stderr, latest.returncode) == (same.stdout, same.stderr, same.returncode)
    assert (latest.stdout or latest.stderr) and b"latest" not in latest.stderr


def test_interrupted_evaluations_are_named_below_the_list(run, tmp_path):
    assert len(run(tmp_path, "runs", "list").stdout.splitlines()) == 1  # without a folder
    for name, file in (
        (".run-begun", "begun"), (".run-saved", ".archive.pq.prequential/run.checkpoint"), (".run-coded", "archive.pq"),
    ):  # fmt: skip
        (tmp_path / "runs" / name / file).parent.mkdir(parents=True)
        (tmp_path / "runs" / name / file).touch()
    done = run(tmp_path, "runs", "list")
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
    lines = done.stderr.decode().splitlines()
    assert [line.split(" --resume ")[1].split("`")[0] for line in lines] == ["runs/.run-coded", "runs/.run-saved"]
    quiet = run(tmp_path, "runs", "list", "-q")
    assert (quiet.stdout, quiet.stderr) == (b"", b"")


def test_packed_runs_are_listed_and_shown_like_those_of_a_folder(run, made, tmp_path):
    folder, _, _ = made
    packed = str(tmp_path / "packed.jsonl")
    done = run(folder, "runs", "pack", "runs", "-o", packed)
    assert (done.returncode, done.stdout.decode()) == (0, f"2 runs packed into {packed}\n")
    assert run(folder, "runs", "list", packed).stdout == run(folder, "runs", "list", "runs").stdout
    name = json.loads(run(folder, "runs", "list", "--json", packed).stdout.splitlines()[0])["run"]
    assert run(folder, "runs", "list", "-q", packed).stdout.decode().splitlines()[0] == name
    shown = json.loads(run(folder, "runs", "show", "--json", name).stdout)
    assert shown["corpus"]["n_bytes"] == 2048
    assert run(folder, "runs", "pack", "runs", "-o", packed).returncode == 1
    assert run(folder, "runs", "pack", "-f", "runs", "-o", packed).returncode == 0
