"""Modules of Equinox: arrays by their paths in the pytree, layers by fields, scopes by classes of a copy."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax

from profilerkit.backend_kit.call_stack import list_layers

from .arrays import ArrayTree, is_weight, list_items
from .marked_classes import make_marked_class, use_marks
from .subject import Leaf, OpenedModel, Pass, Subject, join

__all__ = ["equinox_subject"]


def _list_children(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the modules that a module or a container holds, and the containers in which further ones are, in order."""
    items = list_items(layer)
    if items is None:
        items = [(field.name, getattr(layer, field.name)) for field in fields(layer) if hasattr(layer, field.name)]
    for name, value in items:
        if isinstance(value, eqx.Module):
            is_child = not _is_state(value)
        else:
            is_child = isinstance(value, (Mapping, list, tuple)) and any(True for _ in _list_children(value))
        if is_child:
            yield name.replace(".", "_"), value


def _is_state(value: Any) -> bool:
    """Return whether a value is a state, or the key to one, which may hold the first one; it is no layer."""
    return isinstance(value, (eqx.nn.State, eqx.nn.StateIndex))


def equinox_subject(model: Any) -> Subject:
    """Return the subject of a module of Equinox: its floats and quantized numbers are parameters, other arrays buffers.

    The states of layers, statistics for example, are buffers too where the user has them in the module.
    """
    arrays = ArrayTree(model)
    layers: dict[str, Any] = dict(list_layers(model, _list_children))
    users_own = {id(layer) for layer in layers.values()}

    @contextmanager
    def open_copy(values: Sequence[Any], how: Pass) -> Iterator[OpenedModel]:
        copy = eqx.nn.inference_mode(arrays.replace_arrays(values), value=not how.training)
        with use_marks(how.marks):
            if how.marks is not None:
                _mark_layers(copy, users_own, how)
            yield OpenedModel(copy, lambda: jax.tree.leaves(copy))

    with_states = [leaf for leaf in jax.tree.leaves(model, is_leaf=_is_state) if _is_state(leaf)]
    states = {id(array) for array in jax.tree.leaves(with_states)}
    leaves = [Leaf(path, value, is_weight(value) and id(value) not in states) for path, value in arrays.arrays]
    types = {path: type(layer).__name__ for path, layer in layers.items()}
    return Subject("equinox", type(model).__name__, leaves, open_copy, types, layers)


def _mark_layers(copy: Any, users_own: Container[int], how: Pass) -> None:
    """Give each layer of a copy a class that opens its scope.

    A layer in a static field is no copy: the user's layers, which ``users_own`` has by their ids, are not changed.
    """
    for path, layer in list(list_layers(copy, _list_children)):  # all, before the first has another class
        if isinstance(layer, eqx.Module) and callable(layer) and id(layer) not in users_own:
            object.__setattr__(layer, "__class__", make_marked_class(type(layer), join(how.prefix, path)))
