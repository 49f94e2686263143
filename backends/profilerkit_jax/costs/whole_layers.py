"""Normalization layers of Flax and Equinox, counted as a whole; dropout and PReLU too.

JAX has no primitive for a normalization, and libraries spell it out in several ways: with the mean of the squares, or
of the squared differences. The convention counts all of them alike, so a layer costs the same in every framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from profilerkit.costs import Cost, activation, elementwise, normalization

__all__ = ["LayerCost", "LayerRun", "find_layer_cost"]


class LayerRun(NamedTuple):
    """One call of a layer, as the formulas see it.

    Attributes:
        layer: The layer; None if the model does not hold it.
        elements: The elements of its input.
        primitives: The primitives that it runs, in order.
        weights: How many weights these read.
    """

    layer: Any
    elements: int
    primitives: Sequence[str]
    weights: int


LayerCost: TypeAlias = Callable[[LayerRun], Cost]


class _Affine(NamedTuple):
    """Whether a layer scales and shifts the normalized elements."""

    scale: bool
    shift: bool


def _find_affine(layer: Any, weights: int) -> _Affine:
    """Return whether a layer has a scale, and a shift: by its attributes, otherwise by how many weights it reads."""
    if layer is None:
        return _Affine(weights > 0, weights > 1)
    both = getattr(layer, "channelwise_affine", None)
    if both is not None:
        return _Affine(bool(both), bool(both))
    scale = getattr(layer, "use_scale", getattr(layer, "use_weight", True))
    return _Affine(bool(scale), bool(getattr(layer, "use_bias", True)))


def normalization_layer(run: LayerRun) -> Cost:
    """Return the whole normalization, with scale and shift if the layer has them."""
    return normalization.normalize(run.elements, *_find_affine(run.layer, run.weights))


def batch_norm(run: LayerRun) -> Cost:
    """Return a scale and a shift with known statistics; the whole normalization if the batch gives the statistics."""
    if "reduce_sum" not in run.primitives:
        return normalization.normalize_with_known_statistics(run.elements)
    without_statistics = max(run.weights - 2, 0)
    return normalization.normalize(run.elements, *_find_affine(run.layer, without_statistics))


def rms_norm(run: LayerRun) -> Cost:
    """Return the normalization by the mean square, its means left out; Equinox's layer may have a shift too."""
    cost = normalization.rms_norm(run.elements, means=0, scale=_find_affine(run.layer, run.weights).scale)
    has_shift = getattr(run.layer, "use_bias", False)
    return cost.plus(elementwise.elementary("ADD")(run.elements)) if has_shift else cost


def prelu(run: LayerRun) -> Cost:
    """Return a product with the slope, and the comparison that JAX writes as a choice."""
    return activation.leaky_relu(run.elements)


def dropout(run: LayerRun) -> Cost:
    """Return mask and scale; a layer that does nothing runs no primitive, and is not counted at all."""
    return activation.dropout(run.elements if "select_n" in run.primitives else 0)


#: The formula of each layer by the name of its class.
_FORMULAS: Mapping[str, LayerCost] = {
    "BatchNorm": batch_norm,
    "Dropout": dropout,
    "GroupNorm": normalization_layer,
    "InstanceNorm": normalization_layer,
    "LayerNorm": normalization_layer,
    "PReLU": prelu,
    "RMSNorm": rms_norm,
}


def find_layer_cost(layer_class: type) -> LayerCost | None:
    """Return the formula of a layer of Flax or Equinox that counts as a whole; None for any other, of any name."""
    is_of_library = layer_class.__module__.partition(".")[0] in ("equinox", "flax")
    return _FORMULAS.get(layer_class.__name__) if is_of_library else None
