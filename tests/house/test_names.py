"""Names say what they are: data are nouns of the field, functions are verbs, a loop variable says what it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import ROOT, packages, read_tree, walk

UNCLEAR = frozenset({"found", "held", "known", "said", "given", "wanted", "own", "place", "each"})
FOLDERS = {**packages(), **{name: ROOT / name for name in ("docs", "benchmarks", "examples")}}
#: The first word of a function that is named by what it has done, or by what it is doing.
PARTICIPLE = re.compile(
    r"\w+(ed|ing)|made|taken|given|kept|held|found|known|left|seen|shown|built|drawn|written|chosen"
)
#: Verbs and nouns that look like one.
NO_PARTICIPLES = frozenset(
    {"bring", "ceiling", "embed", "embedding", "feed", "mapping", "need", "padding", "pooling", "seed", "setting"}
    | {"speed", "string", "timing", "training", "warning"}
)
#: How many functions of a folder may still be named so: attributes that are computed, names of the frameworks'
#: operators, words of the public interface. They only get fewer.
PARTICIPLES = {
    "benchmarks": 16,
    "docs": 3,
    "examples": 2,
    "profilerkit": 16,
    "profilerkit_jax": 2,
    "profilerkit_predict": 5,
    "profilerkit_tensorflow": 2,
    "profilerkit_torch": 4,
    "tests": 248,
}
#: How many may end in ``of``: ways to make an object of another one, such as ``Budget.of``.
ENDING_IN_OF = {
    "profilerkit": 16,
    "profilerkit_audits": 3,
    "profilerkit_budgets": 1,
    "profilerkit_jax": 4,
    "profilerkit_onnx": 1,
    "profilerkit_predict": 1,
    "profilerkit_torch": 1,
    "tests": 8,
}


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of everything that a file defines: variables, parameters, attributes, functions."""
    for node in walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name


def _functions(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield where a file defines a function, and the words of its name.

    Those of the tests themselves are sentences, and those of metrics are the names of values.
    """
    for node in walk(read_tree(path)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith("test_"):
            continue
        if not any(ast.unparse(decorator).startswith("metric(") for decorator in node.decorator_list):
            yield f"{path}:{node.lineno} {node.name}", node.name.strip("_").split("_")


def unclear_names(path: Path) -> list[str]:
    return [f"{path}:{line} {name}" for line, name in _names(read_tree(path)) if name.strip("_") in UNCLEAR]


def list_participles(path: Path) -> list[str]:
    return [
        function
        for function, words in _functions(path)
        if PARTICIPLE.fullmatch(words[0]) and words[0] not in NO_PARTICIPLES
    ]


def list_endings(path: Path) -> list[str]:
    return [function for function, words in _functions(path) if words[-1] == "of"]


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_names_say_what_they_are(name: str) -> None:
    paths = sorted(FOLDERS[name].rglob("*.py"))
    assert paths
    assert [unclear for path in paths for unclear in unclear_names(path)] == []


@pytest.mark.parametrize("name", sorted({**FOLDERS, "tests": ROOT}))
def test_functions_are_verbs(name: str) -> None:
    paths = sorted({**FOLDERS, "tests": ROOT / "tests"}[name].rglob("*.py"))
    participles = [function for path in paths for function in list_participles(path)]
    assert len(participles) <= PARTICIPLES.get(name, 0), participles
    ending_in_of = [function for path in paths for function in list_endings(path)]
    assert len(ending_in_of) <= ENDING_IN_OF.get(name, 0), ending_in_of


def test_what_says_nothing_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    metric = "@metric('nesting_depth')\ndef nesting_depth(trace): ...\n"
    path.write_text(f"found = 1\ndef counted_macs(given): ...\ndef shape_of(): ...\ndef feed(): ...\n{metric}")
    assert sorted(name.rpartition(" ")[2] for name in unclear_names(path)) == ["found", "given"]
    assert [name.rpartition(" ")[2] for name in list_participles(path)] == ["counted_macs"]
    assert [name.rpartition(" ")[2] for name in list_endings(path)] == ["shape_of"]
