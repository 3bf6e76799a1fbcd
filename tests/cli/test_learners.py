"""Learners of one's own and given texts on the command line."""

import json
from pathlib import Path

import own_learners
import pytest

from prequential.cli.main import main

NOISY = (
    Path(own_learners.__file__).read_text()
    + """
print("imported")
class Bytes:
    def encode(self, data):
        return list(data)
    def decode(self, ids):
        return bytes(ids)
class Noisy(Counts):
    deterministic = False
    def __init__(self, start=1.0):
        print("made")
        __import__("os").system("echo said by a child")
        super().__init__(start)
    def predict(self, context, symbols):
        print("predicts")
        return super().predict(context, symbols)
class Ids(Noisy):
    tokenizer = Bytes()
"""
)


@pytest.fixture
def folder(tmp_path, text):
    (tmp_path / "mine.py").write_text(Path(own_learners.__file__).read_text())
    (tmp_path / "text").write_bytes(text)
    (tmp_path / "before").write_bytes(text[::-1])
    return tmp_path


def test_a_learner_of_ones_own_gets_a_run_folder_that_later_commands_read(run, folder):
    options = "--learner mine.py:Counts --learner-arg prior=0.5 --verify --baselines gzip"
    done = run(folder, "evaluate", *options.split(), "text")
    assert done.returncode == 0, done.stderr
    assert b"mine.py:Counts, prior=0.5" in done.stdout
    (path,) = (folder / "runs").iterdir()
    record = json.loads((path / "record.jsonl").read_text())
    assert record["verified"] and record["coding"].startswith("archive, for this machine")
    for command in (["runs", "list"], ["runs", "show", str(path)], ["report", "-o", "page.html", str(path)]):
        later = run(folder, *command)
        assert later.returncode == 0, later.stderr
    assert "mine.py:Counts" in (folder / "page.html").read_text()
    refused = run(folder, "decompress", "-o", "out", str(path / "archive.pq"))
    assert refused.returncode == 1 and b"learner of its own, 'mine.py:Counts'" in refused.stderr


def test_one_text_given_another(run, folder, text):
    assert run(folder, "compress", "-1", "text", "--given", "before").returncode == 0
    refused = run(folder, "decompress", "-o", "out", "text.pq")
    assert refused.returncode == 1 and refused.stderr.count(b"\n") == 1 and b"--given" in refused.stderr
    assert not (folder / "out").exists()
    assert run(folder, "test", "--given", "before", "text.pq").returncode == 0
    assert run(folder, "decompress", "-o", "out", "--given", "before", "text.pq").returncode == 0
    assert (folder / "out").read_bytes() == text


def test_the_held_out_loss_of_a_learner_of_ones_own(run, folder):
    (folder / "train").write_bytes(b"abababab" * 500)
    (folder / "test").write_bytes(b"ba" * 300)
    args = ["heldout", "--train", "train", "--test", "test", "--learner", "mine.py:Pairs", "--json", "--no-run"]
    done = run(folder, *args)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    rates = {name: record[name]["bits_per_byte"] for name in ("frozen", "dynamic", "untrained")}
    assert max(rates["dynamic"], rates["frozen"]) < 0.05 < rates["untrained"]
    assert record["config"]["learner"]["name"] == "mine.py:Pairs"
    shown = run(folder, *[each for each in args if each != "--json"])
    assert b"learner: mine.py:Pairs;" in shown.stdout
    apart = run(folder, *args, "--context", "isolated")
    assert apart.returncode == 2 and b"has the context carried" in apart.stderr
    (folder / "empty").touch()
    empty = run(folder, *["empty" if each == "train" else each for each in args])
    assert empty.returncode == 1 and b"the corpus 'empty' is empty" in empty.stderr
    assert run(folder, *args, "-2").returncode == 2


@pytest.mark.parametrize(
    "args",
    [
        ["evaluate", "--json", "--no-run", "--baselines", "none", "--learner", "noisy.py:Noisy", "a"],
        ["heldout", "--json", "--no-run", "--train", "a", "--test", "a", "--no-overlap", "--learner", "noisy.py:Noisy"],
    ],
)
@pytest.mark.first_quick
def test_what_a_learner_prints_is_not_in_the_json(run, tmp_path, args, monkeypatch, capsys):
    (tmp_path / "a").write_bytes(b"a few bytes " * 50)
    (tmp_path / "noisy.py").write_text(NOISY)
    done = run(tmp_path, *args, fresh=True)
    assert done.returncode == 0
    assert isinstance(json.loads(done.stdout), dict)
    assert {b"imported", b"made", b"predicts"} <= set(done.stderr.splitlines())
    if args[0] == "evaluate":  # also where the streams are not those of the process
        monkeypatch.chdir(tmp_path)
        assert main(args) == 0
        assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_a_learner_of_ids_has_a_code_length_and_no_archive_in_every_text(run, tmp_path):
    (tmp_path / "a").write_bytes(b"a few bytes " * 200)
    (tmp_path / "noisy.py").write_text(NOISY)
    done = run(tmp_path, "evaluate", "--baselines", "gzip", "--learner", "noisy.py:Ids", "a")
    assert b"bytes of archive" not in done.stdout and b"archive             none: code length" in done.stdout
    page = run(tmp_path, "report", "-c", "runs").stdout.decode()
    assert "<td>none: code length, no archive</td>" in page
    assert "(code length, no archive; not proved)</h1>" in page
    for text in ("bytes of archive", "complete archive", "The archive of these", "archive alone", "decode the archive"):
        assert text not in page
    (other,) = (path.name for path in (tmp_path / "runs").iterdir())
    assert run(tmp_path, "evaluate", "-1", "--baselines", "none", "a").returncode == 0
    (own,) = (path.name for path in (tmp_path / "runs").iterdir() if path.name != other)
    compared = run(tmp_path, "compare", own, other).stdout.decode()
    assert f"\nA (-1) on a: {own}\nB (noisy.py:Ids) on a: {other}\n" in compared
    assert "archive" not in compared
