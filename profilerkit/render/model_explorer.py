"""The work of each node of a model's file as node data for Google's Model Explorer, which draws the graph of the file.

The format is described by its `node_data_builder`: for each graph its name, and a value for each node by the node's id.
The ids are the ones of Model Explorer for the nodes of a file: a backend notes them in the operators of its trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..errors import ArgumentError
from ..foreign_text import visible
from ..results.comparison import Comparison
from ..results.report import Report
from ..trace.columns import WORK
from ..trace.rows import read_work
from .time_stacks import find_rows, read_seconds

__all__ = ["render"]

#: The values that can be drawn for a node: a column of the operators, "params" or "seconds", which is drawn in
#: microseconds; with their titles.
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

Row: TypeAlias = Mapping[str, Any]


class _Node(NamedTuple):
    """A node of a file: its graph, and its id there."""

    graph: str
    id: str

    @classmethod
    def of(cls, operator: Row) -> _Node:
        return cls(operator["graph"], operator["node"])


class _NodeValues(NamedTuple):
    """The value of each node, and the remark in the name of the data about values left out; empty if there are none."""

    by_node: dict[_Node, float]
    remark: str


class _OwnValue(NamedTuple):
    """A number of one operator of a layer; of the layer itself if the operator is empty."""

    layer: str
    operator: str
    value: float


def render(result: Report | Comparison, by: str | None = None) -> str:
    """Return JSON with a value for each node of the graphs that were profiled.

    A model without nodes, which is no ``.tflite``, ``.onnx`` or ``.pt2`` file, has no values, and a name that says so.
    Of two models whose graphs have one name, the first is drawn.

    Args:
        result: A report or a comparison.
        by: The value: "macs", "flops", "params", "bytes_read", "bytes_written", "live_bytes" or "seconds". Unless
            given, the time if it was measured, else the MACs or FLOPs if they were requested, else the parameters.
    """
    if by is not None and by not in _TITLES:
        raise ArgumentError(f"by={by!r}: Model Explorer can be given one of {', '.join(map(repr, _TITLES))}")
    graphs: dict[str, Any] = {}
    for report in result.reports:
        for graph, data in _draw_graphs(report, by or _choose_column(report)).items():
            graphs.setdefault(graph, data)
    return json.dumps(graphs, default=float)  # of numbers of other types, such as numpy's


def _choose_column(report: Report) -> str:
    """Return the column that is drawn by default."""
    if next(_list_own_microseconds(report), None) is not None:
        return "seconds"
    return next((column for column in WORK if column in report.statuses), "params")


def _draw_graphs(report: Report, column: str) -> dict[str, Any]:
    """Return the node data of each graph of a model that has operators; one without nodes has a name that says so."""
    operators = [row for row in report.operators or () if row.get("node")]
    if not operators:
        return {"": {"name": visible(f"{report.name}: no nodes, give a .tflite, .onnx or .pt2 file"), "results": {}}}
    if column == "params":
        own_params = ((row["path"], row.get("own_params")) for row in report.layers or ())
        values = _place_at_heaviest([_OwnValue(path, "", count) for path, count in own_params if count], operators)
    elif column == "seconds":
        values = _place_at_heaviest(_list_own_microseconds(report), operators)
    else:
        values = _sum_by_node(operators, column)
    name = visible(f"{report.name}: {_TITLES[column]}{values.remark}")
    graphs: dict[str, Any] = {row["graph"]: {"name": name, "gradient": _GRADIENT, "results": {}} for row in operators}
    for node, value in values.by_node.items():
        graphs[node.graph]["results"][node.id] = {"value": value}
    return graphs


def _sum_by_node(operators: Sequence[Row], column: str) -> _NodeValues:
    """Return the sum of a column for each node, of bytes alive the most, without nodes of which a part is not known."""
    values: dict[_Node, float] = {}
    uncounted: set[_Node] = set()
    for row in operators:
        node, value = _Node.of(row), read_work(row, column)
        if value is None:
            uncounted.add(node)
        elif column == "live_bytes":
            values[node] = max(value, values.get(node, 0))
        else:
            values[node] = values.get(node, 0) + value
    counted = {node: value for node, value in values.items() if node not in uncounted}
    total = len(uncounted) + len(counted)
    return _NodeValues(counted, f", {len(uncounted)} of {total} nodes are not counted" if uncounted else "")


def _place_at_heaviest(own_values: Iterable[_OwnValue], operators: Sequence[Row]) -> _NodeValues:
    """Return the numbers of layers or operators, each at the one of its nodes that has the most MACs.

    The number of an operator that has no node is at that node of its layer.
    """
    heaviest: dict[tuple[str, str], _Node] = {}  # by layer and operator, and by layer alone
    for row in sorted(operators, key=lambda row: -row["macs"]):
        for operator in (row["operator"], ""):
            heaviest.setdefault((row["layer"], operator), _Node.of(row))
    values: dict[_Node, float] = {}
    are_placed: list[bool] = []  # of the values that are not zero
    for layer, operator, value in own_values:
        node = heaviest.get((layer, operator)) or heaviest.get((layer, ""))
        if node is not None:
            values[node] = values.get(node, 0) + value
        if value:
            are_placed.append(node is not None)
    counts = f"{sum(are_placed)} of {len(are_placed)}"
    return _NodeValues(values, "" if all(are_placed) else f", of {counts} layers or operators: the others have no node")


def _list_own_microseconds(report: Report) -> Iterator[_OwnValue]:
    """Yield the forward time of each operator; of each layer if no operators were timed."""
    operators = find_rows(report, "operator", "layer", "phase", "seconds")
    forward = [row for row in operators if row["phase"] == "forward"]
    if forward:
        timed = [(row["layer"], row["operator"], row["seconds"]) for row in forward]
    else:
        layers = find_rows(report, "path", "own_forward_seconds")
        timed = [(row["path"], "", row["own_forward_seconds"]) for row in layers]
    for layer, operator, time in timed:
        seconds = read_seconds(time)
        if seconds is not None:
            yield _OwnValue(layer, operator, seconds * 1e6)
