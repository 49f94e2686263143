"""Figures: what is drawn where, with numbers by hand; nothing global is touched; each error says what to do."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from drawn_figures import BOTH, LAYERS, OPERATORS, REPORT, SWEEP, TIMES, bars, operator, record, report, row, texts
from slow_ones import slow_ones
from time_limits import run_python

from profilerkit import Comparison, Measurement, Report, Scale
from profilerkit.times.layer_times import LayerTime, layer_time_table
from profilerkit.trace.records import LayerTable, MemoryTimeline
from profilerkit.trace.table import Table
from profilerkit_pages import figures
from profilerkit_pages.figures import (
    Ceilings,
    batch_sweep,
    draw,
    icicle,
    latency,
    layer_bars,
    memory_timeline,
    roofline,
)
from profilerkit_pages.figures.canvas import plain

pytest.importorskip("matplotlib")

#: The kinds of figures that profilerkit comes with.
KINDS = ("layer_bars", "icicle", "latency", "batch_sweep", "memory_timeline", "roofline")


def of(**statuses: Any) -> Report:
    return replace(REPORT, statuses={**REPORT.statuses, **statuses})


# Bars -----------------------------------------------------------------------------------------------------------------


def test_bars_are_the_layers_with_the_most_time_forward_and_backward() -> None:
    figure = layer_bars(REPORT)
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["head", "block.b", "block.a", "(model)"]
    assert bars(axis) == [pytest.approx([4, 3, 2, 1]), pytest.approx([8, 6, 4, 2])]
    assert [patch.get_x() for patch in axis.containers[1]] == pytest.approx([4, 3, 2, 1]), "stacked"
    assert axis.get_xlabel() == "Own forward and backward time (ms)"
    said = texts(figure)
    assert {"12 ms", "9 ms", "6 ms", "Forward", "Backward", "net: layers by own forward time"} <= set(said)
    assert "4 of 4 layers, with 100.0 % of the own forward time of all of these." in said


def test_bars_of_chosen_columns_stand_side_by_side_in_the_order_of_the_first() -> None:
    """By MACs: 400, 300, 200, of which the first two are 7/9."""
    figure = layer_bars(REPORT, by=("macs", "forward_seconds"), top=2)
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["block.b", "head"]
    assert bars(first) == [[400, 300]]
    assert bars(second) == [pytest.approx([3, 4])]
    assert "2 of 3 layers, with 77.8 % of the MACs of all of these." in texts(figure)
    assert [axis.get_xlabel() for axis in figure.axes] == ["MACs (MACs)", "Forward time (ms)"]


def test_bars_at_a_depth_and_of_types() -> None:
    (axis,) = layer_bars(REPORT, by="macs", depth=1).axes
    assert bars(axis) == [[600, 300]]
    figure = layer_bars(REPORT, by="macs", types=True)
    (axis,) = figure.axes
    named = [label.get_text() for label in axis.get_yticklabels()]
    assert named == ["Linear (2)", "Conv (1)", "Net (1)", "Block (1)"]
    assert bars(axis) == [[500, 400, 100, 0]]


def test_bars_of_a_model_that_was_not_timed_are_macs() -> None:
    (axis,) = layer_bars(replace(REPORT, statuses={})).axes
    assert axis.get_xlabel() == "MACs (MACs)"
    assert bars(axis) == [[400, 300, 200]]


def test_layers_without_a_value_have_no_bar() -> None:
    (axis,) = layer_bars(of(layer_times=record("layer_times", LayerTable(TIMES[:3])))).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["block.a", "(model)"]


def test_bars_of_a_model_without_a_backward_pass_are_its_forward_time() -> None:
    """Each of the five layers takes 500 ms itself."""
    forward = layer_time_table([LayerTime(row["path"], row["type"], 1, (0.5,)) for row in LAYERS])
    figure = layer_bars(of(layer_times=record("layer_times", forward)))
    (axis,) = figure.axes
    assert bars(axis) == [[500] * 5]
    assert axis.get_xlabel() == "Own forward time (ms)"


# Icicle ---------------------------------------------------------------------------------------------------------------


def boxes(figure: Any) -> list[tuple[int, float, float]]:
    """Return the level, start and end of every box."""
    (axis,) = figure.axes
    found = [patch.get_bbox() for patch in axis.patches]
    return [(round(box.x0), round(box.y0, 6), round(box.y1, 6)) for box in found]


def test_an_icicle_has_each_layer_in_the_one_around_it() -> None:
    """Of 1000: the block is 0 to 0.6, in it 0.2 and 0.4, the head 0.6 to 0.9; 0.1 is the network's own."""
    figure = icicle(REPORT)
    assert sorted(boxes(figure)) == [(0, 0, 1), (1, 0, 0.6), (1, 0.6, 0.9), (2, 0, 0.2), (2, 0.2, 0.6)]
    assert {"Net", "block: Block  60 %", "a: Linear  20 %", "b: Conv  40 %", "head: Linear  30 %"} <= set(texts(figure))
    colours = {text: patch.get_facecolor() for text, patch in _by_label(figure).items()}
    assert colours["a: Linear  20 %"] == colours["head: Linear  30 %"] != colours["b: Conv  40 %"]


