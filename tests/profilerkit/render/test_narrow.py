"""Printed tables on terminals of any width: nothing wider than the terminal, and no value far from its unit."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from torch import nn, zeros

from profilerkit import Comparison, Report, profile
from profilerkit.render.layer_grids import layer_grid
from profilerkit.trace.records import LayerTable

WIDTHS = (60, 72, 80, 100, 160)


def block() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.AdaptiveAvgPool2d((112, 112)), nn.Flatten())


def made(name: str) -> Report:
    return profile(block(), zeros(1, 3, 224, 224), static=True, name=name)


REPORT = made("first")
RESULTS: dict[str, Report | Comparison] = {
    "report": REPORT,
    "comparison": Comparison(REPORT, (made("second"), made("a third one"))),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", RESULTS)
def test_no_line_is_wider_than_the_terminal(kind: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = RESULTS[kind].to_text(details=True).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_values_units_shapes_and_types_stay_whole(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``Conv2d(3, 64, 7, 2, 3)`` gives 112 x 112 of 64: 112 * 112 * 64 * 3 * 49 = 118,013,952 MACs."""
    monkeypatch.setenv("COLUMNS", str(width))
    text = REPORT.to_text(details=True, form="table")
    assert re.search(r"^ MACs +118 +MMACs", text, re.MULTILINE)
    assert "[1, 64, 112, 112]" in text
    assert "AdaptiveAvgPool2d" in text


@pytest.mark.parametrize(("width", "has"), [(80, "FLOPs\n"), (66, "no room for FLOPs")])
def test_a_narrow_table_of_layers_leaves_out_what_is_needed_least(
    width: int, has: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The type stands behind the name before a count is left out; FLOPs are about twice the MACs."""
    monkeypatch.setenv("COLUMNS", str(width))
    text = REPORT.to_text(depth=-1)
    assert has in text
    assert "continued" not in text
    assert "AdaptiveAvgPool2d" in text


def test_calls_have_a_column_where_a_layer_is_called_again() -> None:
    row = {"path": "", "type": "Net", "depth": 0, "params": 1, "macs": 1, "flops": 1, "is_leaf": True}
    assert "Calls" not in layer_grid(LayerTable([{**row, "calls": 1}])).titles
    assert "Calls" in layer_grid(LayerTable([{**row, "calls": 2}])).titles
    assert "Calls" in layer_grid(LayerTable([{**row, "calls": 0}])).titles, "a layer that did not run"


def test_a_share_has_one_digit_behind_the_point() -> None:
    row = {"path": "", "type": "Net", "depth": 0, "calls": 1, "params": 1, "macs": 1, "flops": 1, "is_leaf": True}
    small = {**row, "path": "small", "depth": 1}
    times = [(row, 3.0), (small, 0.0001)]  # 1 in 30,000, and half a per mille is the least that is shown
    layers = [{**time, "forward_seconds": seconds, "forward_seconds_share": seconds / 3} for time, seconds in times]
    grid = layer_grid(LayerTable(layers))
    column = grid.titles.index("Share of\nforward")
    assert [cells[column] for cells in grid.rows] == ["100.0 %", "<0.1 %"]


def test_a_title_is_not_folded_to_the_width_of_its_table() -> None:
    assert str(LayerTable([{"path": "", "type": "A"}])).splitlines()[0] == "LayerTable, 1 row"
