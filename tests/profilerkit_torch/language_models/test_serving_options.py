"""Adapters and what drafts, of small and published configurations, against counts by hand."""

from __future__ import annotations

from typing import Any

import pytest

from profilerkit import InputError, llm
from profilerkit_predict.language_models.facts.model_cache import CacheGrowth, CacheLayer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

#: A layer: q and o of 64 by 64, k and v of 32 by 64, three matrices of 64 by 128, two norms of 64.
SIZES = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}
ATTENTION, INNER = 2 * 64 * 64 + 2 * 32 * 64, 3 * 64 * 128
LENGTHS: dict[str, Any] = {"prompt": 16, "new": 4, "dtype": "bf16", "device": "h100"}


def make_llama(**changes: Any) -> Any:
    return transformers.LlamaConfig(**{**SIZES, **changes})


def test_adapters_stand_beside_the_matrices_that_are_named() -> None:
    """Rank 4 in two layers: q_proj of 64 by 64 and v_proj of 32 by 64; all of them with o, k and the three others."""
    some: Any = llm(make_llama(), lora_rank=4, lora_adapters=2, lora_targets="q_proj, v_proj", **LENGTHS)
    assert some.cost.adapters.parameters == 2 * 4 * ((64 + 64) + (32 + 64))
    assert some.fits[0].memory.adapters == 2 * some.cost.adapters.parameters * 2
    every: Any = llm(make_llama(), lora_rank=4, **LENGTHS)
    attention = 2 * (64 + 64) + 2 * (32 + 64)
    assert every.cost.adapters.parameters == 2 * 4 * (attention + 3 * (64 + 128))
    assert every.reason_without_estimates.startswith("by a data sheet")
    assert "2 of rank 4" in str(some)
    assert "beside q_proj, v_proj" in str(some)


def test_adapters_of_experts_are_those_that_a_token_is_sent_to() -> None:
    """Four experts of 2 * 32 by 64 and 64 by 32, two a token, in two layers."""
    config = transformers.MixtralConfig(
        **{**SIZES, "intermediate_size": 32}, num_local_experts=4, num_experts_per_tok=2
    )
    report: Any = llm(config, lora_rank=4, lora_targets=["gate_up_proj", "down_proj"], **LENGTHS)
    of_expert = 4 * ((64 + 64) + (64 + 32))
    assert report.cost.adapters.parameters == 2 * 4 * of_expert
    assert report.cost.adapters.macs_of_a_token == 2 * 2 * of_expert


def test_a_second_model_drafts() -> None:
    drafter = make_llama(num_hidden_layers=1)
    options: dict[str, Any] = {"draft_tokens": 2, "acceptance": 0.5}
    report: Any = llm(make_llama(), draft=drafter, name="Two layers", **options, **LENGTHS)
    alone: Any = llm(drafter, **LENGTHS)
    assert report.speculation.drafter.facts.parameters == alone.facts.parameters
    assert report.serving[0].draft == alone.cost(1, 1, 16 + 2)
    memory = alone.fits[0].memory
    assert report.fits[0].memory.drafter == memory.weights + memory.cache


def test_a_layer_of_its_own_drafts() -> None:
    """A layer like the last one, a product of 128 by 64, three norms, and the model's head of 100 by 64."""
    options: dict[str, Any] = {"draft_tokens": 2, "acceptance": 0.5, "draft": "mtp"}
    report: Any = llm(make_llama(num_nextn_predict_layers=1), **options, **LENGTHS)
    layer, joined, head = ATTENTION + INNER, 2 * 64 * 64, 100 * 64
    drafter = report.speculation.drafter
    assert drafter.facts.parameters == layer + 5 * 64 + joined
    step = drafter(1, 1, 17)
    assert step.macs == layer + joined + head + 18 * 2 * 64
    row_of_table = 2 * 64
    # Norms have 2 bytes an element, and so have matrices; keys and values of 17 tokens in 2 heads of 16.
    assert step.weight_bytes == 2 * (layer + 5 * 64 + joined + head) + row_of_table
    assert step.cache_read_bytes == 17 * 2 * 2 * 16 * 2
    with pytest.raises(InputError, match="names no layers that predict further tokens"):
        llm(make_llama(), **options, **LENGTHS)
    several: Any = llm(make_llama(num_nextn_predict_layers=3), **options, **LENGTHS)
    assert several.serving[0].draft == report.serving[0].draft
    # Two drafted tokens take two of the three layers.
    memory, of_one = several.fits[0].memory.drafter, report.fits[0].memory.drafter
    assert (several.speculation.drafters, memory) == (2, 2 * of_one)
    assert "are taken to be like the model's last layer" in " ".join(str(several).split())


def test_a_layer_of_its_own_is_like_one_that_text_goes_through() -> None:
    """The first list of two layers is no text's, as in a tower for images; the second one has two norms of 64."""

    class WithTower(transformers.LlamaForCausalLM):  # type: ignore[name-defined,misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            text: Any = self._modules["model"]
            del self._modules["model"]
            self.tower = torch.nn.ModuleList([torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)])
            self.model = text

    with torch.device("meta"):
        model = WithTower(make_llama(num_nextn_predict_layers=1)).eval()
    report: Any = llm(model, draft_tokens=2, acceptance=0.5, draft="mtp", **{**LENGTHS, "dtype": None})
    assert report.speculation.drafter.facts.parameters == ATTENTION + INNER + 5 * 64 + 2 * 64 * 64


def test_layers_of_its_own_are_not_counted_where_the_last_layer_is_not_found() -> None:
    """No list has as many layers as text goes through: the model's has one that its code leaves out."""
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(make_llama(num_nextn_predict_layers=1)).eval()
        model.model.layers.append(torch.nn.Linear(64, 64))
    with pytest.raises(InputError, match=r"names layers that predict further tokens \(1\), but the work"):
        llm(model, draft_tokens=2, acceptance=0.5, draft="mtp", **{**LENGTHS, "dtype": None})


def test_the_cache_of_a_layer_has_no_second_state_of_another_layer() -> None:
    from profilerkit_torch.language_models import mtp_layer

    paths = ["layers.0.states.1", "layers.1.states.0", "key_cache.1", "1.0", "0.1", "layers.11", "states"]
    growth = CacheGrowth(tuple(CacheLayer(path, 8) for path in paths), repeats=2)
    chosen = mtp_layer._select_cache(growth, 1)
    assert [part.path for part in chosen.parts] == ["layers.1.states.0", "key_cache.1", "1.0"]
    assert chosen.repeats == 2


@pytest.mark.slow
def test_the_layer_that_drafts_of_deepseek_v3_has_the_published_parameters() -> None:
    """README_WEIGHTS.md of deepseek-ai/DeepSeek-V3 has "11.5B unique parameters" of the MTP module.

    257 experts of three matrices of 7,168 by 2,048, a router of 256 rows and biases, latent attention, norms (three of
    them of the module: enorm, hnorm and shared_head.norm), and a product of twice 7,168 by 7,168.
    """
    config = transformers.DeepseekV3Config(num_nextn_predict_layers=1)
    report: Any = llm(config, draft="mtp", draft_tokens=1, acceptance=0.85, prompt=64, new=2, dtype="bf16")
    width = 7168
    experts = 257 * 3 * width * 2048 + 256 * (width + 1)
    latents = width * (1536 + 512 + 64) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * width
    norms = 5 * width + 1536 + 512
    parameters = report.speculation.drafter.facts.parameters
    assert parameters == experts + latents + norms + 2 * width * width
    assert parameters == pytest.approx(11.5e9, rel=0.01)
