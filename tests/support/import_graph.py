"""Which module of a package imports which other one, lazily too, and the circles among them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from source_tree import read_tree

__all__ = ["Graph", "circles", "find_reached", "graph_of_modules", "graph_of_rooms"]

#: What each module, or each room, imports.
Graph = dict[str, set[str]]


def graph_of_modules(package: str, folder: Path, with_types: bool = False) -> Graph:
    """Return what each module imports of its own package; with ``with_types`` also for type checkers alone."""
    files = dict(_modules(package, folder))
    return {name: set(_list_imported(name, path, files, with_types)) - {name, package} for name, path in files.items()}


def graph_of_rooms(package: str, folder: Path, with_types: bool = False) -> Graph:
    """Return what each room imports: a folder is a room, and so is each module that lies in none."""
    folders = {name for name, path in _modules(package, folder) if path.name == "__init__.py"}

    def room(name: str) -> str:
        return name if name in folders or name.rpartition(".")[0] == package else name.rpartition(".")[0]

    rooms: Graph = {}
    for name, others in graph_of_modules(package, folder, with_types).items():
        rooms.setdefault(room(name), set()).update(room(other) for other in others)
    return {name: others - {name} for name, others in rooms.items() if name not in (package, f"{package}.__main__")}


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the groups that lead back to themselves: what each reaches and is reached from."""
    reached = {name: find_reached(name, graph) for name in graph}
    groups: list[set[str]] = []
    for name in graph:
        around = {other for other in reached[name] if name in reached.get(other, ())}
        if around and around not in groups:
            groups.append(around)
    return groups


def find_reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    """Return all that a module or room imports, through others too."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for other in graph.get(waiting.pop(), ()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def _modules(package: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        parts = [package, *path.relative_to(folder).with_suffix("").parts]
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _list_imported(name: str, path: Path, files: Mapping[str, Path], with_types: bool) -> Iterator[str]:
    around = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in _import_statements(path, with_types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        else:
            start = around[: len(around) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                inside = f"{module}.{alias.name}"
                yield from (item for item in (inside if inside in files else module,) if item in files)


@cache
def _import_statements(path: Path, with_types: bool) -> list[ast.Import | ast.ImportFrom]:
    nodes = ast.walk(read_tree(path)) if with_types else _list_run(read_tree(path))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def _list_run(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield every statement that runs: what stands under ``if TYPE_CHECKING`` does not."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
