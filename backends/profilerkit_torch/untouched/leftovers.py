"""Tensors that a forward pass leaves outside the model, in a global, a closure or a cache.

After a pass on shapes alone these tensors have no values, and code that later finds them in a cache fails.
`remove_leftovers` removes the tensors of the pass that are still alive from the holders that `Surroundings` has noted
before the pass. If none is alive, which is nearly always so, it searches nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import torch

from profilerkit import ModelInputs
from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.containers import CONTAINERS, refill
from profilerkit.process.object_facts import copy_content
from profilerkit.process.restoring import call_each, restored

from ..compat.tensors import TensorBase
from ..model.attributes import list_reachable
from ..model.inventory import Inventory
from ..model.storages import storage_key
from .holders import FUNCTION_CACHE, Holder
from .surroundings import Surroundings

__all__ = ["outside_restored", "remove_leftovers", "tensors_alive"]

#: How many levels of references are followed: a tensor in a tuple in a tuple in a list is three away from it.
_LEVELS = 4


class Leftovers(NamedTuple):
    """The tensors that a pass has left outside the model.

    Attributes:
        holders: The names of the holders whose tensors were removed, in order.
        remain: Whether tensors are left that could not be removed.
    """

    holders: tuple[str, ...] = ()
    remain: bool = False


def remove_leftovers(alive: Callable[[], set[int]], surroundings: Surroundings) -> Leftovers:
    """Remove the tensors that a pass has left outside the model, and return where they were.

    ``alive`` returns the addresses of the storages that were made for the pass and are still alive.
    """
    left = _find_alive_after_collection(alive)
    if not left or not _has_tensors(left):
        surroundings.restore_own_cells()
        return Leftovers()
    names = [*_restore_holders(left, surroundings)]
    surroundings.restore_own_cells()
    surroundings.forget()
    left = _find_alive_after_collection(alive)
    if left:
        with frozen_objects_found():
            names += _forget_in_caches(_list_tensors(left))
        left = _find_alive_after_collection(alive)
    return Leftovers(tuple(sorted(set(names))), bool(left) and _has_tensors(left))


def _find_alive_after_collection(alive: Callable[[], set[int]]) -> set[int]:
    """Return the storages of a pass that are alive after it, garbage aside."""
    left = alive()
    for generation in (1, 2):  # objects in reference cycles are only freed by the collector
        if not left:
            break
        gc.collect(generation)
        left = alive()
    return left


def _restore_holders(left: set[int], surroundings: Surroundings) -> Iterator[str]:
    """Restore the holders with left tensors; yield their names."""
    for holder in surroundings.holders:
        changes = holder.list_changes()
        keys = [key for key, value in changes if any(_is_left(reached, left) for reached in list_reachable((value,)))]
        if keys:
            holder.restore()
            yield from holder.list_names(keys)


def _is_left(value: Any, left: set[int]) -> bool:
    return isinstance(value, torch.Tensor) and storage_key(value) in left


def tensors_alive() -> list[torch.Tensor]:
    """Return the tensors that the garbage collector has noted.

    There may be millions of objects of some thousands of types: no Python code runs for each of them.
    """
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, TensorBase)}
    return [*compress(objects, map(kinds.__contains__, map(type, objects)))]


def _list_tensors(left: set[int]) -> list[torch.Tensor]:
    """Return the tensors of these storages that the garbage collector has noted."""
    return [tensor for tensor in tensors_alive() if _is_left(tensor, left)]


def _has_tensors(left: set[int]) -> bool:
    """Return whether Python can reach any of the tensors left: one that only a graph holds does no harm."""
    if _list_tensors(left):
        return True
    with frozen_objects_found():  # only a pass that calls `gc.freeze` itself hides its tensors
        return bool(_list_tensors(left))


@contextmanager
def outside_restored(inventory: Inventory, inputs: ModelInputs) -> Iterator[None]:
    """Restore the holders outside the model that have new tensors: a run may fill a cache.

    A run under autocast, or on another device, would leave tensors there that the caller's own calls do not expect.
    """
    surroundings = Surroundings(inventory, inputs)
    steps = [partial(_restore_tensors, holder) for holder in surroundings.holders]
    with restored(surroundings.restore_own_cells, partial(call_each, steps), surroundings.forget, in_child=False):
        yield


def _restore_tensors(holder: Holder) -> None:
    """Restore a holder if it has new tensors."""
    reached = list_reachable([value for _, value in holder.list_changes()])
    if any(isinstance(value, torch.Tensor) for value in reached):
        holder.restore()


# Caches that nobody has noted before a pass: they are found by the references to the tensors in them ------------------


def _forget_in_caches(tensors: list[torch.Tensor]) -> list[str]:
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
    """Take the keys and values with these ids out of a container, which stays the same object.

    A dict loses these keys and is not refilled: another thread may add a key meanwhile.
    """
    content = copy_content(container)
    if isinstance(content, dict):
        kind: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))  # a subclass may refuse
        for key in [key for key, value in content.items() if id(key) in unwanted or id(value) in unwanted]:
            kind.__delitem__(container, key)
    else:
        refill(container, [value for value in content if id(value) not in unwanted])
