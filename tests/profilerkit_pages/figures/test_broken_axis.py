"""The figure of memory where the weights are most of it: the axis leaves most of them out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn_figures import REPORT, texts

from profilerkit.trace.records import MemoryTimeline
from profilerkit_pages.figures import memory_timeline

pytest.importorskip("matplotlib")

#: 100 KiB of weights below at most 3 KiB.
HEAVY = replace(REPORT, memory=MemoryTimeline(102_400, 512, (1024, 3072, 2048, 512)))


def test_most_of_the_weights_are_left_out() -> None:
    """Above the weights are 3 KiB: the upper axis starts a tenth of that below 100, and ends over the peak of 103."""
    figure = memory_timeline(HEAVY)
    upper, lower = figure.axes
    assert upper.get_ylim() == pytest.approx((99.7, 103.66))
    assert lower.get_ylim() == pytest.approx((0, 3.96 / 6)), "the scale of both is one"
    said = texts(figure)
    assert "peak 103 KiB: op_b in block.b" in said
    assert "The axis is broken: most of the weights, which are alive throughout, is left out." in "".join(said)
    weights, activations = (area.get_paths()[0].get_extents() for area in upper.collections)
    assert (weights.y0, weights.y1, activations.y1) == (0, 100, 103), "what is drawn is all of it"


def test_the_axis_is_whole_where_it_may_be() -> None:
    assert len(memory_timeline(REPORT).axes) == 1, "weights are a quarter of the peak"
    assert len(memory_timeline(HEAVY, broken=False).axes) == 1
    assert len(memory_timeline(HEAVY, include_weights=False).axes) == 1
    assert len(memory_timeline(replace(REPORT, memory=HEAVY.memory), broken=True).axes) == 2


def test_a_break_that_would_leave_out_nothing_is_not_drawn() -> None:
    """0.75 KiB of weights below 3 KiB: the lower axis would reach to 0.66, the upper one starts at 0.45."""
    light = replace(REPORT, memory=MemoryTimeline(768, 512, (1024, 3072, 2048, 512)))
    assert len(memory_timeline(light, broken=True).axes) == 1
