"""Adapters beside the weights, against counts by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit import ArgumentError
from profilerkit_predict.language_models import LanguageModelReport, StepCost
from profilerkit_predict.language_models.engine.adapters import read_adapters
from profilerkit_predict.language_models.engine.fitting import DeviceMemory
from profilerkit_predict.language_models.engine.layout import Layout
from profilerkit_predict.language_models.engine.serving import predict_serving
from profilerkit_predict.language_models.facts.records import MatrixShape, Routing

#: Two matrices of 20 by 30, and in one layer 8 experts of 10 by 15, of which a token is sent to 2.
MATRICES = (MatrixShape("q_proj", 20, 30, 2), MatrixShape("gate_up_proj", 10, 15, 1, Routing(8, 2)))
FACTS = toy_facts(matrices=MATRICES)
#: Elements of rank 4: of the dense matrices, of all experts, and of those that a token is sent to.
DENSE, EXPERTS, CHOSEN = 2 * 4 * (20 + 30), 8 * 4 * (10 + 15), 2 * 4 * (10 + 15)


def test_an_adapter_has_two_thin_matrices_for_each() -> None:
    adapters: Any = read_adapters(FACTS, 4, 3, None)
    assert (adapters.parameters, adapters.macs_of_a_token) == (DENSE + EXPERTS, DENSE + CHOSEN)
    assert adapters.total_bytes == 3 * (DENSE + EXPERTS) * 2


@pytest.mark.parametrize(("sequences", "read"), [(1, 1), (2, 2), (8, 3)])
def test_a_step_reads_each_adapter_once(sequences: int, read: int) -> None:
    """Three adapters: so many sequences use as many of them, and at most three."""
    plain = StepCost(FACTS, DEVICE)(sequences, 1, 20)
    step = StepCost(FACTS, DEVICE, adapters=read_adapters(FACTS, 4, 3, "q_proj"))(sequences, 1, 20)
    amounts = {term.name: term.amount for term in step.terms}
    assert amounts["adapters"] == read * DENSE * 2
    assert amounts["products of adapters"] == sequences * DENSE
    assert (step.macs - plain.macs, step.weight_bytes - plain.weight_bytes) == (sequences * DENSE, read * DENSE * 2)


def test_devices_share_adapters_and_hold_them() -> None:
    cost = StepCost(FACTS, DEVICE, layout=Layout(4), adapters=read_adapters(FACTS, 4, 3, None))
    memory: Any = DeviceMemory(cost, 64, 0.0).count(8, 32)
    assert memory.adapters == 3 * (DENSE + EXPERTS) * 2 / 4
    assert memory.total == memory.weights + memory.cache + memory.activations + memory.adapters
    assert {term.name: term.amount for term in cost(8, 1, 20).terms}["adapters"] == 3 * (DENSE + CHOSEN) * 2 / 4


def test_a_report_says_which_adapters_a_step_reads() -> None:
    cost = StepCost(FACTS, DEVICE, adapters=read_adapters(FACTS, 4, 3, None))
    report = LanguageModelReport(cost, 16, 4, (predict_serving(cost, 1, 16, 4),))
    text = " ".join(report.to_text().split())
    assert "where fewer are used, or one is merged into the weights, a step may take less" in text
    cut = replace(report, cost=replace(cost, layout=Layout(2))).to_text()
    assert ("vLLM does without fully_sharded_loras" in text, "vLLM does without" in " ".join(cut.split())) == (
        False,
        True,
    )


@pytest.mark.parametrize(("batch", "of_replica", "of_all"), [(1, 1, 1), (2, 1, 2), (8, 2, 3)])
def test_replicas_spread_the_adapters_of_experts(batch: int, of_replica: int, of_all: int) -> None:
    """Four replicas have all adapters of dense matrices each, and a fourth of those of experts, as of the experts."""
    layout = Layout(data=4, has_whole_experts=True)
    cost = StepCost(FACTS, DEVICE, layout=layout, adapters=read_adapters(FACTS, 4, 3, None))
    assert DeviceMemory(cost, 64, 0.0).count(batch, 32, layout).adapters == 3 * (DENSE + EXPERTS / 4) * 2
    amounts = {term.name: term.amount for term in cost(batch, 1, 20).terms}
    assert amounts["adapters"] == (of_replica * DENSE + of_all * CHOSEN / 4) * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 2, None), "lora_adapters=2 without a rank: give lora_rank"),
        ((None, None, "q_proj"), "lora_targets='q_proj' without a rank"),
        ((0, None, None), "lora_rank=0: give a whole number from 1"),
        ((4, 0, None), "lora_adapters=0: give a whole number from 1"),
        ((4, 1, 5), "lora_targets=5: give names of matrices, such as 'q_proj,v_proj'"),
        ((4, 1, []), "lora_targets=\\[\\]: give names of matrices"),
        ((4, 1, "q_prj"), "Toy has no matrix 'q_prj'; there are, nearest first: q_proj, gate_up_proj"),
    ],
)
def test_wrong_adapters_are_an_error(arguments: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read_adapters(FACTS, *arguments)
