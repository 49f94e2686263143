"""Caches that nothing was noted of before a pass: found by what refers to the tensors in them."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable
from typing import Any

import torch

from ..model.attributes import CONTAINERS

__all__ = ["forget_in_caches"]

_LRU: Any = functools._lru_cache_wrapper
#: How many tuples there may be around a tensor in a container.
_DEPTH = 4


def forget_in_caches(tensors: list[torch.Tensor]) -> list[str]:
    """Take tensors out of functions' caches and out of the containers that hold them; return the names of containers.

    The cache of a function loses nothing that it does not compute again. What a container had before is
    unknown: they are only removed.
    """
    names: list[str] = []
    leading: dict[int, Any] = {id(tensor): tensor for tensor in tensors}
    level: list[Any] = list(tensors)
    hidden = {id(tensors), id(leading)}
    containers: dict[int, Any] = {}
    for _ in range(_DEPTH):
        referrers = gc.get_referrers(*level)
        hidden |= {id(level), id(referrers), id(containers)}
        level = []
        for holder in referrers:
            if isinstance(holder, _LRU):
                holder.cache_clear()
            elif isinstance(holder, tuple):
                level.append(holder)
            elif isinstance(holder, CONTAINERS) and id(holder) not in hidden:
                containers[id(holder)] = holder
        leading |= {id(holder): holder for holder in level}
        if not level:
            break
    namespaces = _namespaces([container for container in containers.values() if isinstance(container, dict)])
    for container in containers.values():
        if id(container) in namespaces:
            continue
        _drop(container, leading.keys())
        names.append(f"a {type(container).__name__}")
    return names


def _namespaces(dicts: list[dict[Any, Any]]) -> set[int]:
    """Return the ids of the dicts in which something keeps its names: a module, a class or any object.

    All are searched for at once: each search goes through the memory.
    """
    globals_ids = {id(namespace) for namespace in dicts if "__builtins__" in namespace}
    for owner in gc.get_referrers(*dicts) if dicts else ():
        globals_ids.add(id(getattr(owner, "__dict__", None)))
        if isinstance(owner, type):
            globals_ids |= {id(namespace) for namespace in dicts if namespace.keys() == owner.__dict__.keys()}
    return globals_ids


def _drop(container: Any, leading: Iterable[int]) -> None:
    if isinstance(container, dict):
        for key in [key for key, value in container.items() if id(value) in leading]:
            dict.pop(container, key)
    elif isinstance(container, set):
        for value in [value for value in container if id(value) in leading]:
            container.discard(value)
    else:
        kept = [value for value in container if id(value) not in leading]
        container.clear()
        container.extend(kept)
