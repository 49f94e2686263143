"""The heads and the latents of attention in a language model's cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from profilerkit import InputError
from profilerkit_predict.language_models.model_cache import CacheContents, CacheLayer
from profilerkit_predict.language_models.records import LatentAttention

from ..model.modules import list_modules, list_parameters
from .configurations import find_most_attended, find_number, find_text_configuration
from .dtypes import choose_dtype

__all__ = ["count_repeats", "find_latent_attention"]


def count_repeats(model: nn.Module, cache: CacheContents) -> int:
    """Return how often a cache holds each head of keys and values; 1 unless the model repeats them before it caches.

    The cache then has as many heads as the queries, although the configuration has fewer heads of keys and values, and
    a projection of the model makes only this smaller number.
    """
    config = find_text_configuration(model.config)
    heads = find_number(config, "num_attention_heads")
    groups = find_number(config, "num_kv_heads", "num_key_value_heads")
    if heads is None or groups is None or groups == heads or heads % groups:
        return 1
    cached = {tensor.shape for tensor in cache.tensors if len(tensor.shape) == 4}  # (batch, heads, tokens, width)
    widths = {width for _, _, _, width in cached}
    if len(widths) != 1 or any(cached_heads != heads for _, cached_heads, _, _ in cached):
        return 1
    return heads // groups if _projects_groups(model, heads, groups, widths.pop()) else 1


def _projects_groups(model: nn.Module, heads: int, groups: int, width: int) -> bool:
    """Return whether a projection makes keys, or queries, keys and values, of so few heads, and none makes all."""
    rows = {parameter.shape[0] for parameter in list_parameters(model) if parameter.dim() == 2}
    keys, together, without_groups = groups * width, (heads + 2 * groups) * width, 3 * heads * width
    return (keys in rows or together in rows) and without_groups not in rows


#: The names that transformers gives to the sizes of latent attention, by the fields of `LatentAttention`.
_SIZES = {
    "heads": "num_heads",
    "rank": "kv_lora_rank",
    "rope": "qk_rope_head_dim",
    "nope": "qk_nope_head_dim",
    "value": "v_head_dim",
}


def find_latent_attention(model: nn.Module, cache: Sequence[CacheLayer]) -> LatentAttention | None:
    """Return the sizes of latent attention; None for a model without it, or with different sizes in its layers.

    The cache has for each token the latents, or the keys and values that are expanded from them. Further bytes are the
    keys of an indexer. Raises `InputError` for a cache that has fewer bytes.
    """
    layers = [latent for module in list_modules(model) if (latent := _read_latent(module)) is not None]
    if len(set(layers)) != 1:
        return None
    latent = replace(layers[0], layers=len(layers), most_attended=find_most_attended(model.config))
    item = choose_dtype(model).itemsize
    latents = latent.layers * (latent.rank + latent.rope) * item
    expanded = latent.layers * latent.heads * (latent.nope + latent.rope + latent.value) * item
    cached = round(sum(layer.bytes_per_token for layer in cache))
    index_bytes = cached - (expanded if cached >= expanded else latents)
    if index_bytes < 0:
        raise InputError(
            f"{type(model).__name__} has latent attention of {latents:,} bytes a token, but its cache adds {cached:,}: "
            "llm does not know this kind of it; kv_bytes(model, context) gives the bytes of its own cache"
        )
    return replace(latent, index_bytes=index_bytes)


def _read_latent(module: nn.Module) -> LatentAttention | None:
    """Return the latent attention of one layer; None for any other module."""
    sizes: Any = {field: getattr(module, name, None) for field, name in _SIZES.items()}
    is_latent = hasattr(module, "kv_b_proj") and all(isinstance(size, int) for size in sizes.values())
    return LatentAttention(1, **sizes, query_rank=getattr(module, "q_lora_rank", None) or 0) if is_latent else None
