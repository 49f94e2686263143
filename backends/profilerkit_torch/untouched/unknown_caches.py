"""Caches that nobody has noted before a pass: they are found by the references to the tensors in them."""

from __future__ import annotations

import gc
from collections.abc import Container
from typing import Any

import torch

from profilerkit.process.containers import CONTAINERS

from .holders import FUNCTION_CACHE

__all__ = ["forget_in_caches"]

#: How many levels of references are followed: a tensor in a tuple in a tuple in a list is three away from it.
_LEVELS = 4


def forget_in_caches(tensors: list[torch.Tensor]) -> list[str]:
    """Take tensors out of functions' caches and out of the containers that hold them; return the names of containers.

    The cache of a function computes lost results again. The earlier contents of a container are unknown: the tensors,
    and the tuples with them, are only removed. A namespace is no cache: a module, a class or an object keeps its named
    values.
    """
    containers, unwanted = _search_holders(tensors)
    namespaces = _find_namespaces([container for container in containers if isinstance(container, dict)])
    caches = [container for container in containers if id(container) not in namespaces]
    for cache in caches:
        _remove(cache, unwanted.keys())
    return [f"a {type(cache).__name__}" for cache in caches]


def _search_holders(tensors: list[torch.Tensor]) -> tuple[list[Any], dict[int, Any]]:
    """Return the containers that hold tensors, each with the ids of these tensors, or of tuples around them.

    The search goes outward from the tensors, and only through tuples. Caches of functions are emptied as soon as they
    are found: otherwise their internal containers would be taken for the user's.
    """
    unwanted: dict[int, Any] = {id(tensor): tensor for tensor in tensors}
    containers: dict[int, Any] = {}
    ours = {id(tensors), id(unwanted), id(containers)}  # they refer to the tensors too, and the search meets them
    level: list[Any] = list(tensors)
    for _ in range(_LEVELS):
        if not level:
            break
        referrers = gc.get_referrers(*level)
        ours |= {id(level), id(referrers)}
        level = []
        for holder in referrers:
            if isinstance(holder, FUNCTION_CACHE):
                holder.cache_clear()
            elif isinstance(holder, tuple):
                unwanted[id(holder)] = holder
                level.append(holder)
            elif isinstance(holder, CONTAINERS) and id(holder) not in ours:
                containers[id(holder)] = holder
    return list(containers.values()), unwanted


def _find_namespaces(dicts: list[dict[Any, Any]]) -> set[int]:
    """Return the ids of the dicts in which something keeps its names: a module, a class or any object.

    All are searched for at once: each search goes through the memory.
    """
    namespaces = {id(namespace) for namespace in dicts if "__builtins__" in namespace}
    owners = gc.get_referrers(*dicts) if dicts else []
    for owner in owners:
        namespaces.add(id(getattr(owner, "__dict__", None)))
        if isinstance(owner, type):  # the ``__dict__`` of a class is a view of the dict, with another id
            namespaces |= {id(namespace) for namespace in dicts if namespace.keys() == owner.__dict__.keys()}
    return namespaces


def _remove(container: Any, unwanted: Container[int]) -> None:
    """Take the values with these ids out of a container, which stays the same object."""
    if isinstance(container, dict):
        for key in [key for key, value in container.items() if id(value) in unwanted]:
            dict.pop(container, key)  # not the method of a subclass
    elif isinstance(container, set):
        for value in [value for value in container if id(value) in unwanted]:
            container.discard(value)
    else:
        kept = [value for value in container if id(value) not in unwanted]
        container.clear()
        container.extend(kept)
