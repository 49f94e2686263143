"""What the operators of a walk cost, one after another: some change the cost of those before them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from profilerkit.trace.layer_operators import name_layer_operator

from ..costs import OpCall, Shapes, UnknownShapeError, op_cost
from .folding import Folding
from .graph_access import read_attribute, skip_operators
from .ownership import LayerCost, is_gradient_name
from .values import Executed, Scope, Value

__all__ = [
    "CONVOLUTIONS",
    "GATHERS",
    "HANDING_ON",
    "SUMS",
    "TO_SPACE",
    "UNKNOWN_SHAPE",
    "OperatorPrices",
    "count_as_product",
    "make_layer_operator",
    "price",
]


class OperatorPrices:
    """Computes the cost of each operator of a walk, in the order of their running."""

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._einsums = _EinsumGradients()

    def write_cost(
        self, done: Executed, operator: Any, inputs: Sequence[Value], outputs: Sequence[Value], scope: Scope
    ) -> None:
        """Write its cost to an operator that is noted, and correct that of operators before it in the scope."""
        price(done, self._describe_call(done, operator, inputs, outputs))
        self._leave_out_padding(done, operator, scope)
        multiplied = scope.executed.get(_find_weighted_rows(operator))
        if multiplied is not None:
            count_as_product(multiplied, done)

    def _describe_call(
        self, done: Executed, operator: Any, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> OpCall:
        """Return the call of an operator as its formula gets it."""
        return OpCall(
            type=operator.type,
            inputs=Shapes([value.known_shape for value in inputs]),
            outputs=Shapes([value.known_shape for value in outputs]),
            input_dtypes=tuple(value.dtype for value in inputs),
            output_dtypes=tuple(value.dtype for value in outputs),
            attribute=lambda name: read_attribute(operator, name),
            value=lambda index: self._folding.constant(inputs[index]),
            is_given=lambda index: self._folding.follows(inputs[index]),
            is_gradient_of_einsum=bool(done.equation) and self._einsums.is_gradient(operator, done.equation),
        )

    def _leave_out_padding(self, done: Executed, operator: Any, scope: Scope) -> None:
        """Subtract what a convolution computes on padding that only serves its dilation."""
        of_gradient = _find_spread_share(self._folding, operator, scope)
        cropped = _find_cropped_share(self._folding, operator, scope)
        if of_gradient is not None:
            done.scale(of_gradient)
        elif cropped is not None and cropped.convolution in scope.executed:
            scope.executed[cropped.convolution].scale(cropped.share)


#: The labels of an einsum's result, and in any order those of its two operands.
_Labels: TypeAlias = tuple[str, frozenset[str]]


class _EinsumGradients:
    """Keeps the equations of a walk's einsums, and knows by them which later one is a gradient of one of them.

    The gradient of ``A,B->R`` by A is ``R,B->A``. What a gradient's function computes again of the forward pass has a
    gradient's name too, and not such an equation.
    """

    def __init__(self) -> None:
        self._seen: set[_Labels] = set()

    def is_gradient(self, operator: Any, equation: str) -> bool:
        """Return whether an einsum is a gradient of one seen before; if not, keep it as one that may have gradients."""
        operands, _, result = equation.replace(" ", "").replace("...", "").partition("->")
        terms = operands.split(",")
        if len(terms) != 2:
            return False
        first, second = terms
        if is_gradient_name(operator.name) and _labels(result, second, first) in self._seen:
            return True
        self._seen.add(_labels(first, second, result))
        return False


def _labels(first: str, second: str, result: str) -> _Labels:
    """Return the labels without those that one operand alone has: TensorFlow takes their gradient apart."""
    one = "".join(label for label in first if label in second + result)
    other = "".join(label for label in second if label in first + result)
    return result, frozenset((one, other))


#: How the names of uncounted operators end whose formula needs a size that the graph does not know.
UNKNOWN_SHAPE = " of unknown shape"


def price(done: Executed, call: OpCall) -> None:
    """Write its cost to an executed operator, or that it is missing."""
    try:
        cost = op_cost(call)
    except UnknownShapeError:
        done.missing = f"{call.type}{UNKNOWN_SHAPE}"
        return
    if cost is None:
        done.missing = call.type
    else:
        done.macs, done.flops = cost.macs * done.times, cost.flops * done.times


def make_layer_operator(layer: LayerCost, times: int, is_backward: bool = False) -> Executed:
    """Return the operator that stands for a whole call of a layer among the others."""
    name, (macs, flops) = name_layer_operator("layer", layer.call.layer_type), layer.cost.times(times)
    return Executed(name, name, (), (), times, layer.call, macs, flops, is_backward=is_backward)


# Dilated convolutions that TensorFlow writes as dense ones ------------------------------------------------------------

# ``SpaceToBatchND`` pads the input until the block divides it, and ``BatchToSpaceND`` crops what was computed on the
# padding. Neither is part of the convolution, which costs what a dilated one does: for the elements that are left. A
# kernel of 3 that is dilated by 2, without padding of its own, makes 7 elements of 11::
#
#     x               (1, 11, c)
#     SpaceToBatchND  (2, 6, c)   padded to 12: the elements at even positions, and those at odd ones
#     Conv2D          (2, 4, f)   dense: 8 elements are computed
#     BatchToSpaceND  (1, 7, f)   one of them is cropped: 7/8 of the convolution count
#
# Views may come between: a convolution in one dimension is a ``Conv2D`` between ``ExpandDims`` and ``Squeeze``. The
# gradients take the gradient of the output, spread in the same way, as their third input: ``SpaceToBatchND`` makes (2,
# 4, f) of (1, 7, f), and 7/8 of ``Conv2DBackpropInput`` and of ``Conv2DBackpropFilter`` count.

_TO_BATCH = ("SpaceToBatchND", "SpaceToBatch")
TO_SPACE = ("BatchToSpaceND", "BatchToSpace")
#: Other views of the same elements, which may come between the two.
_VIEWS = ("Identity", "Squeeze", "ExpandDims", "Reshape", "Transpose")
#: Operators that read the shape of a tensor, and none of its elements.
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


class _Cropped(NamedTuple):
    """The name of a convolution part of whose output is cropped, and the share of it that is left."""

    convolution: str
    share: Fraction


def _find_spread_share(folding: Folding, operator: Any, scope: Scope) -> Fraction | None:
    """Return which share of a convolution's gradient counts: 7/8 where its third input was padded from 7 elements to 8.

    None for other operators, and where that input was not spread over the batch.
    """
    if operator.type not in _BY_THIRD_INPUT:
        return None
    spread = skip_operators(operator.inputs[2], _VIEWS)
    if spread.op.type not in _TO_BATCH:
        return None
    return _compute_share(folding, spread.op.inputs[0], spread, scope)


def _find_cropped_share(folding: Folding, operator: Any, scope: Scope) -> _Cropped | None:
    """Return the convolution whose output an operator crops, and which share of it counts: 7/8 where 7 of 8 are kept.

    None for other operators, and where anything else reads the uncropped elements: all of them are needed then.
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
        if tensor.op.type not in _VIEWS:
            return tensor
        tensor = tensor.op.inputs[0]
    return None


