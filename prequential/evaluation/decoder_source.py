"""The zipped source of the decoder: the modules of this program that plain decoding imports. A receiver needs them.

The Hutter prize and the Large Text Compression Benchmark add such a decoder to the archive. Like the operating system there,
Python and the libraries are not counted here. Comments and docstrings do nothing in a decoder and are left out. The zip is a
complete program: a test unpacks it into an empty folder and decodes an archive with it.

Only imports at module level count. An import inside a function belongs to a feature that a plain decoder does not use, such as
audits, CUDA or torchrun. The exceptions are in `ROOTS`.
"""

import ast
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from prequential.machine.kernel_cache import PACKAGES, package_folder

ROOTS = (
    "prequential.decompression",
    "prequential.model.decoding",  # imported inside functions, for archives of learners with a GPT
    "prequential.model.gpt.gpt",
    "prequential.exact.matmul",
    "prequential.exact.fused",  # Runtime imports the primitives that it is asked for, inside a function
    "prequential.exact.plain",
    "prequential.model.gpt.replicas",  # Runtime imports it for archives of learners with replicas
)
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of every file in the zip, so that its size depends on the source alone
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def decoder_zip_bytes() -> int:
    """Size of the zip of all source files that decoding imports, without comments and docstrings."""
    return len(decoder_zip())


def decoder_zip() -> bytes:
    """The zip itself: deflated, with files in the order of their names and without times."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in sorted(decoder_modules().items()):
            is_package = path.name == "__init__.py"
            member = name.replace(".", "/") + ("/__init__.py" if is_package else ".py")
            source = code_of(path.read_text(encoding="utf-8"))
            archive.writestr(zipfile.ZipInfo(member, EPOCH), source, zipfile.ZIP_DEFLATED, 9)
    return file.getvalue()


def code_of(source: str) -> str:
    """The same program without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree) + "\n"


def decoder_modules() -> dict[str, Path]:
    """The source file of each module that decoding imports, by the module's name."""
    found: dict[str, Path] = {}
    to_visit = list(ROOTS)
    while to_visit:
        name = to_visit.pop()
        path = _source_file(name)
        if name in found or path is None:
            continue
        found[name] = path
        to_visit += [name.rpartition(".")[0], *_imported_names(ast.parse(path.read_text(encoding="utf-8")))]
    return found


def _source_file(name: str) -> Path | None:
    """The source file of a module of this program; None if `name` is not a module or belongs to another program."""
    first, *parts = name.split(".")
    if first not in PACKAGES:
        return None
    place = package_folder(first).joinpath(*parts)
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))  # found without importing anything
    return next((file for file in files if file.is_file()), None)


def _imported_names(node: ast.AST) -> Iterator[str]:
    """Names that the code imports when it is imported itself: modules, and what is in them. Skips imports for type checkers."""
    for child in ast.iter_child_nodes(node):
        is_for_types = (
            isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"
        )
        if is_for_types or isinstance(child, FUNCTIONS):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from _imported_names(child)
