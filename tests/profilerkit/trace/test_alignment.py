"""The layers of two models side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from layer_reports import report

from profilerkit import Comparison
from profilerkit.render.changed_layers import measure_change
from profilerkit.render.layer_grids import all_layers_grids, difference_grid
from profilerkit.trace.alignment import align
from profilerkit.trace.families import find_family, is_activation
from profilerkit.trace.records import LayerTable


def sides(reference: Iterable[Any], other: Iterable[Any]) -> list[tuple[Any, ...]]:
    table = Comparison(report("a", reference), (report("b", other),)).layers()
    return [(row["change"], row["path"], row["other_path"], row["macs_difference"]) for row in table if row["depth"]]


def test_layers_of_one_path_and_type_are_one_row() -> None:
    layers = [("conv", "Conv2d", 8), ("head", "Linear", 4)]
    changed = [("conv", "Conv2d", 8), ("head", "Linear", 1)]
    assert sides(layers, layers) == [("same", "conv", "conv", 0), ("same", "head", "head", 0)]
    assert sides(layers, changed) == [("same", "conv", "conv", 0), ("changed", "head", "head", -3)]


def test_a_layer_of_another_type_is_another_layer() -> None:
    """What was at the path is gone, and what is there now is new."""
    found = sides([("head", "Linear", 4)], [("head", "Conv2d", 1)])
    assert found == [("removed", "head", None, None), ("added", "head", "head", None)]


COUNTED = {"type": "Linear", "depth": 0, "is_leaf": True, "params": 6, "macs": 8}
UNCOUNTED = {**COUNTED, "macs": None}


@pytest.mark.parametrize(
    ("one", "two", "change"),
    [
        (COUNTED, COUNTED, "same"),
        (COUNTED, UNCOUNTED, "unknown"),
        (UNCOUNTED, COUNTED, "unknown"),
        (UNCOUNTED, UNCOUNTED, "same"),
        (UNCOUNTED, {**COUNTED, "params": 7}, "changed"),
        ({**UNCOUNTED, "params": None}, {**UNCOUNTED, "params": None}, "unknown"),
        (COUNTED, {**COUNTED, "macs_low": 8, "macs_high": None}, "unknown"),
        ({**COUNTED, "macs_low": 8, "macs_high": 8}, COUNTED, "same"),
        ({**COUNTED, "macs_low": 2, "macs_high": 8}, {**COUNTED, "macs_low": 2, "macs_high": 8}, "same"),
    ],
)
def test_a_layer_is_the_same_if_both_models_know_as_much(one: Any, two: Any, change: str) -> None:
    """Such as the layers of a model that failed, beside one that ran: their work may differ."""
    mine, theirs = (replace(report("a", []), layers=LayerTable([{"path": "", **row}])) for row in (one, two))
    assert [row["change"] for row in align(mine, theirs, columns=("params", "macs"))] == [change]


def test_a_layer_of_which_a_model_does_not_know_the_number_is_not_among_those_that_differ_most() -> None:
    """One differs by 3 MACs, one came with 5 and one went with 2; of another with 1000 it is unknown."""
    counted = [("conv", "Conv2d", 1000), ("head", "Linear", 4), ("gone", "Sigmoid", 2)]
    failed = [("conv", "Conv2d", None), ("head", "Linear", 1), ("new", "ReLU", 5)]
    for before, after in ((counted, failed), (failed, counted)):
        rows = align(report("a", before), report("b", after))
        changes = {row["path"]: measure_change(row)[0] for row in rows if row["depth"]}
        assert changes == {"conv": 0, "head": 3, "gone": 2, "new": 5}


def test_removed_and_added_layers_stand_where_they_were() -> None:
    teacher = [("a", "Conv", 1), ("b", "Relu", 1), ("c", "Linear", 1)]
    student = [("a", "Conv", 1), ("n", "Norm", 1), ("c", "Linear", 1), ("d", "Softmax", 1)]
    assert sides(teacher, student) == [
        ("same", "a", "a", 0),
        ("removed", "b", None, None),
        ("added", "n", "n", None),
        ("same", "c", "c", 0),
        ("added", "d", "d", None),
    ]


def test_what_is_called_otherwise_is_matched_by_type_in_order() -> None:
    """A student with fewer blocks, whose layers are numbered otherwise; and another framework's spelling."""
    teacher = [("0", "Conv2d", 9), ("1", "ReLU", 1), ("2", "Conv2d", 9), ("3", "Linear", 2)]
    student = [("conv", "Conv2D", 5), ("relu", "ReLU", 1), ("dense", "Linear", 2)]
    assert sides(teacher, student) == [
        ("changed", "0", "conv", -4),
        ("same", "1", "relu", 0),
        ("removed", "2", None, None),
        ("same", "3", "dense", 0),
    ]