def _by_label(figure: Any) -> dict[str, Any]:
    (axis,) = figure.axes
    return {
        text.get_text(): patch
        for text in axis.texts
        for patch in axis.patches
        if patch.get_bbox().x0 < text.get_position()[0] < patch.get_bbox().x1
        and patch.get_bbox().y0 < text.get_position()[1] < patch.get_bbox().y1
    }


def test_an_icicle_of_any_column_to_any_depth() -> None:
    """Of 10 ms forward: 5 in the block, 4 in the head."""
    assert sorted(boxes(icicle(REPORT, by="forward_seconds", depth=1))) == [(0, 0, 1), (1, 0, 0.5), (1, 0.5, 0.9)]
    said = texts(icicle(REPORT, depth=1))
    assert "The height of a box is its MACs, with the layers inside; the whole is 1 kMACs.\n" in "".join(said)
    assert any("Layers deeper than 1 are not drawn; give depth= for more." in text for text in said)
    assert not any("are not drawn" in text for text in texts(icicle(REPORT)))


def test_layers_that_share_weights_fit_into_the_layer_around_them() -> None:
    """The two hold 10 parameters each, the same ones: together no more than the 10 of the model."""
    shared = LayerTable([row("", "Net", 0, 10), row("a", "Linear", 10), row("b", "Linear", 10)])
    assert sorted(boxes(icicle(replace(REPORT, layers=shared, statuses={}), by="params"))) == [
        (0, 0, 1),
        (1, 0, 0.5),
        (1, 0.5, 1),
    ]


def test_thin_layers_are_drawn_together() -> None:
    """A thousand layers of 1 MAC between two of 500: they are one box, of half the height."""
    thin = [row(f"t{place}", "ReLU", 1) for place in range(1000)]
    layers = LayerTable([row("", "Net", 0, 2000), row("a", "Linear", 500), *thin, row("b", "Linear", 500)])
    figure = icicle(replace(REPORT, layers=layers))
    assert sorted(boxes(figure)) == [(0, 0, 1), (1, 0, 0.25), (1, 0.25, 0.75), (1, 0.75, 1)]
    assert "1,000 layers" in texts(figure)


def test_an_icicle_deeper_than_python_recurses() -> None:
    paths = ["", *(".".join(["in"] * depth) for depth in range(1, 1500))]
    deep = LayerTable({**row(path, "Net", 0, 8), "is_leaf": False} for path in paths)
    assert boxes(icicle(replace(REPORT, layers=deep))) == [(level, 0, 1) for level in range(8)]


# Latency --------------------------------------------------------------------------------------------------------------


def test_a_latency_has_every_sample_the_median_its_interval_and_percentiles() -> None:
    """Of 1, 2, 3 and 4 ms: the median is 2.5 ms, p75 3.25 ms; four samples cannot give 95 %, so their whole range."""
    figure = latency(REPORT, percentiles=(75,))
    (axis,) = figure.axes
    (dots,) = axis.collections
    assert [x for x, _ in dots.get_offsets()] == pytest.approx([4, 1, 2, 3])
    assert [line.get_xdata()[0] for line in axis.lines] == pytest.approx([2.5, 3.25])
    (span,) = axis.patches
    assert (span.get_bbox().x0, span.get_bbox().x1) == pytest.approx((1, 4))
    assert "median 2.5 ms [1 ms to 4 ms]   p75 3.25 ms   4 samples" in texts(figure)
    assert axis.get_xlabel() == "Execution Time (ms)"
    assert "net: Execution Time of a batch of 1" in texts(figure)


