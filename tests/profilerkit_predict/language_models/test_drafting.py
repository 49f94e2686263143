"""What drafts tokens, against counts by hand: its time, its memory, and where it is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from toy_language_model import DEVICE, EXPERTS, toy_facts

from profilerkit import ArgumentError, InputError
from profilerkit_predict.language_models import LanguageModelReport, StepCost
from profilerkit_predict.language_models.engine.fitting import DeviceMemory
from profilerkit_predict.language_models.engine.layout import ONE_DEVICE, read_layout
from profilerkit_predict.language_models.engine.serving import predict_serving
from profilerkit_predict.language_models.engine.speculation import (
    Speculation,
    add_drafter,
    find_drafter,
    make_drafter,
    read_parameters,
)
from profilerkit_predict.language_models.engine.step import Resource
from profilerkit_predict.language_models.facts.model_cache import CacheLayer
from profilerkit_predict.language_models.facts.records import ModelFacts, ModelSizes
from profilerkit_predict.language_models.report.figures import _compute_rates
from profilerkit_predict.language_models.report.tables import tabulate_terms

COST: Any = StepCost(toy_facts(), DEVICE)
#: A model that drafts: 100 elements of matrices instead of 1,000, 2 bytes a token in its cache.
SMALL = toy_facts(
    name="Small",
    weights=(replace(toy_facts().weights[0], elements=100, bytes=200),),
    parts=(CacheLayer("layers.0", 2),),
)
DRAFTER: Any = StepCost(SMALL, DEVICE)


def speculate(drafter: ModelFacts, tokens: int = 3, acceptance: float = 0.5, cost: StepCost = COST) -> Any:
    return add_drafter(Speculation(tokens, acceptance), cost, drafter)


@pytest.mark.parametrize(("tokens", "acceptance"), [(1, 0.5), (3, 0.7), (8, 0.9)])
def test_the_tokens_of_a_step_are_those_of_the_closed_form(tokens: int, acceptance: float) -> None:
    expected = (1 - acceptance ** (tokens + 1)) / (1 - acceptance)
    assert Speculation(tokens, acceptance).tokens_per_step == pytest.approx(expected)


def test_tokens_are_drafted_one_after_the_other_before_they_are_checked() -> None:
    """Two sequences: a step that drafts reads 200 bytes of matrices, 2 bytes a cached token, and writes 2."""
    row: Any = predict_serving(COST, 2, 100, 3, speculate(SMALL))
    drafting = [(200 + 2 * cached * 2 + 2 * 2) / 1e9 for cached in (100, 101)]
    checking = [COST(2, 4, cached, 4).seconds for cached in (100, 101)]
    assert row.draft.seconds == pytest.approx(drafting[1])
    assert row.time_per_output_token == pytest.approx((sum(checking) + 3 * sum(drafting)) / 2 / 1.875)
    memory = DeviceMemory(COST, 64, 0.0, speculate(SMALL)).count(4, 32)
    assert memory.total == DeviceMemory(COST, 64, 0.0).count(4, 32).total + memory.drafter
    drafter_prefill = DRAFTER(2, 100).seconds
    first, later = row.time_to_first_token, row.time_per_output_token
    assert row.tokens_per_second == pytest.approx(2 * 3 / (first + drafter_prefill + 2 * later))


def test_fewer_tokens_are_drafted_where_the_context_ends() -> None:
    """After 4,093 of 4,096 tokens two of three are drafted, then one, then none; each is accepted."""
    row: Any = predict_serving(COST, 1, 4093, 4, speculate(SMALL, acceptance=1))
    steps = [COST(1, 1 + count, 4095 - count, 1 + count).seconds for count in (2, 1, 0)]
    drafts = [count * DRAFTER(1, 1, 4095 - count).seconds for count in (2, 1, 0)]
    shares = [(step + draft) / tokens for step, draft, tokens in zip(steps, drafts, (3, 2, 1), strict=True)]
    assert row.time_per_output_token == pytest.approx(sum(shares) / 3)
    assert row.draft is None
    before: Any = predict_serving(COST, 1, 4093, 3, speculate(SMALL))
    report = LanguageModelReport(COST, 4093, 3, (before,), speculation=speculate(SMALL))
    assert tabulate_terms(report).headings[-2:] == ("1 drafted", "takes")
    assert _compute_rates(replace(report, new=4), 1).step > 0


def test_a_drafter_of_unknown_bytes_is_an_error() -> None:
    unknown = replace(SMALL, unknown_storage="stored by 'aqlm'")
    with pytest.raises(InputError, match="draft: Small is stored in a format whose bytes are not known"):
        find_drafter("hf:small", COST.facts, lambda draft: unknown)


def test_layers_of_its_own_take_turns() -> None:
    """Three of the model's: all are stored and go through the prompts, one drafts a token; with two drafted, two."""
    own: Any = StepCost(replace(COST.facts, mtp_layer=SMALL, mtp_layer_count=3), DEVICE)
    for tokens, layers in ((2, 2), (3, 3), (5, 3)):
        speculation = speculate(SMALL, tokens, cost=own)
        assert speculation.drafters == layers
        assert DeviceMemory(own, 64, 0.0, speculation).count(4, 32).drafter == layers * (200 + 4 * 32 * 2)
        row: Any = predict_serving(own, 2, 100, 3, speculation)
        assert row.draft == predict_serving(own, 2, 100, 3, speculate(SMALL)).draft
        first, later = row.time_to_first_token, row.time_per_output_token
        prompts = layers * DRAFTER(2, 100).seconds
        assert row.tokens_per_second == pytest.approx(2 * 3 / (first + prompts + 2 * later))
        report = LanguageModelReport(own, 100, 3, (row,), speculation=speculation)
        assert f"by Small, 1.3 k parameters and {layers - 1} more like it in turn" in " ".join(str(report).split())


