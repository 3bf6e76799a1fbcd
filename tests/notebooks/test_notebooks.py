"""The notebooks run from their first cell to their last, at small settings, and are committed with outputs at real ones."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

PROJECT = Path(__file__).parents[2]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))
SMALL = {
    "LIMIT_BYTES": "6000",
    "THREADS": "1",
    "REPLAY": "(1, 2)",
    "WIDTHS": "(64,)",
    "FOLDER": "'runs'",
}


def parameters(notebook):
    (cell,) = (c for c in notebook.cells if "parameters" in c.metadata.get("tags", ()))
    return cell


def read(path):
    return nbformat.read(path, as_version=4)


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= {
        "quick_start",
        "learning_curves",
        "what_the_bits_buy",
        "data_efficiency",
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_at_small_settings(path, tmp_path, monkeypatch):
    notebook = read(path)
    names = {line.partition(" =")[0] for line in parameters(notebook).source.splitlines()}
    small = {name: value for name, value in SMALL.items() if name in names}
    parameters(notebook).source += "\n" + "\n".join(f"{name} = {value}" for name, value in small.items())
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert all(cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_has_its_outputs_and_names_no_place_of_its_making(path):
    notebook = read(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell.outputs for cell in cells)
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
    assert str(PROJECT) not in path.read_text(encoding="utf-8")
