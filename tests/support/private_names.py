"""Where sources use private names of a framework: found in the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from source_tree import packages, read_tree, walk

__all__ = ["ROOTS", "Use", "list_segments", "private_uses"]

#: The packages of the frameworks. Names below ``torch.ops`` are those of operators, and no part of an interface.
ROOTS = ("torch", "jax", "jaxlib", "tensorflow", "keras", "tf_keras", "onnx", "onnxruntime")
_OPERATORS = "torch.ops."
#: Modules that are private as a whole, though no part of their name begins with an underscore.
_PRIVATE_MODULES = ("tensorflow.python", "tensorflow.core", "keras.src", "tf_keras.src", "jax.interpreters", "jaxlib.")
_READERS = {"getattr", "hasattr", "setattr", "delattr", "attrgetter"}


class Use(NamedTuple):
    """One place where a private name is used: the line, and the dotted name; ``?`` stands for an object."""

    line: int
    name: str


#: Documented attributes of named tuples.
_OF_NAMED_TUPLES = ("_asdict", "_fields", "_make", "_replace")


def is_private(segment: str) -> bool:
    """Return whether a part of a name is private: ``_dynamo``, but neither ``__init__`` nor ``_fields``."""
    if segment in _OF_NAMED_TUPLES:
        return False
    return segment.startswith("_") and len(segment) > 1 and not (segment.startswith("__") and segment.endswith("__"))


def _is_private_path(path: str) -> bool:
    if path.partition(".")[0] not in ROOTS or path.startswith(_OPERATORS):
        return False
    return any(map(is_private, path.split("."))) or f"{path}.".startswith(_PRIVATE_MODULES)


def private_uses(path: Path, banned: frozenset[str] = frozenset()) -> list[Use]:
    """Return the uses of private names in a file, one for each line and name.

    ``banned`` are names that are private to a framework even where an object of ours has one that is called the same,
    and where they stand in a text.
    """
    tree = read_tree(path)
    modules = dict(_list_modules(tree))
    modules |= dict(_list_aliases(tree, modules))
    documentation = {id(node.value) for node in walk(tree) if isinstance(node, ast.Expr)}
    uses: set[Use] = set()
    for node in walk(tree):
        if isinstance(node, (ast.ImportFrom, ast.Import)):
            uses |= {Use(node.lineno, name) for name in _list_imported(node) if _is_private_path(name)}
        elif isinstance(node, ast.Attribute):
            dotted = _find_dotted(node, modules)
            if _is_private_path(dotted):
                uses.add(Use(node.lineno, dotted))
            elif not dotted and is_private(node.attr) and _is_of_others(node, banned):
                uses.add(Use(node.lineno, f"?.{node.attr}"))
        elif isinstance(node, ast.Call) and _last(node.func) in _READERS:
            names = set(filter(is_private, map(_text, node.args[:2]))) - _own_names()
            uses |= {Use(node.lineno, f"?.{name}") for name in names}
        elif isinstance(node, ast.Constant) and id(node) not in documentation:
            text = _text(node)
            if text in banned:
                uses.add(Use(node.lineno, f"?.{text}"))
            elif re.fullmatch(r"\w+(\.\w+)+", text) and _is_private_path(text):
                uses.add(Use(node.lineno, text))
    return sorted(uses)


def _list_imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the full names of what a statement imports; nothing for one from our own package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names if not node.level]


def _list_modules(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield under which name a file has what it imports, and the full name."""
    for node in walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias, name in zip(node.names, _list_imported(node), strict=False):
                is_package = isinstance(node, ast.Import) and not alias.asname
                yield (name.partition(".")[0],) * 2 if is_package else (alias.asname or alias.name, name)


def _list_aliases(tree: ast.Module, modules: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield names that stand for a part of a framework, with what they stand for: ``aten = torch.ops.aten``."""
    for node in walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            dotted = _find_dotted(node.value, modules)
            if isinstance(target, ast.Name) and dotted.partition(".")[0] in ROOTS:
                yield target.id, dotted


def _find_dotted(node: ast.expr, modules: Mapping[str, str]) -> str:
    """Return the dotted path that an expression is, from an imported module on; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        owner = _find_dotted(node.value, modules)
        return f"{owner}.{node.attr}" if owner else ""
    return modules.get(node.id, "") if isinstance(node, ast.Name) else ""


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_of_others(node: ast.Attribute, banned: frozenset[str]) -> bool:
    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
        return False
    return node.attr in banned or node.attr not in _own_names()


@cache
def _own_names() -> frozenset[str]:
    """Return the private names that our own sources define: of modules, classes and their objects."""
    return frozenset(
        name for folder in packages().values() for path in folder.rglob("*.py") for name in _list_defined(path)
    )


def _list_defined(path: Path) -> Iterator[str]:
    for node in walk(read_tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _last(node.value) == "self":
            yield node.attr


def list_segments(path: Path) -> frozenset[str]:
    """Return the private parts of all dotted names that a file mentions in its texts: those that it looks after."""
    return frozenset(
        segment
        for node in walk(read_tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value
        for segment in node.value.split(".")
        if is_private(segment)
    )