def test_a_layer_is_matched_with_one_layer_alone() -> None:
    """Layers right inside the model whose names end alike, as where the layers between are not in the table."""
    teacher = [("a.fc", "Linear", 4), ("b.fc", "Linear", 3)]
    assert sides(teacher, [("c.fc", "Linear", 1)]) == [
        ("changed", "a.fc", "c.fc", -3),
        ("removed", "b.fc", None, None),
    ]
    assert sides(teacher, [("c.fc", "Linear", 1), ("d.fc", "Linear", 2)]) == [
        ("changed", "a.fc", "c.fc", -3),
        ("changed", "b.fc", "d.fc", -1),
    ]


def test_layers_are_matched_inside_layers_that_are() -> None:
    teacher = [("enc", "Block", 4), ("enc.fc", "Linear", 4), ("dec", "Block", 2), ("dec.fc", "Linear", 2)]
    student = [("encoder", "Block", 3), ("encoder.lin", "Linear", 3)]
    assert sides(teacher, student) == [
        ("changed", "enc", "encoder", -1),
        ("changed", "enc.fc", "encoder.lin", -1),
        ("removed", "dec", None, None),
        ("removed", "dec.fc", None, None),
    ]


def test_layers_of_one_path_and_type_are_one_row_whatever_is_around_them() -> None:
    """A body of another class is another layer; what is in it, and has its path and type, is the same."""
    teacher = [("body", "Sequential", 9), ("body.conv", "Conv2d", 8), ("body.act", "ReLU", 1)]
    student = [("body", "Block", 7), ("body.conv", "Conv2d", 6), ("body.act", "GELU", 1)]
    assert sides(teacher, student) == [
        ("removed", "body", None, None),
        ("added", "body", "body", None),
        ("changed", "body.conv", "body.conv", -2),
        ("removed", "body.act", None, None),
        ("added", "body.act", "body.act", None),
    ]


def test_a_layer_that_is_matched_by_its_path_is_nobody_elses() -> None:
    """The block that is called otherwise takes what is left, in order."""
    teacher = [("a", "Block", 1), ("a.fc", "Linear", 1), ("b", "Other", 1), ("b.fc", "Linear", 1)]
    student = [("b", "Block", 1), ("b.fc", "Linear", 1), ("b.lin", "Linear", 1)]
    assert sides(teacher, student) == [
        ("same", "a", "b", 0),
        ("same", "a.fc", "b.lin", 0),
        ("removed", "b", None, None),
        ("same", "b.fc", "b.fc", 0),
    ]


def test_every_layer_of_both_is_in_the_table_once() -> None:
    teacher = [("b", "X", 1), ("a", "Y", 1), ("a.q", "Z", 1)]
    student = [("a", "Y", 2), ("a.r", "W", 1), ("b", "X", 1), ("c", "X", 1)]
    table = Comparison(report("a", teacher), (report("b", student),)).layers()
    assert sorted(row["path"] for row in table if row["change"] != "added") == ["", "a", "a.q", "b"]
    assert sorted(row["other_path"] for row in table if row["other_path"] is not None) == ["", "a", "a.r", "b", "c"]


def test_a_report_without_layers_is_said() -> None:
    comparison = Comparison(report("Teacher", []), (report("Student", None),))
    with pytest.raises(ValueError, match="the report of Student holds no layers, so that there is nothing to align"):
        comparison.layers()


