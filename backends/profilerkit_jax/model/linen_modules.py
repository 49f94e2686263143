"""Modules of Flax's linen with their variables: arrays by collections, layers as the calls of methods meet them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from typing import Any

import jax
from flax import linen

from .arrays import is_array, key_text
from .jax_model import JaxModel
from .scope_names import Marks
from .subject import UNMET, Leaf, Pass, Subject

__all__ = ["linen_subject"]


def linen_subject(model: JaxModel) -> Subject:
    """Return the subject of a module with its variables: those of "params" are parameters, all others buffers."""
    leaves_with_paths, tree = jax.tree_util.tree_flatten_with_path(dict(model.params))
    everything = [value for _, value in leaves_with_paths]
    places = [index for index, value in enumerate(everything) if is_array(value)]
    changing = [name for name in model.params if name != "params"]

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        merged = list(everything)
        for index, value in zip(places, values, strict=True):
            merged[index] = value
        variables = jax.tree_util.tree_unflatten(tree, merged)
        with _intercept(how.marks):
            options = {"rngs": model.rngs, "mutable": changing, "method": _method(how)}
            outputs, state = model.function.apply(variables, *args, **options, **kwargs)
        return outputs, jax.tree.leaves(state)

    leaves = [_leaf(leaves_with_paths[index][0], everything[index]) for index in places]
    name = model.name or type(model.function).__name__
    types = {"": name}
    for leaf in leaves:
        for path in accumulate(leaf.path[:-1], lambda outer, inner: f"{outer}.{inner}"):
            types.setdefault(path, UNMET)
    return Subject("flax.linen", name, leaves, call, types)


def _method(how: Pass) -> Callable[..., Any]:
    return lambda module, *args, **kwargs: how.call(module, args, kwargs)


def _leaf(keys: Sequence[Any], value: Any) -> Leaf:
    collection, *path = map(key_text, keys)
    if len(path) > 1 and path[-1] == "value":  # a box of metadata around the array
        path.pop()
    return Leaf(tuple(path), value, collection == "params")


def _intercept(marks: Marks | None) -> AbstractContextManager[Any]:
    """Return a context in which each call of a layer opens its scope; a layer's calls of its own methods do not."""
    if marks is None:
        return nullcontext()

    def interceptor(function: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        layer = context.module
        if context.method_name == "setup":
            return function(*args, **kwargs)
        return marks.run(".".join(layer.path), layer, lambda: function(*args, **kwargs), (args, kwargs))

    context: AbstractContextManager[Any] = linen.intercept_methods(interceptor)
    return context
