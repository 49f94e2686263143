"""The causes of the time of an operator: the kind and sizes of a product, the family of traffic, and bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import OpRecord


def plain_name(operator: str) -> str:
    """Return an operator's name without its namespace and overload, in small letters.

    >>> plain_name("aten.conv2d.default"), plain_name("aten::mm"), plain_name("Conv"), plain_name("com.microsoft::Gelu")
    ('conv2d', 'mm', 'conv', 'gelu')
    """
    _, separator, name = operator.rpartition("::")
    parts = name.split(".")
    return (parts[1] if len(parts) > 1 and not separator else parts[0]).lower()


def _find_first(patterns: Mapping[str, str], name: str) -> str:
    """Return the first kind or family whose pattern is in a name; the last one has a pattern that is in all."""
    return next(kind for kind, pattern in patterns.items() if re.search(pattern, name))


# Products -------------------------------------------------------------------------------------------------------------

#: The kinds of products by the patterns of their names; the first that matches counts.
_KINDS = {
    "convolution gradient": r"conv\w*backward|conv\w*gradient|conv2dbackprop|backprop(input|filter)",
    "convolution": r"conv",
    "attention": r"attention|sdpa",
    "recurrent gradient": r"(lstm|recurrent)\w*(backward|gradient)",
    "stepwise recurrent gradient": r"(gru|rnn)\w*(backward|gradient)",
    "recurrent": r"lstm|recurrent",
    "stepwise recurrent": r"gru|rnn",
    "batched product": r"\bbmm|baddbmm|batch_?matmul|einsum",
    "product": r"",
}
#: The depths of convolutions of one channel for each output channel: 3 x 3, 5 x 5 and 7 x 7 elements of one kernel.
_DEPTHWISE_DEPTHS = frozenset({9, 25, 49})
#: The depths of their gradients, by the image and by the kernel: twice as great.
_DEPTHWISE_GRADIENT_DEPTHS = frozenset({18, 50, 98})


def find_kind(operator: OpRecord) -> str:
    """Return the kind of a product."""
    kind = _find_first(_KINDS, plain_name(operator.operator))
    if kind == "convolution" and find_sizes(operator).depth in _DEPTHWISE_DEPTHS:
        return "depthwise convolution"
    if kind == "convolution gradient" and find_sizes(operator).depth in _DEPTHWISE_GRADIENT_DEPTHS:
        return "depthwise convolution gradient"
    return kind


class ProductSizes(NamedTuple):
    """The sizes of a product, as far as its first output and its count tell them; all are at least 1."""

    #: How many matrices a batched product or a recurrent layer has; 1 for others. For convolutions, the
    #: multiply-accumulates for each value that is read or written: with the same rows, columns and depth, the number is
    #: greater for larger kernels.
    batch: int
    #: Rows of the output of each; of recurrent layers, which are taken to have the batch first, the steps.
    rows: int
    #: The channels of an image, or else the last dimension of the output.
    columns: int
    #: Multiply-accumulates for each element of the output.
    depth: int


def find_sizes(operator: OpRecord) -> ProductSizes:
    """Return the sizes of a product.

    >>> from profilerkit.trace.records import TensorInfo
    >>> find_sizes(OpRecord("mm", "", 0, 24, 48, 0, 0, (TensorInfo((2, 3), "float32"),)))
    ProductSizes(batch=1, rows=2, columns=3, depth=4)
    """
    shape = tuple(max(1, size) for size in operator.outputs[0].shape) if operator.outputs else ()
    name, elements = plain_name(operator.operator), math.prod(shape)
    columns, depth = shape[-1] if shape else 1, max(1, operator.macs // elements)
    batch, rows = 1, elements // columns
    if "conv" in name and len(shape) > 2:
        columns, rows = shape[1], elements // shape[1]
        moved = (operator.bytes_read + operator.bytes_written) / element_bytes(operator.outputs[0].dtype)
        batch = max(1, round(operator.macs / max(1.0, moved)))
    elif len(shape) == 3 and re.search(r"lstm|gru|rnn|recurrent", name):
        batch, rows = shape[:2]
    elif len(shape) > 2 and re.search(_KINDS["batched product"], name):
        batch, rows = math.prod(shape[:-2]), shape[-2]
    return ProductSizes(batch, rows, columns, depth)


# Operators without products -------------------------------------------------------------------------------------------

#: The families of traffic by the patterns of their names; the first that matches counts.
_FAMILIES = {
    "average pooling": r"avg_?pool|average_?pool|mean_?pool",
    "upsampling": r"upsample|interpolate|resize",
    "pooling": r"pool",
    "softmax": r"softmax|logsumexp",
    "batch statistics": r"native_batch_norm$",
    "batch normalization": r"batch_?norm|instance_?norm",
    "normalization": r"norm",
    "random": r"dropout|bernoulli|rand|multinomial",
    "activation": r"gelu|silu|swish|sigmoid|tanh|exp|log|pow|sin|cos|erf|softplus|mish|elu|sqrt|rsqrt|div",
    "reduction": r"sum|mean|max|min|argmax|argmin|topk|sort|cumsum|var|std|any|all\b",
    "gather": r"embedding|index|gather|take|scatter|select_backward|slice_backward",
    "movement": r"clone|contiguous|copy|cat|stack|pad|reshape|repeat|roll|flip|fill|zeros|ones|full|arange|transpose",
    "element-wise": r"",
}
#: Averages of so many elements are reductions: the averages of whole images.
_MANY = 32
#: The families whose gradients have tables of their own, as "pooling gradient".
_WITH_GRADIENTS = frozenset(
    ("average pooling", "upsampling", "pooling", "softmax", "batch normalization", "normalization", "activation")
)
#: ReLU and relu6 compute no exponential, though "elu" is in their names; the gradients of sigmoid and tanh use the
#: outputs of sigmoid and tanh, and no exponential either. The greater of two tensors is no reduction.
_ELEMENTWISE = re.compile(
    r"relu|threshold|hardtanh|hardswish|hardsigmoid|clamp|(sigmoid|tanh)_(backward|grad)|maximum|minimum|logical"
)


def find_family(operator: OpRecord) -> str:
    """Return the family of an operator without products."""
    name = plain_name(operator.operator)
    if _ELEMENTWISE.search(name):
        return "element-wise"
    family = _find_first(_FAMILIES, name)
    if family == "average pooling" and operator.bytes_read >= _MANY * operator.bytes_written:
        return "reduction"
    return f"{family} gradient" if family in _WITH_GRADIENTS and "backward" in name else family


#: Operators that move no byte: views, and tensors without values.
_FREE = re.compile(
    r"_unsafe_view|view|empty(_like|_strided)?|new_empty|unsafe_split|split(_with_sizes)?|chunk|detach|alias|expand|t"
    r"|permute|squeeze|unsqueeze|as_strided|select|slice|unbind|identity|lift_fresh|scalar_tensor"
)


def is_free(operator: OpRecord) -> bool:
    """Return whether an operator moves no bytes: a view, or a tensor without values."""
    return not operator.macs and _FREE.fullmatch(plain_name(operator.operator)) is not None


# What stands in for a kind or family that was not measured ------------------------------------------------------------

#: The kind or family that replaces an unmeasured one; a replacement may have a replacement too.
_STAND_IN: Mapping[str, str] = {
    **dict.fromkeys(("convolution", "recurrent", "batched product"), "product"),
    "attention": "batched product",
    **dict.fromkeys(("depthwise convolution", "convolution gradient"), "convolution"),
    "depthwise convolution gradient": "convolution gradient",
    **dict.fromkeys(("recurrent gradient", "stepwise recurrent"), "recurrent"),
    "stepwise recurrent gradient": "recurrent gradient",
    **dict.fromkeys(("activation", "reduction", "movement"), "element-wise"),
    "gather": "movement",
    **dict.fromkeys(("normalization", "random", "activation gradient"), "activation"),
    **dict.fromkeys(("pooling", "batch normalization", "softmax", "normalization gradient"), "normalization"),
    **dict.fromkeys(("average pooling", "upsampling", "pooling gradient"), "pooling"),
    "average pooling gradient": "average pooling",
    "upsampling gradient": "upsampling",
    **dict.fromkeys(("batch statistics", "batch normalization gradient"), "batch normalization"),
    "softmax gradient": "softmax",
}


def list_stand_ins(kind: str) -> Iterator[str]:
    """Yield a kind or family, and its replacements if it was not measured, the nearest first.

    >>> list(list_stand_ins("attention"))
    ['attention', 'batched product', 'product']
    """
    name: str | None = kind
    while name is not None:
        yield name
        name = _STAND_IN.get(name)


# Bytes ----------------------------------------------------------------------------------------------------------------

#: Products of each row with one of several matrices, as in experts. Which matrices are read depends on values.
_GROUPED = re.compile(r"grouped_?mm|grouped_?gemm|ragged_?dot|gather_?mm|mixtureofexperts|\bq?moe\b")
#: The bytes of a weight of onnxruntime's QMoE, which has 2 bits or more.
_QMOE_BYTES = 0.25
#: Operators that read chosen elements of a tensor.
_LOOKS_UP = re.compile(r"embedding|index|gather|take|dynamic_slice")


def is_selective(operator: OpRecord) -> bool:
    """Return whether an operator reads chosen parts of a tensor: rows of a table, or the matrices of chosen experts.

    >>> is_selective(OpRecord("aten.index_select.default", "", 0, 0, 0, 400, 8, ()))
    True
    """
    name = plain_name(operator.operator)
    return (_GROUPED if operator.macs else _LOOKS_UP).search(name) is not None


def count_least_read(operator: OpRecord) -> float:
    """Return the least bytes that an operator reads: of a table the rows that it returns, of experts one.

    A product of 3 rows with experts of 8 x 4 elements of four bytes has 96 multiply-accumulates, and reads at least one
    of the experts, 128 bytes:

    >>> from profilerkit.trace.records import TensorInfo
    >>> output = TensorInfo((3, 4), "float32")
    >>> count_least_read(OpRecord("aten._grouped_mm.default", "", 0, 96, 192, 10**6, 48, (output,)))
    128.0
    """
    if not is_selective(operator) or not operator.outputs:
        return float(operator.bytes_read)
    first, *others = operator.outputs
    if operator.macs:
        rows = math.prod(max(1, size) for size in first.shape[:-1])
        weight_bytes = _QMOE_BYTES if plain_name(operator.operator) == "qmoe" else element_bytes(first.dtype)
        return min(operator.bytes_read, operator.macs / rows * weight_bytes)
    beside = sum(math.prod(max(0, size) for size in other.shape) * element_bytes(other.dtype) for other in others)
    return min(operator.bytes_read, max(0.0, operator.bytes_written - beside))


def count_moved_bytes(operator: OpRecord) -> float:
    """Return the bytes that an operator moves: of a table that it looks up, the rows that it returns alone."""
    read, written = operator.bytes_read, operator.bytes_written
    looks_up = not operator.macs and find_family(operator) == "gather"
    return float(min(read, written) + written if looks_up else read + written)
