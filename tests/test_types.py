"""The public library is typed: mypy demands the types of functions (pyproject.toml), this file those of attributes."""

import ast
import inspect
import textwrap
from typing import Any

import pytest

import prequential
from prequential import adapters

ROOMS = (prequential, adapters, prequential.plots)
CLASSES = [found for room in ROOMS for name in room.__all__ if isinstance(found := getattr(room, name), type)]


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


@pytest.mark.parametrize("kind", CLASSES)
def test_every_attribute_of_a_public_class_declares_its_type(kind: Any) -> None:
    assert assigned(kind) - declared(kind) == set()
