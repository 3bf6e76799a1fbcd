"""The public library is typed: every argument, result and attribute of a public name has a declared type."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import prequential
from prequential import adapters

ROOMS = (prequential, adapters, prequential.plots)
NAMES = [(room, name) for room in ROOMS for name in room.__all__]


def undeclared(where: str, function: Any) -> Iterator[str]:
    """Arguments without a type, and a result without one."""
    signature = inspect.signature(function)
    names = list(signature.parameters.values())
    yield from (
        f"{where}({each.name})"
        for i, each in enumerate(names)
        if each.annotation is each.empty and not (i == 0 and each.name in ("self", "cls"))
    )
    if signature.return_annotation is signature.empty:
        yield where


def assigned(kind: type) -> set[str]:
    """Attributes that methods of the class assign without a type."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    nodes = list(ast.walk(tree))
    typed = {
        node.target.attr for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute)
    }
    targets = [
        target for node in nodes if isinstance(node, ast.Assign) for each in node.targets for target in ast.walk(each)
    ]
    own = {each.attr for each in targets if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"}
    return {name for name in own - typed if not name.startswith("_")}


def declared(kind: type) -> set[str]:
    return {name for each in kind.__mro__ for name in (*vars(each).get("__annotations__", {}), *vars(each))}


@pytest.mark.parametrize(("room", "name"), NAMES, ids=[name for _, name in NAMES])
def test_every_public_name_declares_its_types(room: Any, name: str) -> None:
    found = getattr(room, name)
    if not isinstance(found, type):
        assert list(undeclared(name, found)) == []
        return
    own = {key: value for key, value in vars(found).items() if not key.startswith("_") or key == "__init__"}
    methods = {
        key: value for key, value in own.items() if inspect.isfunction(value) and value.__module__ == found.__module__
    }
    getters = {key: value.fget for key, value in own.items() if isinstance(value, property)}
    missing = [each for key, value in (methods | getters).items() for each in undeclared(f"{name}.{key}", value)]
    assert missing == [] and assigned(found) - declared(found) == set()
