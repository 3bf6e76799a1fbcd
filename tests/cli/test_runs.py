"""runs: a row for each run, and one run as `evaluate` printed it."""

import json
import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def made(run, text, tmp_path_factory):
    """A folder with two runs, and what evaluate printed for the second."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "a").write_bytes(text)
    done = [
        run(folder, "evaluate", "--limit", limit, *verify, "a") for limit, verify in (("2K", ()), ("3K", ("--verify",)))
    ]
    return folder, done[1].stdout.decode()


def last_run(printed: str) -> str:
    match = re.search(r"^run +(.*)$", printed, re.MULTILINE)
    assert match
    return match[1]


@pytest.mark.first_quick
def test_the_list_has_a_row_for_each_run_oldest_first(run, made):
    folder, printed = made
    lines = run(folder, "runs", "list").stdout.decode().splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["run", "bytes", "model", "bits/byte", "verified"]
    assert [re.search(r"(2,048|3,072).* (yes|no)$", line)[2] for line in lines[1:]] == ["no", "yes"]
    begins = [line.split()[0] for line in lines[1:]]
    assert all(len(line) <= 80 for line in lines) and begins[0] != begins[1]
    assert Path(last_run(printed)).name.startswith(begins[1])
    assert run(folder, "runs", "show", begins[1]).stdout.decode().endswith(printed.splitlines()[-1] + "\n")
    entries = [json.loads(line) for line in run(folder, "runs", "list", "--json", "runs").stdout.splitlines()]
    record = json.loads((folder / last_run(printed) / "record.jsonl").read_text())
    assert [entry["n_bytes"] for entry in entries] == [2048, 3072]
    assert entries[1]["run"] == last_run(printed)
    for name in ("archive_bytes", "bits_per_byte", "bytes_per_s", "verified", "time"):
        assert entries[1][name] == record[name]


def test_a_run_is_named_by_the_beginning_of_its_name_or_as_the_latest(run, made):
    folder, printed = made
    name = Path(last_run(printed)).name
    (other,) = {path.name for path in (folder / "runs").iterdir() if not path.name.startswith(".")} - {name}
    n_same = next(i for i, (a, b) in enumerate(zip(name, other, strict=False)) if a != b)
    whole = run(folder, "runs", "show", f"runs/{name}").stdout
    assert whole and whole == run(folder, "runs", "show", "latest").stdout
    assert whole == run(folder, "runs", "show", name[: n_same + 1]).stdout
    for args, part in (
        (("show", name[:n_same]), "2 runs in 'runs' begin so"),
        (("show", "nothing"), "the run 'nothing' does not exist"),
        (("show", "runs/nothing"), "the run 'runs/nothing' does not exist"),
    ):
        done = run(folder, "runs", *args)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1) and part in done.stderr.decode()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        ("report", "-c"),
        ("compare", "latest"),
        ("heldout", "--test", "a", "--frozen-only", "--no-run", "--train"),
        ("forecast", "runs", "--target-parameters", "9", "--target-bytes", "9K", "-o", "f", "--proxy"),
    ],
)
def test_every_command_that_takes_a_run_takes_the_latest(run, made, command):
    folder, printed = made
    found, same = (run(folder, *command, name) for name in ("latest", last_run(printed)))
    assert (found.stdout, found.stderr, found.returncode) == (same.stdout, same.stderr, same.returncode)
    assert (found.stdout or found.stderr) and b"latest" not in found.stderr


def test_a_run_is_shown_as_it_was_printed_and_with_its_crossings(run, made):
    folder, printed = made
    done = run(folder, "runs", "show", last_run(printed))
    assert done.returncode == 0
    before, after = printed.split("\n\n", 1)
    shown = done.stdout.decode()
    assert shown.startswith(before) and shown.endswith(after)
    crossings = shown.removeprefix(before).removesuffix(after)
    record = json.loads((folder / last_run(printed) / "record.jsonl").read_text())
    for baseline in record["baselines"]:
        byte = record["crossings"][baseline["name"]]
        found = re.search(re.escape(baseline["label"]) + r" +(\S+)$", crossings, re.MULTILINE)
        assert found
        assert found[1] == ("never" if byte is None else f"{byte:,}")
    assert json.loads(run(folder, "runs", "show", "--json", last_run(printed)).stdout) == record


def test_without_a_folder_of_runs_the_list_is_empty(run, tmp_path):
    assert len(run(tmp_path, "runs", "list").stdout.splitlines()) == 1
    assert run(tmp_path, "runs").returncode == 2


def test_interrupted_evaluations_are_named_below_the_list(run, tmp_path):
    for name, holds in (
        (".run-begun", ()),
        (".run-saved", (".archive.pq.prequential/run.checkpoint",)),
        (".run-coded", ("archive.pq",)),
    ):
        (tmp_path / "runs" / name).mkdir(parents=True)
        for file in holds:
            (tmp_path / "runs" / name / file).parent.mkdir(exist_ok=True)
            (tmp_path / "runs" / name / file).touch()
    done = run(tmp_path, "runs", "list")
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
    lines = done.stderr.decode().splitlines()
    assert [line.split(" --resume ")[1].split("`")[0] for line in lines] == ["runs/.run-coded", "runs/.run-saved"]
    for option in ("-q", "--json"):
        assert run(tmp_path, "runs", "list", option).stderr == (b"" if option == "-q" else done.stderr)


def test_packed_runs_are_listed_and_shown_like_those_of_a_folder(run, made, tmp_path):
    folder, _ = made
    packed = str(tmp_path / "packed.jsonl")
    done = run(folder, "runs", "pack", "runs", "-o", packed)
    assert (done.returncode, done.stdout.decode()) == (0, f"2 runs packed into {packed}\n")
    assert run(folder, "runs", "list", packed).stdout == run(folder, "runs", "list", "runs").stdout
    name = json.loads(run(folder, "runs", "list", "--json", packed).stdout.splitlines()[0])["run"]
    shown = json.loads(run(folder, "runs", "show", "--json", name).stdout)
    assert shown["corpus"]["n_bytes"] == 2048
    assert run(folder, "runs", "pack", "runs", "-o", packed).returncode == 1
    assert run(folder, "runs", "pack", "-f", "runs", "-o", packed).returncode == 0
