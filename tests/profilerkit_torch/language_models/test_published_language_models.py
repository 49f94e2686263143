"""Prefill and decode of ten published configurations to the unit, and the bytes of their caches by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from published_language_models import MODELS
from tiny_language_models import skip_where_experts_ask_for_addresses
from torch.utils.flop_counter import FlopCounterMode

from profilerkit import kv_bytes, kv_bytes_per_token, llm
from profilerkit_torch.language_models.calls import prefill

transformers = pytest.importorskip("transformers")
LARGE = ("meta-llama/Llama-3.1-405B", "meta-llama/Meta-Llama-3-70B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-30B-A3B")
PROMPT = 700  # more than the window of Gemma 3


def is_newer() -> bool:
    return tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 23)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in MODELS]
)
def test_prefill_and_decode_are_the_closed_forms_to_the_unit(name: str) -> None:
    if "Mixtral" in name:
        skip_where_experts_ask_for_addresses()
    model = MODELS[name]
    work = model.work()
    report: Any = llm(model.build(), prompt=PROMPT, new=3, dtype="bf16")
    facts = report.facts
    rotary = rotary_macs(facts)
    assert facts.traced.prefill.macs == work.prefill(PROMPT) + rotary * PROMPT
    assert facts.traced.decode.macs == work.decode(PROMPT) + rotary
    # The formula of the step's cost is that of the traced passes.
    assert report.cost.as_written(1, PROMPT, 0) == facts.traced.prefill.macs
    assert report.cost.as_written(1, 1, PROMPT) == facts.traced.decode.macs
    # ... and at lengths that were not traced it is the closed form.
    if not rotary:
        for context in (1, 37, 500, 900):
            assert report.cost.as_written(3, 1, context) == 3 * work.decode(context)
            assert report.cost.as_written(2, context, 0) == 2 * work.prefill(context)
    assert not facts.traced.prefill.uncounted


def rotary_macs(facts: Any) -> int:
    """Older versions of transformers multiply positions with frequencies by a product, of 32 or 64 MACs a token."""
    return 0 if is_newer() or "GPT2" in facts.name else 64


@pytest.mark.slow
@pytest.mark.parametrize("name", ["meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-7B", "mistralai/Mixtral-8x7B-v0.1"])
def test_the_cache_of_a_token_is_the_hand_count(name: str) -> None:
    if "Mixtral" in name:
        skip_where_experts_ask_for_addresses()
    config = MODELS[name].build()
    assert kv_bytes_per_token(config, 100, dtype="bf16") == MODELS[name].cache
    cache = kv_bytes(config, 100, batch=3, dtype="bf16")
    assert cache.logical == cache.allocated == 3 * 100 * MODELS[name].cache
    assert cache.paged == 3 * 112 * MODELS[name].cache  # seven blocks of sixteen tokens


@pytest.mark.slow
def test_deepseek_v3_caches_latents_in_this_version_and_expanded_heads_in_older_ones() -> None:
    """transformers 5.23 caches 61 * (512 + 64) numbers a token, 5.0 caches 61 * 128 * (192 + 128) of them."""
    model = MODELS["deepseek-ai/DeepSeek-V3"]
    latents, expanded = 61 * (512 + 64) * 2, 61 * 128 * (192 + 128) * 2
    assert (latents, expanded) == (70_272, 4_997_120)
    report: Any = llm(model.build(), prompt=64, new=2, dtype="bf16")
    assert report.kv_bytes_per_token(64) == (latents if is_newer() else expanded)
    assert report.cost.cache_bytes(64) == 64 * latents  # the engine's, whatever the library caches


def test_a_window_limits_the_cache_and_a_view_keeps_the_whole_prompt() -> None:
    """Mistral's window of 4,096: the cache keeps 4,095 tokens, since the next one is the last of its window."""
    config = MODELS["mistralai/Mistral-7B-v0.1"].build()
    per_token = 131_072
    assert kv_bytes_per_token(config, 4094, dtype="bf16") == per_token
    assert kv_bytes_per_token(config, 5000, dtype="bf16") == 0
    cache = kv_bytes(config, 5000, dtype="bf16")
    assert cache.logical == 4095 * per_token
    assert cache.allocated == 5000 * per_token  # a view of the prompt's keys and values
    assert cache.paged == 4096 * per_token


#: Gemma 3's sizes: layers, heads of keys and values, their size, and the window, which is 512 up to 1B and 1,024 from
#: 4B on; each sixth layer sees everything. From _VARIANTS of the script that converted Google's checkpoints, in
#: huggingface/transformers: src/transformers/models/gemma3/convert_gemma3_weights.py, commit 0d7e95d96b4e.
GEMMA_3 = {
    "270m": (18, 1, 256, 512),
    "1b": (26, 1, 256, 512),
    "4b": (34, 4, 256, 1024),
    "12b": (48, 8, 256, 1024),
    "27b": (62, 16, 128, 1024),
}
#: Bytes of a token in bfloat16 by hand: before any window is full, and after.
GEMMA_3_BYTES = {
    "270m": (18_432, 3_072),
    "1b": (26_624, 4_096),
    "4b": (139_264, 20_480),
    "12b": (393_216, 65_536),
    "27b": (507_904, 81_920),
}


