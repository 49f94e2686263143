"""The weights of a model: records by layers, and the state of an optimizer for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import jax
from msgspec.structs import replace

from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.backend_kit.scoped_calls import PlacedWeight
from profilerkit.costs import Shape
from profilerkit.error_text import shown
from profilerkit.trace.records import WeightRecord, distinct

from .arrays import count_bytes
from .subject import Leaf

__all__ = ["list_constants", "list_weights", "optimizer_bytes"]


def list_weights(leaves: Iterable[Leaf], types: Mapping[str, str]) -> Iterator[PlacedWeight]:
    """Yield the parameters and buffers of the layers. An array that stands in several places is one weight."""
    identities: dict[int, int] = {}
    for index, leaf in enumerate(leaves):
        if not leaf.is_counted:
            continue
        depth = _find_depth(leaf, types)
        layer, name = ".".join(leaf.path[:depth]), ".".join(leaf.path[depth:])
        is_shape = isinstance(leaf.value, jax.ShapeDtypeStruct)  # one may stand for many arrays
        identity = index if is_shape else identities.setdefault(id(leaf.value), index)
        is_discrete = str(leaf.value.dtype).startswith(("int", "uint", "bool"))  # it has no gradient
        trainable = leaf.is_parameter and leaf.trainable and not is_discrete
        record = _record(name or "value", identity, leaf.value, trainable, leaf.persistent)
        record = record if leaf.numbers is None else replace(record, count=leaf.numbers)
        yield PlacedWeight(layer, record, leaf.is_parameter)


def list_constants(constants: Iterable[Any], first: int, persistent: bool) -> Iterator[PlacedWeight]:
    """Yield the arrays that a function holds itself, which are no parameters.

    ``first`` is the number of the first, and ``persistent`` whether they are saved with the model.
    """
    for index, value in enumerate(constants):
        record = _record(f"constant_{index}", first + index, value, trainable=False, persistent=persistent)
        yield PlacedWeight("", record, is_parameter=False)


def _find_depth(leaf: Leaf, types: Mapping[str, str]) -> int:
    """Return how many keys of an array's path are the path of its innermost layer: none in the model itself."""
    depths = range(len(leaf.path) - 1, 0, -1)
    return next((depth for depth in depths if ".".join(leaf.path[:depth]) in types), 0)


def _record(name: str, identity: int, value: Any, trainable: bool, persistent: bool) -> WeightRecord:
    shape = Shape(int(size) for size in value.shape)
    size = count_bytes(shape, value.dtype)
    return WeightRecord(name, identity, shape.numel, size, str(value.dtype), trainable, persistent, tuple(shape))


def optimizer_bytes(optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
    """Return the bytes that an optimizer of optax stores for weights, found on shapes alone; or why not."""
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        return f"the state of {shown(optimizer)}: it is no optimizer of optax, which has init and update"
    shapeless = [weight.name for weight in weights if weight.trainable and prod(weight.shape) != weight.count]
    if shapeless:
        return f"the state of the optimizer for weights of unknown shape ({', '.join(shapeless[:5])})"
    trained = [weight for weight in distinct(weights) if weight.trainable]
    parameters = [jax.ShapeDtypeStruct(weight.shape, jax.numpy.dtype(weight.dtype)) for weight in trained]
    state = jax.eval_shape(optimizer.init, parameters)
    return OptimizerBytes(sum(count_bytes(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)))