def _is_read_once(tensor: Any) -> bool:
    """Return whether one operator alone reads the elements of a tensor; others may read its shape."""
    return sum(user.type not in _SHAPE_OPERATORS for user in tensor.consumers()) == 1


def _compute_share(folding: Folding, kept: Any, padded: Any, scope: Scope) -> Fraction | None:
    """Return how many of the padded elements are kept, as a share; None where sizes are not known."""
    kept_shape = folding.find_value(kept, scope).known_shape
    padded_shape = folding.find_value(padded, scope).known_shape
    if kept_shape is None or padded_shape is None or not padded_shape.numel:
        return None
    return Fraction(kept_shape.numel, padded_shape.numel)


# Sparse products that TensorFlow writes with rows ---------------------------------------------------------------------

# ``tf.nn.embedding_lookup_sparse`` with weights is such a product, and so Keras multiplies a sparse matrix with a dense
# one. It costs what ``SparseTensorDenseMatMul`` does for the same matrices: a multiply-accumulate for each number of
# the rows, which is the multiplication and the addition that would be counted otherwise.

GATHERS = ("Gather", "GatherV2", "ResourceGather")
SUMS = ("SegmentSum", "SegmentSumV2", "UnsortedSegmentSum")
#: Operators between these, which hand the same numbers on.
HANDING_ON = ("Cast", "ExpandDims", "Identity", "Reshape", "Squeeze")


def _find_weighted_rows(operator: Any) -> str:
    """Return the name of the multiplication whose weighted rows an operator sums up; nothing for any other operator."""
    if operator.type not in SUMS:
        return ""
    product = skip_operators(operator.inputs[0], HANDING_ON).op
    if product.type != "Mul":
        return ""
    is_weighted = any(skip_operators(factor, HANDING_ON).op.type in GATHERS for factor in product.inputs)
    return product.name if is_weighted else ""


def count_as_product(multiplied: Executed, summed: Executed) -> None:
    """Make a multiplication and the sum over it one product, which has the operations of both."""
    multiplied.flops += summed.flops
    multiplied.macs, summed.flops = multiplied.flops // 2, 0
