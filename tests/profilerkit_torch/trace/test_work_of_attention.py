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


def test_two_networks_side_by_side_show_it(reports: tuple[Report, Report]) -> None:
    comparison = Comparison(reports[0], reports[1:])
    label, narrow, wide = find_pairs(comparison, "macs", None, 1)[0]
    assert ("attention" in label, narrow.value, wide.value) == (True, ATTENTION[4], ATTENTION[8])
    table = render(comparison, top=1).partition("Layers of net 4 and net 8")[2]
    assert "attention" in table
    assert "Linear" not in table
