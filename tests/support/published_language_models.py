"""Published language models as configurations built from numbers, and their multiply-accumulates by closed forms.

The numbers are those of each model's public ``config.json``, at ``https://huggingface.co/`` and the name below, which
no test downloads. Some were compared with copies in public repositories: those of Llama 3.1, Qwen2.5-7B and
DeepSeek-V3; Gemma 3 1B with the script that converted its checkpoint (huggingface/transformers:
convert_gemma3_weights.py), and its number of parameters is a test; Mixtral with keras-team/keras-hub:
keras_hub/src/models/mixtral/README.md; Mistral's window of 4,096 with a copy of its file. Those of Llama 3 70B and
GPT-2 were not. The closed forms were worked out by hand from the architectures; they use neither the traces nor the
formulas of profilerkit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["MODELS", "Published", "Work"]


@dataclass(frozen=True)
class Work:
    """The multiply-accumulates of one sequence, by hand.

    ``token`` are those of each token, ``head`` of the last one's logits, ``pair`` of a pair of a query and a key in all
    layers without a window, ``windowed`` in all layers with one; ``key`` of each token in the cache at every step.
    """

    token: int
    head: int
    pair: int = 0
    windowed: int = 0
    window: int = 0
    key: int = 0

    def prefill(self, prompt: int) -> int:
        """Every token, the whole square of pairs, and the logits of the last token."""
        pairs = (self.pair + self.windowed) * prompt**2
        return (self.token + self.key) * prompt + self.head + pairs

    def decode(self, cached: int) -> int:
        """One token after so many: it meets them and itself, and in a window at most so many."""
        keys = cached + 1
        return self.token + self.head + self.key * keys + self.pair * keys + self.windowed * min(keys, self.window)


def dense(h: int, layers: int, heads: int, kv: int, d: int, f: int, vocabulary: int) -> Work:
    """Queries and output of ``heads``, keys and values of ``kv`` heads of size ``d``, and a gated feed-forward part."""
    block = h * heads * d + 2 * h * kv * d + heads * d * h + 3 * h * f
    return Work(layers * block, h * vocabulary, pair=layers * 2 * heads * d)


def experts(h: int, layers: int, heads: int, kv: int, d: int, f: int, count: int, chosen: int, vocabulary: int) -> Work:
    """As above, with a router and so many chosen experts in place of the feed-forward part."""
    block = h * heads * d + 2 * h * kv * d + heads * d * h + h * count + chosen * 3 * h * f
    return Work(layers * block, h * vocabulary, pair=layers * 2 * heads * d)


def limit_to_window(work: Work, window: int, full: int, layers: int) -> Work:
    """``full`` of the layers see everything, the others a window."""
    number = work.pair // layers
    return Work(work.token, work.head, number * full, number * (layers - full), window)


def gpt2() -> Work:
    """GPT-2: one product for queries, keys and values, and a feed-forward part of two."""
    h, layers = 768, 12
    return Work(layers * (h * 3 * h + h * h + 2 * h * 4 * h), h * 50257, pair=layers * 2 * h)


def deepseek_v3() -> Work:
    """DeepSeek-V3: latents of 512 and a shared part of 64 in the cache; keys and values are expanded at each step."""
    h, heads, nope, rope, value, rank, query_rank = 7168, 128, 128, 64, 128, 512, 1536
    attention = h * query_rank + query_rank * heads * (nope + rope) + h * (rank + rope) + heads * value * h
    dense_part = 3 * (3 * h * 18432)
    expert_part = 58 * (h * 256 + (8 + 1) * 3 * h * 2048)
    expansion = rank * heads * (nope + value)
    pair = heads * (nope + rope + value)
    return Work(61 * attention + dense_part + expert_part, h * 129280, pair=61 * pair, key=61 * expansion)


@dataclass(frozen=True)
class Published:
    """A model: its name, the type of its configuration in transformers, the numbers, and its work by hand."""

    name: str
    config: str
    numbers: dict[str, Any]
    work: Callable[[], Work]
    #: Bytes that a token adds to the cache in bfloat16, by hand, while no window is full.
    cache: int

    def build(self) -> Any:
        """Return the configuration."""
        import transformers

        return getattr(transformers, self.config)(**self.numbers)


def _llama(h: int, layers: int, heads: int, f: int, longest: int) -> dict[str, Any]:
    sizes = {"hidden_size": h, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": f}
    return {**sizes, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": longest}


_MISTRAL = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
_MISTRAL |= {"intermediate_size": 14336, "vocab_size": 32000}

MODELS = {
    model.name: model
    for model in (
        Published(
            "meta-llama/Meta-Llama-3-8B",
            "LlamaConfig",
            _llama(4096, 32, 32, 14336, 8192),
            lambda: dense(4096, 32, 32, 8, 128, 14336, 128256),
            32 * 2 * 8 * 128 * 2,  # 131,072
        ),
        Published(
            "meta-llama/Meta-Llama-3-70B",
            "LlamaConfig",
            _llama(8192, 80, 64, 28672, 8192),
            lambda: dense(8192, 80, 64, 8, 128, 28672, 128256),
            80 * 2 * 8 * 128 * 2,
        ),
        Published(
            "meta-llama/Llama-3.1-405B",
            "LlamaConfig",
            _llama(16384, 126, 128, 53248, 131072),
            lambda: dense(16384, 126, 128, 8, 128, 53248, 128256),
            126 * 2 * 8 * 128 * 2,
        ),
        Published(
            "mistralai/Mistral-7B-v0.1",
            "MistralConfig",
            {**_MISTRAL, "sliding_window": 4096, "max_position_embeddings": 32768},
            lambda: limit_to_window(dense(4096, 32, 32, 8, 128, 14336, 32000), 4096, 0, 32),
            32 * 2 * 8 * 128 * 2,
        ),
        Published(
            "mistralai/Mixtral-8x7B-v0.1",
            "MixtralConfig",
            {**_MISTRAL, "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768},
            lambda: experts(4096, 32, 32, 8, 128, 14336, 8, 2, 32000),
            32 * 2 * 8 * 128 * 2,
        ),
        Published(
            "Qwen/Qwen2.5-7B",
            "Qwen2Config",
            {
                "hidden_size": 3584,
                "num_hidden_layers": 28,
                "num_attention_heads": 28,
                "num_key_value_heads": 4,
                "intermediate_size": 18944,
                "vocab_size": 152064,
                "max_position_embeddings": 131072,
            },
            lambda: dense(3584, 28, 28, 4, 128, 18944, 152064),
            28 * 2 * 4 * 128 * 2,
        ),
        Published(
            "Qwen/Qwen3-30B-A3B",
            "Qwen3MoeConfig",
            {
                "hidden_size": 2048,
                "num_hidden_layers": 48,
                "num_attention_heads": 32,
                "num_key_value_heads": 4,
                "head_dim": 128,
                "moe_intermediate_size": 768,
                "num_experts": 128,
                "num_experts_per_tok": 8,
                "vocab_size": 151936,
                "max_position_embeddings": 40960,
            },
            lambda: experts(2048, 48, 32, 4, 128, 768, 128, 8, 151936),
            48 * 2 * 4 * 128 * 2,
        ),
        Published(
            "deepseek-ai/DeepSeek-V3",
            "DeepseekV3Config",
            {
                "hidden_size": 7168,
                "num_hidden_layers": 61,
                "num_attention_heads": 128,
                "num_key_value_heads": 128,
                "q_lora_rank": 1536,
                "kv_lora_rank": 512,
                "qk_rope_head_dim": 64,
                "qk_nope_head_dim": 128,
                "v_head_dim": 128,
                "n_routed_experts": 256,
                "num_experts_per_tok": 8,
                "n_shared_experts": 1,
                "moe_intermediate_size": 2048,
                "intermediate_size": 18432,
                "first_k_dense_replace": 3,
                "vocab_size": 129280,
                "max_position_embeddings": 163840,
            },
            deepseek_v3,
            61 * (512 + 64) * 2,  # 70,272
        ),
        Published(
            "google/gemma-3-1b-pt",
            "Gemma3TextConfig",
            {
                "hidden_size": 1152,
                "num_hidden_layers": 26,
                "num_attention_heads": 4,
                "num_key_value_heads": 1,
                "head_dim": 256,
                "intermediate_size": 6912,
                "vocab_size": 262144,
                "sliding_window": 512,
                "max_position_embeddings": 32768,
            },
            lambda: limit_to_window(
                dense(1152, 26, 4, 1, 256, 6912, 262144), 512, 4, 26
            ),  # each sixth layer sees everything
            26 * 2 * 1 * 256 * 2,
        ),
        Published("openai-community/gpt2", "GPT2Config", {}, gpt2, 12 * 2 * 768 * 2),
    )
}
