"""Node data for Model Explorer: a value for each node, in the schema of its ``node_data_builder``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drawn_reports import STUDENT, TEACHER, record

from profilerkit import ArgumentError, Comparison, Completeness, Report
from profilerkit.render import render
from profilerkit.times.layer_times import LayerTime, layer_time_table
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table


def operator(name: str, layer: str, node: str, macs: int, live: int = 0, graph: str = "main") -> dict[str, Any]:
    counts = {"macs": macs, "flops": 2 * macs, "bytes_read": 8, "bytes_written": 4, "live_bytes": live}
    return {"operator": name, "layer": layer, "call": 0, "phase": "forward", **counts, "graph": graph, "node": node}


#: A product and a sum in the first layer; in the second a loop of two operators, which are one node.
OPERATORS = Table(
    [
        operator("mm", "first", "0", 128, 40),
        operator("add", "first", "1", 0, 64),
        operator("mm", "second", "3", 64, 48),
        operator("custom", "second", "3", 2, 52),
    ]
)
LAYERS = [{**row, "own_params": params} for row, params in zip(TEACHER.layers or (), (7, 144, 0, 68), strict=True)]
REPORT = replace(TEACHER, operators=OPERATORS, layers=LayerTable(LAYERS))


def read(result: Report | Comparison, **options: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the name and the values by node of each graph; the file keeps to the schema."""
    file = json.loads(render(result, "model-explorer", **options))
    for data in file.values():
        assert set(data) <= {"name", "gradient", "results"} and isinstance(data["name"], str)
        assert [item["stop"] for item in data.get("gradient", [{"stop": 0}, {"stop": 1}])] == [0, 1]
        for node, value in data["results"].items():
            assert isinstance(node, str) and set(value) == {"value"}
            assert type(value["value"]) in (int, float) and math.isfinite(value["value"])
    return {
        graph: (data["name"], {node: one["value"] for node, one in data["results"].items()})
        for graph, data in file.items()
    }


def test_each_node_has_the_macs_of_its_operators() -> None:
    assert read(REPORT) == {"main": ("Teacher: MACs", {"0": 128, "1": 0, "3": 66})}


@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_counts_may_be_numbers_of_another_type(kind: Callable[[int], Any]) -> None:
    rows = [{name: kind(cell) if isinstance(cell, int) else cell for name, cell in row.items()} for row in OPERATORS]
    for by in ("macs", "live_bytes", "params"):
        assert read(replace(REPORT, operators=Table(rows)), by=by) == read(REPORT, by=by)


def test_bytes_alive_are_the_most_at_a_node_and_others_a_sum() -> None:
    assert read(REPORT, by="live_bytes")["main"] == ("Teacher: bytes alive", {"0": 40, "1": 64, "3": 52})
    assert read(REPORT, by="bytes_written")["main"][1] == {"0": 4, "1": 4, "3": 8}


def test_the_parameters_of_a_layer_are_at_its_node_with_the_most_macs() -> None:
    name, values = read(REPORT, by="params")["main"]
    assert values == {"0": 144, "3": 68}
    assert name == "Teacher: parameters, of 2 of 3 layers or operators: the others have no node", (
        "the model has 7 itself"
    )


def test_times_of_layers_and_of_operators() -> None:
    times = layer_time_table(
        [LayerTime("first", "Linear", 1, (2e-6, 2e-6), None), LayerTime("second", "Linear", 1, (5e-6, 5e-6), None)]
    )
    timed = replace(REPORT, statuses={"layer_times": record("layer_times", times, "2 layers")})
    assert read(timed)["main"] == ("Teacher: forward time in µs", {"0": pytest.approx(2), "3": pytest.approx(5)})
    row = {"layer": "first", "phase": "forward", "calls": 1}
    operators = Table(
        [
            {**row, "operator": "mm", "seconds": 1e-6},
            {**row, "operator": "add", "seconds": 2e-6},
            {**row, "operator": "fused", "seconds": 4e-6},
            {**row, "operator": "mm", "seconds": 8e-6, "phase": "backward"},
            {**row, "operator": "copy", "seconds": 1e-6, "layer": ""},
        ]
    )
    both = {**timed.statuses, "operator_table": record("operator_table", operators, "5 rows")}
    name, values = read(replace(timed, statuses=both))["main"]
    assert values == {"0": pytest.approx(5), "1": pytest.approx(2)}, "the time of a fused one is at the product"
    assert name.endswith("in µs, of 3 of 4 layers or operators: the others have no node")


def test_what_is_drawn_follows_the_metrics_that_were_requested() -> None:
    flops, size = record("flops", 9, "9"), record("model_size", 9, "9 B")
    assert read(replace(REPORT, statuses={"flops": flops, "model_size": size}))["main"][0] == "Teacher: FLOPs"
    assert read(replace(REPORT, statuses={"model_size": size}))["main"][0].startswith("Teacher: parameters")
    with pytest.raises(ArgumentError, match="by='parameters': Model Explorer can be given one of 'macs', 'flops'"):
        render(REPORT, "model-explorer", by="parameters")


def test_an_operator_that_is_not_counted_is_left_out_and_said() -> None:
    """What is not counted stands in the row of the operator; bytes are known all the same."""
    rows = [{**row, "missing": "not counted: custom" if row["operator"] == "custom" else ""} for row in OPERATORS]
    part = record("macs", 192, "192", completeness=Completeness.PARTIAL, missing=("custom (1 call)",))
    incomplete = replace(REPORT, operators=Table(rows), statuses={"macs": part})
    name, values = read(incomplete)["main"]
    assert values == {"0": 128, "1": 0}
    assert name == "Teacher: MACs, 1 of 3 nodes are not counted"
    assert read(incomplete, by="bytes_written")["main"] == read(REPORT, by="bytes_written")["main"]


def test_nodes_are_counted_where_the_dearer_branch_is() -> None:
    reason = "the condition of an If in 'second' depends on values: the dearer branch is counted"
    part = record("macs", 194, "194", completeness=Completeness.PARTIAL, missing=(reason,))
    assert read(replace(REPORT, statuses={"macs": part}))["main"][1] == {"0": 128, "1": 0, "3": 66}


def test_a_model_without_nodes_has_a_name_that_says_so() -> None:
    name = "Student: no nodes, give a .tflite, .onnx or .pt2 file"
    assert read(STUDENT) == {"": (name, {})}
    assert read(Comparison(REPORT, (STUDENT,))) == {**read(REPORT), **read(STUDENT)}


def test_of_two_models_with_one_graph_the_first_is_drawn_and_others_have_their_own() -> None:
    other = Table([operator("mm", "first", "x", 1), operator("mm", "first", "x", 1, graph="decode")])
    both = Comparison(REPORT, (replace(REPORT, name="Second", operators=other),))
    assert read(both) == {**read(REPORT), "decode": ("Second: MACs", {"x": 1})}


def test_ids_are_written_as_they_are() -> None:
    rows = Table([operator("mm", "first", '/a\x1b"b"', 1, graph="x\ny")])
    assert read(replace(REPORT, operators=rows)) == {"x\ny": ("Teacher: MACs", {'/a\x1b"b"': 1})}
