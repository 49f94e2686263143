"""The kind and the sizes of a product, by which a calibration finds its time."""

from __future__ import annotations

import math
from typing import NamedTuple

from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import OpRecord

from .operator_names import compile_words, join_words

#: The kinds of products by the words of their names; all others are plain products.
_KINDS = {
    "convolution": compile_words(r"[a-z]*conv(olution)?"),
    "attention": compile_words(r"[a-z]*attention|sdpa"),
    "recurrent": compile_words(r"[a-z]*lstm|recurrent"),
    "stepwise recurrent": compile_words(r"[a-z]*(gru|rnn)"),
    "batched product": compile_words(r"bmm|baddbmm|batch_?mat_?mul|einsum"),
}
_GRADIENT = compile_words(r"backward|grad|gradient|backprop_(input|filter)")
#: The kinds whose gradients have tables of their own.
_WITH_GRADIENTS = frozenset({"convolution", "recurrent", "stepwise recurrent"})
#: The depths of convolutions of one channel for each output channel: 3 x 3, 5 x 5 and 7 x 7 elements of one kernel.
#: Their gradients, by the image and by the kernel, have twice the depth.
_DEPTHWISE_DEPTHS = frozenset({9, 25, 49})


def find_kind(operator: OpRecord) -> str:
    """Return the kind of a product: "convolution", "depthwise convolution gradient", "product", ..."""
    kind = _find_forward_kind(operator)
    is_gradient = kind in _WITH_GRADIENTS and _GRADIENT.search(join_words(operator.operator)) is not None
    products = 2 if is_gradient else 1
    if kind == "convolution" and find_sizes(operator).depth in {products * depth for depth in _DEPTHWISE_DEPTHS}:
        kind = "depthwise convolution"
    return f"{kind} gradient" if is_gradient else kind


def _find_forward_kind(operator: OpRecord) -> str:
    """Return the kind of a product, or of the product that it is the gradient of."""
    name = join_words(operator.operator)
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(name)), "product")


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
    elements, kind = math.prod(shape), _find_forward_kind(operator)
    depth = max(1, operator.macs // elements)
    if kind == "convolution" and len(shape) > 2:
        values = (operator.bytes_read + operator.bytes_written) / element_bytes(operator.outputs[0].dtype)
        macs_for_a_value = max(1, round(operator.macs / max(1.0, values)))
        return ProductSizes(macs_for_a_value, elements // shape[1], shape[1], depth)
    if kind in ("recurrent", "stepwise recurrent") and len(shape) == 3:
        return ProductSizes(shape[0], shape[1], shape[2], depth)
    if kind == "batched product" and len(shape) > 2:
        return ProductSizes(math.prod(shape[:-2]), shape[-2], shape[-1], depth)
    columns = shape[-1] if shape else 1
    return ProductSizes(1, elements // columns, columns, depth)
