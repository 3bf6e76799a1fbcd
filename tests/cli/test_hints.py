"""What the command line says about mistakes: the option, level or command that was meant, and commands that can be pasted."""

import json
import re
import shlex
from pathlib import Path

import own_learners
import pytest

from prequential.cli.main import build_parser, main
from prequential.cli.streams import command_line

NOISY = (
    Path(own_learners.__file__).read_text()
    + """
import os
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
        super().__init__(start)
    def predict(self, context, symbols):
        print("predicts")
        os.write(1, b"from C\\n")
        return super().predict(context, symbols)
class Ids(Noisy):
    tokenizer = Bytes()
"""
)


@pytest.mark.thorough
def test_a_file_may_be_called_like_a_level(run, text, tmp_path):
    (tmp_path / "-1").write_bytes(text)
    assert run(tmp_path, "compress", "--", "-1").returncode == 0
    (tmp_path / "-1").rename(tmp_path / "old")
    assert run(tmp_path, "decompress", "--", "-1.pq").returncode == 0
    assert (tmp_path / "-1").read_bytes() == text
    assert b"unrecognized arguments: -1" in run(tmp_path, "list", "-1").stderr


@pytest.mark.parametrize("name", [".", "..", "inner/.."])
def test_a_folder_without_a_name_of_its_own_is_refused_with_a_command_that_works(run, text, tmp_path, name):
    folder = tmp_path / "my folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "a").write_bytes(text)
    before = sorted(tmp_path.rglob("*"))
    done = run(folder / "inner" if name == ".." else folder, "compress", name)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert sorted(tmp_path.rglob("*")) == before
    command = shlex.split(done.stderr.decode().split("`")[1])
    assert command[:3] == ["prequential", "compress", name]
    assert run(folder / "inner" if name == ".." else folder, *command[1:]).returncode == 0
    assert (tmp_path / "my folder.pq").is_file()


@pytest.mark.parametrize(
    "words",
    [
        ["compress", "-3", "-f", "--threads", "2", "a b"],
        ["compress", "-6", "--", "-1"],
        ["compress", "--preset", "gpu-small", "--seed", "3", "--max-memory", "9G", "x"],
        ["evaluate", "--learner", "a.py:F", "--learner-arg", "x=1", "--learner-arg", "y=a b", "--verify", "x"],
        ["decompress", "-o", "it's", "--max-output", "1K", "x.pq"],
    ],
)
def test_a_command_is_written_so_that_it_can_be_pasted(words):
    args = build_parser().parse_args(words)
    again = shlex.split(command_line(args))
    assert again[0] == "prequential"
    found, given = (
        {name: value for name, value in vars(each).items() if name not in ("parser", "after_end")}
        for each in (build_parser().parse_args(again[1:]), args)
    )
    assert found == given


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
    assert {b"imported", b"made", b"predicts", b"from C"} <= set(done.stderr.splitlines())
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
    assert re.search("bytes of code length: [0-9.]+% of 2,400", page) and "The code length alone takes" in page
    assert "(code length, no archive; not proved)</h1>" in page
    for text in ("bytes of archive", "complete archive", "The archive of these", "archive alone", "decode the archive"):
        assert text not in page
    assert run(tmp_path, "evaluate", "-1", "--baselines", "none", "a").returncode == 0
    (own,) = (path.name for path in (tmp_path / "runs").iterdir() if (path / "archive.pq").exists())
    (other,) = (path.name for path in (tmp_path / "runs").iterdir() if path.name != own)
    compared = run(tmp_path, "compare", own, other).stdout.decode()
    assert f"\nA (-1) on a: {own}\nB (noisy.py:Ids) on a: {other}\n" in compared
    assert "archive or code length, bits" in compared and "archive bits" not in compared
    assert "B (noisy.py:Ids) is not below A (-1) at the end" in compared
