"""Paths of layers: the layers around a layer, and its depth. The path of the root is empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = [
    "add_outer",
    "count_depth",
    "describe_layers",
    "find_deepest",
    "nearest_around",
    "order_as_tree",
    "parent_path",
    "walk_outwards",
    "within_depth",
]


def parent_path(path: str) -> str | None:
    """Return the path of the layer around a layer, or None for the root."""
    return path.rpartition(".")[0] if path else None


def walk_outwards(path: str) -> Iterator[str]:
    """Yield the path of a layer, and the paths of the layers around it: the root last.

    >>> list(walk_outwards("encoder.0"))
    ['encoder.0', 'encoder', '']
    """
    yield path
    while path:
        path = path.rpartition(".")[0]
        yield path


def add_outer(paths: Iterable[str]) -> set[str]:
    """Return the paths of layers, and the paths of all layers around them, the root included.

    >>> sorted(add_outer(["encoder.0.linear", "head"]))
    ['', 'encoder', 'encoder.0', 'encoder.0.linear', 'head']
    """
    outer = {""}
    for path in paths:
        while path not in outer:
            outer.add(path)
            path = path.rpartition(".")[0]
    return outer


def count_depth(path: str) -> int:
    """Return how deep a layer lies: 0 for the root."""
    return path.count(".") + 1 if path else 0


def order_as_tree(paths: Iterable[str]) -> list[str]:
    """Return paths with inner layers directly behind their layer, else in their order; outer layers are among them.

    >>> order_as_tree(["", "blocks", "blocks.0", "drop", "blocks.1"])
    ['', 'blocks', 'blocks.0', 'blocks.1', 'drop']
    """
    ranks = {path: rank for rank, path in enumerate(paths)}
    return sorted(ranks, key=lambda path: [ranks[outer] for outer in reversed([*walk_outwards(path)])])


def nearest_around(paths: Iterable[str]) -> dict[str, str | None]:
    """Return for each path the path of the nearest layer around it among them; None for the root and if there is none.

    >>> nearest_around(["", "b", "a.b.c", "a"])
    {'': None, 'b': '', 'a.b.c': 'a', 'a': ''}
    """
    around: dict[str, str | None] = dict.fromkeys(paths)
    above: list[str] = []
    for path in sorted(around, key=lambda path: path.replace(".", "\0")):  # inner layers directly behind their layer
        while above and above[-1] and not path.startswith(f"{above[-1]}."):
            above.pop()
        around[path] = above[-1] if above else None
        above.append(path)
    return around


def describe_layers(types: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return by path the columns that identify the layer of a row, from the type of each layer.

    >>> describe_layers({"": "Net", "a": "Linear"})["a"]
    {'path': 'a', 'type': 'Linear', 'depth': 1, 'is_leaf': True}
    """
    holders = set(nearest_around(types).values())
    return {
        path: {"path": path, "type": kind, "depth": count_depth(path), "is_leaf": path not in holders}
        for path, kind in types.items()
    }


def find_deepest(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return the depth of the deepest layer; 0 for rows without depths."""
    return max((row.get("depth") or 0 for row in rows), default=0)


def within_depth(rows: Iterable[Mapping[str, Any]], depth: int | None) -> list[Mapping[str, Any]]:
    """Return the rows of layers that lie no deeper; all of them for None and for -1, the innermost.

    >>> within_depth([{"depth": 0}, {"depth": 1}], 0)
    [{'depth': 0}]
    """
    return [row for row in rows if depth is None or depth < 0 or (row.get("depth") or 0) <= depth]
