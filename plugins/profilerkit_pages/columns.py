"""A column of a table or tree of a page: its values, and the facts that the page needs to show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import is_number
from profilerkit.piping.quantity import Scale
from profilerkit.piping.titles import write_title
from profilerkit.render.values import write_row_value
from profilerkit.trace.columns import ENDS
from profilerkit.trace.layer_view import PEAK

from .page_parts import pack

#: A row of a table of layers or operators.
Row: TypeAlias = Mapping[str, Any]
#: Columns that are shown at first, if a report has them. The reader can choose the others.
AT_FIRST = (
    "output_shapes",
    "calls",
    "params",
    "macs",
    "flops",
    "forward_seconds",
    "backward_seconds",
    PEAK,
    "missing",
)
#: Columns that are computed from several columns, and do not add up.
SPEEDS = ("own_intensity", "own_speed")
#: Columns of numbers that do not add up over the layers inside, so that there is no share of a whole.
_NO_SHARE = ("calls", "order", "layers", "own_", "overhead", "share", "flops_per_second", "batch_size", "samples")
#: A browser, whose numbers are doubles, may round larger integers.
_MOST_EXACT = 2**53
_WORDS = {
    "missing": "Left out",
    "seconds": "Time",
    "forward_seconds": "Forward",
    "backward_seconds": "Backward",
    "output_shapes": "Output shape",
    "input_shapes": "Input shape",
    "own_intensity": "Own FLOPs/B",
    "own_speed": "Own FLOP/s",
}


def describe_columns(keys: Iterable[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return columns of rows with the facts that the page needs to show them, without the columns that are empty.

    The values are numbers in base units, or texts. A count that is a bound has its ends in the row: ``macs_low``.
    """
    return [_describe_column(key, rows) for key in keys if any(row.get(key) not in (None, "", ()) for row in rows)]


def _describe_column(key: str, rows: Sequence[Row]) -> dict[str, Any]:
    values = [row.get(key) for row in rows]
    numeric = all(value is None or is_number(value) for value in values)
    unit, scale = _find_unit(key)
    is_part = not key.startswith(_NO_SHARE) and not key.partition(" ")[0].endswith(("_share", *ENDS))
    column: dict[str, Any] = {
        "key": key,
        "title": write_column_title(key),
        "unit": unit,
        "scale": scale.value,
        "numeric": numeric,
        "share": numeric and is_part,  # whether its numbers add up over the layers inside
        "shown": key in AT_FIRST and any(values),  # at first; the reader can choose other columns
        "dashes": True,  # a count of 0 is a dash
        "values": pack([make_plain(value) if numeric else _write_text(value) for value in values]),
    }
    written = [write_row_value(row, key) for row in rows]
    signed = {index: [sign, number] for index, (sign, number) in enumerate(written) if sign}
    if signed:
        column["signed"] = signed  # by the row, the sign and the number of a count that is a bound: ["≥ ", 12]
    return column


def write_column_title(key: str) -> str:
    """Return the title of a column: the page's words if it has some, else a title made from the key."""
    name, space, metric = key.partition(" ")
    title = _WORDS.get(name) or visible(write_title(name.removesuffix("_seconds")))
    return f"{title}{space}{visible(metric)}"


def _find_unit(column: str) -> tuple[str, Scale]:
    key, _, _ = column.partition(" ")
    if key == "seconds" or key.endswith("_seconds"):
        return "s", Scale.TIME
    if key == "own_intensity":
        return "", Scale.NONE
    return ("B", Scale.IEC) if "bytes" in key else ("", Scale.SI)


def make_plain(value: Any) -> Any:
    """Return a number as JSON can hold it and a browser can read it: as text if one of the two would lose it.

    Text are infinite values, what is not a number, and integers with more digits than a browser keeps.
    """
    if value is None:
        return None
    if isinstance(value, int):
        return value if abs(value) <= _MOST_EXACT else str(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _write_text(value: Any) -> str:
    """Return a value in one line: ``[3, 8], [8]`` for two shapes."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        texts = [f"{key} {item}" for key, item in value.items()]
    elif isinstance(value, (tuple, list)):
        texts = [str(list(item) if isinstance(item, tuple) else item) for item in value]
    else:
        texts = [str(value)]
    return visible(", ".join(texts))
