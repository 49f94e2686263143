"""Every configuration of transformers that generates text, small: few layers of small widths, by one table of names.

A default configuration is built anew with the sizes of `SIZES` for the arguments that it has, and its parts likewise.
It has as many layers as show each of its kinds. What that does not suit is in `EXCEPTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from transformers import PreTrainedConfig

__all__ = ["EXCEPTIONS", "SIZES", "VOCABULARY", "shrink", "shrink_named"]

WIDTH, HEADS, HEAD, GROUPS, INNER, VOCABULARY, LAYERS = 64, 4, 16, 2, 96, 120, 2
_GROUPS = ("num_key_value_heads", "num_kv_heads", "swa_num_key_value_heads", "num_global_key_value_heads")
_TOKENS = ("token_id", "token_index", "_idx")

#: The small size of each argument, by what configurations call it.
SIZES: Mapping[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "emb_dim", "embedding_dim", "dim", "lru_width"), WIDTH),
    **dict.fromkeys(("embedding_size", "word_embed_proj_dim", "input_embedding_size", "output_embedding_size"), WIDTH),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "d_ff", "dff"), INNER),
    **dict.fromkeys(
        ("ffn_hidden_size", "dim_ff", "d_inner", "intermediate_size_mlp", "n_inner", "feed_forward_size"), INNER
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("encoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"), HEADS),
    **dict.fromkeys(("head_dim", "d_kv", "d_head", "dim_head", "attention_head_size", "global_head_dim"), HEAD),
    **dict.fromkeys(("swa_head_dim", "v_head_dim", "qk_nope_head_dim", "swa_v_head_dim", "linear_head_dim"), HEAD),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "index_head_dim", "mamba_d_head"), HEAD),
    **dict.fromkeys(("qk_rope_head_dim", "rotary_dim"), 8),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "src_vocab_size", "tgt_vocab_size"), VOCABULARY),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers"), LAYERS),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_target_positions"), 512),
    **dict.fromkeys(("sliding_window", "sliding_window_size", "attention_window_size", "local_attention"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 8),
    **dict.fromkeys(
        ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts", "moe_top_k"), 2
    ),
    **dict.fromkeys(("moe_intermediate_size", "expert_ffn_hidden_size"), 32),
    **dict.fromkeys(
        ("shared_expert_intermediate_size", "shared_intermediate_size", "shared_experts_intermediate_size"), 48
    ),
    **dict.fromkeys(("n_group", "num_expert_group"), 2),
    **dict.fromkeys(("topk_group", "first_k_dense_replace", "mamba_n_groups", "n_groups", "mamba_ngroups"), 1),
    **dict.fromkeys(("mamba_d_state", "state_size", "mamba_chunk_size", "chunk_size", "time_step_rank"), 8),
    **dict.fromkeys(("mamba_n_heads", "n_mamba_heads"), 8),
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_head_dim": 24,
    "index_n_heads": 2,
    "index_topk": 6,
    "attention_chunk_size": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_num_heads": 4,
    "hidden_size_per_layer_input": 12,
    "max_source_positions": 40,
    "num_mel_bins": 8,
    "audio_hidden_size": WIDTH,
}
#: What configurations call the number of layers, and the lists of their kinds.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_KINDS = ("layer_types", "layers_block_type", "mlp_layer_types", "indexer_types")
#: What is 0 in configurations that lack it.
_ABSENT = ("hidden_size_per_layer_input", "vocab_size_per_layer_input")
#: The most layers that are tried.
_MOST = 8

#: Arguments that a configuration needs besides, or otherwise, by its type.
EXCEPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "dbrx": {
        "attn_config": {"kv_n_heads": GROUPS, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": INNER, "moe_num_experts": 8, "moe_top_k": 2},
    },
    "deepseek_v4": {"compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 16}},
    "dots1": {"n_shared_experts": 1},
    "emu3": {"vocabulary_map": {"<image>": 5}},
    "falcon_h1": {"mamba_d_ssm": 128},
    "gemma3n_text": {"num_hidden_layers": 10, "num_kv_shared_layers": 5},
    "gpt_neo": {"window_size": 8, "attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]},
    "lfm2_moe": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "longcat_flash": {"head_dim": 8},
    "mamba2": {"num_heads": 8},
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": HEAD,
        "indexer_budget": 8,
        "indexer_compress_ratio": 4,
    },
    "xlstm": {"hidden_size": 2 * WIDTH, "embedding_dim": 2 * WIDTH},
    "zamba": {
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention", "hybrid"] * 2,
        "attention_head_dim": 2 * HEAD,
    },
    "zamba2": {"num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2, "mamba_headdim": HEAD},
    "zaya": {"num_experts_per_tok": 1},
}
#: What the default configuration of a type needs, which is not whole.
_NEEDED: Mapping[str, Mapping[str, Any]] = {
    "gemma4_assistant": {"text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}},
}


def shrink_named(name: str, **changes: Any) -> Any:
    """Return the small configuration of a type of model."""
    from transformers import CONFIG_MAPPING

    return shrink(CONFIG_MAPPING[name](**_NEEDED.get(name, {})), **changes)


def shrink(config: Any, **changes: Any) -> Any:
    """Return a small configuration like another with some changes, of the fewest layers that show each of its kinds."""
    values = {field.name: vars(config).get(field.name) for field in fields(config)}
    sizes = {name: SIZES[name] for name in values if name in SIZES}
    sizes |= {name: shrink(part) for name, part in values.items() if isinstance(part, PreTrainedConfig)}
    sizes |= {name: _shrink_token(value) for name, value in values.items() if name.endswith(_TOKENS)}
    for name in _GROUPS:
        if name in values:
            sizes[name] = HEADS if "kv_lora_rank" in values else GROUPS
    sizes |= {name: 0 for name in _ABSENT if values.get(name) == 0}
    sizes |= {**EXCEPTIONS.get(config.model_type, {}), **changes}
    layers = next((name for name in _LAYERS if name in values), None)
    if layers is None or layers in sizes:
        return type(config)(**sizes)
    for count in range(LAYERS, _MOST):
        try:
            small = type(config)(**{**sizes, layers: count})
        except ValueError:  # too few layers for it
            continue
        if _list_kinds(small) == _list_kinds(config):
            return small
    return type(config)(**{**sizes, layers: _MOST})


def _list_kinds(config: Any) -> list[set[str]]:
    """Return the kinds of layers, of each list of a configuration."""
    return [set(getattr(config, name, None) or ()) for name in _KINDS]


def _shrink_token(token: Any) -> Any:
    """Return a token that a small vocabulary has."""
    return token % VOCABULARY if type(token) is int and token >= 0 else token
