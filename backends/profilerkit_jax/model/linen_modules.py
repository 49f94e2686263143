"""Modules of Flax's linen with their variables: arrays by collections, layers as the calls of methods meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from typing import Any

import jax
from flax import linen

from .arrays import ArrayTree
from .jax_model import JaxModel
from .subject import UNMET, Leaf, OpenedModel, Pass, Subject, join

__all__ = ["linen_subject"]


def linen_subject(model: JaxModel) -> Subject:
    """Return the subject of a module with its variables: the collection "params" are parameters, all others buffers."""
    variables = ArrayTree(dict(model.params))
    changing = [name for name in model.params if name != "params"]

    @contextmanager
    def open_bound(values: Sequence[Any], how: Pass) -> Iterator[OpenedModel]:
        bound = model.function.bind(variables.replace_arrays(values), rngs=model.keys, mutable=changing)
        with _intercept(how):
            yield OpenedModel(bound, lambda: jax.tree.leaves([bound.variables[name] for name in changing]))

    leaves = [_make_leaf(path, value) for path, value in variables.arrays]
    name = model.name or type(model.function).__name__
    return Subject("flax.linen", name, leaves, open_bound, {"": name, **dict.fromkeys(_list_layers(leaves), UNMET)})


def _list_layers(leaves: Sequence[Leaf]) -> Iterator[str]:
    """Yield the paths of the layers that have arrays, and of the layers around them; a run shows their types.

    An array at ("block", "dense", "kernel") belongs to "block.dense", which is inside of "block".
    """
    for leaf in leaves:
        yield from accumulate(leaf.path[:-1], lambda outer, inner: f"{outer}.{inner}")


def _make_leaf(path: Sequence[str], value: Any) -> Leaf:
    """Return the array at a path that begins with its collection."""
    collection, *layers = path
    if len(layers) > 1 and layers[-1] == "value":  # a box of metadata around the array
        layers.pop()
    return Leaf(tuple(layers), value, collection == "params")


def _intercept(how: Pass) -> AbstractContextManager[Any]:
    """Return a context in which each call of a layer opens its scope; a layer's calls of its own methods do not."""
    marks = how.marks
    if marks is None:
        return nullcontext()

    def interceptor(function: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        layer = context.module
        if context.method_name == "setup":
            return function(*args, **kwargs)
        path = join(how.prefix, ".".join(layer.path))
        return marks.run(path, layer, lambda: function(*args, **kwargs), (args, kwargs))

    context: AbstractContextManager[Any] = linen.intercept_methods(interceptor)
    return context
