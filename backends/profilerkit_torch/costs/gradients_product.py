"""Gradients of products: linear layers, convolutions of single devices, attention, distances.

The gradient of a product by each of its two factors is a product of as many multiply-accumulates. Each is counted where
it is asked for: the first layer of a model needs none by its input. Most arrive as plain ``mm`` and ``bmm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .registry import Cost, Shape, register_op_cost
from .shapes import SparseShape

# Linear layers and convolutions -------------------------------------------------------------------------------------


@register_op_cost("aten::linear_backward")
@register_op_cost("aten::mkldnn_linear_backward")
def linear(x: Shape, dy: Shape, weight: Shape, wanted: Sequence[bool], *, out: Any) -> Cost:
    """``dy @ weight`` and ``dy.T @ x``: dy * in_features each; the bias takes the sum of dy."""
    return Cost.of_macs(dy.numel * weight[-1] * sum(wanted[:2]), dy.numel * wanted[2])


@register_op_cost("aten::mkldnn_linear_backward_input")
def linear_by_input(size: Any, dy: Shape, weight: Shape, *, out: Shape) -> Cost:
    """``dy @ weight``: dy * in_features."""
    return Cost.of_macs(dy.numel * weight[-1])


@register_op_cost("aten::mkldnn_linear_backward_weights")
def linear_by_weight(dy: Shape, x: Shape, weight: Shape, bias: bool, *, out: Any) -> Cost:
    """``dy.T @ x``: dy * in_features; the bias takes the sum of dy."""
    return Cost.of_macs(dy.numel * weight[-1], dy.numel * bias)


@register_op_cost("aten::matmul_backward")
def matmul(dy: Shape, a: Shape, b: Shape, wanted: Sequence[bool], *, out: Any) -> Cost:
    """``dy @ b.T`` and ``a.T @ dy``: as many as the product, dy * (the elements summed over), each."""
    return Cost.of_macs(dy.numel * a[-1] * sum(wanted))


@register_op_cost("aten::_sparse_mm_reduce_impl_backward")
def sparse_mm(a: Shape, dy: Shape, b: Shape, reduce: Any, places: Any, wanted: Sequence[bool], *, out: Any) -> Cost:
    """As many as the product for each factor: the stored elements of the sparse one, times the columns of the other."""
    stored = a.stored if isinstance(a, SparseShape) else a.numel
    return Cost.of_macs(stored * b[-1] * sum(wanted))


@register_op_cost("aten::_slow_conv2d_backward.output_mask")
def slow_convolution(
    dy: Shape, x: Shape, weight: Shape, kernel: Any, stride: Any, padding: Any, wanted: Any, *, out: Any
) -> Cost:
    """As ``convolution_backward``."""
    return _convolution(dy, dy, weight, wanted)


@register_op_cost("aten::mps_convolution_backward")
def metal_convolution(
    x: Shape, dy: Shape, weight: Shape, padding: Any, stride: Any, dilation: Any, groups: Any, wanted: Any, *, out: Any
) -> Cost:
    """As ``convolution_backward``."""
    return _convolution(dy, dy, weight, wanted)


@register_op_cost("aten::mps_convolution_transpose_backward")
def metal_transposed_convolution(
    x: Shape, dy: Shape, weight: Shape, p: Any, op: Any, s: Any, d: Any, g: Any, wanted: Any, *, out: Any
) -> Cost:
    """As ``convolution_backward`` of a transposed one; the bias' gradient is none of its."""
    return _convolution(x, dy, weight, (*wanted, False))


@register_op_cost("aten::convolution_backward_overrideable")
def convolution_of_other_devices(
    dy: Shape,
    x: Shape,
    weight: Shape,
    s: Any,
    p: Any,
    d: Any,
    transposed: bool,
    op: Any,
    g: Any,
    wanted: Any,
    *,
    out: Any,
) -> Cost:
    """As ``convolution_backward``."""
    return _convolution(x if transposed else dy, dy, weight, wanted)


def _convolution(filtered: Shape, dy: Shape, weight: Shape, wanted: Sequence[bool]) -> Cost:
    return Cost.of_macs(filtered.numel * Shape(weight[1:]).numel * sum(wanted[:2]), dy.numel * wanted[2])


# Attention ----------------------------------------------------------------------------------------------------------