# Between frameworks -------------------------------------------------------------------------------------------------


def foreign_sides(reference: Iterable[Any], other: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The same for reports of two backends."""
    second = replace(report("b", other), backend="second")
    table = Comparison(report("a", reference), (second,)).layers()
    return [(row["change"], row["path"], row["other_path"]) for row in table if row["depth"]]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Linear", "Dense"),
        ("Linear", "Gemm"),
        ("Conv2d", "Conv"),
        ("AvgPool2d", "AveragePooling2D"),
        ("Conv1d", "Conv"),
    ],
)
def test_types_of_one_family_are_one_layer_at_the_same_path(one: str, two: str) -> None:
    """Also in one format: one exporter writes classes, the other operators."""
    layers, others = [("0", one, 4)], [("0", two, 4)]
    assert sides(layers, others) == [("same", "0", "0", 0)]
    assert foreign_sides(layers, others) == [("same", "0", "0")]


def test_dimensions_that_differ_make_another_layer_in_one_framework() -> None:
    layers, others = [("0", "Conv1d", 4)], [("0", "Conv2d", 4)]
    assert [change for change, *_ in sides(layers, others)] == ["removed", "added"]


def test_other_names_are_matched_by_family_between_backends_alone() -> None:
    layers = [("0", "Conv2d", 4), ("1", "Tanh", 0), ("2", "Linear", 2)]
    others = [("conv", "Conv", 4), ("act", "Activation", 0), ("fc", "Dense", 2)]
    assert foreign_sides(layers, others) == [("same", "0", "conv"), ("same", "1", "act"), ("same", "2", "fc")]
    assert {change for change, *_ in sides(layers, others)} == {"removed", "added"}


def test_a_layer_that_holds_layers_needs_no_class_where_an_exporter_writes_none() -> None:
    layers = [("body", "Sequential", 4), ("body.0", "Conv2d", 4)]
    others = [("body", "Module", 4), ("body.0", "Conv", 4)]
    assert sides(layers, others) == [("same", "body", "body", 0), ("same", "body.0", "body.0", 0)]


def test_layers_that_hold_layers_may_have_any_classes_between_backends() -> None:
    layers = [("body", "Sequential", 4), ("body.0", "Conv2d", 4)]
    others = [("body", "Features", 4), ("body.conv", "Conv", 4)]
    assert foreign_sides(layers, others) == [("same", "body", "body"), ("same", "body.0", "body.conv")]
    assert foreign_sides([("body", "ReLU", 4)], others)[:2] == [("removed", "body", None), ("added", "body", "body")]


#: What torch, LiteRT and OpenVINO call one thing.
SAME = (
    ("Conv2d", "CONV_2D", "Convolution"),
    ("Conv2d", "DEPTHWISE_CONV_2D", "GroupConvolution"),
    ("ConvTranspose2d", "TRANSPOSE_CONV", "ConvolutionBackpropData"),
    ("Linear", "FULLY_CONNECTED", "MatMul"),
    ("AvgPool2d", "AVERAGE_POOL_2D", "AvgPool"),
    ("MaxPool2d", "MAX_POOL_2D", "MaxPool"),
    ("AdaptiveAvgPool2d", "MEAN", "ReduceMean"),
    ("Flatten", "RESHAPE", "Reshape"),
    ("ZeroPad2d", "PAD", "Pad"),
    ("Sigmoid", "LOGISTIC", "Sigmoid"),
    ("LeakyReLU", "LEAKY_RELU", "LeakyRelu"),
    ("Linear", "LinearReLU", "ParametrizedLinear", "QuantLinear", "QLinear", "Linear4bit", "Linear8bitLt", "HQQLinear"),
    ("MatMul", "MatMulInteger", "MatMulNBits", "DynamicQuantizeMatMul", "QLinearMatMul", "QGemm"),
    ("Conv2d", "ConvReLU2d", "QConv2d", "QuantConv2d", "ConvInteger", "QLinearConv"),
)


@pytest.mark.parametrize("names", SAME, ids=lambda names: names[0])
def test_the_operators_of_converted_files_are_of_the_families_of_the_layers(names: tuple[str, ...]) -> None:
    assert len({find_family(name)[0] for name in names}) == 1
    assert len({is_activation(name) for name in names}) == 1


def with_ends(name: str, ends: dict[str, tuple[int, int | None]], layers: Iterable[Any]) -> Any:
    """Return a report whose layers have these ends of their MACs, by path."""
    found = report(name, layers)
    rows = [
        {**row, "macs_low": ends[row["path"]][0], "macs_high": ends[row["path"]][1]} if ends else row
        for row in found.layers or ()
    ]
    return replace(found, layers=LayerTable(rows))


LAYERS = [("known", "Linear", 8), ("custom", "Custom", 0), ("branch", "Branch", 4), ("rest", "Rest", 2)]
ENDS = {"": (0, None), "known": (8, 8), "custom": (0, None), "branch": (1, 4), "rest": (2, None)}
SHOWN = {"(model)": "≥ 0", "known": "8", "custom": "≥ 0", "branch": "≤ 4", "rest": "≥ 2"}


@pytest.mark.parametrize("is_reference", [True, False])
@pytest.mark.parametrize("number", [2, 3])
def test_a_bound_is_no_exact_number_beside_other_models(is_reference: bool, number: int) -> None:
    """Of one model all is known, and of the other not: data and text have its ends, in either place."""
    partial, complete = with_ends("partial", ENDS, LAYERS), report("complete", LAYERS)
    first, second = (partial, complete) if is_reference else (complete, partial)
    comparison = Comparison(first, (second, *(report(f"more {index}", LAYERS) for index in range(number - 2))))
    low, high = ("macs_low", "macs_high") if is_reference else ("other_macs_low", "other_macs_high")
    pairs = comparison.layers(0)
    assert {row["path"]: (row[low], row[high]) for row in pairs} == ENDS
    ends = {name for name in pairs.columns if name.endswith(("_low", "_high"))}
    assert ends == {low, high}, "the complete model has none"
    known = {row["path"] for row in pairs if row["change"] == "same"}
    assert known == {"known"}, "the others may differ beyond what is counted"
    assert {row["change"] for row in pairs if row["path"] not in known} == {"unknown"}
    rows = comparison.all_layers()
    assert {row["path"]: (row["macs_low of partial"], row["macs_high of partial"]) for row in rows} == ENDS
    if number == 2:
        grid = difference_grid(list(pairs), "", ("a", "b"))
        column = 4 if is_reference else 5
    else:
        grid = next(found for found in all_layers_grids(comparison) if found.title == "MACs by layer")
        column = 2 if is_reference else 3
    shown = {row[0]: row[column] for row in grid.rows}
    assert shown == SHOWN
    assert all("≥" not in cell for row in grid.rows for index, cell in enumerate(row) if index != column)


def test_a_layer_that_does_itself_what_one_inside_does_says_so() -> None:
    """No total differs: what it does itself is what it has in common with no layer inside."""

    def made(name: str, own: int) -> Any:
        layers = report(name, [("a", "Block", 9)]).layers or ()
        rows = [{**row, "flops": 20, "own_macs": own, "own_flops": 20} for row in layers]
        return replace(report(name, []), layers=LayerTable(rows))

    rows = [row for row in Comparison(made("a", 9), (made("b", 4),)).layers() if row["path"]]
    assert [row["change"] for row in rows] == ["changed"]
    assert difference_grid(rows, "", ("a", "b")).rows[0][-1] == "own MACs 9 to 4"


def test_a_layer_of_a_third_model_is_in_one_row() -> None:
    """Its "x" is matched with the reference's "y", and is not the "x" that the second model has beside that."""
    one, two = [("y", "Linear", 4)], [("y", "Linear", 4), ("x", "Linear", 1)]
    comparison = Comparison(report("a", one), (report("b", two), report("c", [("x", "Linear", 2)])))
    rows = [tuple(row[f"macs of {name}"] for name in "abc") for row in comparison.all_layers() if row["depth"]]
    assert rows == [(4, 4, 2), (None, 1, None)]
