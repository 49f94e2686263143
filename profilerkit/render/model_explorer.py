"""The work of each node of a model's file as node data for Google's Model Explorer, which draws the graph of the file.

The format is that of its `node_data_builder`: for each graph its name, and a value for each node by the node's id. The
ids are those that Model Explorer itself gives the nodes of a file: a backend notes them in the operators of its trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ArgumentError
from ..trace.bounds import WORK
from ..trace.operator_rows import read_work
from .grids import visible
from .time_stacks import find_rows, read_seconds

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["render"]

#: What a node can be drawn with: a column of the operators, "params" or "seconds"; and what it is called there.
_TITLES = {
    "macs": "MACs",
    "flops": "FLOPs",
    "params": "parameters",
    "bytes_read": "bytes read",
    "bytes_written": "bytes written",
    "live_bytes": "bytes alive",
    "seconds": "forward time in µs",
}
#: From white to the color of the largest value.
_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8710a"}]

#: A graph of a file, and the id of a node in it.
Node: TypeAlias = tuple[str, str]
Rows: TypeAlias = Sequence[Mapping[str, Any]]


def render(result: Report | Comparison, by: str | None = None) -> str:
    """Return JSON with a value for each node of the graphs that were profiled.

    A model without nodes, which is no ``.tflite``, ``.onnx`` or ``.pt2`` file, has no values, and a name that says so.
    Of two models whose graphs have one name, the first is drawn.

    Args:
        result: A report or a comparison.
        by: The value: "macs", "flops", "params", "bytes_read", "bytes_written", "live_bytes" or "seconds". Unless
            given, the time where it was measured, else the MACs or FLOPs if they were requested, else the parameters.
    """
    if by is not None and by not in _TITLES:
        raise ArgumentError(f"by={by!r}: Model Explorer can be given one of {', '.join(map(repr, _TITLES))}")
    graphs: dict[str, Any] = {}
    for report in result.reports:
        for graph, data in _draw_graphs(report, by or _choose_column(report)).items():
            graphs.setdefault(graph, data)
    return json.dumps(graphs)


def _choose_column(report: Report) -> str:
    """Return what is drawn unless it is requested."""
    if any(True for _ in _list_own_microseconds(report)):
        return "seconds"
    return next((column for column in WORK if column in report.statuses), "params")


def _draw_graphs(report: Report, column: str) -> dict[str, Any]:
    """Return the node data of each graph of a model that has operators; one without nodes has a name that says so."""
    rows = [row for row in report.operators or () if row.get("node")]
    if column in ("params", "seconds"):
        values, remark = _place_at_heaviest(report, rows, column)
    else:
        values, remark = _sum_by_node(rows, column)
    name = f"{report.name}: {_TITLES[column]}{remark}"
    if not rows:
        return {"": {"name": visible(f"{report.name}: no nodes, give a .tflite, .onnx or .pt2 file"), "results": {}}}
    graphs: dict[str, Any] = {
        row["graph"]: {"name": visible(name), "gradient": _GRADIENT, "results": {}} for row in rows
    }
    for (graph, node), value in values.items():
        graphs[graph]["results"][node] = {"value": value}
    return graphs


def _sum_by_node(rows: Rows, column: str) -> tuple[dict[Node, float], str]:
    """Return the sum of a column for each node, of bytes alive the most; and a remark on nodes that are not counted."""
    values: dict[Node, float] = {}
    left_out: set[Node] = set()
    for row in rows:
        node, value = (row["graph"], row["node"]), read_work(row, column)
        if value is None:
            left_out.add(node)
        elif column == "live_bytes":
            values[node] = max(value, values.get(node, 0))
        else:
            values[node] = values.get(node, 0) + value
    counted = {node: value for node, value in values.items() if node not in left_out}
    return counted, f", {len(left_out)} of {len(left_out) + len(counted)} nodes are not counted" if left_out else ""


def _place_at_heaviest(report: Report, rows: Rows, column: str) -> tuple[dict[Node, float], str]:
    """Return what layers or operators have of a column at one node each; and a remark on those without a node.

    A layer's own number, which is that of all its nodes together, is at the node with the most MACs.
    """
    heaviest: dict[tuple[str, str], Mapping[str, Any]] = {}  # by layer and operator, and by layer alone
    for operator_row in rows:
        for key in ((operator_row["layer"], operator_row["operator"]), (operator_row["layer"], "")):
            if key not in heaviest or operator_row["macs"] > heaviest[key]["macs"]:
                heaviest[key] = operator_row
    own_values = _list_own_params(report) if column == "params" else _list_own_microseconds(report)
    values: dict[Node, float] = {}
    placed = total = 0
    for layer, operator, value in own_values:
        row = heaviest.get((layer, operator)) or heaviest.get((layer, ""))
        if row is not None:
            node = row["graph"], row["node"]
            values[node] = values.get(node, 0) + value
        placed, total = placed + bool(row and value), total + bool(value)
    return values, f", of {placed} of {total} layers or operators: the others have no node" if placed < total else ""


def _list_own_params(report: Report) -> Iterable[tuple[str, str, float]]:
    return ((row["path"], "", row["own_params"]) for row in report.layers or () if row.get("own_params"))


def _list_own_microseconds(report: Report) -> Iterator[tuple[str, str, float]]:
    """Yield the layer, the operator and the forward time of each operator; without these, of each layer."""
    timed = [row for row in find_rows(report, "operator", "layer", "phase", "seconds") if row["phase"] == "forward"]
    column = "seconds" if timed else "own_forward_seconds"
    for row in timed or find_rows(report, "path", column):
        seconds = read_seconds(row.get(column))
        if seconds is not None:
            yield row["layer" if timed else "path"], row["operator"] if timed else "", seconds * 1e6
