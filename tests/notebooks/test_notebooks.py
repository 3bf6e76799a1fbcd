"""The notebooks run from their first cell to their last, at small settings, and are committed with outputs at real ones."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import prequential
from prequential.evaluation.ledger import decoder_zip

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

PROJECT = Path(__file__).parents[2]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))
LONG = {"scaling_and_forecast", "static_against_online", "two_checkpoints"}  # more than 10 s each even so
SMALL = {
    "LIMIT_BYTES": "6000",
    "THREADS": "1",
    "FOLDER": "'runs'",
    "REPO": "'project'",
    "SINCE": "'2026-01-02'",
    "FORECASTS": repr(str(PROJECT / "benchmarks" / "forecasts")),
    "TRAIN": "('json',)",
    "TEST": "('html', 'tomllib')",
    "TARGET_BYTES": "12_000",
    "TRAIN_BYTES": "20_000",
    "N_BYTES": "40_000",
    "VOCABULARIES": "(280, 320)",
    "SIZES": "(32, 64)",
}


def make_repository(path):
    """A git repository with a commit at noon of January 1, 2 and 3, 2026."""
    stream = []
    for day in range(3):
        date = 1767268800 + 86400 * day
        lines = "".join(f"value_{i} = compute({i * day})\n" for i in range(40 + 20 * day))
        files = "".join(f"M 644 inline {name}\ndata {len(lines)}\n{lines}\n" for name in ("a.py", f"new{day}.py"))
        stream.append(f"commit refs/heads/main\ncommitter A <a@b> {date} +0000\ndata 1\nx\n{files}")
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(path)], check=True)
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input="".join(stream).encode(), check=True)


def parameters(notebook):
    (cell,) = (c for c in notebook.cells if "parameters" in c.metadata.get("tags", ()))
    return cell


def read(path):
    return nbformat.read(path, as_version=4)


def test_the_notebooks_are_these():
    short = {"ablation", "corpora_that_teach", "quick_start", "your_model", "your_training_run"}
    assert {path.stem for path in NOTEBOOKS} == LONG | short


@pytest.mark.thorough
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else [], id=path.stem) for path in NOTEBOOKS],
)
def test_a_notebook_runs_at_small_settings(path, tmp_path, monkeypatch):
    notebook = read(path)
    names = {line.partition(" =")[0] for line in parameters(notebook).source.splitlines()}
    small = {name: value for name, value in SMALL.items() if name in names}
    parameters(notebook).source += "\n" + "\n".join(f"{name} = {value}" for name, value in small.items())
    if "REPO" in names:
        if shutil.which("git") is None:
            pytest.skip("reads a repository through git")
        make_repository(tmp_path / "project")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    if "transformers" in "".join(cell.source for cell in notebook.cells):
        pytest.importorskip("transformers")
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert all(cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_has_its_outputs_and_no_path_of_the_machine_that_ran_it(path):
    notebook = read(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell.outputs for cell in cells)
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
    assert str(PROJECT) not in path.read_text(encoding="utf-8")


def shown(name):
    """The text of all outputs of a committed notebook."""
    cells = read(PROJECT / "notebooks" / f"{name}.ipynb").cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


def number(pattern, text):
    (found,) = re.findall(pattern, text)
    return float(found.replace(",", ""))


@pytest.mark.parametrize(
    ("shown_in", "pattern", "bits"),
    [
        ("quick_start", r"decoder source, zipped +([\d,.]+) bits", 1),
        ("docs/METHOD.md", r"332,176 \+ 8 · ([\d,]+) =", 8),
    ],
)
def test_the_size_of_the_decoder_that_is_shown_is_that_of_today_within_one_percent(shown_in, pattern, bits):
    """Each edit of the decoder moves it by some bytes; a release shows the exact size."""
    text = (PROJECT / shown_in).read_text("utf-8") if "." in shown_in else shown(shown_in)
    assert bits * number(pattern, text) == pytest.approx(8 * len(decoder_zip()), rel=0.01)


def test_the_code_lengths_that_notebooks_show_are_those_of_today():
    """At -1, which is quick; the slow test below has the default."""
    sample = prequential.sample_path("christmas_carol").read_bytes()
    online = prequential.evaluate(sample[100_000:150_000], config=prequential.preset(1), baselines=())
    line = r"([\d.]+) bits/byte  online, from nothing"
    assert number(line, shown("static_against_online")) == round(online.code_bits_per_byte, 4)


@pytest.mark.slow
def test_the_figures_of_the_default_that_readme_and_notebooks_show_are_those_of_today():
    found = prequential.evaluate("sample:christmas_carol", config=prequential.preset(5), baselines=())
    line = r"<Evaluation of christmas_carol, 158,515 bytes: -5, [\d.]+ bits/byte, archive ([\d,]+) bytes"
    assert number(line, shown("quick_start")) == found.archive_bytes
    for page in ("README.md", "docs/index.md"):
        text = (PROJECT / page).read_text("utf-8")
        assert number(r"ideal code length +([\d,]+) bits", text) == round(found.code_bits)
        assert number(r"description length +([\d,]+) bits", text) == found.archive_bits
