"""The layout of the source, measured: modules in each folder, the direction of imports, circles, the length of functions.

    python benchmarks/layout.py

prints one table and every violation, and exits with 1 if there is one. tests/benchmarks/test_layout.py asserts the same.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[1]
ROOTS = {
    "prequential": PROJECT / "prequential",
    "prequential_codecs": PROJECT / "codecs" / "prequential_codecs",
    "prequential_corpora": PROJECT / "corpora" / "prequential_corpora",
}
MAX_MODULES, MAX_LINES, MAX_LINES_P90, MAX_PARAMETERS = 15, 60, 20, 8
MAX_NAMED_PARAMETERS = 17  # where all but two must be named by the caller, as those of a command

UNLIMITED = ("cli",)  # a file for each command

# From the lowest to the highest: a module imports only from its own line and from lines above it in this list.
# codecs and corpora share no imports, and neither imports torch. "" is the package itself: its public names.
ORDER = (
    ("errors", "printable", "version"),
    ("files",),
    ("machine",),
    ("codecs",),
    ("corpora",),
    ("exact",),
    ("model",),
    ("online",),
    ("arguments",),
    ("learners",),
    ("adapters",),
    ("decompression",),
    ("records",),
    ("evaluation",),
    ("compression",),
    ("comparison",),
    ("recording",),
    ("heldout_loss",),
    ("sweeps",),
    ("forecasting",),
    ("report",),
    ("plots",),
    ("",),
    ("cli", "__main__"),
)
SEPARATE = ({"codecs", "corpora"}, {"codecs", "exact"}, {"corpora", "exact"}, {"corpora", "model"})
WITHOUT_TORCH = ("errors", "printable", "version", "files", "machine", "codecs", "corpora")


@dataclass(frozen=True)
class Function:
    """A function: where it stands, its length, its parameters, those that need no name, and whether it is a kernel."""

    where: str
    n_lines: int
    n_parameters: int
    n_unnamed: int
    is_kernel: bool


@cache
def modules() -> Mapping[str, Path]:
    """Path of each module of the program, by its short name; packages by their `__init__`."""
    found = {}
    for package, root in ROOTS.items():
        for path in sorted(root.rglob("*.py")):
            parts = [package, *path.relative_to(root).with_suffix("").parts]
            found[short(".".join(parts).removesuffix(".__init__"))] = path
    return found


def short(name: str) -> str:
    """A module's name without "prequential." or "prequential_"."""
    return "" if name == "prequential" else name.removeprefix("prequential.").removeprefix("prequential_")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, except those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        yield child
        yield from statements(child)


def imported_names(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """Absolute dotted names that the import statements among the nodes mention."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(names: Iterator[str], known: Mapping[str, Path]) -> set[str]:
    """The program's modules among dotted names; the name of a class or function stands for its module."""
    found = set()
    for name in names:
        if name.partition(".")[0] in ROOTS:
            found.add(short(name) if short(name) in known else short(name).rpartition(".")[0])
    return found


@cache
def room(name: str) -> str:
    """The longest entry of ORDER that the module lies in."""
    entries = [entry for line in ORDER for entry in line]
    return max((e for e in entries if not e or name == e or name.startswith(f"{e}.")), key=len)


def misnamed() -> list[str]:
    """Entries of ORDER that are no module, and modules that lie in none: nothing would check their imports."""
    entries = {entry for line in ORDER for entry in line}
    found = [f"ORDER names {entry}, which is no module" for entry in sorted(entries - set(modules()))]
    return found + [f"ORDER does not name {name}" for name in modules() if name and not room(name)]


@cache
def rank(name: str) -> int:
    return next(i for i, line in enumerate(ORDER) if room(name) in line)


def import_violations(name: str, source: ast.Module) -> list[str]:
    """Imports of the module against ORDER and SEPARATE, as lines of text."""
    names = set(imported_names(statements(source)))
    found = []
    for other in own_imports(iter(names), modules()):
        rooms = {room(name), room(other)}
        if rank(other) > rank(name) or any(len(rooms) == 2 and rooms <= pair for pair in SEPARATE):
            found.append(f"{name} imports {other}")
    if room(name) in WITHOUT_TORCH and any(n.split(".")[0] == "torch" for n in names):
        found.append(f"{name} imports torch")
    return sorted(found)


def circles(edges: Mapping[str, set[str]]) -> list[str]:
    """A circle through each node that lies on one, as text; none in a graph without circles."""
    done: set[str] = set()
    found = []

    def visit(node: str, path: tuple[str, ...]) -> None:
        if node in path:
            found.append(" -> ".join((*path[path.index(node) :], node)))
        elif node not in done:
            for other in sorted(edges.get(node, ())):
                visit(other, (*path, node))
            done.add(node)

    for node in sorted(edges):
        visit(node, ())
    return found


@cache
def module_edges() -> dict[str, set[str]]:
    """The modules that each module imports, also inside functions."""
    return {
        name: own_imports(imported_names(statements(tree(name))), modules()) - {name}
        for name in modules()
        if name != ""  # its public names are imported when they are used
    }


@cache
def folder_edges() -> dict[str, set[str]]:
    """The folders that each folder imports from; not a folder's own subfolders or parents."""
    edges: dict[str, set[str]] = {}
    for name, others in module_edges().items():
        own = folder(name)
        for other in {folder(other) for other in others}:
            is_family = "" in (own, other) or f"{own}.".startswith(f"{other}.") or f"{other}.".startswith(f"{own}.")
            if not is_family:
                edges.setdefault(own, set()).add(other)
    return edges


def folder(name: str) -> str:
    """The package that a module lies in; a package lies in itself."""
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]


