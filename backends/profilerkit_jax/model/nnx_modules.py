"""Modules of Flax's nnx: variables by their types, layers by attributes, scopes by classes of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
from flax import nnx

from profilerkit.backend_kit.call_stack import list_layers

from .marking import PATH, make_marked_class, use_marks
from .subject import Leaf, Pass, Subject

__all__ = ["children", "nnx_subject"]

#: State that no checkpoint of the model needs.
_PASSING = (nnx.RngState, nnx.Intermediate)


def children(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layers and containers that a layer holds, in the order of its attributes."""
    if isinstance(layer, Mapping):
        items = [(str(key), value) for key, value in layer.items()]
    elif isinstance(layer, Sequence) and not isinstance(layer, str):
        items = [(str(index), value) for index, value in enumerate(layer)]
    else:
        items = [(name, value) for name, value in vars(layer).items() if not name.startswith("_pytree__")]
    for name, value in items:
        if _is_layer(value):
            yield name.replace(".", "_"), value


def _is_layer(value: Any) -> bool:
    if isinstance(value, (nnx.Rngs, nnx.RngStream, nnx.Variable, str)):
        return False
    if isinstance(value, nnx.Module):
        return True
    return isinstance(value, (Mapping, list, tuple, nnx.List)) and any(True for _ in children(value))


def nnx_subject(model: Any) -> Subject:
    """Return the subject of a module of nnx; it is copied for each pass, and never changed."""
    graph, state = nnx.split(model)
    values, tree = jax.tree.flatten(state)
    layers: dict[str, Any] = {}
    numbers: dict[int, str] = {}
    for path, layer in list_layers(model, children):
        if numbers.setdefault(id(layer), path) == path:
            layers[path] = layer

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        copy = nnx.merge(graph, jax.tree.unflatten(tree, list(values)))
        copy.train() if how.training else copy.eval()
        with use_marks(how.marks):
            if how.marks is not None:
                _mark(copy)
            outputs = how.call(copy, args, kwargs)
        return outputs, jax.tree.leaves(nnx.state(copy))

    leaves = list(_leaves(state))
    if len(leaves) != len(values):  # a state whose variables and arrays are not in one order
        leaves = [Leaf((f"state_{index}",), value, False) for index, value in enumerate(values)]
    types = {path: type(layer).__name__ for path, layer in layers.items()}
    return Subject("flax.nnx", type(model).__name__, leaves, call, types, layers)


def _leaves(state: Any) -> Iterator[Leaf]:
    for path, variable in nnx.to_flat_state(state):
        keys = tuple(str(key).replace(".", "_") for key in path)
        arrays = jax.tree.leaves(variable)
        for index, value in enumerate(arrays):
            leaf_path = keys if len(arrays) == 1 else (*keys, str(index))
            yield Leaf(leaf_path, value, isinstance(variable, nnx.Param), not isinstance(variable, _PASSING))


def _mark(copy: Any) -> None:
    """Give each layer of a copy a class that opens its scope."""
    seen: set[int] = set()
    for path, layer in list_layers(copy, children):
        if id(layer) in seen or not isinstance(layer, nnx.Module) or not callable(layer):
            continue
        seen.add(id(layer))
        object.__setattr__(layer, PATH, path)
        object.__setattr__(layer, "__class__", make_marked_class(type(layer)))
