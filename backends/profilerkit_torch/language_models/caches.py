"""The contents of a language model's cache: of objects, dicts, lists, or states of state-space models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit.process.object_facts import list_slots
from profilerkit_predict.language_models.model_cache import CacheContents, CacheTensor

from ..compat.modes import unseen_by_functions
from ..model.attributes import EMPTY, read_slot
from ..model.storages import storage_key

__all__ = ["list_contents", "list_layer_windows"]


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
