"""Operators that are several in one: layers of transformers, and products together with what follows them.

Torch runs whole layers of transformers in inference; oneDNN and MKL compute products, on floats and on integers, and
apply the next operator to them. They cost what they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from profilerkit.costs import activation, attention, constants, matmul

from .convolution import cost_of_convolution
from .registry import Cost, Shape, register_by_name, register_op_cost

__all__ = []


@register_by_name("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention")
def multi_head_attention(
    *,
    query: Shape,
    key: Shape,
    embed_dim: int,
    num_head: int,
    mask: Shape | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    out: Any,
    **_: Any,
) -> Cost:
    """Return what ``nn.MultiheadAttention`` costs without its fast path: projections with biases, and attention."""
    return attention.multi_head_attention(
        query[0],
        query[1],
        key[1],
        embed_dim,
        num_head,
        has_mask=mask is not None,
        need_weights=bool(need_weights),
        average_weights=bool(average_attn_weights),
    )


@register_by_name("aten::_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    *,
    src: Shape,
    embed_dim: int,
    num_heads: int,
    use_gelu: bool,
    ffn_weight_1: Shape,
    mask: Shape | None = None,
    out: Shape,
    **_: Any,
) -> Cost:
    """Return the cost of the layer without its fast path: attention, two linear layers, two norms, two sums."""
    batch, length, _width = src
    hidden = ffn_weight_1[0]
    return attention.transformer_encoder_layer(
        batch, length, embed_dim, num_heads, hidden, use_gelu=bool(use_gelu), has_mask=mask is not None
    )


# Products, and what follows them --------------------------------------------------------------------------------------


#: The cost, for so many elements, of what may follow a product, by the name that it has in the arguments.
_FOLLOWING: Mapping[str, Callable[[int], Cost]] = {
    "none": lambda elements: Cost(0, 0),
    "relu": activation.relu,
    "sigmoid": activation.sigmoid,
    "tanh": activation.tanh,
    "swish": activation.silu,
    "hardswish": activation.hard_swish,
    "hardsigmoid": activation.hard_sigmoid,
    "hardtanh": activation.clamp,
    "leaky_relu": activation.leaky_relu,
}


def _cost_of_following(elements: int, name: str | None, algorithm: str | None = None) -> Cost:
    """Return the cost of the operator that follows a product, by the name that it has in the arguments."""
    if name == "gelu":
        return activation.gelu(elements, approximate=algorithm == "tanh")
    # A name that is not in the table is of an operator with a second tensor: a sum, a difference, a product.
    following = _FOLLOWING.get(name or "none")
    return Cost(0, elements * constants.ELEMENTWISE) if following is None else following(elements)


def _cost_of_linear(x: Shape, bias: Shape | None, out: Shape) -> Cost:
    return matmul.product(x.numel * out[-1], out.numel if bias is not None else 0)


# Of floats ------------------------------------------------------------------------------------------------------------


@register_by_name("mkldnn::_linear_pointwise")
def linear_and_operator(
    *, x: Shape, bias: Shape | None, attr: str, algorithm: str | None = None, out: Shape, **_: Any
) -> Cost:
    """``operator(x @ weight.T + bias)``: out * in_features, an addition where there is a bias, and the operator."""
    return _cost_of_linear(x, bias, out).plus(_cost_of_following(out.numel, attr, algorithm))


@register_by_name("onednn::linear_relu_dynamic_fp16")
def linear_and_relu(*, x: Shape, bias: Shape | None, out: Shape, **_: Any) -> Cost:
    """``relu(x @ weight.T + bias)``: out * in_features, an addition where there is a bias, and the ReLU."""
    return _cost_of_linear(x, bias, out).plus(activation.relu(out.numel))


@register_by_name("mkldnn::_convolution_pointwise.default")
def convolution_and_operator(
    *, x: Shape, weight: Shape, bias: Shape | None, attr: str, algorithm: str | None, out: Shape, **_: Any
) -> Cost:
    """Return the cost of a convolution, with a bias where there is one, and of the operator that follows it."""
    return cost_of_convolution(x, weight, bias, out).plus(_cost_of_following(out.numel, attr, algorithm))


@register_by_name("mkldnn::_convolution_transpose_pointwise")
def convolve_transposed_with_operator(
    *, x: Shape, weight: Shape, bias: Shape | None, attr: str, algorithm: str | None, out: Shape, **_: Any
) -> Cost:
    """Return the cost of a transposed convolution, with a bias where there is one, and of what follows it."""
    convolution = cost_of_convolution(x, weight, bias, out, transposed=True)
    return convolution.plus(_cost_of_following(out.numel, attr, algorithm))


@register_by_name("mkldnn::_convolution_pointwise.binary", "mkldnn::_convolution_pointwise_.binary")
def convolution_and_two_operators(
    *,
    x: Shape,
    weight: Shape,
    bias: Shape | None,
    binary_attr: str,
    unary_attr: str | None,
    unary_algorithm: str | None,
    out: Shape,
    **_: Any,
) -> Cost:
    """Return the cost of a convolution, of a sum, say, with another tensor, and of the operator that follows that."""
    total = cost_of_convolution(x, weight, bias, out).plus(_cost_of_following(out.numel, binary_attr))
    return total.plus(_cost_of_following(out.numel, unary_attr, unary_algorithm))


@register_op_cost("mkl::_mkl_linear")
def mkl_linear(x: Shape, packed: Any, weight: Shape, bias: Shape | None, *_: Any, out: Shape) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element where there is a bias."""
    return matmul.product(x.numel * weight[0], out.numel if bias is not None else 0)


# Of quantized integers, where what follows a product works on integers and costs nothing ------------------------------


@register_by_name("onednn::qlinear_pointwise")
def linear_of_integers(*, x: Shape, bias: Shape | None, out: Shape, **_: Any) -> Cost:
    """``x @ weight + bias``: out * in_features, and an addition for each output element where there is a bias."""
    return _cost_of_linear(x, bias, out)


@register_by_name(
    "onednn::qconv1d_pointwise onednn::qconv2d_pointwise onednn::qconv3d_pointwise onednn::qconv_pointwise"
)
def convolution_of_integers(*, x: Shape, weight: Shape, bias: Shape | None, out: Shape, **_: Any) -> Cost:
    """Return the cost of a convolution, with a bias where there is one."""
    return cost_of_convolution(x, weight, bias, out)
