"""Imports run one way: a walk over every import statement in the source, also those inside functions.

    cli -> api -> measure -> online -> model -> exact; codecs and corpora stand beside, and know none of these.

`ALLOWED` is the layout: for each room, the rooms it may import. errors and files are open to all.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "prequential"
FOLDERS = {
    **{room: PACKAGE / room for room in ("exact", "model", "online", "measure", "cli")},
    **{room: PROJECT / room for room in ("codecs", "corpora")},
}
ALLOWED = {
    "errors": set(),
    "version": set(),
    "files": {"errors"},
    "codecs": {"errors", "files"},
    "corpora": {"errors", "files"},
    "exact": {"errors", "files"},
    "model": {"exact", "errors", "files"},
    "online": {"model", "exact", "codecs", "corpora", "errors", "files"},
    "measure": {"online", "model", "exact", "codecs", "corpora", "errors", "files"},
    "api": {"measure", "online", "model", "exact", "codecs", "corpora", "errors", "files", "version"},
    "__init__": {"api", "measure", "errors", "files", "version"},
    "cli": {"__init__", "api", "measure", "online", "model", "exact", "codecs", "corpora", "errors", "files"},
    "__main__": {"cli"},
}
WITHOUT_TORCH = {"errors", "files", "codecs", "corpora"}
LAZY = {"corpora": {"datasets", "huggingface_hub"}}  # optional packages: only inside functions


def source_files(room: str) -> list[Path]:
    if room in FOLDERS:
        return sorted(FOLDERS[room].rglob("*.py"))
    return [path for path in [PACKAGE / f"{room}.py"] if path.exists()]


def module_name(path: Path) -> str:
    """The dotted name of the package that holds `path`, against which its relative imports resolve."""
    folder = path.parent
    inside = folder.relative_to(PACKAGE) if folder.is_relative_to(PACKAGE) else folder.relative_to(PROJECT)
    return ".".join(["prequential", *inside.parts])


def imported(nodes: Iterator[ast.AST], package: str) -> Iterator[str]:
    """Absolute dotted names that the import statements among `nodes` mention; `from a import b` gives a.b."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def at_import_time(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: all but the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from at_import_time(node)


def room_of(name: str) -> str:
    """Which room a name under `prequential` belongs to; what is no room is an attribute of the package itself."""
    part = name.split(".")[1] if "." in name else "__init__"
    return part if part in ALLOWED else "__init__"


def violations(room: str, source: str, package: str) -> list[str]:
    tree = ast.parse(source)
    names = set(imported(ast.walk(tree), package))
    ours = {name for name in names if name.split(".")[0] == "prequential"}
    bad = {name for name in ours if room_of(name) not in {room, *ALLOWED[room]}}
    if room in WITHOUT_TORCH:
        bad |= {name for name in names if name.split(".")[0] == "torch"}
    early = set(imported(at_import_time(tree), package))
    bad |= {name for name in early if name.split(".")[0] in LAZY.get(room, set())}
    return sorted(bad)


@pytest.mark.parametrize("room", ALLOWED)
def test_every_import_follows_the_layout(room: str) -> None:
    found = {
        str(path.relative_to(PROJECT)): bad
        for path in source_files(room)
        if (bad := violations(room, path.read_text(encoding="utf-8"), module_name(path)))
    }
    assert found == {}


def test_every_source_file_belongs_to_a_room() -> None:
    walked = {path.resolve() for room in ALLOWED for path in source_files(room)}
    assert {path.resolve() for path in PACKAGE.rglob("*.py")} - walked == set()
    assert (PROJECT / "corpora" / "sources.py").resolve() in walked
    assert (PACKAGE / "errors.py").resolve() in walked


def test_no_room_is_below_itself() -> None:
    def below(room: str) -> set[str]:
        return ALLOWED[room].union(*(below(lower) for lower in ALLOWED[room]))

    assert [room for room in ALLOWED if room in below(room)] == []


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("corpora", "import torch"),
        ("codecs", "def f():\n    from torch.nn import Linear"),
        ("codecs", "from prequential.corpora import open_corpus"),
        ("corpora", "from prequential import codecs"),
        ("corpora", "from ..online import loop"),
        ("corpora", "import datasets"),
        ("corpora", "class A:\n    import datasets.config"),
        ("exact", "import prequential.model.gpt.gpt"),
        ("model", "def f():\n    from prequential import measure"),
        ("measure", "from prequential.api import evaluate"),
        ("online", "import prequential"),
        ("errors", "from prequential.exact import tables"),
    ],
)
def test_an_import_against_the_layout_is_noticed(room: str, source: str) -> None:
    assert violations(room, source, f"prequential.{room}") != []


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("corpora", "def f():\n    import datasets"),
        ("corpora", "from .chunks import spool"),
        ("codecs", "from ..errors import CorruptArchiveError"),
        ("cli", "import torch\nfrom prequential import measure"),
        ("model", "import torch\nfrom prequential.exact import matmul"),
    ],
)
def test_an_import_along_the_layout_passes(room: str, source: str) -> None:
    assert violations(room, source, f"prequential.{room}") == []
