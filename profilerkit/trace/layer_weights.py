"""The numbers of the weights of each layer: its own, and those of it and all layers inside, a shared weight once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .layer_paths import add_outer

if TYPE_CHECKING:
    from .records import ModelTrace, WeightRecord

__all__ = ["LayerWeights", "sum_weights"]


class LayerWeights(NamedTuple):
    """The columns that tell of the weights of a layer; a number that is not known is None.

    Attributes:
        own_params: The elements of its own parameters.
        params: The elements of the parameters inside it.
        trainable_params: Those that training changes.
        params_by_dtype: Their number by dtype.
        weight_bytes: The bytes of what is saved of it.
    """

    own_params: int | None
    params: int | None
    trainable_params: int | None
    params_by_dtype: dict[str, int]
    weight_bytes: int | None


def sum_weights(trace: ModelTrace, nested: Iterable[tuple[str, str]]) -> dict[str, LayerWeights]:
    """Return the numbers of the weights of each layer, by its path.

    ``nested`` has the paths of the layers inside others, the deepest first, each with that of the layer around it. If
    only the first call makes some weights, the numbers of a layer without weights, and of all layers around it, are not
    known.
    """
    parameters, saved = {}, {}
    for layer in trace.layers:
        parameters[layer.path] = {weight.identity: weight for weight in layer.parameters}
        every = (*layer.buffers, *layer.parameters)  # what is a parameter too is that
        saved[layer.path] = {weight.identity: weight for weight in every if weight.persistent}
    own_params = {path: _count(weights) for path, weights in parameters.items()}
    for path, parent in nested:
        parameters[parent].update(parameters[path])
        saved[parent].update(saved[path])
    empty = [path for path, count in own_params.items() if not count] if trace.unmade_weights else []
    lacking = add_outer(empty) if empty else set()
    numbers = {}
    for path, inside in parameters.items():
        by_dtype: Counter[str] = Counter()
        for weight in inside.values():
            by_dtype[weight.dtype] += weight.count
        if path in lacking:
            numbers[path] = LayerWeights(own_params[path] or None, None, None, dict(by_dtype), None)
        else:
            weight_bytes = sum(weight.bytes for weight in saved[path].values())
            numbers[path] = LayerWeights(
                own_params[path], _count(inside), _count_trainable(inside), dict(by_dtype), weight_bytes
            )
    return numbers


def _count(weights: Mapping[int, WeightRecord]) -> int:
    return sum(weight.count for weight in weights.values())


def _count_trainable(weights: Mapping[int, WeightRecord]) -> int | None:
    """Return the elements of weights that training changes; None where that is not known of one of them."""
    if any(weight.trainable is None for weight in weights.values()):
        return None
    return sum(weight.count for weight in weights.values() if weight.trainable)
