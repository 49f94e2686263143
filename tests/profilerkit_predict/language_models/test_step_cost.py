"""The cost of steps, the bounds and what fits, of a model that is worked out by hand."""

from __future__ import annotations

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit import ArgumentError, InputError
from profilerkit.devices import DeviceInfo, Figure
from profilerkit_predict.checkpoints.formats import weight_format
from profilerkit_predict.language_models import CacheLayer, LatentAttention, StepCost, Term, WeightPart
from profilerkit_predict.language_models.fitting import count_memory, fit
from profilerkit_predict.language_models.rewrites import REWRITES, engine_macs
from profilerkit_predict.language_models.serving import predict_serving
from profilerkit_predict.language_models.speculation import read_speculation

COST = StepCost(toy_facts(), DEVICE)


def test_a_step_of_decode_reads_weights_and_cache() -> None:
    step = COST(batch=4, new_tokens=1, cached=20)
    assert step.macs == 4 * (1000 + 100 + 6 * 21)
    assert step.weight_bytes == 2000 + 200 + 4 * 8  # four rows of four elements of two bytes
    assert (step.cache_read_bytes, step.cache_write_bytes) == (4 * 20 * 8, 4 * 8)
    assert step.compute_seconds == 2 * step.macs / 1e12
    assert step.memory_seconds == (2232 + 640 + 32) / 1e9
    assert (step.seconds, step.bound_by) == (step.memory_seconds, "memory")
    assert step.execution == "engine"


def test_a_prefill_attends_to_half_the_square() -> None:
    step = COST(batch=2, new_tokens=10)
    assert step.macs == 2 * (10 * 1000 + 100 + 6 * 55)
    assert COST.as_written(2, 10) == 2 * (10 * 1000 + 100 + 6 * 100)
    assert (step.cache_read_bytes, step.cache_write_bytes) == (0, 2 * 10 * 8)


def test_several_devices_share_the_work() -> None:
    one, four = COST(2, 10), StepCost(toy_facts(), DEVICE, devices=4)(2, 10)
    assert four.compute_seconds == pytest.approx((one.compute_seconds or 0) / 4)
    assert four.memory_seconds == pytest.approx((one.memory_seconds or 0) / 4)


def test_int4_shrinks_the_matrices_and_not_the_head_or_the_table() -> None:
    cost = StepCost(toy_facts(), DEVICE, weight_format("int4"))
    assert cost.stored_weight_bytes == 500 + 2 * 8 + 200 + 400  # eight scales for a thousand elements
    assert cost.weight_bytes_read(1) == 516 + 200 + 8


@pytest.mark.parametrize(("name", "entry"), [("fp8", 64), ("int8", 64), ("nvfp4", 36), ("bf16", 128), ("fp32", 256)])
def test_the_cache_has_a_format_of_its_own(name: str, entry: int) -> None:
    """64 elements of an entry: 32 bytes and four scales in nvfp4. A state of 100 bytes keeps its dtype."""
    layers = (CacheLayer("layers.0", 128), CacheLayer("layers.1", 0, 100))
    cost = StepCost(toy_facts(cache_layers=layers), DEVICE, cache_format=weight_format(name))
    assert cost.cache_bytes(32, 2) == 2 * (32 * entry + 100)
    assert cost(2, 1, 32).cache_read_bytes == 2 * (32 * entry + 100)
    assert cost.device_cache_bytes(32, 2, 1) == cost.cache_bytes(32, 2)


def test_latents_have_the_format_of_the_cache() -> None:
    latent = LatentAttention(layers=2, heads=4, rank=56, rope=8, nope=8, value=8)
    cost = StepCost(toy_facts(latent=latent), DEVICE, cache_format=weight_format("fp8"))
    assert cost.cache_bytes(16) == 16 * 2 * 64


def test_a_step_with_drafted_tokens_makes_several() -> None:
    """Three drafted, each accepted in half of the cases: 1 + 1/2 + 1/4 + 1/8 tokens of a step that runs four."""
    speculation = read_speculation(3, 0.5)
    plain, drafted = predict_serving(COST, 2, 100, 3), predict_serving(COST, 2, 100, 3, None, speculation)
    step = COST(2, 4, 101, logits=4)
    assert drafted.decode == step
    assert step.macs == 2 * (4 * 1000 + 4 * 100 + 6 * (102 + 103 + 104 + 105))
    seconds = [COST(2, 4, cached, 4).seconds or 0.0 for cached in (100, 101)]
    assert drafted.time_per_output_token == pytest.approx(sum(seconds) / 2 / 1.875)
    assert drafted.prefill == plain.prefill
    assert drafted.per_token is not None
    assert drafted.per_token.low == drafted.time_per_output_token


