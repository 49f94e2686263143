"""Tensors that a forward pass leaves outside the model, in a global, a closure or a cache.

After a pass on shapes alone these tensors have no values, and code that later finds them in a cache fails. The holders
that `Surroundings` has noted get their contents back. Caches that nobody has noted are found by their references to the
tensors, which are taken out. Where nothing is left, which is nearly always so, nothing is searched.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Container
from typing import Any, NamedTuple

import torch

from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.containers import CONTAINERS, refill
from profilerkit.process.object_facts import copy_content

from ..compat.modes import unseen_by_functions
from ..model.storages import storage_key
from ..model.tensors import list_tensors_alive
from .holders import FUNCTION_CACHE
from .surroundings import Surroundings

__all__ = ["remove_leftovers"]

#: How many levels of references are followed: a tensor in a tuple in a tuple in a list is three away from it.
_LEVELS = 4
#: What may keep tensors as a cache.
_KINDS = (*CONTAINERS, FUNCTION_CACHE)


class Leftovers(NamedTuple):
    """The tensors that a pass has left outside the model."""

    holders: tuple[str, ...] = ()  #: the names of the holders whose tensors were removed, in order
    remain: bool = False  #: whether tensors are left that could not be removed


def remove_leftovers(alive: Callable[[], set[int]], surroundings: Surroundings) -> Leftovers:
    """Remove the tensors that a pass has left outside the model, and return where they were.

    ``alive`` returns the addresses of the storages that were made for the pass and are still alive.
    """
    if not _find_tensors(alive):
        surroundings.restore_own_cells()
        return Leftovers()
    left = alive()
    with unseen_by_functions():
        names = surroundings.restore_holders(lambda tensor: storage_key(tensor) in left)
    surroundings.restore_own_cells()
    surroundings.forget()  # it has noted containers that may be caches
    names += _empty_caches(_find_tensors(alive))
    return Leftovers(tuple(sorted(set(names))), remain=bool(_find_tensors(alive)))


def _find_tensors(alive: Callable[[], set[int]]) -> list[torch.Tensor]:
    """Return the tensors of a pass that Python can reach after it: those that only a graph in C++ holds do no harm."""
    for generation in (1, 2):  # objects in reference cycles are only freed by the collector
        if not alive():
            return []
        gc.collect(generation)
    left = alive()
    # A server, or the pass itself, may have hidden objects; classes of tensors may refuse functions, as lazy ones do.
    with frozen_objects_found(), unseen_by_functions():
        return [tensor for tensor in list_tensors_alive() if storage_key(tensor) in left] if left else []


# Caches that nobody has noted before a pass ---------------------------------------------------------------------------


def _empty_caches(tensors: list[torch.Tensor]) -> list[str]:
    """Take tensors out of functions' caches and out of the containers that hold them; return the names of containers.

    The cache of a function computes lost results again. The earlier contents of a container are unknown: the tensors,
    and the tuples with them, are only removed. A namespace is no cache: a module, a class or an object keeps its named
    values.
    """
    if not tensors:
        return []
    with frozen_objects_found():
        holders, unwanted = _search_holders(tensors)
        namespaces = _find_namespaces([holder for holder in holders if isinstance(holder, dict)])
    for holder in holders:
        if isinstance(holder, FUNCTION_CACHE):
            holder.cache_clear()
    containers = [holder for holder in holders if isinstance(holder, CONTAINERS) and id(holder) not in namespaces]
    return [f"a {type(container).__name__}" for container in containers if _remove(container, unwanted)]


def _search_holders(tensors: list[torch.Tensor]) -> tuple[list[Any], dict[int, Any]]:
    """Return the containers and caches that hold tensors, and these tensors and the tuples around them by their ids.

    The search goes outward from the tensors, and only through tuples.
    """
    unwanted: dict[int, Any] = {id(tensor): tensor for tensor in tensors}
    holders: dict[int, Any] = {}
    ours = {id(tensors), id(unwanted), id(holders)}  # they refer to the tensors too, and the search meets them
    level: list[Any] = tensors
    for _ in range(_LEVELS):
        referrers = gc.get_referrers(*level)
        level = [referrer for referrer in referrers if isinstance(referrer, tuple)]
        ours |= {id(referrers), id(level)}
        unwanted.update((id(around), around) for around in level)
        holders.update(
            (id(holder), holder) for holder in referrers if isinstance(holder, (*CONTAINERS, FUNCTION_CACHE))
        )
    return [holder for key, holder in holders.items() if key not in ours], unwanted


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


def _remove(container: Any, unwanted: Container[int]) -> bool:
    """Take the keys and values with these ids out of a container; return whether there were any.

    A dict loses these keys and is not refilled: another thread may add a key meanwhile.
    """
    content = copy_content(container)
    if isinstance(content, dict):
        kind: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))  # a subclass may refuse
        removed = [key for key, value in content.items() if id(key) in unwanted or id(value) in unwanted]
        for key in removed:
            kind.__delitem__(container, key)
        return bool(removed)
    kept = [value for value in content if id(value) not in unwanted]
    refill(container, kept)
    return len(kept) < len(content)
