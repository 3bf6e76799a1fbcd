"""The layout of the source: benchmarks/layout.py finds no violation, and would find one."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import load

PROJECT = Path(__file__).parents[2]
LATE = {"huggingface_hub", "matplotlib", "pandas"}  # optional or slow: imported inside functions only
FOLDERS = ("prequential", "codecs", "corpora")
NO_ROOMS = {"hostile", "golden", "notebooks", "benchmarks", "cli"}  # folders of tests that need not follow modules
CROSSING = {  # tests of several modules, named for what they show
    "": ("api", "caller_state", "documents", "readme", "site", "tutorial", "types"),
    "adapters": ("learners_of_libraries", "model_families", "tokenizers"),
    "codecs": ("format_document",),
    "evaluation": ("decoder_source", "real_files", "resumed_evaluation", "resumed_learner"),
    "exact": ("elementwise", "triton"),
    "forecasting": ("intervals", "projection", "score"),
    "heldout_loss": ("changed_twice", "heldout_trained", "scored_models"),
    "learners": ("state",),
    "online": ("causality", "digest_matrix", "model_store_refused"),
    "recording": (
        "attacks", "look_ahead", "loops", "on_gpu", "parallel", "ranks", "seen_text", "trainer", "unfinished",
    ),
    "records": ("schema",),
    "report": ("figures", "page_in_browser", "panels", "passages", "plots", "written"),
    "sweeps": ("executors",),
}  # fmt: skip
layout = load("layout")


def test_the_layout_has_no_violation() -> None:
    assert layout.violations() == []


def test_every_source_file_is_a_module_of_the_layout() -> None:
    files = {path.resolve() for folder in FOLDERS for path in (PROJECT / folder).rglob("*.py")}
    assert files == {path.resolve() for path in layout.modules().values()}
    assert len(files) > 150


def test_optional_and_slow_packages_are_imported_inside_functions_only() -> None:
    early = {}
    for name in layout.modules():
        top = [node for node in layout.tree(name).body if isinstance(node, ast.Import | ast.ImportFrom)]
        if names := {n.partition(".")[0] for n in layout.imported_names(iter(top))} & LATE:
            early[name] = names
    assert early == {}


@pytest.mark.parametrize(
    ("name", "source", "is_allowed"),
    [
        ("corpora.tree", "import torch", False),
        ("codecs.archive", "def f():\n    from torch.nn import Linear", False),
        ("codecs.archive", "from prequential_corpora.sources import open_corpus", False),
        ("corpora.tree", "from prequential_codecs import archive", False),
        ("exact.plain", "import prequential.model.gpt.gpt", False),
        ("model.learner", "def f():\n    from prequential.records import schema", False),
        ("evaluation.ledger", "from prequential.compression import compress", False),
        ("online.health", "from prequential.evaluation.ledger import Ledger", False),
        ("online.loop", "from prequential.records import append_record", False),
        ("errors", "from prequential.exact import tables", False),
        ("model.learner", "if TYPE_CHECKING:\n    from prequential.comparison.compare import compare", False),
        ("corpora.hub", "def f():\n    import huggingface_hub", True),
        ("codecs.archive", "from prequential.errors import CorruptArchiveError", True),
        ("cli.main", "from prequential.records import append_record", True),
        ("model.learner", "import torch\nfrom prequential.exact import matmul", True),
    ],
)
def test_an_import_against_the_layout_is_found(name: str, source: str, is_allowed: bool) -> None:
    assert (layout.import_violations(name, ast.parse(source)) == []) == is_allowed


def test_every_module_is_in_the_order_and_a_name_in_it_that_is_no_module_is_found(monkeypatch) -> None:
    assert layout.misnamed() == []
    monkeypatch.setattr(layout, "ORDER", (*layout.ORDER, ("labels",)))
    assert layout.misnamed() == ["ORDER names labels, which is no module"]


def test_the_rooms_of_the_architecture_are_the_folders_of_the_tree() -> None:
    text = (PROJECT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^    ([\w/]+)/ +\w", text, flags=re.MULTILINE)
    folders = {name.replace(".", "/") for name, path in layout.modules().items() if path.name == "__init__.py"} - {""}
    assert sorted(rooms) == sorted(folders)


def test_every_folder_of_tests_is_a_room_and_every_file_is_named_after_a_module_of_it() -> None:
    modules = [tuple(name.split(".")) for name in layout.modules()]
    stray = []
    for path in (PROJECT / "tests").rglob("test_*.py"):
        room, name = (
            path.relative_to(PROJECT / "tests").parts[0].removesuffix(path.name),
            path.stem.removeprefix("test_"),
        )
        assert room in NO_ROOMS | {"", *(module[0] for module in modules)}
        is_named = any(module[-1] == name and module[0] == (room or name) for module in modules)
        if not is_named and room not in NO_ROOMS and name not in CROSSING.get(room, ()):
            stray.append(str(path))
    assert stray == []


def test_sizes_are_within_the_budget(monkeypatch) -> None:
    assert layout.over_budget() == []
    monkeypatch.setattr(layout, "sizes", lambda: {"modules": 10**6})
    assert layout.over_budget()[0].startswith("modules: 1,000,000, the budget is ")


def test_circles_are_found() -> None:
    assert layout.circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert layout.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a -> b -> c -> a"]


def test_the_picture_of_the_architecture_has_the_order_of_the_layout() -> None:
    text = (PROJECT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    names = re.findall(r"^    ([\w/.]+?)/?(?:\.py)?  ", text, flags=re.MULTILINE)
    pictured = [name.replace("/", ".") for name in names if name.split("/")[0] in layout.folder_edges()]
    pictured += [name for name in names if name in ("compression", "decompression")]
    assert len(pictured) > 8
    in_order = sorted(pictured, key=lambda name: -layout.rank(name))
    assert [name.replace("/", ".") for name in names if name.replace("/", ".") in pictured] == in_order


@pytest.mark.thorough
def test_the_folder_above_a_checkout_finds_the_package(tmp_path: Path) -> None:
    """There, the checkout's own folder has the name of the package. And no file of the checkout is a link."""
    (tmp_path / "prequential").symlink_to(PROJECT)
    code = "import prequential; print(len(prequential.compress(b'x')) > 20)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    sources = (path for folder in FOLDERS for path in (PROJECT / folder).rglob("*"))
    assert not [path for path in sources if path.is_symlink()]