def make_timed(name: str, *samples: float) -> Report:
    time = record("execution_time", Measurement(samples), "s", Scale.TIME)
    return report(name, statuses={"execution_time": time})


def test_latencies_of_models_share_an_axis() -> None:
    """From 1 s to 3 s; of two samples the median is the highest percentile, 2.25 s, and beyond it there is as much."""
    figure = latency(Comparison(make_timed("a", 1.0, 2.0), (make_timed("b", 1.5, 3.0),)))
    first, second = (axis.get_xlim() for axis in figure.axes)
    assert first == second == pytest.approx((0.94, 3.06))
    assert {"a", "b", "Execution Time of a batch of 1"} <= set(texts(figure))


def test_a_sample_far_beyond_the_others_is_said_and_does_not_squeeze_them() -> None:
    """p90 of ten times 1 to 2 s is 2 s at most; the axis ends before 4 s, the one sample lies at 100 s."""
    figure = latency(make_timed("a", *(1 + place / 19 for place in range(20)), 100.0), percentiles=(90,))
    assert figure.axes[0].get_xlim()[1] < 4
    assert any(text.endswith("21 samples") for text in texts(figure))
    assert "1 sample beyond, up to 100 s" in texts(figure)


def test_percentiles_that_so_few_samples_cannot_tell_are_left_out() -> None:
    """One of ten samples is expected above p90, one of a hundred above p99."""
    figure = latency(REPORT)
    assert len(figure.axes[0].lines) == 1, "the median alone"
    said = "".join(texts(figure))
    assert "p99 4" not in said
    assert "Percentiles left out, of 4 samples: p90 needs 10, p99 needs 100." in said
    ten = latency(make_timed("a", *(1 + place / 9 for place in range(10))))
    assert len(ten.axes[0].lines) == 2
    assert "Percentiles left out, of 10 samples: p99 needs 100." in "".join(texts(ten))
    hundred = latency(make_timed("a", *(1 + place / 99 for place in range(100))))
    assert len(hundred.axes[0].lines) == 3
    assert "left out" not in "".join(texts(hundred))


# Batch sizes ----------------------------------------------------------------------------------------------------------


def test_a_sweep_has_throughput_and_time_and_the_knee() -> None:
    figure = batch_sweep(REPORT)
    upper, lower = figure.axes
    assert list(upper.lines[0].get_xdata()) == [1, 8, 16]
    assert list(upper.lines[0].get_ydata()) == pytest.approx([100, 400, 400])
    assert list(lower.lines[0].get_ydata()) == pytest.approx([10, 20, 40])
    assert upper.get_ylabel() == "Throughput (samples/s)"
    assert lower.get_ylabel() == "Execution time (ms)"
    assert [line.get_xdata()[0] for line in upper.lines[1:]] == [8]
    assert "knee: batch size 8" in texts(figure)
    assert [label.get_text() for label in lower.get_xticklabels()] == ["1", "8", "16"]


def test_an_interval_far_above_all_medians_leaves_the_figure() -> None:
    """The median of 40 ms needs an axis of 80 at most: that of five samples, one of them of 8 s, has no other end."""
    time = Measurement((0.01, 0.01, 0.01, 0.01, 8.0))
    figure = batch_sweep(of(batch_sweep=record("batch_sweep", [{**SWEEP[0], "execution_time": time}, *SWEEP[1:]])))
    assert figure.axes[1].get_ylim() == pytest.approx((0, 84))
    assert "1 interval beyond, up to 8 s" in texts(figure)


def test_a_sweep_without_a_knee_says_so() -> None:
    rows = [{**row, "is_knee": False} for row in SWEEP]
    figure = batch_sweep(Comparison(REPORT, (replace(of(batch_sweep=record("batch_sweep", rows)), name="other"),)))
    said = texts(figure)
    assert "No knee within these sizes for other: more samples at once may bring more throughput still." in said
    assert {"net", "other", "knee: batch size 8"} <= set(said)


# Memory ---------------------------------------------------------------------------------------------------------------


