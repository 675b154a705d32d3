"""The public names: sorted, importable, documented, and no others."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import planner

NAMES = [name for name in planner.__all__ if not name.startswith("__")]


def test_public_names_are_sorted_and_unique() -> None:
    assert list(planner.__all__) == sorted(set(planner.__all__))


def test_there_are_public_names() -> None:
    assert {"check", "estimate", "execute", "load_machine", "load_plan"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring_of_its_own(name: str) -> None:
    value = getattr(planner, name)
    # `vars`, as a class without a docstring would otherwise show that of its base.
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    assert text, f"planner.{name} has no docstring"
    assert text.strip()


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_defined_inside_the_package(name: str) -> None:
    value = getattr(planner, name)
    assert not isinstance(value, ModuleType), f"planner.{name} is a module, not what it defines"
    assert value.__module__.startswith("planner."), f"planner.{name} comes from elsewhere"


def test_public_names_are_listed_and_unknown_ones_refused() -> None:
    assert set(planner.__all__) <= set(dir(planner))
    with pytest.raises(AttributeError, match="nonsense"):
        planner.nonsense  # noqa: B018


def test_no_message_points_to_a_page_that_is_not_installed() -> None:
    """The wheel holds no pages of docs/: a hint must stand by itself. Docstrings may name them."""
    pointing = [
        f"{file}:{node.lineno}"
        for file in sorted(Path(planner.__file__).parent.rglob("*.py"))
        for node in _texts(ast.parse(file.read_text(encoding="utf-8")))
        if re.search(r"docs/|\.md\b", str(node.value))
    ]
    assert pointing == []


def _texts(tree: ast.Module) -> list[ast.Constant]:
    """The string literals of a module that are no docstrings."""
    stated = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in stated
    ]
