"""The contents of a language model's cache of any kind, the heads that it repeats, and the latents of attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit import InputError
from profilerkit.process.object_facts import list_slots
from profilerkit_predict.language_models.facts.model_cache import CacheContents, CacheLayer, CacheTensor
from profilerkit_predict.language_models.facts.work import LatentAttention

from ..compat.modes import unseen_by_functions
from ..model.attributes import EMPTY, read_slot
from ..model.modules import list_modules, list_parameters
from ..model.storages import storage_key
from .configurations import find_most_attended, find_number, find_text_configuration
from .models import choose_dtype

__all__ = ["count_repeats", "find_latent_attention", "list_contents", "list_layer_windows"]


class _Part(NamedTuple):
    """A cache, or a value in it: its path, and how many tokens its layer attends to; None if there is no limit."""

    value: Any
    path: str = ""
    window: int | None = None


def list_contents(cache: Any, context: int, batch: int, source: int | None = None) -> CacheContents:
    """Return the tensors of a cache that a model returned; single numbers are left out.

    A storage that several tensors share is counted once.
    """
    tensors: list[CacheTensor] = []
    storages: set[int] = set()
    with unseen_by_functions():
        for tensor, path, window in _walk(_Part(cache), set()):
            key = storage_key(tensor)
            allocated = 0 if key in storages else tensor.untyped_storage().nbytes()
            storages.add(key)
            size = tensor.numel() * tensor.element_size()
            dtype = str(tensor.dtype).removeprefix("torch.")
            tensors.append(CacheTensor(path, tuple(tensor.shape), dtype, size, allocated, window))
    return CacheContents(context, batch, tuple(tensors), source)


def _walk(part: _Part, visited: set[int]) -> Iterator[_Part]:
    """Yield the tensors in a part of a cache, each once."""
    value = part.value
    if id(value) in visited or isinstance(value, (str, bytes, type, nn.Module)):
        return
    visited.add(id(value))
    if isinstance(value, torch.Tensor):
        if value.numel() > 1:
            yield part
        return
    limit = getattr(value, "sliding_window", None)
    window = limit if isinstance(limit, int) else part.window
    for name, inner in _list_members(value):
        path = f"{part.path}.{name}" if part.path else name
        yield from _walk(_Part(inner, path, window), visited)


def _list_members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the members of a container or an object, each after its key, index or name."""
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((str(index), inner) for index, inner in enumerate(value))
    elif type(value).__module__.partition(".")[0] not in ("torch", "builtins"):
        yield from getattr(value, "__dict__", {}).items()
        contents = ((slot.__name__, read_slot(slot, value)) for slot in list_slots(type(value)))
        yield from ((name, inner) for name, inner in contents if inner is not EMPTY)


def list_layer_windows(cache: Any) -> dict[int, int]:
    """Return the windows of the layers of a cache of transformers by their indices; of other caches none."""
    layers = getattr(getattr(cache, "self_attention_cache", cache), "layers", None) or ()
    limits = ((index, getattr(layer, "sliding_window", None)) for index, layer in enumerate(layers))
    return {index: limit for index, limit in limits if isinstance(limit, int)}


# Heads and latents ----------------------------------------------------------------------------------------------------


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
