"""The user's specs to spread a model and its inputs over a mesh, like ``in_shardings`` of ``jax.jit``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from profilerkit import InputError, ModelInputs

from ..model.arrays import ArrayTree, make_struct, name_path
from ..model.subject import Leaf

__all__ = ["Shardings", "list_weight_shardings", "make_whole", "read_shardings"]

_NOWHERE = PartitionSpec()


@dataclass(frozen=True, eq=False)
class Shardings:
    """How a model is spread over a mesh: the result of a function for ``parallelize=``.

    Args:
        params: A ``PartitionSpec`` for all parameters; or a tree of specs like the tree of parameters, or like its
            outer part, like ``in_shardings`` of ``jax.jit``. A parameter without a spec is whole on every device.
        inputs: A spec for all inputs; or a tuple of specs for positional inputs, or a mapping for keyword inputs.
        model: A model that replaces the given one, for example a model with a ``shard_map`` over the mesh.
    """

    params: Any = _NOWHERE
    inputs: Any = _NOWHERE
    model: Any = None


def read_shardings(result: Any) -> Shardings:
    """Return the result of the user's function; raises `InputError` for anything but `Shardings` or None."""
    if result is None or isinstance(result, Shardings):
        return result or Shardings()
    raise InputError(
        f"parallelize returned a {type(result).__name__}; for a model of JAX return the specs of its parameters and "
        "inputs: profilerkit_jax.Shardings(params=PartitionSpec('dp'), inputs=PartitionSpec('dp'))"
    )


def list_weight_shardings(shardings: Shardings, leaves: Sequence[Leaf], mesh: Mesh) -> list[NamedSharding]:
    """Return the sharding of each array of a model; raises `InputError` for a spec that fits none."""
    return [
        NamedSharding(mesh, spec) for spec in _choose_specs(shardings.params, [leaf.path for leaf in leaves], "params")
    ]


def make_whole(shardings: Shardings, inputs: ModelInputs, mesh: Mesh) -> tuple[ModelInputs, list[NamedSharding]]:
    """Return the inputs of all ranks together, as shapes, and the sharding of each array among them.

    Each rank gets inputs of the same shapes: a dimension that is spread over n devices is n times as long together.
    """
    received = ArrayTree((inputs.args, dict(inputs.kwargs)))
    specs: Any = shardings.inputs
    if not isinstance(specs, PartitionSpec):  # as the arguments of a call: positional ones, and keywords
        specs = ((), specs) if isinstance(specs, Mapping) else (specs, {})
    paths = [array.path for array in received.arrays]
    placed = [NamedSharding(mesh, spec) for spec in _choose_specs(specs, paths, "inputs")]
    whole = [_describe_whole(array.value, sharding) for array, sharding in zip(received.arrays, placed, strict=True)]
    args, kwargs = received.replace_arrays(whole)
    return ModelInputs(*args, **kwargs).given_to(inputs.function), placed


def _describe_whole(value: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    """Return the shape of the array of which this value is the share of one device."""
    struct, sizes = make_struct(value), sharding.mesh.shape
    if len(sharding.spec) > len(struct.shape):
        raise InputError(f"an input of shape {struct.shape} has the spec {sharding.spec}, which is of more dimensions")
    shape = list(struct.shape)
    for dimension, names in enumerate(sharding.spec):
        shape[dimension] *= prod(sizes[name] for name in ((names,) if isinstance(names, str) else names or ()))
    return jax.ShapeDtypeStruct(tuple(shape), struct.dtype)


def _choose_specs(specs: Any, paths: Sequence[tuple[str, ...]], what: str) -> list[PartitionSpec]:
    """Return the spec of each path: among the specs whose path is a beginning of it, the one with the longest path.

    Raises `InputError` for a spec that applies to no path, except a spec for all parameters.
    """
    by_path = dict(_list_specs(specs, what))
    chosen: list[PartitionSpec] = []
    unused = set(by_path) - {()}  # the spec with the empty path applies to all, also if there is nothing
    for path in paths:
        outwards = (path[:length] for length in range(len(path), -1, -1))
        nearest = next((outer for outer in outwards if outer in by_path), None)
        chosen.append(_NOWHERE if nearest is None else by_path[nearest])
        if nearest is not None:
            unused.discard(nearest)
    if unused:
        missing = ", ".join(".".join(path) for path in sorted(unused))
        raise InputError(
            f"{what} of Shardings has a spec for {missing}, which the model does not have; its {what} are "
            f"{', '.join('.'.join(path) for path in paths[:8])}"
        )
    return chosen


def _list_specs(specs: Any, what: str) -> Iterator[tuple[tuple[str, ...], PartitionSpec]]:
    """Yield the specs in a tree, each with its path; a `NamedSharding` stands for its spec."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(specs, is_leaf=lambda value: isinstance(value, PartitionSpec))
    for keys, spec in leaves:
        spec = spec.spec if isinstance(spec, NamedSharding) else spec
        if not isinstance(spec, PartitionSpec):
            raise InputError(f"{what} of Shardings holds a {type(spec).__name__}; give jax.sharding.PartitionSpec")
        yield name_path(keys), spec
