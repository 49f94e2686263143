"""Quantized integers: quantizing and dequantizing, layers whose weights are packed, and work on integers alone.

Products of integers count like products of floats, other work on integers costs nothing. Weights come packed with their
bias; both are read from the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from profilerkit.costs import matmul, quantization, recurrent

from ..compat.modes import disable_dispatch_modes
from .convolution import cost_of_convolution
from .families import register_by_name, register_free, register_op_costs, register_per_element
from .registry import Cost, Shape, register_op_cost

__all__ = []


register_per_element(
    {
        """
        aten::quantize_per_tensor aten::quantize_per_channel quantized_decomposed::quantize_per_tensor
        quantized_decomposed::quantize_per_channel quantized_decomposed::quantize_per_channel_group
        quantized_decomposed::quantize_per_token quanto::quantize_symmetric quanto::quantize_affine
        """: quantization.quantize,
        """
        aten::dequantize quantized_decomposed::dequantize_per_tensor quantized_decomposed::dequantize_per_channel
        quantized_decomposed::dequantize_per_channel_group quantized_decomposed::dequantize_per_token
        quantized::embedding_byte quantized::embedding_4bit bitsandbytes::dequantize_4bit
        bitsandbytes::dequantize_blockwise bitsandbytes::int8_vectorwise_dequant
        """: quantization.dequantize,
    },
    argument=None,
)
register_per_element(
    {
        """
        aten::quantize_per_tensor_dynamic bitsandbytes::quantize_4bit bitsandbytes::quantize_blockwise
        bitsandbytes::int8_vectorwise_quant
        """: partial(quantization.quantize, finds_range=True),
        """
        quantized_decomposed::choose_qparams quantized_decomposed::choose_qparams_symmetric
        quantized_decomposed::choose_qparams_per_token
        """: quantization.find_range,
        """
        aten::fake_quantize_per_tensor_affine_cachemask aten::fake_quantize_per_channel_affine_cachemask
        aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams quantized_decomposed::fake_quant_per_channel
        aten::_fake_quantize_learnable_per_tensor_affine aten::_fake_quantize_learnable_per_channel_affine
        """: quantization.fake_quantize,
        """
        aten::_fused_moving_avg_obs_fq_helper aten::_fused_moving_avg_obs_fq_helper_functional
        """: partial(quantization.fake_quantize, finds_range=True),
        # By input, scale and zero point.
        """
        aten::_fake_quantize_learnable_per_tensor_affine_backward
        aten::_fake_quantize_learnable_per_channel_affine_backward
        """: quantization.learned_quantization_gradient,
    }
)


# Layers and products whose weights are packed -------------------------------------------------------------------------


class PackedWeight(NamedTuple):
    """The shapes of a weight and of its bias that are packed together."""

    weight: Shape
    bias: Shape | None


def read_packed_weight(package: Any) -> PackedWeight:
    """Return the shapes of the weight and bias in a package; unpacking is no work of the model."""
    with disable_dispatch_modes():
        weight, bias = package.unpack()
    return PackedWeight(Shape(weight.shape), None if bias is None else Shape(bias.shape))


def _find_packed_weight(arguments: tuple[Any, ...]) -> PackedWeight:
    """Return the weight that is packed in an argument of an operator: the argument that is an object of C++."""
    return read_packed_weight(next(argument for argument in arguments if isinstance(argument, torch.ScriptObject)))


@register_op_costs(
    "quantized::linear quantized::linear_dynamic quantized::linear_dynamic_fp16 quantized::linear_leaky_relu",
    "quantized::linear_relu quantized::linear_relu_dynamic quantized::linear_relu_dynamic_fp16 quantized::linear_tanh",
    "quantized::linear_with_input_q_dq_qweight_dq_output_fp32",
    "quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32 _quantized::linear _quantized::linear_dynamic",
)
def linear_with_packed_weight(x: Shape, *arguments: Any, out: Shape, **__: Any) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element if there is a bias.

    Further steps of the same operator work on integers.
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
    """Dequantizing, and an addition, for each element of each row that is looked up."""
    return quantization.dequantize_and_add(indices.numel * out[-1])


@register_op_costs(
    "_quantized::wrapped_quantized_linear _quantized::_wrapped_quantized_linear_prepacked",
    "_quantized::wrapped_fbgemm_linear_fp16_weight quantized::linear_dynamic_fp16_unpacked_weight",
)
def linear_on_floats(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element."""
    return matmul.product(x.numel * out[-1], out.numel)


# Recurrent layers and cells whose weights are packed ------------------------------------------------------------------