def test_a_timeline_marks_the_peak_with_its_operator_and_layer() -> None:
    """1 KiB of weights and 3 KiB alive at the second operator."""
    figure = memory_timeline(REPORT)
    (axis,) = figure.axes
    (mark,) = axis.lines
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([2.5], [4.0])
    assert "peak 4 KiB: op_b in block.b" in texts(figure)
    assert axis.get_ylabel() == "Bytes alive (KiB)"
    weights, activations = (area.get_paths()[0].get_extents() for area in axis.collections)
    assert (weights.y0, weights.y1, activations.y0, activations.y1) == (0, 1, 1, 4)
    assert axis.get_xlim() == (0, 5), "the inputs and four operators"
    assert "on demand" in texts(figure)


def test_a_timeline_without_weights_and_one_that_is_a_lower_bound() -> None:
    figure = memory_timeline(REPORT, include_weights=False)
    assert "peak 3 KiB: op_b in block.b" in texts(figure)
    unsized = replace(REPORT, memory=MemoryTimeline(0, 4096, (1024, 2048), unsized={"where": 2}))
    said = texts(memory_timeline(unsized))
    assert "peak ≥ 4 KiB: the inputs" in said
    assert "A lower bound; not counted: where of unknown size (2 calls)." in said


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


# Roofline -------------------------------------------------------------------------------------------------------------


def test_a_roofline_has_a_dot_for_each_layer_below_the_ceilings() -> None:
    """Linear: 400 FLOPs for 100 bytes in 2 ms, 600 for 600 in 4 ms; Conv: 800 for 50 in 3 ms.

    The head takes 4 of 10 ms: the network takes one itself, and is not drawn.
    """
    figure = roofline(REPORT, Ceilings(1e6, 4e5), top=1)
    (axis,) = figure.axes
    dots = [sorted(map(tuple, dots.get_offsets())) for dots in axis.collections]
    assert dots == [[pytest.approx((1, 1.5e5)), pytest.approx((4, 2e5))], [pytest.approx((16, 800 / 0.003))]]
    roof = axis.lines[0]
    assert list(roof.get_xdata())[1] == 2.5, "1 MFLOP/s over 400 kB/s"
    assert list(roof.get_ydata()) == pytest.approx([4e5 / 3, 1e6, 1e6])
    said = texts(figure)
    assert {"Linear", "Conv", "1  head: 40 % of the time"} <= set(said)
    assert "1 MFLOP/s and 400 kB/s,\nmeeting at 2.5 FLOPs per byte" in said
    assert "Not drawn, without known FLOPs, bytes or time of their own: 2 layers." in said
    assert not any("Above the ceilings" in text for text in said)


def test_layers_above_the_ceilings_are_said() -> None:
    """At 250 kFLOP/s the Conv, which achieves 267, and at 100 kB/s the head: 150 kFLOP/s at 1 FLOP for a byte."""
    said = texts(roofline(REPORT, Ceilings(2.5e5, 1e5)))
    assert any("Above the ceilings: 2 layers; their bytes stay in a cache" in text for text in said)


def test_axes_over_less_than_a_power_of_ten_have_labels() -> None:
    """150 to 267 kFLOP/s."""
    figure = roofline(REPORT)
    figure.draw_without_rendering()
    axis = figure.axes[0].yaxis
    shown = [tick.label1.get_text() for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())]
    assert "200 k" in shown
    assert "300 k" not in shown


def test_a_roofline_is_of_the_forward_pass_and_says_where_it_has_no_roof() -> None:
    step = Table([*OPERATORS, operator("head", 10**6, 10**6, "backward")])
    for operators in (OPERATORS, step):
        figure = roofline(replace(REPORT, operators=operators))
        assert (1, 1.5e5) in [tuple(point) for point in figure.axes[0].collections[0].get_offsets()]
    (note,) = (text for text in texts(figure) if "No ceilings were given" in text)
    ways = re.findall(r"Ceilings\.(\w+)\(", note)
    assert len(ways) == 2
    assert all(callable(getattr(Ceilings, way)) for way in ways), "what it advises exists"


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


# All of them ----------------------------------------------------------------------------------------------------------


def test_a_report_plots_every_kind() -> None:
    assert tuple(figures.kinds()) == KINDS
    for kind in KINDS:
        assert type(REPORT.plot(kind)).__name__ == "Figure"
    assert len(BOTH.plot("latency", percentiles=(50,)).axes) == 2
    with pytest.raises(ValueError, match="no figure 'icicles'; there are, nearest first: icicle, "):
        REPORT.plot("icicles")


