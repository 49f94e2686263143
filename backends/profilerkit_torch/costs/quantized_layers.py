"""Layers of quantized integers: their products count as those of floats, other work on integers costs nothing.

Weights come packed with their bias; both are read from the package.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from profilerkit.costs import matmul, quantization

from ..compat.modes import disable_dispatch_modes
from .convolution import cost_of_convolution
from .registry import UNCOUNTED, Cost, Shape, register_op_cost, register_op_costs


class PackedWeight(NamedTuple):
    """The shapes of a weight and of its bias that are packed together."""

    weight: Shape
    bias: Shape | None


def read_packed_weight(package: Any) -> PackedWeight:
    """Return the shapes of what a package has; unpacking is no work of the model's."""
    with disable_dispatch_modes():
        weight, bias = package.unpack()
    return PackedWeight(Shape(weight.shape), None if bias is None else Shape(bias.shape))


def _find_packed_weight(arguments: tuple[Any, ...]) -> PackedWeight:
    """Return what is packed in that argument of an operator which is an object of C++."""
    return read_packed_weight(next(argument for argument in arguments if isinstance(argument, torch.ScriptObject)))


@register_op_costs(
    "quantized::linear quantized::linear_dynamic quantized::linear_dynamic_fp16 quantized::linear_leaky_relu",
    "quantized::linear_relu quantized::linear_relu_dynamic quantized::linear_relu_dynamic_fp16 quantized::linear_tanh",
    "quantized::linear_with_input_q_dq_qweight_dq_output_fp32",
    "quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32 _quantized::linear _quantized::linear_dynamic",
)
def linear_with_packed_weight(x: Shape, *arguments: Any, out: Shape, **__: Any) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element where there is a bias.

    What follows it in the same operator works on integers.
    """
    bias = _find_packed_weight(arguments).bias
    return matmul.product(x.numel * out[-1], out.numel if bias is not None else 0)


@register_op_costs(
    "quantized::conv1d quantized::conv1d_relu quantized::conv1d_dynamic quantized::conv2d quantized::conv2d_relu",
    "quantized::conv2d_dynamic quantized::conv3d quantized::conv3d_relu quantized::conv3d_dynamic",
    "quantized::conv2d_add quantized::conv2d_add_relu _quantized::conv2d _quantized::conv2d_relu _quantized::conv3d",
    "_quantized::conv3d_relu",
)
def convolve_packed(x: Shape, *arguments: Any, out: Shape, **__: Any) -> Cost:
    """Cost of the convolution with the weight and bias that are packed."""
    return cost_of_convolution(x, *_find_packed_weight(arguments), out, transposed=False)


@register_op_costs(
    "quantized::conv_transpose1d quantized::conv_transpose1d_dynamic quantized::conv_transpose2d",
    "quantized::conv_transpose2d_dynamic quantized::conv_transpose3d quantized::conv_transpose3d_dynamic",
    "_quantized::conv_transpose1d _quantized::conv_transpose2d",
)
def convolve_packed_transposed(x: Shape, *arguments: Any, out: Shape, **__: Any) -> Cost:
    """Cost of the transposed convolution with the weight and bias that are packed."""
    return cost_of_convolution(x, *_find_packed_weight(arguments), out, transposed=True)


@register_op_cost("quantized::matmul")
def matmul_on_integers(a: Shape, b: Shape, *_: Any, out: Shape) -> Cost:
    """``(..., m, k) @ (..., k, n)``: out * k."""
    return matmul.product(out.numel * a[-1])


@register_op_costs(
    "quantized::embedding_bag_2bit_rowwise_offsets quantized::embedding_bag_4bit",
    "quantized::embedding_bag_4bit_rowwise_offsets quantized::embedding_bag_byte",
    "quantized::embedding_bag_byte_rowwise_offsets",
)
def bag_with_packed_weight(weight: Any, indices: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Going back to floats, and an addition, for each element of each row that is looked up."""
    return quantization.dequantize_and_add(indices.numel * out[-1])


@register_op_costs("sparse::qlinear", "sparse::qlinear_dynamic", "sparse::qlinear_relu", "sparse::qlinear_relu_dynamic")
def sparse_linear_with_packed_weight(*_: Any, out: Any, **__: Any) -> Cost:
    """Unknown from shapes: the blocks of the weight that are stored are packed away."""
    return UNCOUNTED


@register_op_costs(
    "_quantized::wrapped_quantized_linear _quantized::_wrapped_quantized_linear_prepacked",
    "_quantized::wrapped_fbgemm_linear_fp16_weight quantized::linear_dynamic_fp16_unpacked_weight",
)
def linear_on_floats(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element."""
    return matmul.product(x.numel * out[-1], out.numel)