def test_drafted_tokens_end_where_the_model_does() -> None:
    row = predict_serving(COST, 1, 4090, 6, None, read_speculation(8, 1))
    assert row.decode == COST(1, 2, 4094, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, None), "acceptance is missing: speculation needs draft_tokens"),
        ((None, 0.5), "draft_tokens is missing: speculation needs draft_tokens"),
        ((3, 1.5), "acceptance=1.5: give the share of drafted tokens that is accepted, from 0 to 1"),
        ((3, True), "acceptance=True: give the share"),
        ((0, 0.5), "draft_tokens=0: give a whole number from 1"),
    ],
)
def test_wrong_speculation_is_an_error(arguments: tuple[object, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read_speculation(*arguments)
    assert read_speculation(None, None) is None


def test_experts_are_read_as_often_as_expected() -> None:
    """8 experts, 2 a token: 4 tokens are expected to use 8 * (1 - 0.75 ** 4) = 5.46875 of them."""
    part = WeightPart("experts", 8000, 16000, "bfloat16", experts=8, experts_per_token=2, layers=1)
    cost = StepCost(toy_facts(weights=(part,)), DEVICE)
    assert cost.weight_bytes_read(4) == round(16000 * 5.46875 / 8)
    assert cost.weight_bytes_read(1) == 4000


def test_a_window_and_a_state_limit_the_cache() -> None:
    layers = (CacheLayer("layers.0", 8, window=10), CacheLayer("layers.1", 0, 100))
    cost = StepCost(toy_facts(cache_layers=layers), DEVICE)
    assert cost.cache_bytes(50, 2) == 2 * (16 * 8 + 100)  # nine tokens, in a block of sixteen
    step = cost(1, 1, 50)
    assert (step.cache_read_bytes, step.cache_write_bytes) == (9 * 8 + 100, 8 + 100)


def test_entries_for_several_tokens_and_those_that_wait_for_them() -> None:
    """50 tokens are 12 entries for 4 of them, of which a step reads 10; two wait."""
    layers = (CacheLayer("entries", 8, stride=4, most_read=10), CacheLayer("waiting", 6, stride=4, waits=True))
    cost = StepCost(toy_facts(cache_layers=layers), DEVICE)
    assert [sum(layer.logical_bytes(50) for layer in layers), layers[0].bytes_per_token] == [12 * 8 + 2 * 6, 2]
    assert cost.cache_bytes(50) == 16 * 8 + 2 * 6  # blocks of sixteen entries
    step = cost(1, 1, 51)
    assert (step.cache_read_bytes, step.cache_write_bytes) == (10 * 8 + 3 * 6, 8 + 6), "the 52nd token makes an entry"


def test_latent_attention_is_absorbed_whether_the_library_caches_latents_or_not() -> None:
    """Two layers, 4 heads, latents of 16 and 2, keys of 3 + 2 and values of 5: hand counts below."""
    latent = LatentAttention(2, 4, 16, 2, 3, 5)
    expansion, core = 2 * 16 * 4 * (3 + 5), 2 * 4 * (3 + 2 + 5)
    cached_as_latents = (Term("token", 1000), Term("key", expansion), Term("pair", core))
    expanded_before = (Term("token", 1000 + expansion), Term("pair", core))
    for terms in (cached_as_latents, expanded_before):
        facts = toy_facts(terms=terms, latent=latent)
        # Decode: the expansion meets one query, and a pair takes 2 * 4 * (16 + 2 + 16).
        assert engine_macs(facts, 1, 1, 99) == 1000 + expansion + 2 * 4 * 34 * 100
        # A prefill expands: each token once, and half the square of pairs.
        assert engine_macs(facts, 1, 10, 0) == 10 * 1000 + 10 * expansion + core * 55
        assert StepCost(facts, DEVICE).cache_bytes(16) == 16 * 2 * (16 + 2) * 2


def test_serving_adds_up_the_steps() -> None:
    row = predict_serving(COST, batch=2, prompt=10, new=4)
    later = [COST(2, 1, cached).seconds or 0 for cached in (10, 11, 12)]
    assert row.time_to_first_token == COST(2, 10).seconds
    assert row.time_per_output_token == pytest.approx(sum(later) / 3)
    assert row.decode_tokens_per_second == pytest.approx(2 * 3 / sum(later))
    assert row.tokens_per_second == pytest.approx(8 / ((COST(2, 10).seconds or 0) + sum(later)))
    assert row.cache_bytes == 2 * 16 * 8  # thirteen tokens in a block of sixteen


def test_one_token_needs_no_later_step() -> None:
    row = predict_serving(COST, batch=1, prompt=10, new=1)
    assert row.time_per_output_token is None
    assert row.tokens_per_second == pytest.approx(1 / (row.time_to_first_token or 0))


def test_a_device_without_figures_gives_counts_alone() -> None:
    bare = DeviceInfo("bare", dense_peaks={"bfloat16": Figure(1e12, "a test")})
    row = predict_serving(StepCost(toy_facts(), bare), 1, 10, 4)
    assert (row.time_to_first_token, row.time_per_output_token, row.tokens_per_second) == (None, None, None)
    assert row.prefill.macs == 10 * 1000 + 100 + 6 * 55
    assert fit(StepCost(toy_facts(), bare), 1, 10, 100, 0.1).longest_context is None


def test_memory_is_told_apart() -> None:
    """1,600 bytes of activations for 16 tokens: 100 a token, of at most 64 tokens in a pass."""
    memory = count_memory(COST, batch=10, context=32, prefill_tokens=64, reserve=0.25, devices=2)
    assert (memory.weights, memory.cache) == (2600 // 2, 10 * 32 * 8 // 2)
    assert (memory.activations, memory.reserve) == (6400, 250_000)
    assert memory.total == 1300 + 1280 + 6400 + 250_000
    assert memory.fits is True


def test_what_fits_is_the_largest_that_does() -> None:
    result = fit(COST, batch=8, context=1024, prefill_tokens=64, reserve=0.0)
    # 1,000,000 - 2,600 of weights - 6,400 of activations = 991,000 for the cache of 8 bytes a token.
    assert result.largest_batch == 991_000 // (8 * 1024)
    assert (result.longest_context, result.is_models_maximum) == (4096, True)
    tight = fit(COST, batch=100, context=1024, prefill_tokens=64, reserve=0.0)
    sixteens = (1_000_000 - 2600 - 100 * 100) // (100 * 8 * 16)
    assert (tight.longest_context, tight.is_models_maximum) == (sixteens * 16, False)
    # 200 sequences of 1,024 tokens are 1,638,400 bytes of cache: two devices.
    assert fit(COST, 200, 1024, 64, 0.0).needed_devices == 2


def test_activations_that_fill_a_device_fit_on_no_number_of_them() -> None:
    result = fit(COST, 1, 1024, 10**6, 0.95)
    assert result.needed_devices is None
    assert result.largest_batch == 0


def test_a_context_above_the_maximum_is_an_error() -> None:
    message = r"4,097 tokens were requested, and Toy takes 4,096 \(max_position_embeddings of its configuration\)"
    with pytest.raises(InputError, match=message):
        COST(1, 1, 4096)


@pytest.mark.parametrize(("arguments", "message"), [((0,), "batch=0: give a whole"), ((1, 0), "new_tokens=0: give a")])
def test_what_is_no_number_is_an_error(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        COST(*arguments)
    with pytest.raises(ArgumentError, match="cached=-1: give a whole number from 0"):
        COST(1, 1, -1)


def test_an_encoder_decoder_has_one_prompt() -> None:
    cost = StepCost(toy_facts(is_encoder_decoder=True), DEVICE)
    with pytest.raises(InputError, match="was traced with a prompt of 16 tokens: the cost of 20 does not follow"):
        cost(1, 20)
    assert cost.cache_bytes(16) == 16 * 8  # one decoded token, in a block of sixteen


def test_every_rewrite_says_what_it_changes() -> None:
    names = [rewrite.name for rewrite in REWRITES]
    assert len(set(names)) == len(names)
    assert all(rewrite.as_written and rewrite.engine and rewrite.changes for rewrite in REWRITES)