def test_figures_touch_nothing_global_and_need_no_screen(tmp_path: Path) -> None:
    code = """
import sys
from drawn_figures import REPORT
from profilerkit_pages.figures import draw
from profilerkit_pages import figures
import matplotlib
before = repr(matplotlib.rcParams.copy())
for kind in figures.kinds():
    draw(REPORT, kind).savefig(f"{kind}.png")
assert repr(matplotlib.rcParams.copy()) == before
assert "matplotlib.pyplot" not in sys.modules
"""
    beside = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    run_python(code, cwd=tmp_path, env=beside)
    assert len(list(tmp_path.glob("*.png"))) == len(KINDS)


@pytest.mark.parametrize("kind", slow_ones(KINDS, ["batch_sweep", "latency", "memory_timeline", "roofline"]))
def test_the_same_report_gives_the_same_picture(kind: str) -> None:
    pictures = []
    for _ in range(2):
        target = BytesIO()
        draw(REPORT, kind).savefig(target)
        pictures.append(target.getvalue())
    assert pictures[0] == pictures[1]


HOSTILE = [r"$\frac{1}{0}$", "a_b^{$", "<b>&amp;", "new\nline\x00", "%s{}\\", "\ud800half", "x" * 300, "$$", "{\\rm"]


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_are_drawn_as_text(kind: str) -> None:
    layers = LayerTable([row("", "$Net$", 0, 900), *(row(name, f"T{name[:9]}", 100) for name in HOSTILE)])
    times = layer_time_table([LayerTime(row["path"], row["type"], 1, (0.5,), (1.0,)) for row in layers])
    operators = Table([{**operator(name, 100, 10), "operator": r"$\x$"} for name in HOSTILE])
    memory = MemoryTimeline(1, 1, tuple(range(9)), r"$\note$", {r"$\u": 1})
    odd = replace(of(layer_times=record("layer_times", times)), layers=layers, operators=operators, memory=memory)
    figure = draw(replace(odd, name=r"$x_1$ \n $\macro$"), kind)
    for form in ("png", "svg"):
        figure.savefig(BytesIO(), format=form)
    said = texts(figure)
    assert any(text.startswith(r"$x_1$ \n $\macro$") for text in said)
    if kind == "layer_bars":
        assert {r"$\frac{1}{0}$", "$$", r"new\nline\x00", r"\ud800half"} <= set(said)
        assert all(len(text) <= 110 for text in said)


def test_names_are_drawn_as_text_where_the_user_has_everything_set_by_tex(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    with matplotlib.rc_context({"text.usetex": True}):
        figure = layer_bars(REPORT)
        figure.draw_without_rendering()
    from matplotlib.text import Text

    assert not any(text.get_usetex() for text in figure.findobj(Text))


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_name_leaves_room_for_what_the_figure_is(kind: str) -> None:
    from matplotlib.font_manager import FontProperties

    figure = draw(replace(REPORT, name="net" * 100), kind)
    figure.draw_without_rendering()
    title = figure._suptitle
    assert "…" in title.get_text() and not title.get_text().endswith("net")
    assert title.get_fontproperties().get_size() == FontProperties(size="large").get_size_in_points()
    assert title.get_window_extent().x1 <= figure.bbox.x1


@pytest.mark.parametrize(("text", "drawn"), [("$", r"\$"), (r"\$a", r"\\$a"), ("a" * 50, "a" * 14 + "…" + "a" * 29)])
def test_text_is_drawn_as_it_stands(text: str, drawn: str) -> None:
    assert plain(text) == drawn


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["icicle", "layer_bars", "memory_timeline", "roofline"])
def test_ten_thousand_layers(kind: str) -> None:
    many = LayerTable([row("", "Net", 0, 10_000), *(row(f"l{place}", f"T{place % 30}", 1) for place in range(10_000))])
    times = layer_time_table([LayerTime(row["path"], row["type"], 1, (0.5,), (1.0,)) for row in many])
    operators = Table([operator(row["path"], 100, 10) for row in many])
    memory = MemoryTimeline(1, 1, tuple(range(10_001)))
    big = replace(of(layer_times=record("layer_times", times)), layers=many, operators=operators, memory=memory)
    figure = draw(big, kind)
    assert max(figure.get_size_inches()) <= 20
    assert len(texts(figure)) < 200


