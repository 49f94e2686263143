"""Predicted times in a roofline: beside measured ones, and alone; numbers by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn_figures import REPORT, record, texts

from profilerkit.trace.records import LayerTable
from profilerkit_pages.figures import roofline

pytest.importorskip("matplotlib")


def make_predicted_rows(estimate: float | None) -> LayerTable:
    """Return predictions of two layers: bounds of 1 and 2 ms, an estimate of the first or none."""
    facts = {"type": "Linear", "depth": 1, "is_leaf": True, "calls": 1, "own_macs": 0, "binds": "traffic"}
    times = (("head", 1e-3, estimate), ("", 2e-3, None))
    return LayerTable([{**facts, "path": path, "bound_seconds": b, "estimate_seconds": e} for path, b, e in times])


@pytest.mark.parametrize(("estimate", "speed", "kind"), [(None, 6e5, "at most"), (2e-3, 3e5, "an estimate")])
def test_predicted_times_are_beside_the_measured_ones(estimate: float | None, speed: float, kind: str) -> None:
    """The head: 600 FLOPs for 600 bytes, in 1 ms at least, or in 2 ms."""
    row = record("predicted_layers", make_predicted_rows(estimate))
    figure = roofline(replace(REPORT, statuses={**REPORT.statuses, "predicted_layers": row}))
    (axis,) = figure.axes
    assert (1, pytest.approx(speed)) in [tuple(point) for point in axis.collections[-1].get_offsets()]
    assert len(axis.collections) == 3, "two types that were measured, and the prediction"
    assert f"predicted, {kind}" in texts(figure)
    assert axis.get_ylabel() == "Achieved FLOP/s"


def test_a_roofline_of_predictions_alone_says_so() -> None:
    row = record("predicted_layers", make_predicted_rows(None))
    figure = roofline(replace(REPORT, statuses={"predicted_layers": row}))
    (axis,) = figure.axes
    (dots,) = axis.collections
    assert [tuple(point) for point in dots.get_offsets()] == [(1, pytest.approx(6e5))]
    assert axis.get_ylabel() == "FLOP/s (predicted, at most)"
    assert any("Nothing was measured: these are predicted times" in text for text in texts(figure))
