"""What a decoder is made of: the program's own source that decoding imports, zipped. The receiver of an archive needs it too.

The rule of the Hutter prize and of the Large Text Compression Benchmark counts it beside the archive; Python and the
libraries are taken as given, as the operating system is there.
"""

import ast
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = "prequential.online.coding"  # what decodes; whatever it imports, at any depth, belongs to it
EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in the zip, so that its size is of the source alone


@cache
def decoder_zip_bytes() -> int:
    """Size of the zip of all source files that decoding imports, comments and all."""
    return len(decoder_zip())


def decoder_zip() -> bytes:
    """The zip itself: deflated, files in order of their names, without times."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in sorted(decoder_modules().items()):
            is_package = path.name == "__init__.py"
            member = name.replace(".", "/") + ("/__init__.py" if is_package else ".py")
            archive.writestr(zipfile.ZipInfo(member, EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return file.getvalue()


def decoder_modules() -> dict[str, Path]:
    """Where the source of each module lies that decoding imports, by name."""
    found: dict[str, Path] = {}
    waiting = [ROOT]
    while waiting:
        name = waiting.pop()
        path = _source(name)
        if name in found or path is None:
            continue
        found[name] = path
        waiting += [name.rpartition(".")[0], *_imports(ast.parse(path.read_text(encoding="utf-8")))]
    return found


def _source(name: str) -> Path | None:
    """The file of a module of this program; None for what is no module, or not of this program."""
    if name.partition(".")[0] != "prequential":
        return None
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # its parent is a module, and it a name in there
        return None
    return Path(spec.origin) if spec and spec.origin else None


def _imports(tree: ast.AST) -> Iterator[str]:
    """Names that the code imports, modules or what is in them; not what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from _imports(node)
