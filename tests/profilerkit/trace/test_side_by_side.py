"""The layers of several models in one table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from layer_reports import report

from profilerkit import ArgumentError, Comparison, Report
from profilerkit.render import render

REFERENCE = [("features", "Sequential", 9), ("features.0", "Conv2d", 9), ("features.1", "Tanh", 0), ("fc", "Linear", 2)]
#: The activation is a function here, and there is one more layer.
FLAX = [("features", "Features", 8), ("features.conv", "Conv", 8), ("fc", "Linear", 2), ("norm", "LayerNorm", 0)]
#: Classes are not written, a layer of padding is first, and the same layer as above is last.
EXPORT = [
    ("padding", "Pad", 0),
    ("features", "Module", 7),
    ("features.0", "Conv", 7),
    ("features.1", "Tanh", 0),
    ("fc", "Gemm", 2),
    ("norm", "LayerNormalization", 0),
]


def comparison() -> Comparison:
    flax, export = (
        replace(report("Flax", FLAX), backend="jax"),
        replace(report("Export", EXPORT), backend="onnx"),
    )
    return Comparison(report("Torch", REFERENCE), (flax, export))


def test_each_layer_of_any_model_is_one_row_with_a_column_for_each_model() -> None:
    found = [
        (row["path"], row["type"], row["depth"], *(row[f"macs of {name}"] for name in ("Torch", "Flax", "Export")))
        for row in comparison().all_layers()
    ]
    assert found == [
        ("", "Net", 0, 0, 0, 0),
        ("padding", "Pad", 1, None, None, 0),
        ("features", "Sequential", 1, 9, 8, 7),
        ("features.0", "Conv2d", 2, 9, 8, 7),
        ("features.1", "Tanh", 2, 0, None, 0),
        ("fc", "Linear", 1, 2, 2, 2),
        ("norm", "LayerNorm", 1, None, 0, 0),
    ]


def test_an_added_layer_does_not_split_the_layers_of_another() -> None:
    """``b`` comes after ``a.x``, where the reference has more layers inside ``a``."""
    reference = [("a", "Block", 2), ("a.x", "Linear", 1), ("a.y", "Linear", 1), ("c", "Linear", 1)]
    other = [("a", "Block", 1), ("a.x", "Linear", 1), ("b", "Norm", 0), ("c", "Linear", 1)]
    table = Comparison(report("a", reference), (report("b", other),)).all_layers()
    assert [row["path"] for row in table] == ["", "a", "a.x", "a.y", "b", "c"]


def test_other_columns_are_those_that_are_asked_for() -> None:
    row = comparison().all_layers("params", "macs")[3]
    assert [row[f"{column} of Flax"] for column in ("params", "macs")] == [1, 8]
    with pytest.raises(ArgumentError, match="columns has 'seconds'; the layers have params, macs, flops, own_macs"):
        comparison().all_layers("seconds")


def test_a_report_without_layers_is_named() -> None:
    without = Comparison(report("a", REFERENCE), (Report("b", "fake", "m.M", {}),))
    with pytest.raises(ValueError, match="the report of b holds no layers, so that there is nothing to align"):
        without.all_layers()


def test_a_comparison_of_several_models_shows_them_in_one_table() -> None:
    """An empty cell is a layer that the model lacks, a hyphen one that has no MACs."""
    text = render(comparison(), "table", depth=9)
    assert "Layers of Torch and Flax" not in text
    lines = text.partition("MACs by layer")[2].splitlines()
    cells = {line.split()[0]: line.split()[2:] for line in lines if len(line.split()) > 2}
    assert cells["0"] == ["9", "8", "7"]
    assert cells["1"] == ["-", "-"]
    assert "features" not in render(comparison(), "table", depth=0)


def test_changes_and_the_largest_layers_are_shown_for_each_pair() -> None:
    text = render(comparison(), "table", changes=True)
    assert "Layers that differ between Torch and Flax" in text
    assert "Layers that differ between Torch and Export" in text
