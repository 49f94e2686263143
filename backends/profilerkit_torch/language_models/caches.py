"""What a cache holds, whatever its form: objects, dicts, lists, states of state-space models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from profilerkit_predict.language_models.records import CacheContents, CacheTensor

from ..compat.modes import unseen_by_functions
from ..model.tensors import storage_key

__all__ = ["list_contents", "list_layer_windows"]

#: How deep a cache may be nested.
_DEPTH = 8


class _Part(NamedTuple):
    """A cache, or what is in it: where it is, and how many tokens its layer attends to; None if nothing limits that."""

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
        for tensor, path, window in _walk(_Part(cache), set(), 0):
            key = storage_key(tensor)
            allocated = 0 if key in storages else tensor.untyped_storage().nbytes()
            storages.add(key)
            size = tensor.numel() * tensor.element_size()
            dtype = str(tensor.dtype).removeprefix("torch.")
            tensors.append(CacheTensor(path, tuple(tensor.shape), dtype, size, allocated, window))
    return CacheContents(context, batch, tuple(tensors), source)


def _walk(part: _Part, visited: set[int], depth: int) -> Iterator[_Part]:
    """Yield the tensors in a part of a cache, each once."""
    value = part.value
    if id(value) in visited:
        return
    if isinstance(value, torch.Tensor):
        if value.numel() > 1:
            visited.add(id(value))
            yield part
        return
    if depth >= _DEPTH or isinstance(value, (str, bytes, type, torch.nn.Module)):
        return
    visited.add(id(value))
    limit = getattr(value, "sliding_window", None)
    window = limit if isinstance(limit, int) else part.window
    for name, inner in _list_members(value):
        path = f"{part.path}.{name}" if part.path else name
        yield from _walk(_Part(inner, path, window), visited, depth + 1)


def _list_members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is in a container or an object, with its key, index or name."""
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((str(index), inner) for index, inner in enumerate(value))
    elif type(value).__module__.partition(".")[0] not in ("torch", "builtins"):
        yield from getattr(value, "__dict__", {}).items()


def list_layer_windows(cache: Any) -> dict[int, int]:
    """Return the windows of the layers of a cache of transformers by their indices; of other caches none."""
    layers = getattr(getattr(cache, "self_attention_cache", cache), "layers", None) or ()
    limits = ((index, getattr(layer, "sliding_window", None)) for index, layer in enumerate(layers))
    return {index: limit for index, limit in limits if isinstance(limit, int)}