def _attention(scores: int, width: int, value_width: int) -> Cost:
    """For each score ``2 * (E + Ev)`` multiply-accumulates, and 5 operations.

    With the probabilities ``p = softmax(q @ k.T * scale)``, and ``y = p @ v``: ``dv = p.T @ dy`` and ``dp = dy @ v.T``
    take Ev for each score; the softmax ``ds = p * (dp - sum(dp * p))`` four operations and the scale one;
    ``dq = ds @ k`` and ``dk = ds.T @ q`` take E each. A mask's gradient is ds itself.

    Kernels that did not keep the scores compute them again. That is how they save memory, and not counted: so the
    number is the same whichever kernel runs, and however attention is written.
    """
    return Cost.of_macs(2 * scores * (width + value_width), 5 * scores)


@register_op_cost("aten::_scaled_dot_product_cudnn_attention_backward")
@register_op_cost("aten::_scaled_dot_product_efficient_attention_backward")
@register_op_cost("aten::_scaled_dot_product_flash_attention_backward")
@register_op_cost("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
@register_op_cost("aten::_scaled_dot_product_fused_attention_overrideable_backward")
def attention(dy: Shape, query: Shape, key: Shape, value: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """For each of batch * heads * L * S scores ``2 * (E + Ev)`` multiply-accumulates, and 5 operations.

    Two products by the values, two by queries and keys; the softmax (four) and the scale. The scores are not counted
    again where a kernel computes them again.
    """
    return _attention(Shape(dy[:-1]).numel * key[-2], query[-1], value[-1])


@register_op_cost("aten::_flash_attention_backward")
def flash_attention(
    dy: Shape,
    query: Shape,
    key: Shape,
    value: Shape,
    y: Any,
    sums: Any,
    starts: Shape | None,
    starts_key: Any,
    longest: int,
    longest_key: int,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """As `attention`, of ``(batch, L, heads, E)``."""
    return _with_heads_last(query, key, value, starts, longest * longest_key)


@register_op_cost("aten::_efficient_attention_backward")
def efficient_attention(
    dy: Shape,
    query: Shape,
    key: Shape,
    value: Shape,
    bias: Any,
    y: Any,
    starts: Shape | None,
    starts_key: Any,
    longest: int,
    longest_key: int,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """As `attention`, of ``(batch, L, heads, E)``."""
    return _with_heads_last(query, key, value, starts, longest * longest_key)


@register_op_cost("aten::_cudnn_attention_backward")
def cudnn_attention(
    dy: Shape,
    query: Shape,
    key: Shape,
    value: Shape,
    y: Any,
    sums: Any,
    seed: Any,
    offset: Any,
    bias: Any,
    starts: Shape | None,
    starts_key: Any,
    longest: int,
    longest_key: int,
    *_: Any,
    out: Any,
    **__: Any,
) -> Cost:
    """As `attention`; packed sequences have their heads last."""
    if starts is None:
        return attention(dy, query, key, value, out=out)
    return _with_heads_last(query, key, value, starts, longest * longest_key)


def _with_heads_last(query: Shape, key: Shape, value: Shape, starts: Shape | None, longest: int) -> Cost:
    """Packed sequences, which ``starts`` lays out, count as if all were as long as the longest: padding is data."""
    scores = Shape(query[:-1]).numel * key[-3] if starts is None else (starts[0] - 1) * query[-2] * longest
    return _attention(scores, query[-1], value[-1])


# Distances and grids ------------------------------------------------------------------------------------------------


@register_op_cost("aten::_cdist_backward")
def cdist(dy: Shape, a: Shape, b: Shape, p: Any, distances: Shape, *, out: Shape) -> Cost:
    """``sum(dy / distance * (a - b))``: a division for each pair, and three operations for each of its coordinates."""
    return Cost(0, distances.numel * (3 * a[-1] + 1))


@register_op_cost("aten::_pdist_backward")
def pdist(dy: Shape, x: Shape, p: Any, distances: Shape, *, out: Shape) -> Cost:
    """As `cdist`, and what one of the points of a pair gains the other loses: four for each coordinate."""
    return Cost(0, distances.numel * (4 * x[-1] + 1))


@register_op_cost("aten::cudnn_affine_grid_generator_backward")
def affine_grid(dy: Shape, *_: Any, out: Shape) -> Cost:
    """Each point of the grid, with a 1 added, by its gradient: as many multiply-accumulates as the forward pass."""
    return Cost.of_macs(dy.numel * out[-1])
