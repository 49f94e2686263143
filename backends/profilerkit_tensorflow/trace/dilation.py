"""Dilated convolutions that TensorFlow writes as dense ones.

``SpaceToBatchND`` pads the input until the block divides it, and ``BatchToSpaceND`` crops the results from the padding.
Neither is part of the convolution, which costs as much as a dilated convolution: only the elements that are left count.
A kernel of 3 that is dilated by 2, without padding of its own, makes 7 elements of 11::

    x               (1, 11, c)
    SpaceToBatchND  (2, 6, c)   padded to 12: the elements at even positions, and the elements at odd positions
    Conv2D          (2, 4, f)   dense: 8 elements are computed
    BatchToSpaceND  (1, 7, f)   one of them is cropped: 7/8 of the convolution count

Views may come between: a convolution in one dimension is a ``Conv2D`` between ``ExpandDims`` and ``Squeeze``. The
gradients take the gradient of the output, spread in the same way, as their third input: ``SpaceToBatchND`` makes (2,
4, f) of (1, 7, f), and 7/8 of ``Conv2DBackpropInput`` and of ``Conv2DBackpropFilter`` count.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from .folding import Folding
from .graph_access import HANDING_ON, skip_operators
from .values import Executed, Scope

__all__ = ["CONVOLUTIONS", "SHAPE_OPERATORS", "TO_SPACE", "leave_out_padding"]

_TO_BATCH = ("SpaceToBatchND", "SpaceToBatch")
TO_SPACE = ("BatchToSpaceND", "BatchToSpace")
#: Operators that read the shape of a tensor, and none of its elements.
SHAPE_OPERATORS = ("Shape", "ShapeN", "Size", "Rank")

#: Convolutions whose cost is by the element of their output.
CONVOLUTIONS = ("Conv", "Conv2D", "Conv3D", "DepthwiseConv2dNative")
#: Gradients, and thus transposed convolutions, whose cost is by the element of their third input: that same output.
_BY_THIRD_INPUT = tuple(
    f"{name}Backprop{side}{version}"
    for name in ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
    for side in ("Input", "Filter")
    for version in ("", "V2")
)


def leave_out_padding(folding: Folding, done: Executed, operator: Any, scope: Scope) -> None:
    """Subtract the work of a convolution on padding that only serves its dilation, if an operator shows it."""
    of_gradient = _find_spread_share(folding, operator, scope)
    cropped = _find_cropped_share(folding, operator, scope)
    if of_gradient is not None:
        done.scale(of_gradient)
    elif cropped is not None and cropped.convolution in scope.executed:
        scope.executed[cropped.convolution].scale(cropped.share)


class _Cropped(NamedTuple):
    """The name of a convolution part of whose output is cropped, and the share of it that is left."""

    convolution: str
    share: Fraction


def _find_spread_share(folding: Folding, operator: Any, scope: Scope) -> Fraction | None:
    """Return the share of a convolution's gradient that counts: 7/8 if its third input was padded from 7 elements to 8.

    None for other operators, and if that input was not spread over the batch.
    """
    if operator.type not in _BY_THIRD_INPUT:
        return None
    spread = skip_operators(operator.inputs[2])
    if spread.op.type not in _TO_BATCH:
        return None
    return _compute_share(folding, spread.op.inputs[0], spread, scope)


def _find_cropped_share(folding: Folding, operator: Any, scope: Scope) -> _Cropped | None:
    """Return the convolution whose output an operator crops, and the share that counts: 7/8 if 7 of 8 are kept.

    None for other operators, and if anything else reads the uncropped elements: then all of them are needed.
    """
    if operator.type not in TO_SPACE:
        return None
    convolved = _find_only_source(operator.inputs[0])
    if convolved is None or convolved.op.type not in CONVOLUTIONS:
        return None
    share = _compute_share(folding, operator.outputs[0], operator.inputs[0], scope)
    return None if share is None else _Cropped(convolved.op.name, share)


def _find_only_source(tensor: Any) -> Any:
    """Return the tensor that another is a view of; None if anything beside these views reads its elements."""
    while _is_read_once(tensor):
        if tensor.op.type not in HANDING_ON:
            return tensor
        tensor = tensor.op.inputs[0]
    return None


def _is_read_once(tensor: Any) -> bool:
    """Return whether one operator alone reads the elements of a tensor; others may read its shape."""
    return sum(user.type not in SHAPE_OPERATORS for user in tensor.consumers()) == 1


def _compute_share(folding: Folding, kept: Any, padded: Any, scope: Scope) -> Fraction | None:
    """Return the share of the padded elements that is kept; None if sizes are not known."""
    kept_shape = folding.find_value(kept, scope).known_shape
    padded_shape = folding.find_value(padded, scope).known_shape
    if kept_shape is None or padded_shape is None or not padded_shape.numel:
        return None
    return Fraction(kept_shape.numel, padded_shape.numel)
