"""Caches that nothing was noted of before a pass: found by what refers to the tensors in them."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable
from typing import Any

import torch

from ..model.modules import CONTAINERS

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
            elif isinstance(holder, CONTAINERS) and id(holder) not in hidden and not _is_namespace(holder):
                containers[id(holder)] = holder
        leading |= {id(holder): holder for holder in level}
        if not level:
            break
    for container in containers.values():
        _drop(container, leading.keys())
        names.append(f"a {type(container).__name__}")
    return names


def _is_namespace(container: Any) -> bool:
    """Return whether a dict is what something keeps its names in: a module, a class or any object."""
    if not isinstance(container, dict):
        return False
    owners = gc.get_referrers(container)
    return "__builtins__" in container or any(
        _of_class(owner, container) or getattr(owner, "__dict__", None) is container for owner in owners
    )


def _of_class(owner: Any, container: Any) -> bool:
    return isinstance(owner, type) and container.keys() == owner.__dict__.keys()


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
