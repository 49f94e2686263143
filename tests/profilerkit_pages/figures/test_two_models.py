"""Figures of the layers of two models: pairs of bars, two icicles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from drawn_figures import BOTH, LAYERS, REPORT, bars, record, report, row, texts

from profilerkit import Comparison, Report
from profilerkit.times.layer_times import LayerTime, layer_time_table
from profilerkit.trace.records import LayerTable
from profilerkit_pages.figures import icicle, layer_bars

pytest.importorskip("matplotlib")

#: As the report, with twice the MACs in the head, and a layer `block.b` less.
OTHER_LAYERS = LayerTable(
    [
        row("", "Net", 100, 800),
        row("block", "Block", 0, 200),
        row("block.a", "Linear", 200),
        row("head", "Linear", 600),
    ]
)
PAIR = Comparison(replace(REPORT, statuses={}), (report("other", layers=OTHER_LAYERS, statuses={}),))


def foreign(macs: int) -> Report:
    """Return a report that shares no layer but the root with the others."""
    names = [f"stage{index}" for index in range(4)]
    layers = LayerTable([row("", "Net", 0, 4 * macs), *(row(name, "Pool", macs) for name in names)])
    return report("foreign", layers=layers, statuses={})


def test_each_layer_has_a_bar_for_each_model() -> None:
    """By the larger of the two: the head 300 and 600, block.b 400 and none, block.a 200 in both."""
    figure = layer_bars(PAIR)
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["head", "block.b", "block.a"]
    assert bars(axis) == [[300, 400, 200], [600, 0, 200]]
    said = texts(figure)
    assert {"Layers by MACs of net and other", "net", "other", "600 MACs"} <= set(said)
    assert "A layer that one of the models lacks has one bar." in said


def test_layers_of_two_models_by_time_at_a_depth() -> None:
    """Both were timed, so by forward time: the block takes 5 ms, the head 4 ms."""
    (axis,) = layer_bars(BOTH, depth=1).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["block", "head"]
    assert bars(axis) == [pytest.approx([5, 4])] * 2
    assert axis.get_xlabel() == "Forward time (ms)"
    for depth in (2, 9):
        (deepest,) = layer_bars(PAIR, depth=depth).axes
        assert bars(deepest) == [[400, 200], [0, 200]], "too large a depth is that of the deepest layers"
    (first,) = layer_bars(PAIR, top=1).axes
    assert bars(first) == [[300], [600]]


def test_one_model_without_times_makes_macs_the_column() -> None:
    (axis,) = layer_bars(Comparison(REPORT, (replace(REPORT, name="untimed", statuses={}),))).axes
    assert axis.get_xlabel() == "MACs (MACs)"


def test_models_that_share_little_are_in_one_figure_each_with_its_largest() -> None:
    """One of nine layers is in both: of two rows one is of 500 or 5000 MACs, and one of 400, the reference's most."""
    for macs, shown in ((500, 500), (5000, 5)):
        (axis,) = layer_bars(Comparison(PAIR.reference, (foreign(macs),)), top=2).axes
        assert bars(axis) == [pytest.approx([0, 400 * shown / macs]), [shown, 0]], "in MACs, then in kMACs"
    (axis,) = layer_bars(Comparison(foreign(500), (PAIR.reference,)), top=2).axes
    assert bars(axis) == [[500, 0], [0, 400]]


def test_a_layer_of_another_name_has_both() -> None:
    renamed = LayerTable([{**row, "path": row["path"].replace("head", "top")} for row in LAYERS])
    (axis,) = layer_bars(Comparison(PAIR.reference, (report("other", layers=renamed, statuses={}),))).axes
    assert "head / top" in [label.get_text() for label in axis.get_yticklabels()]


def test_two_icicles_stand_beside_each_other() -> None:
    """Of 1000 MACs the block is 0.6; of 900 the block is 2/9 and the head 2/3."""
    figure = icicle(PAIR)
    first, second = figure.axes
    boxes = [
        sorted(
            (round(box.x0), round(box.y0, 6), round(box.y1, 6)) for box in (patch.get_bbox() for patch in axis.patches)
        )
        for axis in (first, second)
    ]
    assert boxes[0] == [(0, 0, 1), (1, 0, 0.6), (1, 0.6, 0.9), (2, 0, 0.2), (2, 0.2, 0.6)]
    assert boxes[1] == [(0, 0, 1), (1, 0, 0.222222), (1, 0.222222, 0.888889), (2, 0, 0.222222)]
    said = "".join(texts(figure))
    assert "net" in said
    assert "other" in said
    assert "the whole is 1 kMACs and 900 MACs." in said


@pytest.mark.parametrize("draw", [layer_bars, icicle])
def test_three_models_are_too_many(draw: Any) -> None:
    with pytest.raises(
        ValueError, match=r"draws one model or two, not a comparison of 3; give two of them, Comparison"
    ):
        draw(Comparison(REPORT, (report("b"), report("c"))))


def test_what_two_models_have_no_bars_of() -> None:
    with pytest.raises(ValueError, match="layer_bars draws one column of two models, not macs, flops; give one"):
        layer_bars(PAIR, by=("macs", "flops"))
    with pytest.raises(ValueError, match="draws layers of two models, not types of them; give one of its reports"):
        layer_bars(PAIR, types=True)
    with pytest.raises(ValueError, match="no column 'forward_seconds' in the layers of other"):
        layer_bars(Comparison(REPORT, PAIR.others), by="forward_seconds")


def test_times_without_a_backward_pass_are_enough() -> None:
    times = layer_time_table([LayerTime(row["path"], row["type"], 1, (0.5,)) for row in LAYERS])
    timed = replace(REPORT, statuses={"layer_times": record("layer_times", times)})
    (axis,) = layer_bars(Comparison(timed, (replace(timed, name="b"),))).axes
    assert axis.get_xlabel() == "Forward time (ms)"


@pytest.mark.parametrize("other", [OTHER_LAYERS, foreign(200).layers])
def test_a_bound_has_its_sign_beside_its_bar(other: LayerTable) -> None:
    """Of the reference all MACs are lower bounds, whether the models share their layers or not."""
    bounds = LayerTable({**row, "macs_low": row["macs"], "macs_high": None} for row in LAYERS)
    both = Comparison(replace(REPORT, layers=bounds, statuses={}), (report("other", layers=other, statuses={}),))
    said = texts(layer_bars(both, by="macs"))
    assert {"≥ 300 MACs", "200 MACs"} <= set(said)
