"""The memory of TensorFlow's CPU kernels: the outputs that share the buffer of an input, and the copies in kernels.

Each rule was observed in the allocations of TensorFlow 2.21 (oneDNN on, as is the default on x86), one operator at a
time. Fusion by grappler needs no rules: a bias, an addition or an activation after a convolution or a product works in
the buffer of the operator before it, fused or not. The one exception is batch normalization, which does so only if it
is fused into the convolution before it.

The arguments of the functions are the type of one operator, the tensors that it reads (None for a tensor that is held
elsewhere) and the tensors that it makes. A tensor of unknown shape counts 0 bytes, so sizes are lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

from .tensor_facts import PartialShape, Tensor

__all__ = ["LIST_WRITES", "count_scratch_bytes", "find_shared_input", "is_too_small", "list_reusable"]

T = TypeVar("T")


def _split_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


#: Operators whose outputs are the input with the same index (or the first one) under another name or shape.
_SAME_BUFFER = _split_names(
    """
    Identity IdentityN StopGradient PreventGradient Snapshot ReadVariableOp Reshape Squeeze ExpandDims Bitcast
    EnsureShape CheckNumerics PlaceholderWithDefault Enter Exit NextIteration Switch TensorListPopBack
    TensorListGetItem TensorListResize
    """
)
#: Operators that return their input if there is nothing to do.
_SAME_IF_UNCHANGED = _split_names("Cast Pad PadV2 Tile BroadcastTo Sum Mean Max Min Prod All Any Slice StridedSlice")
#: Operators that cut along the first dimension without copying, and the index of the input they cut.
_CUTS = {"Slice": 0, "StridedSlice": 0, "Split": 1, "SplitV": 0, "Unpack": 0}
#: A slice is a view only if it begins on such a boundary, in bytes.
_ALIGNMENT = 64

#: Element-wise operators that may work in the buffer of their only, or their first, input.
_IN_PLACE_OF_FIRST = _split_names(
    """
    Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Ceil Cos Cosh Digamma Erf Erfc Erfinv Exp Expm1
    Floor Inv Invert Lgamma Log Log1p LogicalNot Ndtri Neg Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh
    Sqrt Square Tan Tanh Elu LeakyRelu Relu Relu6 Selu Softplus Softsign Softmax LogSoftmax BiasAdd BiasAddV1
    ClipByValue MatrixBandPart
    """
)
#: Element-wise operators that may work in the buffer of either of two inputs.
_IN_PLACE_OF_TWO = _split_names(
    """
    Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Div DivNoNan FloorDiv FloorMod LogicalAnd LogicalOr Maximum
    Minimum Mod Mul MulNoNan Pow RealDiv SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py Xlogy
    EluGrad LeakyReluGrad ReluGrad Relu6Grad SeluGrad SoftplusGrad SoftsignGrad InvGrad ReciprocalGrad RsqrtGrad
    SigmoidGrad SqrtGrad TanhGrad
    """
)
_SELECTIONS = ("Select", "SelectV2")
_BATCH_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
#: Outputs of a fused batch norm from here on are space that its gradient may use, and empty on a CPU.
_STATISTICS = 3
_REDUCTIONS = _split_names("Sum Mean Max Min Prod All Any EuclideanNorm")
#: Operators that compute axes: grappler folds them if shapes are known, otherwise they take a few bytes.
_AXES = ("BroadcastGradientArgs",)
#: Operators that put an item into a list, and the index of the input that is the item; the list is the first.
LIST_WRITES = {"TensorListSetItem": 2, "TensorListPushBack": 1}


def is_too_small(kind: str, index: int) -> bool:
    """Return whether an output of an operator is empty on a CPU, or takes a few bytes alone."""
    return kind in _AXES or (kind in _BATCH_NORMS and index >= _STATISTICS)


# Outputs in the buffer of an input ------------------------------------------------------------------------------------


def find_shared_input(kind: str, index: int, sources: Sequence[Tensor | None], output: Tensor) -> int | None:
    """Return the index of the input whose buffer an output shares; None if it has one of its own."""
    shared = index if kind == "IdentityN" else _CUTS.get(kind, 0)
    if shared >= len(sources):
        return None
    source = sources[shared]  # None if its shape is not known
    is_same = kind in _SAME_BUFFER or (source is not None and _copies_nothing(kind, source, output))
    return shared if is_same else None


def _copies_nothing(kind: str, source: Tensor, output: Tensor) -> bool:
    """Return whether an operator, for tensors of these shapes, only gives the buffer of an input another name."""
    return (
        (kind in _SAME_IF_UNCHANGED and _is_unchanged(kind, source, output))
        or (kind in _CUTS and _is_view(source, output))
        or (kind == "Transpose" and _moves_nothing(source, output))
    )


def _is_unchanged(kind: str, source: Tensor, output: Tensor) -> bool:
    """Return whether an operator had nothing to do: a reduction of dimensions of one, a cast to the same dtype."""
    if source.shape is None or output.shape is None or source.dtype != output.dtype:
        return False
    if kind in _REDUCTIONS:
        return source.bytes == output.bytes > 0
    return None not in source.shape and tuple(source.shape) == tuple(output.shape)


def _moves_nothing(source: Tensor, output: Tensor) -> bool:
    """Return whether a transposition is known to move dimensions of one alone."""
    if source.shape is None or output.shape is None or None in source.shape:
        return False
    before = [size for size in source.shape if size != 1]
    after = [size for size in output.shape if size != 1]
    are_distinct = len(set(before)) == len(before)  # two equal ones may have changed places
    return before == after and are_distinct


def _is_view(whole: Tensor, part: Tensor) -> bool:
    """Return whether a part can lie in the buffer of the whole: cut along the first dimension, and aligned."""
    if not whole.shape or part.shape is None:
        return False
    row = Tensor(whole.number, tuple(whole.shape[1:]), whole.dtype)
    is_cut_along_the_first = row.shape in (tuple(part.shape), tuple(part.shape[1:]))
    return is_cut_along_the_first and row.bytes % _ALIGNMENT == 0


def list_reusable(kind: str, inputs: Sequence[T], maker_of_first: str) -> Sequence[T]:
    """Return the inputs of an operator in whose buffers it may work, if nothing else needs them any more.

    ``maker_of_first`` is the type of the operator that made the first input.
    """
    if kind in _IN_PLACE_OF_FIRST or (kind in _BATCH_NORMS and maker_of_first == "Conv2D"):
        return inputs[:1]
    if kind in _IN_PLACE_OF_TWO:
        return inputs[:2]
    if kind == "AddN":
        return inputs
    return inputs[1:] if kind in _SELECTIONS else ()


# Copies inside of an operator -----------------------------------------------------------------------------------------


def count_scratch_bytes(
    kind: str, sources: Sequence[Tensor | None], outputs: Sequence[Tensor], equation: str = ""
) -> int:
    """Return the bytes of the transposed copies in an operator, for which other frameworks have separate operators.

    Other allocations of a kernel (filters in another order, im2col) are no tensors of the model, and differ between
    builds of TensorFlow.
    """
    if kind == "Einsum":
        sizes = [0 if source is None else source.bytes for source in sources]
        return _count_einsum_copies(equation, sizes, outputs[0].bytes)
    reduced = sources[0] if kind in _REDUCTIONS and sources else None
    if reduced is not None and _transposes_to_reduce(reduced.shape, outputs[0].shape):
        return reduced.bytes
    return 0


def _transposes_to_reduce(source: PartialShape, output: PartialShape) -> bool:
    """Return whether a reduction that keeps its dimensions transposes first: its axes lie between others, twice."""
    if source is None or output is None or len(source) != len(output):
        return False
    are_reduced = [before != after for before, after in zip(source, output, strict=True) if before != 1]
    alternations = [is_reduced for is_reduced, _ in groupby(are_reduced)]
    return len(alternations) > 3


def _count_einsum_copies(equation: str, sizes: Sequence[int], result_bytes: int) -> int:
    """Return the bytes of the copies in which an einsum transposes its operands, and its result.

    The product is a batched matrix product: operands in the order batch, free, contracted (or batch, contracted,
    free), the result in the order batch, free of the first, free of the second.
    """
    operands, arrow, result = equation.replace(" ", "").partition("->")
    terms = operands.split(",")
    if not arrow or "." in equation or len(terms) != 2:
        return 0
    first, second = terms
    batch = _pick(first, lambda label: label in second and label in result)
    contracted = _pick(first, lambda label: label in second and label not in result)
    copies, free_of_both = 0, ""
    for term, size in zip(terms, sizes, strict=False):
        free = _pick(term, lambda label: label in result and label not in batch)
        free_of_both += free
        if term not in (batch + free + contracted, batch + contracted + free):
            copies += size
    if result != batch + free_of_both:
        copies += result_bytes
    return copies


def _pick(term: str, is_picked: Callable[[str], bool]) -> str:
    return "".join(filter(is_picked, term))
