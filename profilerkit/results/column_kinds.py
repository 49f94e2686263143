"""What the columns of tables of layers and operators hold in files, by their names: reading a file checks it.

Renderers follow paths, add up numbers and list shapes. Any other table has columns of its own, such as a plugin's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypedDict

from ..trace.columns import ENDS, TRAFFIC, WORK

__all__ = ["LAYER_COLUMNS", "OPERATOR_COLUMNS", "are_of_layers", "are_of_operators", "find_kind"]

#: The columns that identify a layer, which `describe_layers` makes.
_IDENTITY = ("path", "type", "depth", "is_leaf")
#: The columns that renderers read in each row of a report's layers, and of its operators.
LAYER_COLUMNS = (*_IDENTITY, "calls", "params", *WORK, "output_shapes")
OPERATOR_COLUMNS = ("operator", "layer", *WORK)


class _NotFinite(TypedDict):
    """A float that JSON cannot write."""

    type: Literal["float"]
    value: str


#: Any number that a float can hold, or None.
_NUMBERS = list[float | _NotFinite | None]
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("path", "type"), list[str]),
    **dict.fromkeys(("operator", "layer", "phase", "missing", "configuration", "graph", "node"), list[str | None]),
    **dict.fromkeys(("input_shapes", "output_shapes"), list[list[list[int | str | None]] | None]),
    **dict.fromkeys(("input_dtypes", "output_dtypes"), list[list[str] | None]),
    "depth": list[int],
    "is_leaf": list[bool],
    "order": _NUMBERS,
    "reads": list[list[int]],
    "params_by_dtype": list[dict[str, float] | None],
}
#: How the names of all other columns of numbers end: "macs_low", "own_params", "forward_seconds".
_ENDS_OF_NUMBERS = ("call", "calls", "params", *WORK, *TRAFFIC, "bytes", "seconds", "per_second", "share", *ENDS)


def are_of_layers(columns: Iterable[str]) -> bool:
    """Return whether these are the columns of a table by layer."""
    return {*_IDENTITY} <= {*columns}


def are_of_operators(columns: Iterable[str]) -> bool:
    """Return whether these are the columns of a table of operators."""
    return {*OPERATOR_COLUMNS} <= {*columns}


def find_kind(column: str) -> Any:
    """Return the type of a column's cells in a file, as a list; `list` itself for a column that is not known."""
    return _KINDS.get(column, _NUMBERS if column.endswith(_ENDS_OF_NUMBERS) else list)
