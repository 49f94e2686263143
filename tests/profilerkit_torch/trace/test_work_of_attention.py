"""Attention uses the weights of a layer inside without calling it: lists of the layers responsible name attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn

from profilerkit import Comparison, Report, profile
from profilerkit.render import render
from profilerkit_audits.responsible_layers import find_layers
from profilerkit_budgets import Budget, check
from profilerkit_pages.figures.layer_pairs import find_pairs

WIDTHS = (4, 8)
#: Of one head and 3 tokens: the projections of queries, keys, values; two products of 3 x 3 x width; the last one.
ATTENTION = {width: 3 * width * 3 * width + 2 * 3 * 3 * width + 3 * width * width for width in WIDTHS}
#: The layer before it and the one behind it: 3 tokens, 2 to the width and back.
LINEAR = {width: 3 * width * 2 for width in WIDTHS}


def make_net(width: int) -> Call:
    """Return attention of one head between two linear layers."""

    def run(self: Any, x: Any) -> Any:
        x = self.stem(x)
        return self.head(self.attention(x, x, x, need_weights=False)[0])

    attention = nn.MultiheadAttention(width, 1, batch_first=True)
    return Call(run, stem=nn.Linear(2, width), attention=attention, head=nn.Linear(width, 2))


@pytest.fixture(scope="module")
def reports() -> tuple[Report, Report]:
    """Return the reports of a narrow and a wide network."""
    narrow, wide = (
        profile(make_net(width), torch.ones(1, 3, 2), metrics=["macs", "total_params"], name=f"net {width}")
        for width in WIDTHS
    )
    return narrow, wide


def explain(budget: dict[str, Any], report: Report, baseline: Report | None = None) -> tuple[str, ...]:
    """Return the layers that a budget names as responsible."""
    (finding,) = check(report, Budget.of(budget), baseline)
    return finding.responsible


def test_a_budget_names_it(reports: tuple[Report, Report]) -> None:
    narrow, wide = reports
    grown = (
        f"attention (MultiheadAttention): +{ATTENTION[8] - ATTENTION[4]} MACs",
        f"stem (Linear): +{LINEAR[8] - LINEAR[4]} MACs",
        f"head (Linear): +{LINEAR[8] - LINEAR[4]} MACs",
    )
    assert explain({"macs": "<= 1x"}, wide, narrow) == grown
    assert explain({"macs": "<= 1"}, narrow)[0].startswith(f"attention (MultiheadAttention): {ATTENTION[4]} MACs")


def test_weights_are_those_of_the_layer_that_holds_them(reports: tuple[Report, Report]) -> None:
    """Width 4, then 8: 60 and 216 in attention, 20 and 72 in its last projection, 12 and 24 before, 10 and 18 after."""
    narrow, wide = reports
    assert explain({"total_params": "<= 1x"}, wide, narrow) == (
        "attention (MultiheadAttention): +156",
        "attention.out_proj (NonDynamicallyQuantizableLinear): +52",
        "stem (Linear): +12",
    )
    assert find_layers(narrow, wide, "total_params") == (
        "attention (MultiheadAttention): +156",
        "attention.out_proj (NonDynamicallyQuantizableLinear): +52",
        "stem (Linear): +12",
        "head (Linear): +8",
    )


@pytest.mark.parametrize("frozen", [(), ("attention.in_proj_weight",), ("attention.in_proj_weight", "stem.weight")])
def test_trained_weights_are_those_of_the_layer_that_holds_them(frozen: tuple[str, ...]) -> None:
    """At width 4 attention itself holds 3 x 4 x 4 weights of its projections, and the layer before it 2 x 4."""
    net = make_net(4)
    before = profile(net, torch.ones(1, 3, 2), metrics=["macs", "trainable_params"])
    for name in frozen:
        net.get_parameter(name).requires_grad_(False)
    after = profile(net, torch.ones(1, 3, 2), metrics=["macs", "trainable_params"])
    moves = ("attention (MultiheadAttention): -48", "stem (Linear): -8")[: len(frozen)]
    assert find_layers(before, after, "trainable_params") == moves
    assert before["trainable_params"] - after["trainable_params"] == (0, 48, 56)[len(frozen)]


def test_a_weight_that_layers_share_is_not_held_by_the_layer_around_them() -> None:
    """Both layers hold the 16 weights and 4 biases; the network around them counts these once, and holds 16 more."""

    def make(is_trained: bool) -> Report:
        one, other = nn.Linear(4, 4).requires_grad_(is_trained), nn.Linear(4, 4)
        other.weight, other.bias = one.weight, one.bias
        net = Call(lambda self, x: self.b(self.a(x)) @ self.w, a=one, b=other)
        net.register_parameter("w", nn.Parameter(torch.ones(4, 4)))
        return profile(net, torch.ones(1, 4), metrics=["macs", "trainable_params"])

    texts = find_layers(make(False), make(True), "trainable_params")
    assert texts == ("a (Linear) and 1 like it: +20 each",)


def test_two_networks_side_by_side_show_it(reports: tuple[Report, Report]) -> None:
    comparison = Comparison(reports[0], reports[1:])
    label, narrow, wide = find_pairs(comparison, "macs", None, 1)[0]
    assert ("attention" in label, narrow.value, wide.value) == (True, ATTENTION[4], ATTENTION[8])
    table = render(comparison, top=1).partition("Layers of net 4 and net 8")[2]
    assert "attention" in table
    assert "Linear" not in table
