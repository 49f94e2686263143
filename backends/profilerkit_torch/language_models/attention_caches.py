"""What the cache of a language model tells of its attention: windows, repeated heads, and latents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from profilerkit import InputError
from profilerkit_predict.language_models.model_cache import find_layer
from profilerkit_predict.language_models.records import CacheContents, CacheLayer, LatentAttention

from ..model.modules import list_modules, list_parameters
from .configurations import find_most_attended, find_number, find_text_configuration
from .dtypes import choose_dtype

__all__ = ["count_repeats", "find_latent_attention", "find_limits", "find_windows"]


def find_windows(model: nn.Module, cache_windows: Mapping[int, int]) -> dict[str, int | None]:
    """Return the tokens that each attention attends to by its path, from the windows of the layers of the cache."""
    return dict(_list_by_path(model, cache_windows))


def find_limits(model: nn.Module, cache: Iterable[CacheLayer]) -> dict[str, int | None]:
    """Return how many entries each attention attends to at most by its path, where an indexer chooses them."""
    limits: dict[int, int] = {}
    for part in cache:
        index = find_layer(part.path).rpartition(".")[2]
        if part.most_read is not None and index.isdigit():
            limits[int(index)] = part.most_read
    return dict(_list_by_path(model, limits))


def _list_by_path(model: nn.Module, values: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Yield the path of each module that has the index of a layer, with the value of that layer if it has one."""
    for path, module in model.named_modules():
        index = getattr(module, "layer_idx", None)
        if isinstance(index, int) and index in values:
            yield path, values[index]


def count_repeats(model: nn.Module, cache: CacheContents) -> int:
    """Return how often a cache holds each head of keys and values; 1 unless the model repeats them before it caches.

    The cache then has the heads of the queries, though the configuration has fewer of keys and values, and a projection
    of the model makes as many.
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
    """Return whether a projection makes keys, or all of queries, keys and values, of so few heads, and none of all."""
    rows = {parameter.shape[0] for parameter in list_parameters(model) if parameter.dim() == 2}
    keys, together, without_groups = groups * width, (heads + 2 * groups) * width, 3 * heads * width
    return (keys in rows or together in rows) and without_groups not in rows


#: What transformers calls the sizes of latent attention, by the fields of `LatentAttention`.
_SIZES = {
    "heads": "num_heads",
    "rank": "kv_lora_rank",
    "rope": "qk_rope_head_dim",
    "nope": "qk_nope_head_dim",
    "value": "v_head_dim",
}


def find_latent_attention(model: nn.Module, cache: Sequence[CacheLayer]) -> LatentAttention | None:
    """Return the sizes of latent attention; None for a model that has it nowhere, or not in all layers alike.

    The cache that was seen has for each token the latents, or the keys and values that are expanded from them. What it
    has besides are the keys of an indexer. Raises `InputError` for a cache that has less.
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
    return LatentAttention(layers=1, **sizes) if is_latent else None