@pytest.mark.parametrize(
    "size", ["270m", *(pytest.param(s, marks=pytest.mark.slow) for s in ("1b", "4b", "12b", "27b"))]
)
def test_each_size_of_gemma_3_has_its_own_window(size: str) -> None:
    layers, heads, head_dim, window = GEMMA_3[size]
    config = transformers.Gemma3TextConfig(
        hidden_size=64,  # the cache does not depend on it
        intermediate_size=64,
        vocab_size=64,
        num_attention_heads=heads,
        num_hidden_layers=layers,
        num_key_value_heads=heads,
        head_dim=head_dim,
        sliding_window=window,
    )
    bytes_in_layer = 2 * heads * head_dim * 2
    assert GEMMA_3_BYTES[size] == (layers * bytes_in_layer, layers // 6 * bytes_in_layer)
    # The window keeps one token less than it has: the next one is its last.
    assert kv_bytes_per_token(config, window - 2, dtype="bf16") == GEMMA_3_BYTES[size][0]
    assert kv_bytes_per_token(config, window - 1, dtype="bf16") == GEMMA_3_BYTES[size][1]


def test_mamba_has_a_state_of_constant_size() -> None:
    """Two layers of state-spaces/mamba-130m: 1,536 channels, 4 numbers of bfloat16 and 16 of float32 for each."""
    config = transformers.MambaConfig(hidden_size=768, num_hidden_layers=2, vocab_size=50280)
    assert kv_bytes_per_token(config, 20, dtype="bf16") == 0
    state = 2 * 1536 * (4 * 2 + 16 * 4)
    assert [kv_bytes(config, n, dtype="bf16").logical for n in (5, 20)] == [state, state]
    assert kv_bytes(config, 5, batch=2, dtype="bf16").logical == 2 * state


@pytest.mark.parametrize("prompt", [8, 512])
def test_layers_that_compute_chunks_are_followed_through_a_full_one(prompt: int) -> None:
    """Mamba 2 takes as much for 16 tokens as for 256; torch's own counter has 512, which are two chunks."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 50, "num_heads": 8, "head_dim": 8}
    config = transformers.Mamba2Config(**sizes, n_groups=1, state_size=16)
    model = transformers.Mamba2ForCausalLM(config).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        prefill(model, torch.ones(1, 512, dtype=torch.long))
    report: Any = llm(config, prompt=prompt, new=2, dtype="bf16")
    assert report.cost(1, 512, 0).macs == pytest.approx(counter.get_total_flops() / 2, rel=0.001)
    assert "traced with a prompt of 256 tokens, which recurrent layers compute at once" in report.facts.notes[0]


def test_t5_has_cross_attention_in_its_cache() -> None:
    """google-t5/t5-small: 6 layers of 8 heads of 64; keys and values of the prompt, and of each decoded token."""
    config = transformers.T5Config()
    token = 6 * 2 * 8 * 64 * 2
    cache = kv_bytes(config, 100, dtype="bf16")
    cross = sum(tensor.bytes for tensor in cache.contents.tensors if "cross" in tensor.path)
    assert cross == 100 * token
    assert cache.logical == 100 * token + token  # the decoder has seen one token
    assert kv_bytes_per_token(config, 100, dtype="bf16") == token


def test_rwkv_keeps_its_states_in_a_list() -> None:
    """Five states of hidden_size numbers in each layer; the first two of the model's dtype, three of float32."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 50, "attention_hidden_size": 64}
    config = transformers.RwkvConfig(**sizes)
    assert kv_bytes(config, 6, dtype="bf16").logical == 2 * 64 * (2 * 2 + 3 * 4)
    assert kv_bytes_per_token(config, 6, dtype="bf16") == 0


def test_gemma_3_1b_has_the_parameters_that_keras_hub_publishes() -> None:
    """999,885,952, in keras-team/keras-hub: keras_hub/src/models/gemma3/gemma3_presets.py."""
    report: Any = llm(MODELS["google/gemma-3-1b-pt"].build(), prompt=8, new=2, dtype="bf16")
    assert report.facts.parameters == 999_885_952
    assert {part.kind for part in report.facts.weights} == {"matrix", "head", "other"}  # the table is tied to the head


def test_mixtral_has_the_experts_that_the_trace_shows() -> None:
    """32 layers of 8 experts, of 3 * 4096 * 14336 elements each, two for each token."""
    skip_where_experts_ask_for_addresses()
    report: Any = llm(MODELS["mistralai/Mixtral-8x7B-v0.1"].build(), prompt=8, new=2, dtype="bf16")
    (experts,) = [part for part in report.facts.weights if part.kind == "experts"]
    assert (experts.routing.experts, experts.routing.experts_per_token, experts.layers) == (8, 2, 32)
    assert experts.elements == 32 * 8 * 3 * 4096 * 14336
    assert report.facts.execution.experts == "grouped_mm"
