"""The rules of serving engines, as their documentation and sources have them, and caches that follow them by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit import ArgumentError
from profilerkit_predict.checkpoints.formats import find_weight_format
from profilerkit_predict.language_models import LanguageModelReport, StepCost
from profilerkit_predict.language_models.engine.engines import ENGINES, find_engine
from profilerkit_predict.language_models.engine.serving import predict_serving
from profilerkit_predict.language_models.facts.model_cache import CacheLayer
from profilerkit_predict.language_models.facts.work import LatentAttention

#: A layer with a window of 10 tokens, which keeps 9 for the next one, and one without, of 8 bytes a token each.
PARTS = (CacheLayer("layers.0", 8, window=10), CacheLayer("layers.1", 8))


def write_report(cost: StepCost) -> str:
    report = LanguageModelReport(cost, 16, 4, (predict_serving(cost, 1, 16, 4),))
    return " ".join(report.to_text().split())


def test_defaults_are_those_of_the_documentation() -> None:
    """vLLM: DEFAULT_BLOCK_SIZE, gpu_memory_utilization 0.92. TensorRT-LLM: tokens_per_block. SGLang: page_size."""
    assert (find_engine("vllm").block_size, find_engine("vLLM").reserve) == (16, 0.08)
    assert find_engine("tensorrt-llm").block_size == 32
    assert (find_engine("sglang").block_size, find_engine("sglang").reserve) == (1, None)
    assert all(source.startswith("https://") for rule in ENGINES.values() for source in rule.sources)
    assert (find_engine(None).block_size, find_engine(None).reserve) == (16, 0.1)


@pytest.mark.parametrize("name", ["vlm", 3])
def test_an_unknown_engine_is_an_error(name: object) -> None:
    with pytest.raises(ArgumentError, match="is no engine whose rules are known; there are, nearest first: "):
        find_engine(name)


@pytest.mark.parametrize(("tokens", "kept"), [(3, 4), (6, 8), (13, 16), (100, 16)])
def test_a_window_begins_inside_a_block(tokens: int, kept: int) -> None:
    """Nine tokens are in three blocks of 4, or in four: vLLM counts one more, and never more than all tokens have."""
    cost = StepCost(toy_facts(parts=PARTS), DEVICE, block_size=4, engine=find_engine("vllm"))
    without = -(-tokens // 4) * 4
    assert cost.cache_bytes(tokens) == 8 * kept + 8 * without
    assert StepCost(toy_facts(parts=PARTS), DEVICE, block_size=4).cache_bytes(100) == 8 * 12 + 8 * 100


@pytest.mark.parametrize(("tokens", "kept"), [(3, 4), (6, 8), (13, 12), (100, 12)])
def test_a_chunk_begins_with_a_block(tokens: int, kept: int) -> None:
    """The eleven tokens of a chunk of twelve that the last one needs are in three blocks of 4, and never in four."""
    chunks = (CacheLayer("layers.0", 8, window=12, is_chunked=True),)
    cost = StepCost(toy_facts(parts=chunks), DEVICE, block_size=4, engine=find_engine("vllm"))
    assert cost.cache_bytes(tokens) == 8 * kept


@pytest.mark.parametrize(("tokens", "without", "window"), [(100, 100, 80), (9, 12, 10), (4, 5, 4)])
def test_pools_that_are_divided_beforehand(tokens: int, without: int, window: int) -> None:
    """A layer with a window has 0.8 times the tokens of another: nine in it need twelve in the other."""
    facts = toy_facts(parts=PARTS, architecture="GptOssForCausalLM")
    cost = StepCost(facts, DEVICE, block_size=1, engine=find_engine("sglang"))
    assert cost.cache_bytes(tokens) == 8 * without + 8 * window
    other = StepCost(toy_facts(parts=PARTS), DEVICE, block_size=1, engine=find_engine("sglang"))
    assert other.cache_bytes(tokens) == 2 * 8 * tokens, "other models keep all tokens"


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_latents_that_an_indexer_chooses_have_a_layout(name: str) -> None:
    """DeepSeek-V3.2, two layers: 512 bytes, 4 scales of 4, 64 elements of 2 bytes; keys of 128 bytes and a scale."""
    latent = LatentAttention(2, 4, 512, 64, 8, 8, most_attended=2048, index_bytes=2 * 128 * 2)
    facts = toy_facts(latent=latent)
    fp8, engine = find_weight_format("fp8"), find_engine(name)
    assert StepCost(facts, DEVICE, cache_format=fp8, engine=engine).cache_bytes(16) == 16 * 2 * (656 + 132)
    assert StepCost(facts, DEVICE, engine=engine).cache_bytes(16) == 16 * 2 * (576 * 2 + 132)
    assert StepCost(facts, DEVICE, cache_format=fp8).cache_bytes(16) == 16 * 2 * (576 + 128)
    plain = toy_facts(latent=LatentAttention(2, 4, 512, 64, 8, 8))
    assert StepCost(plain, DEVICE, cache_format=fp8, engine=engine).cache_bytes(16) == 16 * 2 * 576


@pytest.mark.parametrize(
    ("name", "architecture", "note"),
    [
        ("vllm", "Toy", "a window takes a block more than its tokens fill"),
        ("sglang", "GptOssForCausalLM", "keeps in layers with a window 0.8 times the tokens of a layer without"),
        ("sglang", "Toy", "sglang keeps in layers with a window all tokens"),
    ],
)
def test_a_report_says_what_the_engine_does_and_where_that_was_read(name: str, architecture: str, note: str) -> None:
    cost = StepCost(toy_facts(parts=PARTS, architecture=architecture), DEVICE, engine=find_engine(name))
    text = write_report(cost)
    assert note in text
    assert all(source in text for source in cost.engine.sources)
    assert note not in write_report(replace(cost, facts=toy_facts())), "the model has no windows"
