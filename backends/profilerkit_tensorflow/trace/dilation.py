"""Dilated convolutions that TensorFlow writes as dense ones, over an input that is spread over the batch.

``SpaceToBatchND`` pads the input until the block divides it, and ``BatchToSpaceND`` crops what was computed on the
padding. Neither is part of the convolution, which costs what a dilated one does: for the elements that are left.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from .folding import Folding
from .values import Scope

__all__ = ["CONVOLUTIONS", "TO_SPACE", "Cropped", "find_cropped_share", "find_spread_share"]

_TO_BATCH = ("SpaceToBatchND", "SpaceToBatch")
TO_SPACE = ("BatchToSpaceND", "BatchToSpace")
#: Other views of the same elements, which may come between the two.
_VIEWS = ("Identity", "Squeeze", "ExpandDims", "Reshape", "Transpose")
_SHAPE_OPERATORS = ("Shape", "ShapeN", "Size", "Rank")

#: Convolutions whose cost is by the element of their output.
CONVOLUTIONS = ("Conv", "Conv2D", "Conv3D", "DepthwiseConv2dNative")
#: Gradients, and thus transposed convolutions, whose cost is by the element of their third input: that same output.
_BY_THIRD_INPUT = tuple(
    f"{name}Backprop{side}{version}"
    for name in ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
    for side in ("Input", "Filter")
    for version in ("", "V2")
)


class Cropped(NamedTuple):
    """The name of a convolution part of whose output is cropped, and the share of it that is left."""

    convolution: str
    share: Fraction


def find_spread_share(folding: Folding, operator: Any, scope: Scope) -> Fraction | None:
    """Return the share of a gradient's elements that is no padding; None where its input was not spread."""
    if operator.type not in _BY_THIRD_INPUT:
        return None
    spreading = _find_viewed(operator.inputs[2])
    if spreading.op.type not in _TO_BATCH:
        return None
    return _compute_share(folding, spreading.op.inputs[0], spreading, scope)


def find_cropped_share(folding: Folding, operator: Any, scope: Scope) -> Cropped | None:
    """Return the convolution whose output an operator puts together; None if anything else uses what is cropped."""
    if operator.type not in TO_SPACE:
        return None
    convolved = _find_viewed(operator.inputs[0], used_once=True)
    share = _compute_share(folding, operator.outputs[0], operator.inputs[0], scope)
    if convolved.op.type not in CONVOLUTIONS or not _is_used_once(convolved) or share is None:
        return None
    return Cropped(convolved.op.name, share)


def _find_viewed(tensor: Any, used_once: bool = False) -> Any:
    """Return the tensor that another is a view of."""
    while tensor.op.type in _VIEWS and (_is_used_once(tensor) or not used_once):
        tensor = tensor.op.inputs[0]
    return tensor


def _is_used_once(tensor: Any) -> bool:
    """Return whether one operator alone reads the elements of a tensor."""
    return sum(user.type not in _SHAPE_OPERATORS for user in tensor.consumers()) == 1


def _compute_share(folding: Folding, kept: Any, padded: Any, scope: Scope) -> Fraction | None:
    """Return how many of the padded elements are kept, as a share; None where sizes are not known."""
    left, all_of_it = (folding.find_value(tensor, scope).known_shape for tensor in (kept, padded))
    if left is None or all_of_it is None or not all_of_it.numel:
        return None
    return Fraction(left.numel, all_of_it.numel)
