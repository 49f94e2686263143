"""What profilerkit's own columns of layers and operators hold in files, by their names: reading a file checks it.

Renderers follow paths, add up numbers and list shapes. Any other column, such as a plugin's, is read as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypedDict

from ..trace.columns import TRAFFIC, WORK, name_ends

__all__ = ["LAYER_COLUMNS", "OPERATOR_COLUMNS", "are_of_layers", "are_of_operators", "find_kind"]

#: The columns that identify a layer, which `describe_layers` makes. They alone mark a table by layer: one of times has
#: no other column in common with one of counts.
_IDENTITY = ("path", "type", "depth", "is_leaf")
#: The columns that renderers read in each row of a report's layers, and of its operators.
LAYER_COLUMNS = (*_IDENTITY, "calls", "params", *WORK, "output_shapes")
#: Those of operators also mark a table of operators: "operator" and "layer" alone may stand in any plugin's table.
OPERATOR_COLUMNS = ("operator", "layer", *WORK)


class _NotFinite(TypedDict):
    """A float that JSON cannot write."""

    type: Literal["float"]
    value: str


#: Any number that a float can hold, or None.
_NUMBERS = list[float | _NotFinite | None]
#: What a layer has inside it, itself ("own_macs"), and as a share of the whole ("macs_share").
_DIVIDED = (
    *("params", *WORK, *TRAFFIC),
    *(f"{phase}_{name}" for phase in ("forward", "backward") for name in (*WORK, "seconds")),
)
_COLUMNS_OF_NUMBERS = (
    *(column for name in _DIVIDED for column in (name, f"own_{name}", f"{name}_share")),
    *(end for name in WORK for column in (name, f"own_{name}") for end in name_ends(column)),
    *("call", "calls", "order", "share"),
    *("trainable_params", "weight_bytes", "live_bytes", "peak_bytes"),
    *("seconds", "overhead_seconds", "flops_per_second"),
    *("achieved_flops_per_second", "achieved_own_flops_per_second"),
)
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("path", "type"), list[str]),
    **dict.fromkeys(("operator", "layer", "phase", "missing", "configuration", "graph", "node"), list[str | None]),
    **dict.fromkeys(("input_shapes", "output_shapes"), list[list[list[int | str | None]] | None]),
    **dict.fromkeys(("input_dtypes", "output_dtypes"), list[list[str] | None]),
    "depth": list[int],
    "is_leaf": list[bool],
    "reads": list[list[int]],
    "params_by_dtype": list[dict[str, float] | None],
    **dict.fromkeys(_COLUMNS_OF_NUMBERS, _NUMBERS),
}


def are_of_layers(columns: Iterable[str]) -> bool:
    """Return whether these are the columns of a table by layer."""
    return {*_IDENTITY} <= {*columns}


def are_of_operators(columns: Iterable[str]) -> bool:
    """Return whether these are the columns of a table of operators."""
    return {*OPERATOR_COLUMNS} <= {*columns}


def find_kind(column: str) -> Any:
    """Return the type of a column's cells in a file, as a list; `list` itself for a column that is not known."""
    return _KINDS.get(column, list)
