"""The cost of steps, the bounds and what fits, of a model that is worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from toy_language_model import DEVICE, EXPERTS, toy_facts

from profilerkit import ArgumentError, InputError
from profilerkit.devices import DeviceInfo, Figure
from profilerkit_predict.checkpoints.formats import WeightKind, find_weight_format
from profilerkit_predict.language_models import LanguageModelReport, StepCost
from profilerkit_predict.language_models.engine.fitting import DeviceMemory
from profilerkit_predict.language_models.engine.layout import Layout, read_layout
from profilerkit_predict.language_models.engine.serving import predict_serving
from profilerkit_predict.language_models.engine.speculation import NOTHING_DRAFTED, read_speculation
from profilerkit_predict.language_models.facts.model_cache import CacheGrowth, CacheLayer
from profilerkit_predict.language_models.facts.records import WeightPart
from profilerkit_predict.language_models.facts.weights import sum_parts
from profilerkit_predict.language_models.facts.work import LatentAttention, Law, Term, Work, count_engine_macs
from profilerkit_predict.language_models.report.text_table import show_most, show_rate

COST: Any = StepCost(toy_facts(), DEVICE)


def test_a_step_of_decode_reads_weights_and_cache() -> None:
    step = COST(batch=4, new_tokens=1, cached=20)
    assert step.macs == 4 * (1000 + 100 + 6 * 21)
    assert step.weight_bytes == 2000 + 200 + 4 * 8  # four rows of four elements of two bytes
    assert (step.cache_read_bytes, step.cache_write_bytes) == (4 * 20 * 8, 4 * 8)
    assert step.compute_seconds == 2 * step.macs / 1e12
    assert step.memory_seconds == pytest.approx((2232 + 640 + 32) / 1e9)
    assert (step.seconds, step.bound_by) == (step.memory_seconds, "memory")
    assert step.execution == "engine"


def test_a_prefill_attends_to_half_the_square() -> None:
    step = COST(batch=2, new_tokens=10)
    assert step.macs == 2 * (10 * 1000 + 100 + 6 * 55)
    assert COST.as_written(2, 10) == 2 * (10 * 1000 + 100 + 6 * 100)
    assert (step.cache_read_bytes, step.cache_write_bytes) == (0, 2 * 10 * 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 0), "batch=0: give a whole number from 1"),
        ((1, 0, 0), "new_tokens=0: give"),
        ((1, 1, -1), "cached=-1: give a whole number from 0"),
        ((1, 2, 0, 0), "logits=0: give"),
        ((1, 2, 0, 3), "logits=3: a step of 2 new tokens has no more of them"),
    ],
)
def test_a_step_that_cannot_be_is_an_error(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        COST(*arguments)
    if len(arguments) == 3:
        with pytest.raises(ArgumentError, match=message):
            COST.as_written(*arguments)
    with pytest.raises(ArgumentError, match="context=-5"):
        COST.cache_bytes(-5)


def test_int4_shrinks_the_matrices_and_not_the_head_or_the_table() -> None:
    cost = StepCost(toy_facts(), DEVICE, find_weight_format("int4"))
    assert cost.stored_weight_bytes == 500 + 2 * 8 + 200 + 400  # eight scales for a thousand elements
    assert cost.weight_bytes_read(1) == 516 + 200 + 8


@pytest.mark.parametrize(("name", "entry"), [("fp8", 64), ("int8", 64), ("nvfp4", 36), ("bf16", 128), ("fp32", 256)])
def test_the_cache_has_a_format_of_its_own(name: str, entry: int) -> None:
    """64 elements of an entry: 32 bytes and four scales in nvfp4. A state of 100 bytes keeps its dtype."""
    layers = (CacheLayer("layers.0", 128), CacheLayer("layers.1", 0, 100))
    cost = StepCost(toy_facts(parts=layers), DEVICE, cache_format=find_weight_format(name))
    assert cost.cache_bytes(32, 2) == 2 * (32 * entry + 100)
    assert cost(2, 1, 32).cache_read_bytes == 2 * (32 * entry + 100)
    assert cost.cache.count_bytes(32, 2, cost.layout) == cost.cache_bytes(32, 2)


def test_keys_and_values_of_constant_size_have_the_format_of_the_cache() -> None:
    """Those of cross attention, of 50 elements, and those of a layer that keeps three entries of no token."""
    fp8 = find_weight_format("fp8")
    crossing = toy_facts(parts=(CacheLayer("cross.0", 0, 100, heads=2),), encoder_prompt=16)
    assert StepCost(crossing, DEVICE, cache_format=fp8).cache_bytes(16, 2) == 2 * 50
    kept = toy_facts(parts=(CacheLayer("layers.0", 8, 3 * 8, heads=2),))
    cost = StepCost(kept, DEVICE, cache_format=fp8)
    assert (cost.cache_bytes(16), cost(1, 1, 16).cache_read_bytes) == (16 * 4 + 3 * 4, 16 * 4 + 3 * 4)
    assert cost(1, 1, 16).cache_write_bytes == 4, "the three were written by the first step"
    latent = LatentAttention(layers=2, heads=4, rank=56, rope=8, nope=8, value=8)
    assert StepCost(toy_facts(latent=latent), DEVICE, cache_format=fp8).cache_bytes(16) == 16 * 2 * 64


def test_a_step_with_drafted_tokens_makes_several() -> None:
    """Three drafted, each accepted in half of the cases: 1 + 1/2 + 1/4 + 1/8 tokens of a step that runs four."""
    speculation = read_speculation(3, 0.5)
    plain: Any = predict_serving(COST, 2, 100, 3)
    drafted: Any = predict_serving(COST, 2, 100, 3, speculation)
    step = COST(2, 4, 101, logits=4)
    assert drafted.decode == step
    assert step.macs == 2 * (4 * 1000 + 4 * 100 + 6 * (102 + 103 + 104 + 105))
    seconds = [COST(2, 4, cached, 4).seconds for cached in (100, 101)]
    assert drafted.time_per_output_token == pytest.approx(sum(seconds) / 2 / 1.875)
    assert drafted.prefill == plain.prefill


def test_drafted_tokens_end_where_the_model_does() -> None:
    row: Any = predict_serving(COST, 1, 4090, 6, read_speculation(8, 1))
    assert row.decode == COST(1, 2, 4094, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, None), "acceptance is missing: speculation needs draft_tokens"),
        ((None, 0.5), "draft_tokens is missing: speculation needs draft_tokens"),
        ((None, None, "mtp"), "draft_tokens is missing: speculation needs draft_tokens"),
        ((3, 1.5), "acceptance=1.5: give the share of drafted tokens that is accepted, from 0 to 1"),
        ((3, True), "acceptance=True: give the share"),
        ((0, 0.5), "draft_tokens=0: give a whole number from 1"),
    ],
)
def test_wrong_speculation_is_an_error(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read_speculation(*arguments)
    assert read_speculation(None, None) == NOTHING_DRAFTED


def test_experts_are_read_as_often_as_routing_makes() -> None:
    """8 experts, 2 a token: 4 tokens all use the same ones, or at random 8 * (1 - 0.75 ** 4) = 5.46875 of them."""
    fewest = StepCost(toy_facts(weights=(EXPERTS,)), DEVICE)
    uniform = StepCost(toy_facts(weights=(EXPERTS,)), DEVICE, has_uniform_routing=True)
    assert [fewest.weight_bytes_read(1), fewest.weight_bytes_read(4)] == [4000, 4000]
    assert [uniform.weight_bytes_read(1), uniform.weight_bytes_read(4)] == [4000, round(16000 * 5.46875 / 8)]
    row: Any = predict_serving(fewest, 4, 10, 2)
    assert row.time_per_output_token == fewest(4, 1, 10).seconds
    assert row.uniform_time_per_output_token == uniform(4, 1, 10).seconds
    assert predict_serving(COST, 4, 10, 2).uniform_time_per_output_token is None


#: A billion bytes per second between devices in each direction.
LINKED = DeviceInfo(
    "linked", dense_peaks=DEVICE.dense_peaks, figures={**DEVICE.figures, "link_bandwidth": Figure(2e9, "a test")}
)
#: Two heads in the cache of 8 bytes a token; matrices of 2,000 bytes, experts of 16,000; width 4 in two layers.
SHARED = toy_facts(
    parts=(CacheLayer("layers.0", 4, heads=2), CacheLayer("layers.1", 4, heads=2)),
    weights=(WeightPart(WeightKind.MATRIX, 1000, 2000, "bfloat16"), EXPERTS),
    width=4,
    layers=2,
)


def list_amounts(text: str, batch: int, new: int, cached: int, is_uniform: bool = False) -> dict[str, float]:
    """Return what a step takes of a device, by the name of each term."""
    cost = StepCost(SHARED, LINKED, layout=read_layout(1, text), has_uniform_routing=is_uniform)
    return {term.name: term.amount for term in cost(batch, new, cached).terms}


def test_tensor_parallelism_cuts_matrices_and_replicates_heads() -> None:
    """Four devices share two heads: each has half of the cache. Four all-reduces of 8 tokens of 4 numbers.

    A token has 2 elements in each of two layers of the cache, of 4 features each: of these 16 elements of matrices each
    device has half, and not a fourth.
    """
    amounts = list_amounts("tp4", 8, 1, 20)
    assert amounts == {
        "products": 8 * ((1000 + 100 + 6 * 21) / 4 + 16 / 4),
        "matrices": 500 + 16 / 4 * 2,
        "experts": 16000 * 2 / 8 / 4,
        "cache, read": 8 * 20 * 8 / 2,
        "cache, written": 8 * 8 / 2,
        "all-reduce": 4 * 8 * 4 * 2,
    }


def test_a_pipeline_has_a_group_of_sequences_in_each_stage() -> None:
    """Two stages: a token waits for both, with half of the sequences; a prefill keeps both busy."""
    amounts = list_amounts("pp2", 8, 1, 20)
    assert amounts["products"] == 4 * (1000 + 100 + 6 * 21)
    assert (amounts["matrices"], amounts["cache, read"]) == (2000, 4 * 20 * 8)
    assert amounts["to the next stage"] == 4 * 4 * 2
    assert list_amounts("pp2", 8, 10, 0)["products"] == 8 * (10 * 1000 + 100 + 6 * 55) / 2
    # The same after a prefix of 40 tokens in the cache: for one prompt too, whose chunks can be in both stages.
    for batch in (8, 1):
        after_prefix = list_amounts("pp2", batch, 10, 40)
        assert after_prefix["products"] == batch * (10 * 1000 + 100 + 6 * (10 * 40 + 55)) / 2
        assert (after_prefix["matrices"], after_prefix["cache, read"]) == (2000 / 2, batch * 40 * 8 / 2)
    # A token waits for the all-reduces of all layers; in a prefill each stage has its own, at the same time.
    assert list_amounts("tp2,pp2", 8, 1, 20)["all-reduce"] == 4 * 4 * 4 * 2
    assert list_amounts("tp2,pp2", 8, 10, 0)["all-reduce"] == 4 * 80 * 4 * 2 / 2


def test_replicas_of_attention_share_experts() -> None:
    """Four replicas of two sequences each; experts over all four, whole, to which tokens are sent and sent back."""
    amounts = list_amounts("dp4,ep4", 8, 1, 20)
    assert (amounts["products"], amounts["matrices"]) == (2 * (1000 + 100 + 6 * 21), 2000)
    assert amounts["experts"] == 16000 * 2 / 8 / 4
    assert amounts["cache, read"] == 2 * 20 * 8
    assert "all-to-all" not in amounts, "all experts may be at home"
    # Two stages have half of the sequences each, whose tokens use experts of their own.
    halves = list_amounts("dp2,ep2,pp2", 8, 1, 20, is_uniform=True)
    assert halves["experts"] == pytest.approx(16000 * (1 - 0.75**4) / 2)
    uniform = list_amounts("dp4,ep4", 8, 1, 20, is_uniform=True)
    assert uniform["all-to-all"] == 2 * 2 * (3 / 4) * (2 * 4 * 2)
    assert uniform["experts"] == pytest.approx(16000 * (1 - 0.75**8) / 4)
    assert list_amounts("dp4", 8, 1, 20)["all-gather"] == 2 * 3 * (2 * 4 * 2)


def test_a_prefix_is_stored_and_read_once() -> None:
    """Forty tokens of 8 bytes: two blocks of sixteen are shared, and a step reads forty once. A window shares none."""
    layers = (CacheLayer("layers.0", 8), CacheLayer("layers.1", 8, window=10))
    cost = StepCost(toy_facts(parts=layers), DEVICE, shared_prefix=40)
    assert cost.cache_bytes(50, 4) == 4 * (64 + 16) * 8 - 3 * 32 * 8
    assert cost.cache.count_bytes(50, 4, cost.layout) == cost.cache_bytes(50, 4)
    assert cost(4, 1, 50).cache_read_bytes == 4 * (50 + 9) * 8 - 3 * 40 * 8
    for replicas, copies in ((2, 2), (3, 3), (8, 4)):  # each that has a sequence has the prefix, and reads it
        shared = replace(cost, layout=Layout(data=replicas))
        assert shared(4, 1, 50).cache_read_bytes == 4 * (50 + 9) * 8 - (4 - copies) * 40 * 8
        assert shared.cache_bytes(50, 4) == 4 * (64 + 16) * 8 - (4 - copies) * 32 * 8
    # Of ten tokens all are the prefix: its block is there once, and not four times less three times two blocks.
    assert replace(cost, facts=toy_facts(parts=layers[:1])).cache_bytes(10, 4) == 16 * 8
    row: Any = predict_serving(cost, 4, 48, 2)
    assert row.prefill == cost(4, 8, 40)
    assert row.prefill.macs == 4 * (8 * 1000 + 100 + 6 * (8 * 40 + 36))


def test_the_link_binds_where_it_takes_longest() -> None:
    layout = read_layout(1, "tp2")
    bound = StepCost(toy_facts(width=10**6, layers=2), LINKED, layout=layout)(1, 1, 20)
    assert (bound.link_seconds, bound.bound_by) == (4 * 10**6 * 2 / 1e9, "link")
    assert bound.seconds == bound.link_seconds
    assert StepCost(toy_facts(width=10**6, layers=2), DEVICE, layout=layout)(1, 1, 20).link_seconds == 0


def test_the_dictionary_has_the_notes_of_the_text() -> None:
    """A device without a link: what is sent is in no time, which both say."""
    cost = StepCost(toy_facts(width=10**6, layers=2), DEVICE, layout=read_layout(1, "tp2"))
    rows, fits = (predict_serving(cost, 1, 16, 4),), (DeviceMemory(cost, 64, 0.0).fit(1, 20),)
    report = LanguageModelReport(cost, 16, 4, rows, fits)
    memory = report.to_dict()["engine"]["fits"][0]["memory"]
    assert (memory["total"], memory["fits"]) == (2600 // 2 + 32 * 8 // 2 + 2000, True)
    notes = [*report.to_dict()["engine"]["assumptions"], *report.to_dict()["notes"]]
    assert any("the rate of the link between them is not known" in note for note in notes)
    assert " ".join(report.to_text().split()).endswith(" ".join(f"- {note}" for note in notes))


def test_memory_of_a_layout() -> None:
    cost = StepCost(SHARED, LINKED)
    for text, weights, cache in (("tp4", 508 + 4000, 8 * 32 * 8 // 2), ("pp2", 9000, 8 * 32 * 8 // 2)):
        memory = DeviceMemory(cost, 64, 0.0).count(8, 32, read_layout(1, text))
        assert (memory.weights, memory.cache) == (weights, cache), text
    # Eight experts: whole ones over four, three or sixteen devices, at least one on each; cut ones over three.
    experts = {"dp4,ep4": 2, "dp3,ep3": 3, "dp16,ep16": 1, "dp3": 8 / 3}
    for text, count in experts.items():
        layout = read_layout(1, text)
        memory = DeviceMemory(cost, 64, 0.0).count(8, 32, layout)
        assert memory.weights == math.ceil(2000 + count * 2000), text
        assert memory.cache == math.ceil(8 / layout.data) * 32 * 8
        assert memory.activations == 64 // layout.data * 100, "each replica has its share of the tokens of a pass"


def test_the_fullest_device_has_whole_heads() -> None:
    """Eight heads on three devices: one has three of them, with three eighths of the cache, which it reads."""
    heads = replace(SHARED, cache=CacheGrowth((CacheLayer("layers.0", 8, heads=8),)))
    cost = StepCost(heads, LINKED, layout=Layout(3))
    assert DeviceMemory(cost, 64, 0.0).count(8, 32).cache == 8 * 32 * 8 * 3 / 8
    terms = {term.name: term.amount for term in cost(8, 1, 32).terms}
    assert (terms["cache, read"], terms["cache, written"]) == (8 * 32 * 8 * 3 / 8, 8 * 8 * 3 / 8)


def test_the_fullest_stage_of_a_pipeline_has_whole_layers() -> None:
    """Of three layers in two stages the first has two, with 2,000 / 3 bytes of matrices each and the table of 400.

    Where the table is the head, of 200, both stages have it, and the first a table of positions of 100 besides.
    """
    cost = StepCost(toy_facts(layers=3, parts=tuple(CacheLayer(f"layers.{index}", 8) for index in range(3))), DEVICE)
    two, three = (DeviceMemory(cost, 64, 0.0).count(8, 32, Layout(pipeline=stages)) for stages in (2, 3))
    assert (two.weights, two.cache) == (math.ceil(2 * 2000 / 3 + 400), 8 * 32 * 8 * 2)
    assert (three.weights, three.cache) == (math.ceil(2000 / 3 + 400), 8 * 32 * 8)
    matrices, head, _ = toy_facts().weights
    positions = WeightPart(WeightKind.EMBEDDING, 50, 100, "bfloat16", row_elements=4)
    for others, size in ((), 0), ((positions,), 100):
        tied = StepCost(toy_facts(layers=3, weights=(matrices, replace(head, row_elements=4), *others)), DEVICE)
        assert max(tied.engine_weights.list_stage_bytes(Layout(pipeline=2))) == pytest.approx(2 * 2000 / 3 + 200 + size)
        assert max(tied.engine_weights.list_stage_bytes(Layout())) == 2200 + size


def test_a_stage_has_the_experts_of_its_layers() -> None:
    """Of four layers the last three have experts, of 8,000 bytes each: one is in the first of two stages."""
    expert = replace(EXPERTS, elements=4000, bytes=8000, layers=1)
    parts = [*((f"model.layers.{index}.experts", expert) for index in (1, 2, 3)), ("norm", toy_facts().weights[0])]
    experts, matrices = sum_parts(parts)
    assert (experts.layers, experts.numbers, matrices.numbers) == (3, (1, 2, 3), ())
    cost = StepCost(toy_facts(layers=4, weights=(experts,)))
    assert cost.engine_weights.list_stage_bytes(Layout(pipeline=2)) == pytest.approx([8000, 16000])
    assert cost.engine_weights.list_stage_bytes(Layout(pipeline=4)) == pytest.approx([0, 8000, 8000, 8000])
    twice, _ = sum_parts([("encoder.1.experts", expert), ("decoder.1.experts", expert), parts[-1]])
    assert (twice.layers, twice.numbers) == (2, ())


@pytest.mark.parametrize(("tokens", "weights", "cache"), [(16, 1400, 16 * 4), (64, 1200, 64 * 12)])
def test_the_fullest_stage_has_the_most_of_all_kinds_together(tokens: int, weights: int, cache: int) -> None:
    """Two layers of 1,000 bytes: the first has a table of 400 beside it, the last a head of 200 and more cache."""
    parts = (CacheLayer("layers.0", 4), CacheLayer("layers.1", 12))
    memory = DeviceMemory(StepCost(toy_facts(layers=2, parts=parts)), 64, 0.0).count(1, tokens, Layout(pipeline=2))
    assert (memory.weights, memory.cache, memory.resident) == (weights, cache, weights + cache)


def test_matrices_that_make_latents_are_not_cut() -> None:
    """In two layers latents of 16 + 2 and of 6 for queries, of 4 features each: a device has all of both."""
    latent = LatentAttention(2, 4, 16, 2, 3, 5, query_rank=6)
    cost = StepCost(toy_facts(latent=latent, width=4, layers=2), DEVICE, layout=Layout(4))
    repeated = 2 * (16 + 2 + 6) * 4 * (1 - 1 / 4)
    assert max(cost.engine_weights.list_stage_bytes(cost.layout)) == 2600 / 4 + 2 * repeated
    plain = replace(cost, facts=toy_facts(latent=replace(latent, query_rank=0), width=4, layers=2))
    products = [next(term.amount for term in one(1, 1, 20).terms) for one in (cost, plain)]
    assert products[0] - products[1] == 2 * 6 * 4 * (1 - 1 / 4)


def test_norms_are_not_cut() -> None:
    norms = WeightPart(WeightKind.OTHER, 10, 20, "bfloat16")
    with_norms = StepCost(toy_facts(weights=(*toy_facts().weights, norms)))
    assert with_norms.engine_weights.list_stage_bytes(Layout(4)) == [2600 / 4 + 20]
    terms = {term.name: term.amount for term in replace(with_norms, layout=Layout(4))(1, 1, 20).terms}
    assert terms["norms and buffers"] == 20, "each device reads all that it has"


@pytest.mark.parametrize(("stages", "fullest"), [(2, 8 * 32 + 3 * 100), (4, 8 * 32 + 100), (8, 8 * 32)])
def test_a_stage_has_the_cache_of_its_own_layers(stages: int, fullest: int) -> None:
    """Two of eight layers have attention, of 8 bytes a token, and six a state of 100 bytes."""
    parts = [CacheLayer(f"layers.{index}", *((8, 0) if index in (3, 7) else (0, 100))) for index in range(8)]
    cost = StepCost(toy_facts(layers=8, parts=tuple(parts)), DEVICE)
    assert cost.cache.count_bytes(32, 1, Layout(pipeline=stages)) == fullest


def test_stages_are_no_more_than_layers() -> None:
    """A cache of 2,000,000 bytes in three layers: 666,667 fit on each of three; four times as much never fits."""
    parts = tuple(CacheLayer(f"layers.{index}", size) for index, size in enumerate((3, 3, 2)))
    facts = toy_facts(layers=3, longest_context=None, parts=parts)
    cost = StepCost(facts, DEVICE, layout=Layout(pipeline=2), block_size=1)
    enough, never = (DeviceMemory(cost, 16, 0.0).fit(1, tokens) for tokens in (250_000, 1_000_000))
    assert (enough.needed_devices, enough.needed_layout, never.needed_devices) == (3, "pp3", None)
    rows = (predict_serving(cost, 1, 16, 4),)
    texts = [" ".join(LanguageModelReport(cost, 16, 4, rows, (fit,)).to_text().split()) for fit in (enough, never)]
    assert "fits no, needs 3 devices" in texts[0] and "give parallel='pp3' (--parallel)" in texts[0]
    assert "fits no, on no number of devices" in texts[1]
    with pytest.raises(ArgumentError, match=r"parallel='pp4': Toy has 3 layers, .* give pp3 or less"):
        Layout(pipeline=4).require_layers(3, "Toy")


def test_the_most_that_is_tried_is_no_maximum_of_the_model() -> None:
    """A state of constant size: any context fits, and no more than 1,048,576 tokens are tried."""
    state = StepCost(toy_facts(parts=(CacheLayer("layers.0", 0, 100),), longest_context=None), DEVICE)
    result = DeviceMemory(state, 64, 0.0).fit(1, 32)
    assert (result.longest_context, result.is_models_maximum) == (2**20, False)
    assert [show_most(number) for number in (2**20, 181, 0, None)] == ["≥ 1,048,576", "181", "-", "-"]


def test_no_rate_above_zero_is_shown_as_zero() -> None:
    rates = {None: "-", 0.057: "0.057", 3.14159: "3.14", 99.5: "99.5", 214.3: "214", 1316.2: "1,316"}
    assert {rate: show_rate(rate) for rate in rates} == rates


@pytest.mark.parametrize(
    ("devices", "text", "message"),
    [
        (1, "tp0", "parallel='tp0': give a text such as 'tp8', 'tp4,pp2' or 'dp8,ep8'"),
        (1, 8, "parallel=8: give a text"),
        (1, "", "parallel='': give a text"),
        (1, "tp2,tp4", "parallel='tp2,tp4': give a text"),
        (1, "tp2,ep8", "experts are spread over the devices of tp and dp together, which are 2; give ep2"),
        (4, "tp8", "has 8 devices, and devices=4"),
    ],
)
def test_a_layout_that_is_none_is_an_error(devices: int, text: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read_layout(devices, text)


def test_a_window_and_a_state_limit_the_cache() -> None:
    layers = (CacheLayer("layers.0", 8, window=10), CacheLayer("layers.1", 0, 100))
    cost = StepCost(toy_facts(parts=layers), DEVICE)
    assert cost.cache_bytes(50, 2) == 2 * (16 * 8 + 100)  # nine tokens, in a block of sixteen
    step = cost(1, 1, 50)
    assert (step.cache_read_bytes, step.cache_write_bytes) == (9 * 8 + 100, 8 + 100)


def test_entries_for_several_tokens_and_those_that_wait_for_them() -> None:
    """50 tokens are 12 entries for 4 of them, of which a step reads 10; two wait."""
    layers = (CacheLayer("entries", 8, stride=4, most_read=10), CacheLayer("waiting", 6, stride=4, waits=True))
    cost = StepCost(toy_facts(parts=layers), DEVICE)
    assert [sum(layer.count_paged_bytes(50, 1) for layer in layers), layers[0].bytes_per_token] == [
        12 * 8 + 2 * 6,
        2,
    ]
    assert cost.cache_bytes(50) == 16 * 8 + 2 * 6  # blocks of sixteen entries
    step = cost(1, 1, 51)
    assert (step.cache_read_bytes, step.cache_write_bytes) == (10 * 8 + 3 * 6, 8 + 6), "the 52nd token makes an entry"


def test_latent_attention_is_absorbed_whether_the_library_caches_latents_or_not() -> None:
    """Two layers, 4 heads, latents of 16 and 2, keys of 3 + 2 and values of 5: hand counts below."""
    latent = LatentAttention(2, 4, 16, 2, 3, 5)
    expansion, core = 2 * 16 * 4 * (3 + 5), 2 * 4 * (3 + 2 + 5)
    cached_as_latents = (Term(Law.TOKEN, 1000), Term(Law.KEY, expansion), Term(Law.PAIR, core))
    expanded_before = (Term(Law.TOKEN, 1000 + expansion), Term(Law.PAIR, core))
    for terms in (cached_as_latents, expanded_before):
        facts = toy_facts(terms=terms, latent=latent)
        # Decode: the expansion meets one query, and a pair takes 2 * 4 * (16 + 2 + 16).
        assert count_engine_macs(facts.work, 1, 1, 99) == 1000 + expansion + 2 * 4 * 34 * 100
        # A prefill expands: each token once, and half the square of pairs.
        assert count_engine_macs(facts.work, 1, 10, 0) == 10 * 1000 + 10 * expansion + core * 55
        assert StepCost(facts, DEVICE).cache_bytes(16) == 16 * 2 * (16 + 2) * 2


@pytest.mark.parametrize("parts", [(4000,), (3000, 1000), (1000, 3000), (2000, 1500, 500)])
def test_what_an_engine_does_otherwise_is_left_out_once(parts: tuple[int, ...]) -> None:
    """A layer for further tokens has a second product for each token, whose work is in a term of its own.

    Of one layer of one head, with latents of 16: the expansion takes 16 * (3 + 5), a pair 3 + 2 + 5; 50 are of experts
    that a token is not sent to. All others are as many, however many terms they are.
    """
    latent = LatentAttention(1, 1, 16, 2, 3, 5)
    expansion, core = 16 * (3 + 5), 3 + 2 + 5
    first, *others = (Term(Law.TOKEN, part) for part in parts)
    terms = (replace(first, rate=first.rate + expansion + 50), Term(Law.PAIR, core), *others)
    # A prefill of ten tokens expands: each token once, and half the square of pairs.
    assert count_engine_macs(Work(terms, latent, 50), 1, 10, 0) == 10 * 4000 + 10 * expansion + core * 55


def test_serving_adds_up_the_steps() -> None:
    row: Any = predict_serving(COST, batch=2, prompt=10, new=4)
    later = [COST(2, 1, cached).seconds or 0 for cached in (10, 11, 12)]
    assert row.time_to_first_token == COST(2, 10).seconds
    assert row.time_per_output_token == pytest.approx(sum(later) / 3)
    assert row.decode_tokens_per_second == pytest.approx(2 * 3 / sum(later))
    assert row.tokens_per_second == pytest.approx(8 / (COST(2, 10).seconds + sum(later)))
    assert row.cache_bytes == 2 * 16 * 8  # thirteen tokens in a block of sixteen
    first: Any = predict_serving(COST, batch=1, prompt=10, new=1)  # one token needs no later step
    assert first.time_per_output_token is None
    report = LanguageModelReport(COST, 10, 1, (first,))
    assert "later" not in report.to_text() and "last token" not in report.to_text()
    assert first.tokens_per_second == pytest.approx(1 / first.time_to_first_token)


def test_a_device_without_figures_gives_counts_alone() -> None:
    bare = DeviceInfo("bare", dense_peaks={"bfloat16": Figure(1e12, "a test")})
    row: Any = predict_serving(StepCost(toy_facts(), bare), 1, 10, 4)
    assert (row.time_to_first_token, row.time_per_output_token, row.tokens_per_second) == (None, None, None)
    assert row.prefill.macs == 10 * 1000 + 100 + 6 * 55


def test_memory_is_told_apart() -> None:
    """1,600 bytes of activations for 16 tokens: 100 a token, of at most 64 tokens in a pass."""
    memory = DeviceMemory(COST, 64, 0.25).count(10, 32, Layout(2))
    assert (memory.weights, memory.cache) == (2600 // 2, 10 * 32 * 8 // 2)
    assert (memory.activations, memory.reserve) == (6400, 250_000)
    assert memory.total == 1300 + 1280 + 6400 + 250_000
    assert memory.fits is True


def test_what_fits_is_the_largest_that_does() -> None:
    result = DeviceMemory(COST, 64, 0.0).fit(8, 1024)
    # 1,000,000 - 2,600 of weights - 6,400 of activations = 991,000 for the cache of 8 bytes a token.
    assert result.largest_batch == 991_000 // (8 * 1024)
    assert (result.longest_context, result.is_models_maximum) == (4096, True)
    tight = DeviceMemory(COST, 64, 0.0).fit(100, 1024)
    sixteens = (1_000_000 - 2600 - 100 * 100) // (100 * 8 * 16)
    assert (tight.longest_context, tight.is_models_maximum) == (sixteens * 16, False)
    # 200 sequences of 1,024 tokens are 1,638,400 bytes of cache: two devices.
    assert DeviceMemory(COST, 64, 0.0).fit(200, 1024).needed_devices == 2


def test_activations_that_fill_a_device_fit_on_no_number_of_them() -> None:
    result = DeviceMemory(COST, 10**6, 0.95).fit(1, 1024)
    assert result.needed_devices is None
    assert result.largest_batch == 0


def test_a_context_above_the_maximum_is_an_error() -> None:
    message = r"^4,097 tokens are more than the 4,096 that Toy takes; give a shorter prompt"
    with pytest.raises(InputError, match=message):
        COST(1, 1, 4096)


def test_an_encoder_decoder_has_one_prompt() -> None:
    cost = StepCost(toy_facts(encoder_prompt=16), DEVICE)
    with pytest.raises(InputError, match="was traced with a prompt of 16 tokens: the cost of 20 does not follow"):
        cost(1, 20)
    assert cost.cache_bytes(16) == 16 * 8  # one decoded token, in a block of sixteen
