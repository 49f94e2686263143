"""Identifiers are nouns of the field: participles and other words that do not say what a value is are not used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import ROOT, packages, tree_of

UNCLEAR = frozenset({"found", "held", "known", "said", "given", "wanted", "own", "place"})
FOLDERS = {**packages(), **{name: ROOT / name for name in ("docs", "benchmarks", "examples")}}


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of everything that a file defines: variables, parameters, attributes, functions."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name


def unclear_names(path: Path) -> list[str]:
    return [f"{path}:{line} {name}" for line, name in _names(tree_of(path)) if name.strip("_") in UNCLEAR]


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_names_say_what_they_are(name: str) -> None:
    paths = sorted(FOLDERS[name].rglob("*.py"))
    assert paths
    assert [each for path in paths for each in unclear_names(path)] == []


def test_unclear_names_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("found = 1\ndef f(given):\n    given.held = lambda own: own\n    def _place(): ...\n")
    assert sorted(each.partition(":")[2] for each in unclear_names(path)) == [
        "1 found",
        "2 given",
        "3 held",
        "3 own",
        "4 _place",
    ]