def _price_cell(kind: str, x: Shape, hx: Any, input_weight: Any, hidden_weight: Any, *biases: Shape, out: Any) -> Cost:
    """One step: both products with their biases, and the gates."""
    return _count_cell(kind, input_weight, hidden_weight, Shape(x[:-1]).numel, is_step=True)


def _price_layers(kind: str, *, x: Shape, params: Sequence[Any], out: Any, **_: Any) -> Cost:
    """All layers and directions, a cell for each; the rows of the input are steps of samples, padded or packed."""
    total = Cost(0, 0)
    for cell in params:
        (_, _, _, _, (input_weight, hidden_weight)), *_ = cell.__getstate__()  # after kind, tensors, floats, numbers
        total = total.plus(_count_cell(kind, input_weight, hidden_weight, Shape(x[:-1]).numel))
    return total


def _count_cell(kind: str, input_weight: Any, hidden_weight: Any, positions: int, is_step: bool = False) -> Cost:
    """Return the cost of a cell with these packed weights; ``is_step`` as `recurrent.layers` has ``cell``."""
    matrices = [read_packed_weight(weight).weight for weight in (input_weight, hidden_weight)]
    rows, units = matrices[1]
    biases = 2 * rows  # each product adds its own
    return recurrent.layers(kind, positions, sum(matrix.numel for matrix in matrices), biases, units, is_step)


for _kind in recurrent.GATES:
    register_op_cost(f"quantized::quantized_{_kind}_cell_dynamic", partial(_price_cell, _kind))
for _kind in ("lstm", "gru"):
    register_by_name(f"aten::quantized_{_kind}.input", f"aten::quantized_{_kind}.data")(partial(_price_layers, _kind))


# Work on integers alone -----------------------------------------------------------------------------------------------


# arithmetic
register_free(
    "quantized",
    """
    add add_out add_relu add_relu_out add_scalar add_scalar_out add_scalar_relu add_scalar_relu_out mul mul_out mul_relu
    mul_relu_out mul_scalar mul_scalar_out mul_scalar_relu mul_scalar_relu_out batch_norm batch_norm_relu batch_norm1d
    batch_norm1d_relu batch_norm2d batch_norm2d_relu batch_norm3d batch_norm3d_relu cat cat_out cat_relu cat_relu_out
    celu clamp dropout elu group_norm hardswish instance_norm layer_norm leaky_relu max_pool1d max_pool2d prelu relu6
    sigmoid softmax threshold
    """,
)
register_free("_quantized", "add")

# putting weights into a package, and taking them out
for _space in ("quantized", "_quantized"):
    register_free(
        _space,
        """
        conv_prepack linear_prepack linear_prepack_fp16 linear_prepack_legacy linear_prepack_fp16_legacy linear_unpack
        linear_unpack_fp16 embedding_bag_prepack conv1d_prepack conv2d_prepack conv3d_prepack
        conv_transpose1d_prepack conv_transpose2d_prepack conv_transpose3d_prepack
        """,
    )
register_free(
    "quantized",
    """
    conv1d_unpack conv2d_unpack conv3d_unpack conv_transpose1d_unpack conv_transpose2d_unpack conv_transpose3d_unpack
    embedding_bag_byte_prepack embedding_bag_4bit_prepack embedding_bag_2bit_prepack
    embedding_bag_byte_unpack embedding_bag_4bit_unpack embedding_bag_2bit_unpack
    embedding_bag_byte_prepack_with_rowwise_min_max embedding_bag_4bit_prepack_with_rowwise_min_max
    embedding_bag_2bit_prepack_with_rowwise_min_max
    """,
)
register_free("_quantized", "_wrapped_linear_prepack wrapped_fbgemm_pack_gemm_matrix_fp16")
register_free("sparse", "qlinear_prepack qlinear_unpack")

# asking the package of a convolution for its settings
register_free(
    "quantized",
    """
    conv2d_stride conv2d_padding conv2d_output_padding conv2d_dilation conv2d_groups conv2d_transpose
    conv3d_stride conv3d_padding conv3d_output_padding conv3d_dilation conv3d_groups conv3d_transpose
    conv_transpose2d_stride conv_transpose2d_padding conv_transpose2d_output_padding conv_transpose2d_dilation
    conv_transpose2d_groups conv_transpose2d_transpose
    conv_transpose3d_stride conv_transpose3d_padding conv_transpose3d_output_padding conv_transpose3d_dilation
    conv_transpose3d_groups conv_transpose3d_transpose
    """,
)
