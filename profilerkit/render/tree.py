"""The model as a tree of its layers, each with its costs and their shares of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..count_text import format_times
from ..foreign_text import visible
from ..results.comparison import Comparison
from ..results.report import Report
from ..trace.columns import WORK
from ..trace.layer_paths import add_outer, within_depth
from ..trace.layer_view import group_children
from ..trace.records import LayerTable
from .values import Column, share_text, write_achieved, write_row_value, write_shapes

__all__ = ["render"]

Row: TypeAlias = Mapping[str, Any]

#: The columns whose values stand behind a layer, and the word after a value if its unit does not name the quantity.
_VALUES = {"params": "params", "macs": "", "flops": "", "forward_seconds": "forward", "backward_seconds": "backward"}

#: A layer with a time was at work, though it may be a container that nothing calls itself.
_TIMES = ("forward_seconds", "backward_seconds")

#: The most characters that names are padded to: without it, one long name could make every line take much memory.
_WIDEST = 160


def render(
    result: Report | Comparison,
    depth: int | None = None,
    top: int | None = None,
    by: str | None = None,
    configuration: bool = False,
) -> str:
    """Return the layers as a tree, one tree for each model.

    The line of a layer has its type, the shapes of its inputs and outputs, and the values in the report, with the
    layers inside: parameters, MACs, FLOPs, forward and backward time, each with its share of the model's, and the FLOPs
    that it achieves in a second of forward time.

    Args:
        result: A report or a comparison.
        depth: The depth of the deepest layers to show; None and -1 for any depth.
        top: The number of innermost layers to show, the largest in a column, with the layers around them.
        by: The column of `Report.layerwise` for ``top``. Default: the MACs, or the own forward time without MACs.
        configuration: Also show the settings of each layer, ``kernel_size=(3, 3)``, if the backend tells them.
    """
    trees = []
    for report in result.reports:
        rows = _select_layers(report.layerwise, depth, top, by)
        trees.append("\n".join([visible(f"{report.name}  ({report.backend})"), *_draw_lines(rows, configuration)]))
    return "\n\n".join(trees) + "\n"


def _select_layers(layers: LayerTable, depth: int | None, top: int | None, by: str | None) -> list[Row]:
    """Return the rows of the layers to draw, the model itself first."""
    rows = within_depth(layers, depth)
    if top is None:
        return rows
    paths = add_outer(row["path"] for row in layers.top(top, by=by, depth=-1))
    return [row for row in rows if row["path"] in paths]


def _draw_lines(rows: Sequence[Row], configuration: bool) -> Iterator[str]:
    """Yield a line for each layer, and a last one if the work of the model is not known."""
    if not rows:
        yield "no layers: the model was not traced"
        return
    lines = list(_draw_branches(rows[0], group_children(rows), configuration))
    width = min(max(len(label) for label, _ in lines), _WIDEST)
    for label, row in lines:
        yield f"{label:<{width}}  {_write_values(row)}".rstrip()
    if _is_uncounted(rows[0]):
        unknown = "which layers it called" if rows[0]["calls"] is None else "which layers it would have called further"
        yield f"the model did not run to its end: {unknown}, and what they cost, is not known"


class _Branch(NamedTuple):
    """A layer that is to be drawn.

    Attributes:
        row: The layer.
        lead: The lines that lead to it from the layer around it.
        lead_below: The lines before the leads of the layers inside it.
    """

    row: Row
    lead: str = ""
    lead_below: str = ""


def _draw_branches(root: Row, inside: Mapping[str, Sequence[Row]], configuration: bool) -> Iterator[tuple[str, Row]]:
    """Yield each layer behind the text before its values; without recursion, for models of any depth."""
    pending = [_Branch(root)]
    while pending:
        branch = pending.pop()
        yield f"{branch.lead}{_write_label(branch.row, configuration)}", branch.row
        stem, children = branch.lead_below, inside.get(branch.row["path"], ())
        branches = [_Branch(child, f"{stem}├── ", f"{stem}│   ") for child in children[:-1]]
        branches += [_Branch(child, f"{stem}└── ", f"{stem}    ") for child in children[-1:]]
        pending += reversed(branches)


def _write_label(row: Row, configuration: bool) -> str:
    label = visible(row["type"])
    if configuration and row.get("configuration"):
        label += f"({visible(row['configuration'])})"
    name = visible(row["path"].rpartition(".")[2])
    return f"{name}: {label}" if name else label  # the model itself has no name


def _write_values(row: Row) -> str:
    """Return the shapes of a layer, its values, and whether it was called, as far as they are known."""
    inputs, outputs = write_shapes(row.get("input_shapes")), write_shapes(row.get("output_shapes"))
    shapes = f"{inputs} -> {outputs}" if inputs and outputs else outputs
    values = [_write_value(row, column, word) for column, word in _VALUES.items()]
    return ", ".join(filter(None, (shapes, *values, write_achieved(row), _describe_calls(row))))


def _write_value(row: Row, column: str, word: str) -> str:
    """Return a value with its share of the model's; a bound has no share, and nothing is written for no value."""
    sign, value = write_row_value(row, column)
    if not value and not sign:  # "≥ 0" is not nothing
        return ""
    text = f"{sign}{Column.of(column).show(value or 0)} {word}".rstrip()
    share = row.get(f"{column}_share")
    return text if share is None or sign else f"{text} ({share_text(share)})"


def _describe_calls(row: Row) -> str:
    """Return that a layer was not called, or how often it was called without being counted."""
    if _is_uncounted(row):
        return f"called {format_times(row['calls'])}, not counted" if row["calls"] else "not counted"
    was_at_work = row["calls"] or any(row.get(column) for column in (*WORK, *_TIMES))
    return "" if was_at_work else "not called"


def _is_uncounted(row: Row) -> bool:
    """Return whether the work of a layer is not known, because the model did not run to its end."""
    return row["calls"] is None or row.get("macs", 0) is None
