"""The kind of a product and the family of traffic, by which a calibration finds the time of an operator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import OpRecord

from .operator_names import compile_words, join_words

# Products -------------------------------------------------------------------------------------------------------------

#: The kinds of products by the words of their names; all others are plain products.
_KINDS = {
    "convolution": compile_words(r"[a-z]*conv(olution)?"),
    "attention": compile_words(r"[a-z]*attention|sdpa"),
    "recurrent": compile_words(r"[a-z]*lstm|recurrent"),
    "stepwise recurrent": compile_words(r"[a-z]*(gru|rnn)"),
    "batched product": compile_words(r"bmm|baddbmm|batch_?mat_?mul|einsum"),
}
_PRODUCT_GRADIENT = compile_words(r"backward|grad|gradient|backprop_(input|filter)")
#: The kinds whose gradients have tables of their own.
_KINDS_WITH_GRADIENTS = frozenset({"convolution", "recurrent", "stepwise recurrent"})
#: The depths of convolutions of one channel for each output channel: 3 x 3, 5 x 5 and 7 x 7 elements of one kernel.
#: Their gradients, by the image and by the kernel, have twice the depth.
_DEPTHWISE_DEPTHS = frozenset({9, 25, 49})


def find_kind(operator: OpRecord) -> str:
    """Return the kind of a product: "convolution", "depthwise convolution gradient", "product", ..."""
    kind = _find_forward_kind(operator)
    is_gradient = kind in _KINDS_WITH_GRADIENTS and _PRODUCT_GRADIENT.search(join_words(operator.operator)) is not None
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


# Traffic --------------------------------------------------------------------------------------------------------------

#: The families of traffic by the words of their names; all others are element-wise. A name may have words of several
#: families: the first of these counts.
_FAMILIES = {
    # Without an exponential: the gradients of sigmoid and tanh use their outputs.
    "element-wise": compile_words(r"clamp|h(ard)?_(swish|sigmoid|tanh)|(sigmoid|tanh)_(backward|grad)"),
    "average pooling": compile_words(r"(avg|average|mean)_?pool(ing)?"),
    "upsampling": compile_words(r"upsample|interpolate|resize"),
    "pooling": compile_words(r"(max|un)?pool(ing)?"),
    "softmax": compile_words(r"(log_?)?soft_?max|(cum)?log_?(cum)?sum_?exp"),
    # Torch's operators of training, by their whole names: they compute the mean and variance of the batch.
    "batch statistics": compile_words(r"^(native_batch_norm(_legit)?|batch_norm_with_update)(_functional)?$"),
    "batch normalization": compile_words(r"(batch|instance)_?norm(alization)?"),
    "random": compile_words(
        r"dropout|rand(n|int|om|perm)?|normal|uniform(?!_(de|re)?quant)|bernoulli|multinomial|binomial|poisson(?!_nll)"
        r"|geometric|(?<!matrix_)exponential|cauchy"
    ),
    "normalization": compile_words(r"[a-z]*norm(alization|alize|alizer)?"),
    "gather": compile_words(r"embedding|index|gather|take|scatter|(select|slice)_backward"),
    "reduction": compile_words(
        r"(a|arg|cum|nan|nanarg|p)?(sum|mean|max|min|prod|median)|aminmax|hard_?max|(arg|m)?sort|top_?k|var|std|any"
        r"|all(?!_to)|reduce(?!_precision)|bias_add_grad"
    ),
    "activation": compile_words(
        r"[cgs]?elu|silu|swish|mish|softplus|sigmoid|logistic|logits?|exp(m|it|onential)?|x?log(1p|y|1py|it)?|logaddexp"
        r"|(a|arc)?(sin|cos|tan)h?|sinc|erf(c|cx|inv)?|r?sqrt|pow(er)?|(addc|true|floor)?div(ide)?|xdivy"
    ),
    "movement": compile_words(
        r"clone|contiguous|copy|cat|concat(enate)?|[a-z]*stack|pad(ded)?|reshape|repeat|roll|flip(lr|ud)?|fill|zeros|ones"
        r"|full|arange|transpose|expand|slice|split"
    ),
}
_TRAFFIC_GRADIENT = compile_words(r"backward|(?<!no_)grad|gradient")
#: The families whose gradients have tables of their own, as "pooling gradient".
_WITH_TRAFFIC_GRADIENTS = frozenset(
    ("average pooling", "upsampling", "pooling", "softmax", "batch normalization", "normalization", "activation")
)
#: Averages of so many elements are reductions: the averages of whole images.
_MANY = 32


def find_family(operator: OpRecord) -> str:
    """Return the family of an operator without products: "softmax", "pooling gradient", "element-wise", ..."""
    name = join_words(operator.operator)
    family = next((family for family, pattern in _FAMILIES.items() if pattern.search(name)), "element-wise")
    if family == "average pooling" and operator.bytes_read >= _MANY * operator.bytes_written:
        return "reduction"
    return f"{family} gradient" if family in _WITH_TRAFFIC_GRADIENTS and _TRAFFIC_GRADIENT.search(name) else family


# Tables that replace missing ones -------------------------------------------------------------------------------------

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
