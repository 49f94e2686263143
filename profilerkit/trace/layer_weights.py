"""The numbers of weights of each layer, without and with the layers inside it; a shared weight counts once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from .layer_paths import add_outer, parent_path

if TYPE_CHECKING:
    from .records import LayerRecord, ModelTrace, WeightRecord

__all__ = ["LayerWeights", "sum_weights"]


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


class _Weights:
    """The weights of a layer by identity: first its own, then also the weights of the layers inside it."""

    def __init__(self, layer: LayerRecord) -> None:
        self.parameters = {weight.identity: weight for weight in layer.parameters}
        # A tensor that is a buffer and a parameter is a parameter, so parameters come last.
        both = (*layer.buffers, *layer.parameters)
        self.saved = {weight.identity: weight for weight in both if weight.persistent}

    def add_inner(self, inner: _Weights) -> None:
        """Add the weights of a layer inside."""
        self.parameters.update(inner.parameters)
        self.saved.update(inner.saved)

    def count(self) -> int:
        """Return the elements of the parameters."""
        return sum(weight.count for weight in self.parameters.values())

    def count_trainable(self) -> int | None:
        """Return the elements of the parameters that training changes; None if that is not known of a parameter."""
        if any(weight.trainable is None for weight in self.parameters.values()):
            return None
        return sum(weight.count for weight in self.parameters.values() if weight.trainable)

    def count_by_dtype(self) -> dict[str, int]:
        """Return the elements of the parameters by dtype."""
        by_dtype: Counter[str] = Counter()
        for weight in self.parameters.values():
            by_dtype[weight.dtype] += weight.count
        return dict(by_dtype)

    def sum_bytes(self) -> int:
        """Return the bytes of the saved weights."""
        return sum(weight.bytes for weight in self.saved.values())


def sum_weights(trace: ModelTrace) -> dict[str, LayerWeights]:
    """Return the numbers of the weights of each layer, by its path.

    If only the first call makes some weights, the numbers of a layer that may lack one, and of all layers around it,
    are not known.
    """
    weights = {layer.path: _Weights(layer) for layer in trace.layers}
    unmade = {layer.path for layer in trace.layers if _may_lack_weight(layer)} if trace.unmade_weights else set()
    own_params = {path: None if path in unmade else weights[path].count() for path in weights}
    for layer in sorted(trace.layers, key=lambda layer: -layer.depth):  # inner layers first, so that sums are complete
        parent = parent_path(layer.path)
        if parent is not None:
            weights[parent].add_inner(weights[layer.path])
    unknown = add_outer(unmade) if unmade else set()
    return {path: _read_numbers(inside, own_params[path], path not in unknown) for path, inside in weights.items()}


def _may_lack_weight(layer: LayerRecord) -> bool:
    """Return whether a layer of a model without all of its weights may lack one.

    It has no parameter yet, or a weight without elements, as torch's lazy modules have.
    """
    weights: tuple[WeightRecord, ...] = (*layer.parameters, *layer.buffers)
    return not layer.parameters or any(weight.count == 0 for weight in weights)


def _read_numbers(weights: _Weights, own_params: int | None, is_known: bool) -> LayerWeights:
    """Return the numbers of a layer, from its weights with the weights of the layers inside."""
    if not is_known:
        return LayerWeights(own_params, None, None, weights.count_by_dtype(), None)
    return LayerWeights(
        own_params, weights.count(), weights.count_trainable(), weights.count_by_dtype(), weights.sum_bytes()
    )
