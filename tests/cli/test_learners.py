"""Learners of one's own, given texts and the matrix on the command line: results, and one line for every fault."""

import json
import subprocess
import sys
from pathlib import Path

import own_learners
import pytest

import prequential
from prequential.model.config import Config
from prequential.model.presets import SMALL_N_BYTES, default_for, preset


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
    assert b"mine.py:Counts(prior = 0.5)" in done.stdout
    (path,) = (folder / "runs").iterdir()
    record = json.loads((path / "record.jsonl").read_text())
    assert record["verified"] and record["coding"].startswith("archive, for this machine")
    for command in (["runs", "list"], ["runs", "show", str(path)], ["report", "-o", "page.html", str(path)]):
        later = run(folder, *command)
        assert later.returncode == 0, later.stderr
    assert "mine.py:Counts" in (folder / "page.html").read_text()
    refused = run(folder, "decompress", "-o", "out", str(path / "archive.pq"))
    assert refused.returncode == 1 and b"learner of its own, 'mine.py:Counts'" in refused.stderr
    both = run(folder, "evaluate", "-1", "--baselines", "none", "text")
    assert both.returncode == 0, both.stderr
    runs = [str(each) for each in (folder / "runs").iterdir()]
    compared = run(folder, "compare", *runs)
    assert compared.returncode == 0, compared.stderr


def test_one_text_given_another(run, folder, text):
    assert run(folder, "compress", "-1", "text", "--given", "before").returncode == 0
    refused = run(folder, "decompress", "-o", "out", "text.pq")
    assert refused.returncode == 1 and refused.stderr.count(b"\n") == 1 and b"--given" in refused.stderr
    assert not (folder / "out").exists()
    assert run(folder, "test", "--given", "before", "text.pq").returncode == 0
    assert run(folder, "decompress", "-o", "out", "--given", "before", "text.pq").returncode == 0
    assert (folder / "out").read_bytes() == text


@pytest.mark.thorough
def test_every_command_takes_the_same_level_for_the_same_small_input_and_says_so(folder):
    def shown(*args):
        command = [sys.executable, "-m", "prequential", *args]
        with (folder / "text").open("rb") as text:
            return subprocess.run(command, cwd=folder, check=True, stdin=text, capture_output=True)

    said = b"level -4 by its size (-5 from 256 KiB on)\n"
    assert shown("compress", "-v", "text").stderr.endswith(said)
    assert shown("compress", "-v", "-o", "piped.pq").stderr.endswith(said)
    evaluated = shown("evaluate", "-v", "--no-run", "--json", "--baselines", "none", "text")
    assert evaluated.stderr.endswith(b"text: " + said)
    listed = [json.loads(shown("list", "--json", name).stdout)["config"] for name in ("text.pq", "piped.pq")]
    for config in (*listed, json.loads(evaluated.stdout)["config"]):
        assert Config.from_dict(config) == default_for(SMALL_N_BYTES - 1)
    assert default_for(SMALL_N_BYTES) == preset(5) and default_for(SMALL_N_BYTES - 1) == preset(4)


def test_the_library_evaluates_with_the_level_that_it_compresses_with():
    found = prequential.evaluate(b"a small text " * 9, baselines=())
    assert found.header.config == default_for(117).to_dict() == preset(4).to_dict()


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
    assert b"learner: mine.py:Pairs()" in shown.stdout
    apart = run(folder, *args, "--context", "isolated")
    assert apart.returncode == 1 and b"has the context carried" in apart.stderr
    (folder / "empty").touch()
    empty = run(folder, *["empty" if each == "train" else each for each in args])
    assert empty.returncode == 1 and b"the training corpus 'empty' is empty" in empty.stderr
    assert run(folder, *args, "-2").returncode == 2
