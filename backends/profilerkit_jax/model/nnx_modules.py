"""Modules of Flax's nnx: variables by their types, layers by attributes, scopes by classes of a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
from flax import nnx

from profilerkit.backend_kit.call_stack import list_layers

from .arrays import list_items
from .marked_classes import PATH, make_marked_class, use_marks
from .subject import Leaf, OpenedModel, Pass, Subject, join

__all__ = ["nnx_subject"]

#: Types of variables that no checkpoint of the model needs.
_NOT_SAVED = (nnx.RngState, nnx.Intermediate)
#: These are no layers, even if a release of Flax has them as mappings.
_NO_LAYERS = (nnx.Rngs, nnx.RngStream, nnx.Variable)


def nnx_subject(model: Any) -> Subject:
    """Return the subject of a module of nnx; it is copied for each pass, and never changed."""
    graph, state = nnx.split(model)
    tree = jax.tree.structure(state)

    @contextmanager
    def open_copy(values: Sequence[Any], how: Pass) -> Iterator[OpenedModel]:
        copy = nnx.merge(graph, jax.tree.unflatten(tree, list(values)))
        set_mode: Callable[[Any], None] = nnx.Module.train if how.training else nnx.Module.eval
        for layer in [copy] if isinstance(copy, nnx.Module) else _list_layers_once(copy).values():
            if isinstance(layer, nnx.Module):
                set_mode(layer)
        if how.marks is not None:
            _mark_layers(copy, how)
        with use_marks(how.marks):
            yield OpenedModel(copy, lambda: jax.tree.leaves(nnx.state(copy)))

    layers = _list_layers_once(model)
    is_state = not any(isinstance(layer, nnx.Module) for layer in layers.values())
    leaves = [replace(leaf, is_counted=not is_state) for leaf in _list_leaves(state)]
    types = {path: type(layer).__name__ for path, layer in layers.items()}
    return Subject("state" if is_state else "flax.nnx", type(model).__name__, leaves, open_copy, types, layers)


def _list_leaves(state: Any) -> Iterator[Leaf]:
    """Yield the arrays of a state in the order in which JAX flattens it.

    A variable that holds several has their indices at the ends of their paths.
    """
    for path, variable in nnx.to_flat_state(state):
        keys = tuple(str(key).replace(".", "_") for key in path)
        arrays = jax.tree.leaves(variable)
        for index, value in enumerate(arrays):
            leaf_path = keys if len(arrays) == 1 else (*keys, str(index))
            yield Leaf(leaf_path, value, isinstance(variable, nnx.Param), not isinstance(variable, _NOT_SAVED))


def _mark_layers(copy: Any, how: Pass) -> None:
    """Give each layer of a copy a class that opens its scope."""
    for path, layer in _list_layers_once(copy).items():
        if isinstance(layer, nnx.Module) and callable(layer):
            # not by nnx's own __setattr__, which would make the path a part of the copy's graph
            object.__setattr__(layer, PATH, join(how.prefix, path))
            object.__setattr__(layer, "__class__", make_marked_class(type(layer)))


def _list_layers_once(model: Any) -> dict[str, Any]:
    """Return each layer by its path, in the order of the attributes, in which reports have the layers.

    Containers of layers are among them. A layer with several paths has the path of its variables in nnx's state: the
    first by name. Copies that nnx makes have their attributes in that order.
    """
    paths: dict[int, list[str]] = {}
    layers: dict[int, Any] = {}
    for path, layer in list_layers(model, _list_children):
        paths.setdefault(id(layer), []).append(path)
        layers[id(layer)] = layer
    return {min(paths[number], key=_make_sort_key): layer for number, layer in layers.items()}


def _make_sort_key(path: str) -> list[tuple[int, str]]:
    """Return a path's place in the order of nnx's state: attributes by their names, items by their numbers."""
    return [(int(name) if name.isdecimal() else -1, name) for name in path.split(".")]


def _list_children(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layers that a layer or a container holds, and the containers that lead to layers, in their order."""
    items = list_items(layer)
    if items is None:
        items = [(name, value) for name, value in vars(layer).items() if not name.startswith("_pytree__")]
    return ((name, value) for name, value in items if _is_layer(value))


def _is_layer(value: Any) -> bool:
    """Return whether a value is a module, or a container that leads to one."""
    if isinstance(value, _NO_LAYERS):
        return False
    if isinstance(value, nnx.Module):
        return True
    return isinstance(value, (Mapping, list, tuple, nnx.List)) and any(True for _ in _list_children(value))
