"""A figure of values that miss something says what they miss, as the notes of the report do."""

from dataclasses import replace
from typing import Any

import pytest
from drawn_figures import LAYERS, REPORT, record, texts

from profilerkit import ArgumentError, Comparison, Completeness, Report, Scale
from profilerkit.testing import FakeBackend
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.records import LayerTable, MemoryTimeline
from profilerkit_pages.figures import Ceilings, draw, icicle, kinds

pytest.importorskip("matplotlib")

#: The metric that each figure shows, and that of a column of the layers.
_METRICS = {"latency": "execution_time", "batch_sweep": "batch_sweep", "roofline": "layer_times"}


def _make_partial(report: Report, key: str) -> Report:
    known = report.statuses.get(key) or record(key, 1000, "", Scale.SI)
    partial = replace(known, completeness=Completeness.PARTIAL, missing=("the part that nobody saw",))
    return replace(report, statuses={**report.statuses, key: partial})


@pytest.mark.parametrize(
    ("kind", "key", "options"),
    [
        *((kind, key, {}) for kind, key in _METRICS.items()),
        *((kind, "macs", {"by": "macs"}) for kind in ("icicle", "layer_bars")),
        *((kind, "layer_times", {"by": "forward_seconds"}) for kind in ("icicle", "layer_bars")),
        ("layer_bars", "flops", {"by": "own_flops"}),
        ("layer_bars", "flops", {"by": ("macs", "flops")}),
    ],
)
def test_a_figure_says_what_its_values_miss(kind: str, key: str, options: dict[str, Any]) -> None:
    assert not any("nobody saw" in text for text in texts(draw(REPORT, kind, **options)))
    assert any(
        "not counted: the part that nobody saw" in text
        for text in texts(draw(_make_partial(REPORT, key), kind, **options))
    )


@pytest.mark.parametrize("kind", ["icicle", "layer_bars", "latency", "batch_sweep"])
def test_a_figure_of_two_models_says_which_of_them_misses_something(kind: str) -> None:
    key = _METRICS.get(kind, "macs")
    options: dict[str, Any] = {} if kind in _METRICS else {"by": "macs"}
    both = Comparison(REPORT, (_make_partial(replace(REPORT, name="other"), key),))
    said = "\n".join(texts(draw(both, kind, **options)))
    assert "other: " in said
    assert "not counted: the part that nobody saw" in said


@pytest.mark.parametrize("kind", ["icicle", "layer_bars"])
def test_layers_that_are_bounds_are_named_so_without_the_metric(kind: str) -> None:
    """The whole is at least 1000 MACs; the report has no metric that says so."""
    rows = [{**row, "macs_low": row["macs"], "macs_high": None} for row in LAYERS]
    said = texts(draw(replace(REPORT, layers=LayerTable(rows)), kind, by="macs"))
    assert any("MACs of net: lower bound" in text for text in said)
    assert kind == "icicle" or "≥ 400 MACs" in said


def test_nested_boxes_are_not_drawn_by_a_column_without_the_layers_inside() -> None:
    with pytest.raises(ValueError, match=r"'own_macs' leaves out those inside; give 'macs'"):
        icicle(REPORT, by="own_macs")


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind in (*_METRICS, "icicle", "layer_bars")])
@pytest.mark.parametrize("name", ["report", "option"])
def test_no_option_takes_the_place_of_the_result(kind: str, name: str) -> None:
    with pytest.raises(ArgumentError, match=f"takes no option '{name}'"):
        draw(REPORT, kind, **dict[str, Any]({name: REPORT}))


@pytest.mark.parametrize("device", ["cuda:0", "/GPU:0", "gpu:0", "mps", "8 x gpu"])
def test_ceilings_of_this_cpu_are_not_measured_for_a_model_whose_weights_were_elsewhere(device: str) -> None:
    """Nobody gave a device: the environment says where the model ran."""
    with pytest.raises(ArgumentError, match="use Ceilings.of_device"):
        Ceilings.measure(replace(REPORT, environment={"device": device}), max_seconds=0.001)


@pytest.mark.parametrize("device", ["cpu", "cpu:0", "/CPU:0", "8 x cpu"])
def test_every_name_of_the_cpu_is_one(device: str) -> None:
    report = replace(REPORT, environment={"device": device}, arguments={"device": device})
    assert Ceilings.measure(report, max_seconds=0.001, backend=FakeBackend()).flops_per_second > 0


def test_the_peak_of_the_memory_has_the_sign_of_its_metric() -> None:
    """64 bytes of weights and 100 of activations are the most that two branches can need."""
    peak = record("footprint", 164, "B", Scale.IEC, missing=("a branch",))
    partial = replace(peak, completeness=Completeness.PARTIAL, bounds=Bounds(1, 164))
    memory = MemoryTimeline(64, 10, (100, 20))
    said = texts(draw(replace(REPORT, memory=memory, statuses={"footprint": partial}), "memory_timeline"))
    assert any("peak ≤ 164 B" in text for text in said)
    assert any("Footprint is an upper bound: a branch" in text for text in said)