@pytest.mark.parametrize("layers", [1, 8, None])
def test_a_drafter_is_in_the_last_stage(layers: int | None) -> None:
    """With a head of its own of 200 bytes beside 200 of matrices, and a copy of the table of 400 of the first stage."""
    _, head, table = COST.facts.weights
    layer = replace(SMALL, weights=(*SMALL.weights, head, replace(table, is_shared=True)))
    own: Any = StepCost(
        replace(COST.facts, mtp_layer=replace(layer, sizes=ModelSizes(4096, layers=layers)), mtp_layer_count=1), DEVICE
    )
    for text, copied in (("tp1", 0), ("pp2", 400), ("pp4", 400), ("tp2,pp2", 200)):
        layout = read_layout(1, text)
        stages = speculate(own.facts.mtp_layer, cost=own).list_stage_bytes(32, 4, layout)
        assert stages[-1] == (200 + 200 + 4 * 32 * 2) / layout.tensor + copied, text
        assert sum(stages) == stages[-1]


def test_the_last_stage_drafts_alone() -> None:
    """Of eight sequences four at a time, and all prompts; nothing is sent to another stage.

    A step reads 200 bytes of matrices and 2 bytes a cached token of each, and writes 2. The prompts of 100 tokens take
    longest in products: 1,000 multiply-accumulates a token, 6 a pair of tokens, and 100 for the head.
    """
    cost: Any = replace(COST, layout=read_layout(1, "pp2"))
    small = replace(SMALL, sizes=replace(SMALL.sizes, width=4, layers=4))
    speculation = speculate(small, cost=cost)
    row: Any = predict_serving(cost, 8, 100, 2, speculation)
    assert row.draft.seconds == pytest.approx((200 + 4 * 2 * 100 + 4 * 2) / 1e9)
    assert {term.resource for term in row.draft.terms} == {Resource.COMPUTE, Resource.MEMORY}
    report = LanguageModelReport(cost, 100, 2, (row,), speculation=speculation)
    check, draft = cost(8, 4, 101, 4), speculation.draft(8, 101)
    assert _compute_rates(report, 8).step == pytest.approx(8 * 1.875 / (check.seconds + 3 * draft.seconds))
    assert draft.seconds == pytest.approx((200 + 4 * 2 * 101 + 4 * 2) / 1e9)
    prompts = speculation.draft_prompts(8, 100, 0)
    assert prompts.compute_seconds == pytest.approx(8 * (1000 * 100 + 6 * 5050 + 100) / 0.5e12)


