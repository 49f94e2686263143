"""What decides the time of an operator: the kind of a product and its sizes, or the family of traffic.

The names are the parts of operators' names that frameworks have in common. An operator with multiply-accumulates and an
unknown name is a product, any other one is element-wise traffic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import OpRecord

__all__ = ["STAND_INS", "ProductSizes", "find_family", "find_kind", "find_sizes", "is_free", "plain_name"]

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
#: Those of their gradients, by the image and by the kernel, are twice that.
_DEPTHWISE_GRADIENT_DEPTHS = frozenset({18, 50, 98})

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
#: Averages of so many elements are reductions: those of whole images.
_MANY = 32
#: The families whose gradients have tables of their own, as "pooling gradient".
_WITH_GRADIENTS = frozenset(
    ("average pooling", "upsampling", "pooling", "softmax", "batch normalization", "normalization", "activation")
)
#: ReLU and what torch calls relu6 are no exponential, though "elu" is in their names; the gradients of sigmoid and tanh
#: take their results, and no exponential either.
_ELEMENTWISE = re.compile(r"relu|threshold|hardtanh|hardswish|hardsigmoid|clamp|(sigmoid|tanh)_(backward|grad)")
#: What makes no byte move: views, and tensors without values.
_FREE = re.compile(
    r"_unsafe_view|view|empty(_like|_strided)?|new_empty|unsafe_split|split(_with_sizes)?|chunk|detach|alias|expand|t"
    r"|permute|squeeze|unsqueeze|as_strided|select|slice|unbind|identity|lift_fresh|scalar_tensor"
)
#: Kinds and families that stand in for one that was not measured, the nearest first.
STAND_INS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("convolution", "recurrent", "batched product"), ("product",)),
    "attention": ("batched product", "product"),
    "depthwise convolution": ("convolution",),
    "convolution gradient": ("convolution", "product"),
    "depthwise convolution gradient": ("convolution gradient", "depthwise convolution", "convolution", "product"),
    **dict.fromkeys(("recurrent gradient", "stepwise recurrent"), ("recurrent", "product")),
    "stepwise recurrent gradient": ("recurrent gradient", "stepwise recurrent", "recurrent", "product"),
    **dict.fromkeys(("activation", "reduction", "movement"), ("element-wise",)),
    "gather": ("movement", "element-wise"),
    **dict.fromkeys(("normalization", "random", "activation gradient"), ("activation", "element-wise")),
    **dict.fromkeys(("pooling", "batch normalization"), ("normalization", "element-wise")),
    **dict.fromkeys(
        ("average pooling", "upsampling", "pooling gradient"), ("pooling", "normalization", "element-wise")
    ),
    "average pooling gradient": ("average pooling", "pooling", "normalization", "element-wise"),
    "upsampling gradient": ("upsampling", "pooling", "normalization", "element-wise"),
    **dict.fromkeys(
        ("batch statistics", "batch normalization gradient"), ("batch normalization", "normalization", "element-wise")
    ),
    **dict.fromkeys(("softmax", "normalization gradient"), ("normalization", "activation", "element-wise")),
    "softmax gradient": ("softmax", "normalization", "activation", "element-wise"),
}


def plain_name(operator: str) -> str:
    """Return an operator's name without its namespace and overload, in small letters.

    >>> plain_name("aten.conv2d.default"), plain_name("aten::mm"), plain_name("Conv"), plain_name("com.microsoft::Gelu")
    ('conv2d', 'mm', 'conv', 'gelu')
    """
    _, separator, name = operator.rpartition("::")
    parts = name.split(".")
    return (parts[1] if len(parts) > 1 and not separator else parts[0]).lower()


def find_kind(operator: OpRecord) -> str:
    """Return the kind of a product."""
    kind = _find_first(_KINDS, plain_name(operator.operator))
    if kind == "convolution" and find_sizes(operator).depth in _DEPTHWISE_DEPTHS:
        return "depthwise convolution"
    if kind == "convolution gradient" and find_sizes(operator).depth in _DEPTHWISE_GRADIENT_DEPTHS:
        return "depthwise convolution gradient"
    return kind


def find_family(operator: OpRecord) -> str:
    """Return the family of an operator without products."""
    name = plain_name(operator.operator)
    if _ELEMENTWISE.search(name):
        return "element-wise"
    family = _find_first(_FAMILIES, name)
    if family == "average pooling" and operator.bytes_read >= _MANY * operator.bytes_written:
        return "reduction"
    return f"{family} gradient" if family in _WITH_GRADIENTS and "backward" in name else family


def _find_first(patterns: Mapping[str, str], name: str) -> str:
    """Return the first kind or family whose pattern is in a name; the last one has a pattern that is in all."""
    return next(kind for kind, pattern in patterns.items() if re.search(pattern, name))


def is_free(operator: OpRecord) -> bool:
    """Return whether an operator moves no bytes: a view, or a tensor without values."""
    return not operator.macs and _FREE.fullmatch(plain_name(operator.operator)) is not None


class ProductSizes(NamedTuple):
    """The sizes of a product, as far as its first output and its count tell them; none is less than 1.

    Attributes:
        batch: How many matrices a batched product or a recurrent layer has; 1 for others. Convolutions have their
            multiply-accumulates for each value that is read or written in its place: of those with the same rows,
            columns and depth, that is greater for larger kernels.
        rows: Rows of the output of each; of recurrent layers, which are taken to have the batch first, the steps.
        columns: The channels of an image, or else the last dimension of the output.
        depth: Multiply-accumulates for each element of the output.
    """

    batch: int
    rows: int
    columns: int
    depth: int


def find_sizes(operator: OpRecord) -> ProductSizes:
    """Return the sizes of a product.

    >>> from profilerkit.trace.records import TensorInfo
    >>> find_sizes(OpRecord("mm", "", 0, 24, 48, 0, 0, (TensorInfo((2, 3), "float32"),)))
    ProductSizes(batch=1, rows=2, columns=3, depth=4)
    """
    shape = tuple(max(1, size) for size in operator.outputs[0].shape) if operator.outputs else ()
    name = plain_name(operator.operator)
    elements = math.prod(shape)
    depth = max(1, operator.macs // elements)
    if "conv" in name and len(shape) > 2:
        channels = shape[1]
        moved = (operator.bytes_read + operator.bytes_written) / element_bytes(operator.outputs[0].dtype)
        macs_of_a_value = max(1, round(operator.macs / max(1.0, moved)))
        return ProductSizes(macs_of_a_value, elements // channels, channels, depth)
    columns = shape[-1] if shape else 1
    if len(shape) == 3 and re.search(r"lstm|gru|rnn|recurrent", name):
        return ProductSizes(shape[0], shape[1], columns, depth)
    is_batched = len(shape) > 2 and re.search(_KINDS["batched product"], name) is not None
    batch = math.prod(shape[:-2]) if is_batched else 1
    return ProductSizes(batch, elements // columns // batch, columns, depth)
