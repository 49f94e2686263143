"""MACs and parameters of transformers from their configurations alone, by closed forms.

B is the batch, S the number of tokens of a sample, T = B * S all of them, h the width, f that of the feed-forward part.
Attention is the dense one, whatever the mask: two products of B * S * S * h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import BACKEND, trace_complete
from torch import nn

from profilerkit import ModelInputs

pytestmark = pytest.mark.slow

tf = pytest.importorskip("transformers")

from transformers_models import FORMULATED, FRAMES, B, S, ids, make_model, quiet  # noqa: E402


def attention(width: int, queries: int, keys: int) -> int:
    """Scores and weighted sums of one layer."""
    return 2 * B * queries * keys * width


def bert(c: Any) -> int:
    """Four projections and two feed-forward ones for each token, attention; and the pooler of the first token."""
    h, t = c.hidden_size, B * S
    layer = 4 * t * h * h + 2 * t * h * c.intermediate_size + attention(h, S, S)
    return int(c.num_hidden_layers * layer + B * h * h)


def gpt2(c: Any) -> int:
    """Three projections at once, one back, a feed-forward part four times as wide; and the tied head."""
    h, t = c.n_embd, B * S
    return int(c.n_layer * (4 * t * h * h + 8 * t * h * h + attention(h, S, S)) + t * h * c.vocab_size)


def grouped_attention(c: Any) -> int:
    """Queries and output are h wide, keys and values as wide as their fewer heads; each of these serves a group."""
    h, t = c.hidden_size, B * S
    narrow = h * c.num_key_value_heads // c.num_attention_heads
    return int(2 * t * h * h + 2 * t * h * narrow + attention(h, S, S))


def llama(c: Any) -> int:
    """Grouped attention, and gate, up and down projection; the head."""
    h, t = c.hidden_size, B * S
    layer = grouped_attention(c) + 3 * t * h * c.intermediate_size
    return int(c.num_hidden_layers * layer + t * h * c.vocab_size)


def mixtral(c: Any) -> int:
    """As Llama, but each token is scored by a router and goes through k experts."""
    h, t = c.hidden_size, B * S
    experts = c.num_experts_per_tok * 3 * t * h * c.intermediate_size
    layer = grouped_attention(c) + t * h * c.num_local_experts + experts
    return int(c.num_hidden_layers * layer + t * h * c.vocab_size)


def t5(c: Any) -> int:
    """Encoder, and decoder of half as many tokens with attention to the encoder's; heads as wide in all as i."""
    d, i, f = c.d_model, c.num_heads * c.d_kv, c.d_ff
    t, half = B * S, B * S // 2
    encoder = 4 * t * d * i + 2 * t * d * f + attention(i, S, S)
    own = 4 * half * d * i + attention(i, S // 2, S // 2)
    cross = 2 * half * d * i + 2 * t * d * i + attention(i, S // 2, S)
    decoder = own + cross + 2 * half * d * f
    return int(c.num_layers * encoder + c.num_decoder_layers * decoder + half * d * c.vocab_size)


def vit(c: Any) -> int:
    """A projection of every patch, then layers as BERT's over the patches and one token more; the classifier."""
    h, patches = c.hidden_size, (c.image_size // c.patch_size) ** 2
    tokens = patches + 1
    layer = 4 * B * tokens * h * h + 2 * B * tokens * h * c.intermediate_size + attention(h, tokens, tokens)
    return int(B * patches * h * 3 * c.patch_size**2 + c.num_hidden_layers * layer + B * h * c.num_labels)


def whisper(c: Any) -> int:
    """Two convolutions of kernel 3, the second halving the frames; then encoder and decoder as T5's."""
    d, f, sound, text = c.d_model, c.encoder_ffn_dim, FRAMES // 2, S // 2
    convolutions = B * FRAMES * d * c.num_mel_bins * 3 + B * sound * d * d * 3
    encoder = B * sound * (4 * d * d + 2 * d * f) + attention(d, sound, sound)
    own = 4 * B * text * d * d + attention(d, text, text)
    cross = 2 * B * text * d * d + 2 * B * sound * d * d + attention(d, text, sound)
    decoder = own + cross + 2 * B * text * d * c.decoder_ffn_dim
    return int(convolutions + c.encoder_layers * encoder + c.decoder_layers * decoder + B * text * d * c.vocab_size)


def mamba(c: Any) -> int:
    """Projection to twice i channels, a causal depthwise convolution (padded by k - 1 on both sides), the projections
    to steps and states, one product with the state for each token, and back; the tied head.
    """
    h, t, i, n, r, k = c.hidden_size, B * S, c.intermediate_size, c.state_size, c.time_step_rank, c.conv_kernel
    assert (i, r) == (c.expand * h, math.ceil(h / 16))
    convolution = B * i * (S + k - 1) * k
    layer = t * h * 2 * i + convolution + t * i * (r + 2 * n) + t * r * i + t * i * n + t * i * h
    return int(c.num_hidden_layers * layer + t * h * c.vocab_size)


#: Class, configuration, inputs and closed form of each model.
MODELS: dict[str, tuple[str, Callable[[], Any], Callable[[], dict[str, Any]], Callable[[Any], int]]] = {
    name: (*FORMULATED[name], formula)
    for name, formula in {
        "bert": bert,
        "gpt2": gpt2,
        "llama": llama,
        "mixtral": mixtral,
        "t5": t5,
        "vit": vit,
        "whisper": whisper,
        "mamba": mamba,
    }.items()
}


def built(name: str, device: str = "meta", **settings: Any) -> nn.Module:
    kind, config = MODELS[name][0], MODELS[name][1]()
    for key, value in settings.items():
        setattr(config, key, value)
    return make_model(kind, config, device)


def count_model(name: str, device: str = "meta", **settings: Any) -> Any:
    return trace_complete(built(name, device, **settings), **MODELS[name][2]())


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("name", MODELS)
def test_macs_are_those_of_the_closed_form(name: str, device: str) -> None:
    found = count_model(name, device)
    assert found.macs == MODELS[name][3](MODELS[name][1]())
    assert found.notes == ()  # on shapes alone
    assert found.total_params == sum(parameter.numel() for parameter in built(name).parameters())


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mamba"])
def test_the_way_attention_is_written_changes_nothing(name: str) -> None:
    expected = MODELS[name][3](MODELS[name][1]())
    assert {count_model(name, _attn_implementation=way).macs for way in ("eager", "sdpa")} == {expected}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_narrower_numbers_cost_the_same(name: str, dtype: torch.dtype) -> None:
    inputs = {key: x.to(dtype) if x.is_floating_point() else x for key, x in MODELS[name][2]().items()}
    assert trace_complete(built(name).to(dtype), **inputs).macs == MODELS[name][3](MODELS[name][1]())


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "t5", "whisper"])
def test_the_keys_that_are_kept_for_later_cost_nothing(name: str) -> None:
    assert count_model(name, use_cache=True).macs == count_model(name, use_cache=False).macs


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "mixtral", "t5"])
def test_a_mask_leaves_the_dense_product(name: str, device: str) -> None:
    mask = torch.ones(B, S, dtype=torch.int64)
    mask[1, S // 2 :] = 0
    found = trace_complete(built(name, device), **MODELS[name][2](), attention_mask=mask)
    assert found.macs == MODELS[name][3](MODELS[name][1]())


def test_one_more_token_over_kept_keys() -> None:
    """Decoding: one token of each sample through all products; its scores range over those before it as well."""
    config = MODELS["llama"][1]()
    model = built("llama", "cpu").eval()
    with torch.no_grad():
        past = model(ids(), use_cache=True).past_key_values
    found = trace_complete(model, input_ids=ids(1), past_key_values=past)
    h = config.hidden_size
    layer = 3 * h * h + 3 * h * config.intermediate_size  # queries and output, keys and values of half the width
    expected = config.num_hidden_layers * (B * layer + attention(h, 1, S + 1)) + B * h * config.vocab_size
    assert found.macs == expected
    kept = 2 * config.num_hidden_layers * B * S * (h // 2) * 4  # the bytes of keys and values
    assert found.memory.input_bytes == kept + B * 8
    assert past.get_seq_length() == S


def test_a_cache_that_is_given_does_not_grow_with_the_calls() -> None:
    model = built("llama", "cpu").eval()
    with torch.no_grad():
        past = model(ids(), use_cache=True).past_key_values
    keys = past.layers[0].keys
    with BACKEND.run(model, ModelInputs(input_ids=ids(1), past_key_values=past)) as call:
        call()
        assert past.get_seq_length() == S + 1
        call()
        assert past.get_seq_length() == S + 1
    assert past.layers[0].keys is keys


@pytest.mark.parametrize("way", ["grouped_mm", "batched_mm", "eager"])
def test_the_experts_cost_the_same_however_they_are_called(way: str) -> None:
    """Each token goes through k experts; which ones depends on values, how many does not."""
    assert count_model("mixtral", "cpu", _experts_implementation=way).macs == mixtral(MODELS["mixtral"][1]())


def test_experts_that_only_values_call_are_counted_in_a_real_run() -> None:
    found = count_model("mixtral", "cpu", _experts_implementation="eager")
    assert found.method == "a real run"
    without = BACKEND.trace(built("mixtral", _experts_implementation="eager"), ModelInputs(input_ids=ids()))
    assert without.failure is not None
    assert without.operators == ()
    assert without.total_params == found.total_params


#: Parameters as the models' pages give them.
PUBLISHED: dict[str, tuple[str, Callable[[], Any], int]] = {
    "bert-base": ("BertModel", tf.BertConfig, 109_482_240),
    "gpt2": ("GPT2LMHeadModel", tf.GPT2Config, 124_439_808),
    "llama-2-7b": ("LlamaForCausalLM", tf.LlamaConfig, 6_738_415_616),
    "llama-2-70b": (
        "LlamaForCausalLM",
        lambda: tf.LlamaConfig(
            hidden_size=8192,
            intermediate_size=28672,
            num_hidden_layers=80,
            num_attention_heads=64,
            num_key_value_heads=8,
        ),
        68_976_648_192,
    ),
    "mixtral-8x7b": ("MixtralForCausalLM", tf.MixtralConfig, 46_702_792_704),
    "mamba-130m": ("MambaForCausalLM", lambda: tf.MambaConfig(num_hidden_layers=24, vocab_size=50280), 129_135_360),
}
LARGE: dict[str, Callable[[Any], int]] = {"llama-2-7b": llama, "llama-2-70b": llama, "mixtral-8x7b": mixtral}
LARGE.update({"bert-base": bert, "gpt2": gpt2, "mamba-130m": mamba})


@pytest.mark.parametrize("name", PUBLISHED)
def test_real_sizes_on_the_meta_device(name: str) -> None:
    kind, config, params = PUBLISHED[name]
    with quiet(), torch.device("meta"):
        model = getattr(tf, kind)(config())
    found = trace_complete(model, input_ids=ids())
    assert (found.total_params, found.macs) == (params, LARGE[name](config()))
    assert found.size_bytes >= 4 * params
