"""Which tests start processes or need a framework: found by what they name, so that nobody lists them.

A test names what stands in its function, in its fixtures, and in the functions and constants of its file and of
``tests/support/`` that these name in turn. What a file imports at its top counts for all of its tests, if it is a
framework.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from source_tree import ROOT, SUPPORT, read_tree, walk

__all__ = ["is_heavy", "is_heavy_file"]

FRAMEWORKS = frozenset(
    {"torch", "tensorflow", "keras", "tf_keras", "transformers", "onnx", "openvino", "jax", "flax", "equinox"}
)
BACKENDS = frozenset(path.parent.name for path in (ROOT / "backends").glob("*/__init__.py"))
PROCESSES = frozenset({"subprocess", "Popen", "fork", "pytester", "isolated", "isolated_comparison"})
#: What makes a test heavy where it is named.
HEAVY = FRAMEWORKS | BACKENDS | PROCESSES


def is_heavy_file(path: Path) -> bool:
    """Say whether all tests of a file need a framework, which is imported at its top."""
    return any(word in FRAMEWORKS | BACKENDS for word in _definitions(path).get("", ()))


def is_heavy(path: Path, function: str) -> bool:
    """Say whether a test function of a file starts processes or needs a framework."""
    return is_heavy_file(path) or not HEAVY.isdisjoint(_list_named(path, function, set()))


def _list_named(path: Path, name: str, seen: set[tuple[Path, str]]) -> Iterator[str]:
    """Yield what a definition names, and what the definitions that it names do."""
    if (path, name) in seen:
        return
    seen.add((path, name))
    words = _definitions(path).get(name, frozenset())
    yield from words
    for word in words:
        if word in _definitions(path):
            yield from _list_named(path, word, seen)
        elif word in _imports(path):
            yield from _list_named(_imports(path)[word], word, seen)


@cache
def _definitions(path: Path) -> dict[str, frozenset[str]]:
    """Return what each definition of a file names; under '' what its top imports."""
    found: dict[str, frozenset[str]] = {}
    top: set[str] = set()
    always: set[str] = set()
    for node in read_tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = frozenset(_words(node))
            if any("autouse" in ast.unparse(decorator) for decorator in node.decorator_list):
                always.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({target.id: frozenset(_words(node)) for target in targets if isinstance(target, ast.Name)})
            top |= {word for word in _words(node) if word in FRAMEWORKS and "importorskip" in ast.unparse(node)}
        else:
            top |= set(_words(node))
    found = {name: words | always for name, words in found.items()}
    return {**found, "": frozenset(top)}


@cache
def _imports(path: Path) -> dict[str, Path]:
    """Return from which file of the tests' support each name of a file comes."""
    found: dict[str, Path] = {}
    for node in walk(read_tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and (SUPPORT / f"{node.module}.py").is_file():
            found.update(dict.fromkeys((alias.name for alias in node.names), SUPPORT / f"{node.module}.py"))
    return found


def _words(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.arg):
            yield part.arg
        elif isinstance(part, ast.Import | ast.ImportFrom):
            yield from (word for alias in part.names for word in alias.name.split("."))
            yield from (getattr(part, "module", None) or "").split(".")
        elif isinstance(part, ast.Call) and ast.unparse(part.func).endswith(("importorskip", "import_module")):
            yield from (str(value.value) for value in part.args if isinstance(value, ast.Constant))
