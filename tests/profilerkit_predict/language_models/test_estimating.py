"""Estimates of steps by tables that are made up, against sums by hand; what has none says why."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import pytest
from toy_language_model import DEVICE, EXPERTS, toy_facts

from profilerkit.devices import DeviceInfo, Figure
from profilerkit.trace.records import OpRecord, TensorInfo
from profilerkit_predict.checkpoints.formats import find_weight_format
from profilerkit_predict.language_models import LanguageModelReport, StepCost
from profilerkit_predict.language_models.engine.layout import Layout
from profilerkit_predict.language_models.engine.serving import SAMPLED, predict_serving
from profilerkit_predict.language_models.facts.laws import Passes
from profilerkit_predict.language_models.facts.model_cache import CacheLayer
from profilerkit_predict.language_models.facts.step_shapes import (
    AttentionShape,
    ProductShape,
    StepShapes,
    TrafficShape,
    find_shapes,
)
from profilerkit_predict.language_models.facts.work import LatentAttention, Law, Term
from profilerkit_predict.prediction import Calibration, EfficiencyTable, Network, Point
from profilerkit_predict.prediction.calibration import write_content
from profilerkit_predict.prediction.cases import HostSeconds

#: 1,000 and 100 multiply-accumulates for a token, 6 for a pair, and two norms of 40 bytes for a token.
SHAPES = StepShapes(
    {ProductShape(Law.TOKEN, 1, 10, 100, "bfloat16"): 1, ProductShape(Law.LAST, 1, 10, 10, "bfloat16"): 1},
    {AttentionShape(Term(Law.PAIR, 6), 3, "bfloat16"): 1},
    {TrafficShape("normalization", 40.0, "bfloat16"): 2},
)


def table(kind: str, rate: float, sizes: int) -> EfficiencyTable:
    """A call takes a millisecond, and work runs at the rate; the shapes are small, so that few bytes are moved."""
    works = (0.001, 100, 1e3, 1e4, 1e5, 1e6)
    points = (
        Point((1, 2.0 ** (8 * (index - len(works))), 1, 1) if sizes > 1 else (work,), work, 1e-3 + work / rate)
        for index, work in enumerate(works, start=1)
    )
    return EfficiencyTable(kind, "bfloat16", tuple(points))


def make_calibrated(product_rate: float = 1e6, networks: tuple[Network, ...] = (), peak: float = 1e6) -> DeviceInfo:
    tables = (table("product", product_rate, 4), table("element-wise", 1e6, 1))
    return DeviceInfo(
        "here",
        kind="cpu",
        dense_peaks={"bfloat16": Figure(peak, "made up")},
        sparse_peaks={"bfloat16": Figure(2 * peak, "made up")},
        figures={"memory_bandwidth": Figure(1e6, "made up")},
        tier="calibrated",
        calibration=write_content(Calibration(tables, 1e-4, HostSeconds(2e-4), networks, "a test")),
    )


def cost_on(device: DeviceInfo, **changes: Any) -> Any:
    shapes = changes.pop("shapes", SHAPES)
    return StepCost(toy_facts(make_shapes=lambda: shapes, **changes), device)


def test_a_step_is_the_sum_of_products_attention_and_traffic() -> None:
    """Two sequences after 20 tokens, at 1e6 FLOP/s and 1e6 bytes a second, and 1 ms for each of five calls.

    2 * 2 * 1,000 and 2 * 2 * 100 FLOPs of products, 2 * 2 * 6 * 21 of attention, 2 * 40 bytes of each norm.
    """
    estimate = cost_on(make_calibrated()).estimate(2, 1, 20)
    by_hand = (1e-3 + 4e-3) + (1e-3 + 4e-4) + (1e-3 + 504e-6) + 2 * (1e-3 + 80e-6)
    assert estimate.estimate == pytest.approx(by_hand, rel=2e-2)
    # Without networks the interval is a factor of three to each side, and never below the bound.
    assert estimate.low == pytest.approx(2 * 2 * (1000 + 100 + 6 * 21) / 1e6)
    assert estimate.high == pytest.approx(3 * estimate.estimate)


def test_a_prefill_attends_up_to_the_diagonal() -> None:
    """100 tokens: 200,000 FLOPs of products, 200 of the head, 12 * 5,050 of attention, 4,000 bytes of each norm."""
    estimate = cost_on(make_calibrated()).estimate(1, 100, 0)
    by_hand = 5e-3 + (200_000 + 200 + 60_600) / 1e6 + 2 * 4000 / 1e6
    assert estimate.estimate == pytest.approx(by_hand, rel=3e-2)


def test_a_window_limits_what_is_estimated() -> None:
    shapes = replace(SHAPES, attention={AttentionShape(Term(Law.PAIR, 6, 10), 3, "bfloat16"): 1})
    terms = (Term(Law.TOKEN, 1000), Term(Law.LAST, 100), Term(Law.PAIR, 6, 10))
    layers = (CacheLayer("layers.0", 8, window=10),)
    cost = cost_on(make_calibrated(), shapes=shapes, terms=terms, parts=layers)
    near, far = (cost.estimate(1, 1, cached) for cached in (100, 2000))
    assert near == far
    assert far.estimate < cost_on(make_calibrated()).estimate(1, 1, 2000).estimate / 2


def test_products_read_their_weights_however_fast_they_are() -> None:
    """A table of products at 1e12 FLOP/s: 2,000 bytes of weights at 1e6 bytes a second still take 2 ms."""
    fast = cost_on(make_calibrated(1e12, peak=1e12)).estimate(1, 1, 1)
    assert fast.estimate >= 2e-3 + 1e-3 + 1e-3 + 2e-3


def test_no_efficiency_is_above_1_and_sparse_peaks_are_not_used() -> None:
    """Tables that claim more than the dense peak are held to the bound."""
    cost = cost_on(make_calibrated(1e12, peak=1e6))
    step, estimate = cost(1, 100, 0), cost.estimate(1, 100, 0)
    assert step.compute_seconds == 2 * step.macs / 1e6
    assert estimate.estimate == estimate.low == step.seconds


def test_networks_correct_the_middle_and_give_the_interval() -> None:
    ratios = [1.8, 1.9, 2.0, 2.1, 2.2]
    networks = tuple(Network(str(ratio), "made up", "forward", ratio) for ratio in ratios)
    plain, corrected = (cost_on(make_calibrated(networks=item)).estimate(2, 1, 20) for item in ((), networks))
    assert corrected.estimate == pytest.approx(2 * plain.estimate)


def test_by_a_data_sheet_there_is_no_estimate() -> None:
    cost = StepCost(toy_facts(make_shapes=lambda: SHAPES), DEVICE)
    row = predict_serving(cost, 2, 10, 4)
    assert (cost.estimate(2, 1, 20), row.first_token, row.per_token, row.rate) == (None, None, None, None)
    assert cost.reason_without_estimates.startswith("by a data sheet: bounds, no estimates")
    assert StepCost(toy_facts()).reason_without_estimates == "no device: counts alone"


def test_serving_has_rates_between_the_ends_of_times() -> None:
    cost = cost_on(make_calibrated())
    row: Any = predict_serving(cost, batch=2, prompt=10, new=SAMPLED + 20)
    first, later, rate = row.first_token, row.per_token, row.rate
    steps = SAMPLED + 19
    for name, other in (("estimate", "estimate"), ("low", "high"), ("high", "low")):
        total = getattr(first, other) + steps * getattr(later, other)
        assert getattr(rate, name) == pytest.approx(2 * (steps + 1) / total)
    report = LanguageModelReport(cost, 10, SAMPLED + 20, (row,))
    assert "estimates are by the device's calibration" in " ".join(report.to_text().split())
    assert report.to_dict()["engine"]["serving"][0]["rate"] == rate._asdict()


def test_experts_are_read_as_often_as_expected() -> None:
    """Eight experts of 2,000 bytes, two a token: a token reads 4,000 bytes, 4 ms; 4 tokens 5.46875 of them."""
    shapes = StepShapes({ProductShape(Law.TOKEN, 2, 10, 100, "bfloat16", is_experts=True): 1})
    cost = cost_on(make_calibrated(1e12, peak=1e12), shapes=shapes, weights=(EXPERTS,), parts=())
    one, four = cost.estimate(1, 1, 0), cost.estimate(4, 1, 0)
    assert one.estimate == pytest.approx(4e-3, rel=5e-2)
    assert four.estimate == pytest.approx(2e-3 * 5.46875, rel=5e-2)


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({}, {"layout": Layout(2)}, "estimates are for one device"),
        ({}, {"weights": find_weight_format("int4")}, "no estimates for int4: the calibration has products of the"),
        ({"latent": LatentAttention(1, 1, 2, 1, 1, 2)}, {}, "no estimates for latent attention"),
        ({"shapes": None}, {}, "no estimates: some work follows no law"),
        ({"encoder_prompt": 16}, {}, "no estimates: some work follows no law"),
        (
            {"shapes": StepShapes({ProductShape(Law.TOKEN, 1, 10, 100, "float16"): 1})},
            {},
            "no estimates: the calibration has no products in float16; make it with --dtype",
        ),
    ],
)
def test_where_there_is_no_estimate_the_reason_is_given(
    changes: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    cost = replace(cost_on(make_calibrated(), **changes), **options)
    assert cost.reason_without_estimates.startswith(reason)
    assert cost.estimate(1, 16, 0) is None


def test_an_interval_keeps_its_width_above_the_bound() -> None:
    """Networks took 0.001 to 0.004 times the sum: a factor of two around the estimate, which the bound lifts."""
    networks = tuple(Network(f"{ratio}", "made up", "forward", ratio) for ratio in (0.001, 0.002, 0.004))
    cost = cost_on(make_calibrated(networks=networks))
    estimate, bound = cost.estimate(1, 1, 20), cost(1, 1, 20).seconds
    assert estimate.estimate == estimate.low == bound
    assert estimate.high == pytest.approx(2 * bound)


HIDDEN, HEADS, SIZE = 96, 4, 8


def operator(name: str, layer: str, shape: tuple[int, ...], macs: int = 0) -> OpRecord:
    """Return an operator of float32 that reads as many bytes as it writes."""
    size = 4 * prod(shape)
    return OpRecord(name, layer, 0, macs, 2 * macs, size, size, (TensorInfo(shape, "float32"),))


def follow(tokens: int, keys: int) -> list[OpRecord]:
    """Return the operators of a layer, whose attention has a sink beside the scores of the keys, as that of gpt_oss."""
    product = HEADS * tokens * keys * SIZE
    return [
        operator("aten.bmm.default", "attention", (1, HEADS, tokens, keys), product),
        operator("aten.cat.default", "attention", (1, HEADS, tokens, keys + 1)),
        operator("aten.amax.default", "attention", (1, HEADS, tokens, 1)),
        operator("aten.bmm.default", "attention", (1, HEADS, tokens, SIZE), product),
        operator("aten.silu.default", "mlp", (1, tokens, HIDDEN)),
        operator("aten.where.self", "", (1, 1, tokens, keys)),
    ]


@pytest.mark.parametrize("prompt", [HIDDEN, HIDDEN + 1, HIDDEN - 1, HEADS])
def test_traffic_is_what_has_a_value_for_each_token(prompt: int) -> None:
    """An activation reads and writes 96 floats for each token, also where (1, 96, 96) looks like a square of tokens.

    The scores of attention and its mask are such squares, which one fused operator never writes.
    """
    passes = Passes(follow(prompt, prompt), follow(1, prompt + 1), 1, prompt, {})
    shapes = find_shapes(passes)
    assert shapes is not None
    assert shapes.traffic == {TrafficShape("activation", 2 * 4 * HIDDEN, "float32"): 1}
    assert {one.pairs.rate: count for one, count in shapes.attention.items()} == {2 * HEADS * SIZE: 1}
