"""The shapes of inputs in a plan: the form that is stored with a case, and the form for `profilerkit.profile`.

A text of the command line, "3,32,32", becomes the equal list or table of TOML, so that both are the same case. This is
the stored form; the form for `profilerkit.profile` is made from the stored form when a case is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profilerkit.arguments.shape_text import shapes_of_text
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError
from profilerkit.input_shapes import parse_input_shape

__all__ = ["check_shape", "read_shape"]


def check_shape(name: str, value: Any) -> Any:
    """Return a shape in the stored form; raise `ArgumentError` for an invalid shape."""
    stored = _parse_texts(value)
    parse_input_shape(read_shape(stored))
    return stored


def _parse_texts(value: Any) -> Any:
    """Return a shape with lists and tables for texts: ``[3, 32, 32]`` for "3,32,32"."""
    texts = [value] if isinstance(value, str) else value
    are_texts = isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts)
    if not are_texts or not texts:
        return value
    try:
        shapes = shapes_of_text(texts)
    except ArgumentError as error:
        raise ArgumentError(f"input_shape: {error}; or a list, [3, 224, 224]") from None
    if isinstance(shapes, Mapping):
        return {name: _list_sizes(shape) for name, shape in shapes.items()}
    lists = [_list_sizes(shape) for shape in shapes]
    return lists if len(lists) > 1 else lists[0]


def _list_sizes(shape: tuple[Any, ...]) -> Any:
    """Return a shape as TOML has it: a list, or a table if a text names the dtype too."""
    if len(shape) == 2 and isinstance(shape[1], str):
        sizes, dtype = shape
        return {"shape": list(sizes), "dtype": dtype}
    return list(shape)


def read_shape(value: Any) -> Any:
    """Return a shape in the stored form as `profile` takes it: ``{shape = [128], dtype = "int64"}`` has a dtype."""
    if isinstance(value, Mapping):
        is_one = "shape" in value and value.keys() <= {"shape", "dtype"}
        if is_one and isinstance(value.get("dtype", ""), str):  # else two inputs have these names
            sizes = _read_sizes(value["shape"])
            return (sizes, value["dtype"]) if "dtype" in value else sizes
        return {name: read_shape(shape) for name, shape in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(value) if all(map(_is_size, value)) else [read_shape(shape) for shape in value]
    return value


def _read_sizes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)) or not all(map(_is_size, value)):
        raise ArgumentError(f"input_shape: shape = {shown(value)} is no list of sizes; write {{shape = [128]}}")
    return tuple(value)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