def test_experts_of_a_drafter_are_chosen_at_random_too() -> None:
    """Of 8 experts four tokens read 8 * (1 - 0.75 ** 4) at random: 16,000 / 8 bytes each, in both kinds of steps."""
    cost: Any = StepCost(toy_facts(weights=(EXPERTS,)), DEVICE)
    row: Any = predict_serving(cost, 4, 100, 2, speculate(toy_facts(weights=(EXPERTS,)), 1, 0.5, cost))
    experts = [2000 * 8 * (1 - 0.75**tokens) for tokens in (8, 4)]
    cache = (4 * 100 + 4 * 2) * 8, (4 * 100 + 4) * 8
    assert row.uniform_time_per_output_token == pytest.approx((sum(experts) + sum(cache)) / 1e9 / 1.5)


def test_heads_of_a_number_of_parameters_are_read_for_each_token() -> None:
    heads = make_drafter(COST.facts, 250)
    row: Any = predict_serving(COST, 2, 100, 3, speculate(heads))
    assert (row.draft.macs, row.draft.bytes) == (2 * 250, 500)


def test_weights_of_the_model_are_read_and_not_stored_again() -> None:
    head = replace(COST.facts.weights[1], is_shared=True)
    drafter = StepCost(toy_facts(weights=(*SMALL.weights, head)), DEVICE)
    assert max(drafter.engine_weights.list_stage_bytes(ONE_DEVICE)) == drafter.stored_weight_bytes == 200
    assert drafter(1, 1, 20).weight_bytes == 200 + 200


def test_the_table_of_steps_has_what_is_drafted() -> None:
    speculation = speculate(SMALL)
    row: Any = predict_serving(COST, 2, 100, 3, speculation)
    report = LanguageModelReport(COST, 100, 3, (row,), speculation=speculation)
    table = tabulate_terms(report)
    assert table.headings == ("", "first token", "takes", "last token", "takes", "3 drafted", "takes")
    rows = {cells[0]: cells[1:] for cells in table.rows}
    assert rows["matrices"][4:] == ("600 B", "600 ns")
    text = report.to_text()
    assert "they are drafted one after the other by Small, 1.3 k parameters" in text
    assert "what drafts elsewhere, or while other tokens are checked, may take less" in " ".join(text.split())
    assert "checks 3 drafted tokens, of which each is accepted with 0.5" in " ".join(text.split())
    assert report.to_dict()["engine"]["speculation"]["drafter"] == {"name": "Small", "parameters": 1300, "count": 1}
    uncounted = replace(report, speculation=Speculation(3, 0.5)).to_text()
    assert "what drafts them is counted nowhere: neither its time nor its memory" in uncounted


def test_own_layers_that_draft_are_those_of_the_configuration() -> None:
    def follow(model: Any) -> Any:
        raise AssertionError(model)

    assert find_drafter("mtp", toy_facts(mtp_layer=SMALL), follow) is SMALL
    with pytest.raises(InputError, match="the configuration of Toy names no layers that predict further tokens"):
        find_drafter("mtp", toy_facts(), follow)
    with pytest.raises(InputError, match=r"names layers that predict further tokens \(2\), but the work of the layer"):
        find_drafter("mtp", toy_facts(mtp_layer_count=2), follow)


@pytest.mark.parametrize(
    ("draft", "parameters"), [("250e6", 250_000_000), (1000, 1000), ("hf:llama", None), (None, None)]
)
def test_a_number_is_one_of_parameters(draft: Any, parameters: int | None) -> None:
    assert read_parameters(draft) == parameters


@pytest.mark.parametrize("draft", [0, -1, 1.5, "0.5", "inf", float("nan")])
def test_a_number_that_is_none_of_parameters_is_an_error(draft: Any) -> None:
    with pytest.raises(ArgumentError, match="give the parameters that draft a token, a whole number from 1"):
        read_parameters(draft)
