"""Where sources use private names of a framework: found in the syntax tree, with aliases resolved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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
    aliases = dict(_imports(tree))
    for _ in range(2):  # an alias of an alias
        aliases |= dict(_list_assigned(tree, aliases))
    return sorted(set(_uses(tree, aliases, banned)))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _list_assigned(tree: ast.Module, aliases: dict[str, str]) -> Iterator[tuple[str, str]]:
    for node in walk(tree):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and isinstance(value, ast.expr):
            if isinstance(value, ast.Call) and _last(value.func) == "vars" and value.args:
                value = value.args[0]
            found = _find_dotted(value, aliases)
            if found and found.partition(".")[0] in ROOTS:
                yield targets[0].id, found


def _find_dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """Return the dotted path that an expression is, from the package on; empty for any other expression."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = _find_dotted(node.value, aliases)
        return f"{owner}.{node.attr}" if owner else ""
    if isinstance(node, ast.Call):
        name = _last(node.func)
        if name == "getattr" and len(node.args) > 1 and (literal := _text(node.args[1])):
            owner = _find_dotted(node.args[0], aliases)
            return f"{owner}.{literal}" if owner else ""
        if name == "import_module" and node.args:
            return _text(node.args[0])
        if name == "vars" and node.args:
            return _find_dotted(node.args[0], aliases)
    return ""


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _uses(tree: ast.Module, aliases: dict[str, str], banned: frozenset[str]) -> Iterator[Use]:
    inner = {id(node.value) for node in walk(tree) if isinstance(node, ast.Attribute)}
    documentation = {id(node.value) for node in walk(tree) if isinstance(node, ast.Expr)}
    for node in walk(tree):
        if isinstance(node, (ast.ImportFrom, ast.Import)):
            yield from _list_imported(node)
        elif isinstance(node, ast.expr) and (path := _find_dotted(node, aliases)):
            if id(node) not in inner and not isinstance(node, ast.Name) and _is_private_path(path):
                yield Use(node.lineno, path)
        elif isinstance(node, ast.Attribute):
            if is_private(node.attr) and _is_of_others(node, banned):
                yield Use(node.lineno, f"?.{node.attr}")
        elif isinstance(node, ast.Call):
            yield from _read_by_text(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield from _written(node.lineno, node.value, banned)


def _written(line: int, text: str, banned: frozenset[str]) -> Iterator[Use]:
    """Yield the private name that a text is: one of those that are banned, or a dotted path."""
    if text in banned:
        yield Use(line, f"?.{text}")
    elif re.fullmatch(r"\w+(\.\w+)+", text) and _is_private_path(text):
        yield Use(line, text)


def _list_imported(node: ast.Import | ast.ImportFrom) -> Iterator[Use]:
    """Yield the private names that a statement imports; one from our own package is none."""
    if isinstance(node, ast.Import):
        paths = [alias.name for alias in node.names]
    else:
        paths = [f"{node.module}.{alias.name}" for alias in node.names if not node.level]
    yield from (Use(node.lineno, path) for path in paths if _is_private_path(path))


def _read_by_text(call: ast.Call) -> Iterator[Use]:
    """Yield what ``getattr(value, "_name")`` and the like read of an object that is not known."""
    if _last(call.func) in _READERS:
        for text in filter(is_private, map(_text, call.args[:2])):
            if text not in _own_names():
                yield Use(call.lineno, f"?.{text}")


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