def functions() -> Iterator[Function]:
    """Every function and method of the program."""
    for name in modules():
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args
                unnamed = [a for a in (*arguments.posonlyargs, *arguments.args) if a.arg != "self"]
                yield Function(
                    where=f"{name}.{node.name}",
                    n_lines=(node.end_lineno or node.lineno) - node.lineno + 1,
                    n_parameters=len(unnamed) + len(arguments.kwonlyargs),
                    n_unnamed=len(unnamed),
                    is_kernel=any(
                        ast.unparse(d) in ("kernel", "helper", "inlined", "triton.jit") for d in node.decorator_list
                    ),
                )


def modules_by_folder() -> dict[str, int]:
    """Number of modules in each folder, without `__init__`."""
    counts: dict[str, int] = {}
    for name, path in modules().items():
        counts[folder(name)] = counts.get(folder(name), 0) + (path.name != "__init__.py")
    return counts


def length_p90() -> int:
    """The length in lines that nine in ten functions do not exceed."""
    lengths = sorted(function.n_lines for function in functions())
    return lengths[int(0.9 * len(lengths))]


def violations() -> list[str]:
    """Everything that breaks the layout, as lines of text."""
    found = [
        f"{name}: {n} modules" for name, n in modules_by_folder().items() if n > MAX_MODULES and name not in UNLIMITED
    ]
    found += misnamed()
    found += [line for name in modules() for line in import_violations(name, tree(name))]
    found += [f"circle of modules: {text}" for text in circles(module_edges())]
    found += [f"circle of folders: {text}" for text in circles(folder_edges())]
    for function in functions():
        if not function.is_kernel and function.n_lines > MAX_LINES:
            found.append(f"{function.where}: {function.n_lines} lines")
        most = MAX_NAMED_PARAMETERS if function.n_unnamed <= 2 else MAX_PARAMETERS
        if not function.is_kernel and function.n_parameters > most:
            found.append(f"{function.where}: {function.n_parameters} parameters")
    if length_p90() > MAX_LINES_P90:
        found.append(f"nine in ten functions have up to {length_p90()} lines")
    return found


def sizes() -> dict[str, int]:
    """What the budget in pyproject.toml limits: lines and modules of the packages, lines of tests, words of documents."""
    tests, documents = (PROJECT / "tests").rglob("*.py"), (PROJECT / "docs").rglob("*.md")
    return {
        "package_lines": sum(path.read_bytes().count(b"\n") for path in modules().values()),
        "modules": len(modules()),
        "test_lines": sum(path.read_bytes().count(b"\n") for path in tests),
        "doc_words": sum(len(path.read_text(encoding="utf-8").split()) for path in documents),
    }


def over_budget() -> list[str]:
    with (PROJECT / "pyproject.toml").open("rb") as file:
        budget = tomllib.load(file)["tool"]["prequential"]["budget"]
    return [f"{name}: {n:,}, the budget is {budget[name]:,}" for name, n in sizes().items() if n > budget[name]]


def main() -> int:
    for name, n in sorted(modules_by_folder().items()):
        print(f"{n:4}  {name or 'prequential'}")
    every = list(functions())
    print(f"{len(modules())} modules, {len(every)} functions, nine in ten of up to {length_p90()} lines")
    found = [*violations(), *over_budget()]
    print(", ".join(f"{name} {n:,}" for name, n in sizes().items()))
    print("\n".join(found) or "no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
