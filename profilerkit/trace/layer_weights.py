"""The numbers of weights of each layer, without and with the layers inside it; a shared weight counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from .facts import LayerRecord, TraceFacts, WeightRecord
from .layer_paths import add_outer, parent_path

__all__ = ["LayerWeights", "count_trainable", "sum_weights"]


class LayerWeights(NamedTuple):
    """The columns about the weights of a layer; a number that is not known is None.

    Attributes:
        own_params: The elements of its parameters, without the layers inside.
        params: The elements of its parameters, with the layers inside; so are the following.
        trainable_params: The elements of the parameters that training changes.
        params_by_dtype: The elements of parameters by dtype, as far as the parameters exist.
        weight_bytes: The bytes of the weights that are saved.
    """

    own_params: int | None
    params: int | None
    trainable_params: int | None
    params_by_dtype: dict[str, int]
    weight_bytes: int | None


def sum_weights(trace: TraceFacts) -> dict[str, LayerWeights]:
    """Return the numbers of the weights of each layer, by its path.

    If only the first call makes some weights, the numbers of a layer that may lack one, and of all layers around it,
    are not known.
    """
    parameters = {layer.path: _identify(layer.parameters) for layer in trace.layers}
    saved = {  # a tensor that is a buffer and a parameter is a parameter, so parameters come last
        layer.path: _identify(weight for weight in (*layer.buffers, *layer.parameters) if weight.persistent)
        for layer in trace.layers
    }
    unmade = {layer.path for layer in trace.layers if _may_lack_weight(layer)} if trace.unmade_weights else set()
    own_params = {path: None if path in unmade else _count(inside.values()) for path, inside in parameters.items()}
    for layer in sorted(trace.layers, key=lambda layer: -layer.depth):  # inner layers first, so that sums are complete
        outer = parent_path(layer.path)
        if outer is not None:
            parameters[outer].update(parameters[layer.path])
            saved[outer].update(saved[layer.path])
    unknown = add_outer(unmade) if unmade else set()
    return {
        path: LayerWeights(
            own_params[path],
            None if path in unknown else _count(inside.values()),
            None if path in unknown else count_trainable(inside.values()),
            _count_by_dtype(inside.values()),
            None if path in unknown else sum(weight.bytes for weight in saved[path].values()),
        )
        for path, inside in parameters.items()
    }


def _identify(weights: Iterable[WeightRecord]) -> dict[int, WeightRecord]:
    """Return weights by their identity, tied ones once."""
    return {weight.identity: weight for weight in weights}


def _may_lack_weight(layer: LayerRecord) -> bool:
    """Return whether a layer of a model without all of its weights may lack one.

    It has no parameter yet, or a weight without elements, as torch's lazy modules have.
    """
    return not layer.parameters or any(weight.count == 0 for weight in (*layer.parameters, *layer.buffers))


def _count(weights: Iterable[WeightRecord]) -> int:
    return sum(weight.count for weight in weights)


def count_trainable(weights: Collection[WeightRecord]) -> int | None:
    """Return the elements of the weights that training changes; None if that is not known of one."""
    if any(weight.trainable is None for weight in weights):
        return None
    return _count(weight for weight in weights if weight.trainable)


def _count_by_dtype(weights: Iterable[WeightRecord]) -> dict[str, int]:
    by_dtype: Counter[str] = Counter()
    for weight in weights:
        by_dtype[weight.dtype] += weight.count
    return dict(by_dtype)
