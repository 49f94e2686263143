"""What TensorFlow's CPU kernels do with memory: which outputs share an input's buffer, which take one over.

Each rule was observed in the allocations of TensorFlow 2.21 (oneDNN on, as is the default on x86), one operator at a
time. What grappler fuses needs no rule: a bias, an addition or an activation after a convolution or a product works in
the buffer of the operator before it, fused or not. The one exception is a batch normalization, which does so only where
it is fused into the convolution before it.

The functions ask about one operator: about its type, the tensors that it reads (None for one that is held elsewhere)
and those that it makes. Sizes are lower bounds where a shape is not known: such a tensor counts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod
from typing import TypeAlias, TypeVar

__all__ = [
    "LIST_WRITES",
    "Tensor",
    "find_shared_input",
    "is_too_small",
    "is_unsized",
    "list_reusable",
    "scratch_bytes",
    "tensor_bytes",
]

T = TypeVar("T")

#: The number of a value, its shape (None where unknown, also for one dimension), and the name of its dtype.
Tensor: TypeAlias = "tuple[int, tuple[int | None, ...] | None, str]"


def _types(names: str) -> frozenset[str]:
    return frozenset(names.split())


_BYTES = {
    **dict.fromkeys(("bool", "int4", "uint4", "int8", "uint8", "qint8", "quint8"), 1),  # int4 is not packed on the CPU
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "half", "bfloat16", "qint16", "quint16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "qint32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "double", "complex64"), 8),
    "complex128": 16,
    "string": 24,
}

#: Operators whose outputs are the input with the same index (or the first one) under another name or shape.
_SAME_BUFFER = _types(
    """
    Identity IdentityN StopGradient PreventGradient Snapshot ReadVariableOp Reshape Squeeze ExpandDims Bitcast
    EnsureShape CheckNumerics PlaceholderWithDefault Enter Exit NextIteration Switch TensorListPopBack
    TensorListGetItem TensorListResize
    """
)
#: Operators that hand the input on where there is nothing to do.
_SAME_IF_UNCHANGED = _types("Cast Pad PadV2 Tile BroadcastTo Sum Mean Max Min Prod All Any Slice StridedSlice")
#: Operators that cut along the first dimension without copying, and the index of the input they cut.
_CUTS = {"Slice": 0, "StridedSlice": 0, "Split": 1, "SplitV": 0, "Unpack": 0}
#: A slice is a view only where it begins on such a boundary, in bytes.
_ALIGNMENT = 64

#: Element-wise operators that may work in the buffer of their only, or their first, input.
_IN_PLACE_OF_FIRST = _types(
    """
    Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Ceil Cos Cosh Digamma Erf Erfc Erfinv Exp Expm1
    Floor Inv Invert Lgamma Log Log1p LogicalNot Ndtri Neg Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh
    Sqrt Square Tan Tanh Elu LeakyRelu Relu Relu6 Selu Softplus Softsign Softmax LogSoftmax BiasAdd BiasAddV1
    ClipByValue MatrixBandPart
    """
)
#: Element-wise operators that may work in the buffer of either of two inputs.
_IN_PLACE_OF_TWO = _types(
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
_REDUCTIONS = _types("Sum Mean Max Min Prod All Any EuclideanNorm")
#: Operators that compute axes: grappler folds them where shapes are known, otherwise they take a few bytes.
_AXES = ("BroadcastGradientArgs",)
#: Operators that put an item into a list, and the index of the input that is the item; the list is the first.
LIST_WRITES = {"TensorListSetItem": 2, "TensorListPushBack": 1}


def tensor_bytes(shape: Sequence[int | None] | None, dtype: str) -> int:
    """Return the bytes of a tensor: 0 where its shape is not known, for a handle, and for an unknown dtype."""
    if shape is None:
        return 0
    sizes = [size for size in shape if size is not None]
    return prod(sizes) * _BYTES.get(dtype, 0) if len(sizes) == len(shape) else 0


def is_unsized(tensor: Tensor) -> bool:
    """Return whether the size of a tensor is unknown; handles, variants and strings have none."""
    _, shape, dtype = tensor
    return dtype in _BYTES and dtype != "string" and (shape is None or (None in shape and 0 not in shape))


def is_too_small(kind: str, index: int) -> bool:
    """Return whether an output of an operator is empty on a CPU, or takes a few bytes alone."""
    return kind in _AXES or (kind in _BATCH_NORMS and index >= _STATISTICS)


def find_shared_input(kind: str, index: int, sources: Sequence[Tensor | None], output: Tensor) -> int | None:
    """Return the index of the input whose buffer an output shares; None where it has one of its own."""
    if kind in _SAME_BUFFER and sources:
        return index if kind == "IdentityN" else 0
    first = sources[0] if sources else None
    if kind in _SAME_IF_UNCHANGED and first is not None and _is_unchanged(kind, first, output):
        return 0
    if kind == "Transpose" and first is not None and _moves_nothing(first[1], output[1]):
        return 0
    if kind in _CUTS and len(sources) > _CUTS[kind]:
        cut = sources[_CUTS[kind]]
        return _CUTS[kind] if cut is not None and _is_view(cut, output) else None
    return None


def _is_unchanged(kind: str, source: Tensor, output: Tensor) -> bool:
    """Return whether an operator had nothing to do: a reduction of dimensions of one, a cast to the same dtype."""
    if source[1] is None or output[1] is None or source[2] != output[2]:
        return False
    if kind in _REDUCTIONS:
        return tensor_bytes(*source[1:]) == tensor_bytes(*output[1:]) > 0
    return None not in source[1] and tuple(source[1]) == tuple(output[1])


def _moves_nothing(source: Sequence[int | None] | None, output: Sequence[int | None] | None) -> bool:
    """Return whether a transposition is known to move dimensions of one alone."""
    if source is None or output is None or None in source:
        return False
    before, after = ([size for size in shape if size != 1] for shape in (source, output))
    return before == after and len(set(before)) == len(before)


def _is_view(whole: Tensor, part: Tensor) -> bool:
    """Return whether a part can lie in the buffer of the whole: cut along the first dimension, and aligned."""
    if whole[1] is None or part[1] is None or not whole[1]:
        return False
    inner = tuple(whole[1][1:])
    if tuple(part[1]) != inner and tuple(part[1][1:]) != inner:
        return False
    return tensor_bytes(inner, whole[2]) % _ALIGNMENT == 0


def list_reusable(kind: str, inputs: Sequence[T], maker_of_first: str) -> Sequence[T]:
    """Return those of an operator's inputs in whose buffer it may work, if nothing else needs them any more.

    ``maker_of_first`` is the type of the operator that made the first input.
    """
    if kind in _IN_PLACE_OF_FIRST or (kind in _BATCH_NORMS and maker_of_first == "Conv2D"):
        return inputs[:1]
    if kind in _IN_PLACE_OF_TWO:
        return inputs[:2]
    if kind == "AddN":
        return inputs
    return inputs[1:] if kind in _SELECTIONS else ()


def scratch_bytes(kind: str, sources: Sequence[Tensor | None], outputs: Sequence[Tensor], equation: str = "") -> int:
    """Return the bytes of the transposed copies in an operator, for which other frameworks have separate operators.

    What a kernel allocates besides (filters in another order, im2col) is no tensor of the model, and differs from one
    build of TensorFlow to the next.
    """
    sizes = [0 if source is None else tensor_bytes(*source[1:]) for source in sources]
    made = [tensor_bytes(shape, dtype) for _, shape, dtype in outputs]
    if kind == "Einsum":
        return _einsum_scratch(equation, sizes, made[0])
    if kind in _REDUCTIONS and sources and sources[0] is not None:
        return sizes[0] if _reduces_apart(sources[0][1], outputs[0][1]) else 0
    return 0


def _reduces_apart(source: Sequence[int | None] | None, output: Sequence[int | None] | None) -> bool:
    """Return whether a reduction that keeps its dimensions transposes first: its axes lie between others, twice."""
    if source is None or output is None or len(source) != len(output):
        return False
    reduced = [before != after for before, after in zip(source, output, strict=True) if before != 1]
    return len([run for run, _ in groupby(reduced)]) > 3


def _einsum_scratch(equation: str, sizes: Sequence[int], made: int) -> int:
    """Return the bytes of the copies in which an einsum transposes its operands, and its result.

    The product is a batched matrix product: operands in the order batch, free, contracted (or batch, contracted,
    free), the result in the order batch, free of the first, free of the second.
    """
    operands, arrow, result = equation.replace(" ", "").partition("->")
    labels = operands.split(",")
    if not arrow or "." in equation or len(labels) != 2:
        return 0
    first, second = labels
    batch = [label for label in first if label in second and label in result]
    contracted = [label for label in first if label in second and label not in result]
    copied, free = 0, ""
    for operand, size in zip(labels, sizes, strict=False):
        free_labels = [label for label in operand if label in result and label not in batch]
        free += "".join(free_labels)
        if operand not in ("".join((*batch, *free_labels, *contracted)), "".join((*batch, *contracted, *free_labels))):
            copied += size
    return copied + (made if result != "".join(batch) + free else 0)
