"""What a forward pass leaves outside the model: tensors that a global, a closure or a cache still holds after it.

In a pass on shapes alone these have no values, and code that finds them in a cache later fails. `remove_leftovers`
removes those storages of the pass that are still alive, from what `Surroundings` has noted before the pass; where
there are none, which is nearly always, it searches nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import torch

from profilerkit import ModelInputs
from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.restoring import call_each, restored

from ..compat.tensors import TensorBase
from ..model.attributes import list_reachable
from ..model.inventory import Inventory
from ..model.tensors import storage_key
from .holders import FunctionCache, Holder
from .leftover_holders import forget_in_caches
from .surroundings import Surroundings

__all__ = ["Leftovers", "outside_restored", "remove_leftovers", "tensors_alive"]


class Leftovers(NamedTuple):
    """What a pass has left outside the model.

    Attributes:
        holders: The names of what held tensors that were taken away, in order.
        remain: Whether tensors are left that could not be taken away.
    """

    holders: tuple[str, ...] = ()
    remain: bool = False


def remove_leftovers(alive: Callable[[], set[int]], surroundings: Surroundings) -> Leftovers:
    """Take away what a pass has left outside the model, and return where that was.

    ``alive`` returns the addresses of the storages that were made for the pass and are still alive.
    """
    left = _find_alive_after_collection(alive)
    if not left or not _has_tensors(left):
        return Leftovers()
    names = [*_restore_holders(left, surroundings)]
    surroundings.forget()
    left = _find_alive_after_collection(alive)
    if left:
        with frozen_objects_found():
            names += forget_in_caches(_list_tensors(left))
        left = _find_alive_after_collection(alive)
    return Leftovers(tuple(sorted(set(names))), bool(left) and _has_tensors(left))


def _find_alive_after_collection(alive: Callable[[], set[int]]) -> set[int]:
    """Return the storages of a pass that are alive after it, garbage aside."""
    left = alive()
    for generation in (1, 2):  # what refers to itself is only gone when it is collected
        if not left:
            break
        gc.collect(generation)
        left = alive()
    return left


def _restore_holders(left: set[int], surroundings: Surroundings) -> Iterator[str]:
    """Put back what holds tensors that were left; yield its names."""
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
    """Put back what holds tensors, outside the model, that were not there before: a run may fill a cache.

    One under autocast, or on another device, would leave there what the caller's own calls do not expect.
    """
    surroundings = Surroundings(inventory, inputs)
    holders = [holder for holder in surroundings.holders if not isinstance(holder, FunctionCache)]
    steps = [partial(_restore_tensors, holder) for holder in holders]
    with restored(partial(call_each, steps), surroundings.forget, in_child=False):
        yield


def _restore_tensors(holder: Holder) -> None:
    """Put back what a holder had, where it has tensors that were not there before."""
    reached = list_reachable([value for _, value in holder.list_changes()])
    if any(isinstance(value, torch.Tensor) for value in reached):
        holder.restore()