NOTHING = Report("bare", "fake", "module.Net", {})
UNTIMED = of(layer_times=record("layer_times", None, missing=("the fake backend does not time layers",)))
LACKING: dict[str, tuple[Callable[[], Any], str]] = {
    "no layers": (lambda: layer_bars(NOTHING), "bare holds no layers: the model was neither traced nor timed"),
    "no times": (
        lambda: icicle(replace(REPORT, statuses={}), by="forward_seconds"),
        r"no column 'forward_seconds' in the layers of net: profile the model with metrics=\['layer_times'\]; they",
    ),
    "times unavailable": (
        lambda: layer_bars(UNTIMED, by="own_forward_seconds"),
        "layer_times is unavailable: the fake backend does not time layers; they have depth, calls, params",
    ),
    "no such column": (
        lambda: icicle(REPORT, by="mac"),
        "no column 'mac' in the layers of net: no such values were traced",
    ),
    "a column of text": (lambda: icicle(REPORT, by="type"), "column 'type' of the layers of net holds no numbers"),
    "nothing to nest": (
        lambda: icicle(replace(REPORT, layers=LayerTable([row("", "Net", 0)]), statuses={})),
        "there is nothing to draw of net: the whole model has macs=0",
    ),
    "no samples": (
        lambda: latency(NOTHING),
        r"bare has no samples of 'execution_time': profile the model with metrics=\['execution_time'\]",
    ),
    "samples without an end": (
        lambda: latency(of(execution_time=record("execution_time", Measurement((1.0, float("inf"), 2.0)), "s"))),
        "the samples of 'execution_time' of net are not all finite: there is no axis to draw them on",
    ),
    "no samples of a count": (
        lambda: latency(of(macs=record("macs", 5)), "macs"),
        "no samples of 'macs': macs is complete: it holds no such values",
    ),
    "no sweep": (
        lambda: batch_sweep(NOTHING),
        r"bare has no 'batch_sweep': give several batch sizes, batch_size=\(1, 8, 32\)",
    ),
    "sweep unavailable": (
        lambda: batch_sweep(of(batch_sweep=record("batch_sweep", None, missing=("out of memory",)))),
        "batch_sweep is unavailable: out of memory",
    ),
    "a number for a sweep": (
        lambda: batch_sweep(of(batch_sweep=record("batch_sweep", 1.5))),
        "the 'batch_sweep' of net is 1.5: no rows of batch sizes to draw",
    ),
    "empty sweep": (
        lambda: batch_sweep(of(batch_sweep=record("batch_sweep", []))),
        "the 'batch_sweep' of net has no rows to draw",
    ),
    "no memory": (lambda: memory_timeline(NOTHING), "bare holds no bytes alive: the model was not run by a trace"),
    "no times for a roofline": (
        lambda: roofline(replace(REPORT, statuses={})),
        r"no column 'own_forward_seconds' .* metrics=\['layer_times'\]",
    ),
    "no operators": (lambda: roofline(replace(REPORT, operators=None)), "net holds no operators, so no bytes"),
    "no bytes": (
        lambda: roofline(replace(REPORT, operators=Table([operator("head", 5, 0)]))),
        "no layer has FLOPs, bytes and a time of its own",
    ),
    "a comparison": (
        lambda: BOTH.plot("roofline"),
        r"roofline draws one model, not a comparison of 2; give one of its .* comparison.reference.plot\('roofline'\)",
    ),
}


@pytest.mark.parametrize("case", LACKING)
def test_what_a_report_lacks_is_said_with_what_to_do(case: str) -> None:
    attempt, message = LACKING[case]
    with pytest.raises(ValueError, match=message):
        attempt()


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_without_matplotlib_says_what_to_install(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "profilerkit_pages.figures.shown", raising=False)
    with pytest.raises(ImportError, match=r"figures need matplotlib; install profilerkit\[plot\]"):
        REPORT.plot(kind)


def test_importing_the_figures_imports_no_matplotlib() -> None:
    code = "import sys, profilerkit_pages.figures; assert not {'matplotlib', 'numpy', 'rich'} & {*sys.modules}"
    run_python(code)
