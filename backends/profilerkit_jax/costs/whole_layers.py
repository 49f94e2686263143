"""Normalization layers of Flax and Equinox, counted as a whole.

JAX has no primitive for a normalization, and libraries spell it out in several ways: with the mean of the squares, or
of the squared differences. The convention counts all of them alike, so a layer costs the same in every framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from profilerkit.costs import Cost, activation, normalization

__all__ = ["LayerCost", "layer_cost"]

#: Called with the layer (None if the model does not hold it), the elements of its input, the primitives that it runs in
#: order, and how many weights these read.
LayerCost: TypeAlias = Callable[[Any, int, Sequence[str], int], Cost]


def _affine(layer: Any, weights: int) -> tuple[bool, bool]:
    """Return whether a layer has a scale, and a shift: as it says itself, else by how many weights it reads."""
    if layer is None:
        return weights > 0, weights > 1
    both = getattr(layer, "channelwise_affine", None)
    if both is not None:
        return bool(both), bool(both)
    scale = getattr(layer, "use_scale", getattr(layer, "use_weight", True))
    return bool(scale), bool(getattr(layer, "use_bias", True))


def normalization_layer(layer: Any, elements: int, primitives: Sequence[str], weights: int) -> Cost:
    """Return the whole normalization, with scale and shift where the layer has them."""
    return normalization.normalize(elements, *_affine(layer, weights))


def batch_norm(layer: Any, elements: int, primitives: Sequence[str], weights: int) -> Cost:
    """Return a scale and a shift with known statistics; the whole normalization where they are those of the batch."""
    if "reduce_sum" in primitives:
        return normalization.normalize(elements, *_affine(layer, max(weights - 2, 0)))
    return normalization.normalize_with_known_statistics(elements)


def rms_norm(layer: Any, elements: int, primitives: Sequence[str], weights: int) -> Cost:
    """Return the normalization by the mean square; its means are left out."""
    return normalization.rms_norm(elements, means=0, scale=_affine(layer, weights)[0])


def dropout(layer: Any, elements: int, primitives: Sequence[str], weights: int) -> Cost:
    """Return mask and scale; a layer that does nothing runs no primitive, and is not counted at all."""
    return activation.dropout(elements if "select_n" in primitives else 0)


_OF_FLAX: Mapping[str, LayerCost] = {
    "BatchNorm": batch_norm,
    "Dropout": dropout,
    "GroupNorm": normalization_layer,
    "InstanceNorm": normalization_layer,
    "LayerNorm": normalization_layer,
    "RMSNorm": rms_norm,
}
#: The formula of each layer by its type, by the kind of model.
_LAYERS: Mapping[str, Mapping[str, LayerCost]] = {
    "equinox": _OF_FLAX,
    "flax.linen": _OF_FLAX,
    "flax.nnx": _OF_FLAX,
}


def layer_cost(kind: str, layer_type: str) -> LayerCost | None:
    """Return the formula of a layer that is counted as a whole; None for all others."""
    return _LAYERS.get(kind, {}).get(layer_type)
