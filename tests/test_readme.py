"""README, followed by a stranger: its commands and its code, taken from it, run in its order, and again over what they left."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import prequential

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
STEP = re.compile(
    r"(?:Save as `(?P<file>[^`]+)`:\n\n)?^```python\n(?P<code>.*?)^```$"
    r"|^    (?:\$ (?P<command>[^\n]+)|(?P<make>make [^\n]+))$"
    r"|`(?P<inline>(?:prequential|make) [^`]+)`",
    re.MULTILINE | re.DOTALL,
)
SET_UP = ("make demo", "make test", ". .venv/bin/activate")  # this test's own environment stands for what they make
LARGE = {"sample:christmas_carol": "sample:christmas_carol --limit 3000"}
THERE = "  # before each optimizer.step()"  # where the reader's loop goes on
NAMES = {  # which README takes from the reader's training loop
    "rec": """
import json, sys, prequential, torch
sys.path[:0] = [FOLDER]
from made_tokenizers import byte_level
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_str(json.dumps(byte_level()))
model = torch.nn.Linear(4, tokenizer.get_vocab_size())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.arange(32).reshape(2, 16)
y, logits = x + 1, model(torch.ones(2, 16, 4))
"""
}


class Step(NamedTuple):
    """A command with its comment, or code, which is saved if it has the name of a file."""

    command: str = ""
    comment: str = ""
    code: str = ""
    file: str = ""


def steps(text: str) -> Iterator[Step]:
    for found in STEP.finditer(text):
        line = found["command"] or found["make"] or found["inline"]
        if line:
            command, _, comment = line.partition("  #")
            yield Step(command.strip(), comment.strip())
        else:
            yield Step(code=found["code"], file=found["file"] or "")


def again(step: Step) -> str:
    """The command for the second time: its comment may say "again: with OPTION" or "again: without OPTION"."""
    options = shlex.split(step.command)
    if found := re.search(r"again: with(out)? (-\S+)$", step.comment):
        if found[1]:
            at = options.index(found[2])
            del options[at : at + 2]
        else:
            options.insert(2, found[2])
    return " ".join(options)


def run(folder: Path, *command: str) -> None:
    bin_folder = Path(sys.executable).parent
    own = {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(PROJECT), "HF_HUB_OFFLINE": "1"}
    own |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout[-500:], done.stderr)


def commit(folder: Path, n_commits: int, start: int = 0) -> None:
    """Commits more to the repository in the folder, one for each hour."""
    for hour in range(start, start + n_commits):
        text = f"value_{hour} = compute({hour})\n" * 2
        head = f"commit refs/heads/main\ncommitter A <a@b> {1767268800 + 3600 * hour} +0000\ndata 1\nx\n"
        parent = "from refs/heads/main^0\n" * (hour > 0)
        data = f"{head}{parent}M 644 inline f{hour % 9}.py\ndata {len(text)}\n{text}\n"
        subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input=data, text=True, check=True)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A folder with the inputs that README names: a book, two folders of code, and a repository."""
    (tmp_path / "book.txt").write_bytes(prequential.sample_path("christmas_carol").read_bytes()[:3000])
    for name, factor in (("old-code", 2), ("new-code", 3)):
        (tmp_path / name).mkdir()
        for i in range(2):
            text = "".join(f"value_{k} = compute({factor * k + i})\n" for k in range(20))
            (tmp_path / name / f"{i}.py").write_text(text)
    return tmp_path


def test_every_command_and_every_code_block_of_readme_is_a_step_and_only_the_set_up_is_left_out() -> None:
    found = list(steps(README))
    assert sum(bool(step.code) for step in found) == README.count("```python\n") == 3
    assert [step.file for step in found if step.file] == ["mine.py"]
    commands = [step.command for step in found if step.command]
    assert len(re.findall(r"^    \$ ", README, re.MULTILINE)) > 6
    left = [command for command in commands if not command.startswith("prequential ")]
    assert [name for name in SET_UP if any(command.startswith(name) for command in left)] == list(SET_UP)
    assert all(command.startswith(SET_UP) for command in left)


def test_the_python_block_of_readme_runs(fresh: Path, no_warm_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("agg")
    (fresh / "runs").mkdir()
    monkeypatch.chdir(fresh)
    (code,) = (step.code for step in steps(README) if "plots" in step.code)
    exec(compile(code, "README.md", "exec"), names := {})
    pyplot.close("all")
    assert names["result"].archive_bytes > 0


@pytest.mark.thorough
def test_readme_in_its_order_in_a_fresh_folder_and_again_over_what_it_left(fresh: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(fresh)], check=True)
    commit(fresh, 101)
    book = (fresh / "book.txt").read_bytes()
    for time in range(2):
        for step in steps(README):
            if step.file:
                (fresh / step.file).write_text(step.code)
            elif step.code:
                names = "".join(lines for name, lines in NAMES.items() if f"{name} = " in step.code)
                folder = repr(str(PROJECT / "tests" / "adapters"))
                code = step.code.replace(THERE, "\noptimizer.step()")
                run(fresh, sys.executable, "-c", names.replace("FOLDER", folder) + code)
            elif not step.command.startswith(SET_UP):
                command = again(step) if time else step.command
                for large, small in LARGE.items():
                    command = command.replace(large, small)
                run(fresh, "bash", "-c", command)
        assert (fresh / "book.txt").read_bytes() == book
        assert (fresh / "report.html").stat().st_size > 10_000
        commit(fresh, 1, start=101)
    assert len(prequential.read_runs(fresh / "runs")) >= 5
