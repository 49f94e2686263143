"""Layers of quantized integers: their products count as those of floats, other work on integers costs nothing.

Weights come packed with their bias; both are read from the package.
"""

from __future__ import annotations

from typing import Any

import torch

from profilerkit.costs import matmul, quantization, recurrent

from ..compat import disable_dispatch_modes
from .convolution import cost_of_convolution
from .registry import UNCOUNTED, Cost, Shape, register_free, register_op_cost, register_op_costs


def _unpack_shapes(package: Any) -> tuple[Shape, Shape | None]:
    """Return the shapes of a packed weight and of its bias."""
    with disable_dispatch_modes():
        weight, bias = package.unpack()
    return Shape(weight.shape), None if bias is None else Shape(bias.shape)


_LINEAR = ("linear", "linear_dynamic", "linear_dynamic_fp16", "linear_with_input_q_dq_qweight_dq_output_fp32")
_LINEAR_RELU = (
    *("linear_relu", "linear_relu_dynamic", "linear_relu_dynamic_fp16"),
    "linear_with_input_q_dq_qweight_dq_relu_output_fp32",
)


@register_op_costs(
    *(f"quantized::{name}" for name in (*_LINEAR, *_LINEAR_RELU, "linear_leaky_relu", "linear_tanh")),
    *("_quantized::linear", "_quantized::linear_dynamic"),
)
def linear_with_packed_weight(x: Shape, *arguments: Any, out: Shape, **__: Any) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element where there is a bias.

    What follows it in the same operator works on integers.
    """
    _, bias = _unpack_shapes(_find_package(arguments))
    return matmul.product(x.numel * out[-1], out.numel if bias is not None else 0)


def _find_package(arguments: tuple[Any, ...]) -> Any:
    """Return the argument that is a packed weight."""
    return next(argument for argument in arguments if isinstance(argument, torch.ScriptObject))


def _cost_of_packed_convolution(x: Shape, arguments: tuple[Any, ...], out: Shape, transposed: bool) -> Cost:
    weight, bias = _unpack_shapes(_find_package(arguments))
    return cost_of_convolution(x, weight, bias, out, transposed)


@register_op_costs(
    *(f"quantized::conv{d}d{kind}" for d in (1, 2, 3) for kind in ("", "_relu", "_dynamic")),
    *("quantized::conv2d_add", "quantized::conv2d_add_relu"),
    *(f"_quantized::conv{d}d{kind}" for d in (2, 3) for kind in ("", "_relu")),
)
def convolve_packed(x: Shape, *arguments: Any, out: Shape, **__: Any) -> Cost:
    """Cost of the convolution with the weight and bias that are packed."""
    return _cost_of_packed_convolution(x, arguments, out, transposed=False)


@register_op_costs(
    *(f"quantized::conv_transpose{d}d{kind}" for d in (1, 2, 3) for kind in ("", "_dynamic")),
    *("_quantized::conv_transpose1d", "_quantized::conv_transpose2d"),
)
def convolve_packed_transposed(x: Shape, *arguments: Any, out: Shape, **__: Any) -> Cost:
    """Cost of the transposed convolution with the weight and bias that are packed."""
    return _cost_of_packed_convolution(x, arguments, out, transposed=True)


@register_op_cost("quantized::matmul")
def matmul_on_integers(a: Shape, b: Shape, *_: Any, out: Shape) -> Cost:
    """``(..., m, k) @ (..., k, n)``: out * k."""
    return matmul.product(out.numel * a[-1])


def _register_cell(kind: str) -> None:
    @register_op_cost(f"quantized::quantized_{kind}_cell_dynamic")
    def count_step(x: Shape, hx: Any, input_weight: Any, hidden_weight: Any, *biases: Shape, out: Any) -> Cost:
        """One step: both products with their biases, and the gates."""
        state = hx if isinstance(hx, Shape) else hx[0]
        rows, positions = _unpack_shapes(input_weight)[0][0], Shape(x[:-1]).numel
        matrices = rows * (x[-1] + state[-1])
        return recurrent.layers(kind, positions, matrices, 2 * rows, state[-1], cell=True)


for _kind in recurrent.GATES:
    _register_cell(_kind)


def _register_layers(kind: str) -> None:
    def count_cells(positions: int, cells: Any) -> Cost:
        total = Cost(0, 0)
        for cell in cells:
            packages = cell.__getstate__()[0][4]  # of the state: the weights for the input and for the hidden state
            weights = [_unpack_shapes(package)[0] for package in packages]
            rows, hidden = weights[0][0], weights[1][1]
            elements = sum(weight.numel for weight in weights)
            total = total.plus(recurrent.layers(kind, positions, elements, 2 * rows, hidden))
        return total

    @register_op_cost(f"aten::quantized_{kind}.input")
    def count_padded(x: Shape, hx: Any, cells: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """Steps and samples are the leading dimensions; all layers and directions."""
        return count_cells(Shape(x[:-1]).numel, cells)

    @register_op_cost(f"aten::quantized_{kind}.data")
    def count_packed_sequence(x: Shape, sizes: Any, hx: Any, cells: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """A packed sequence has one row for each step of each sample."""
        return count_cells(x[0], cells)


_register_layers("lstm")
_register_layers("gru")


@register_op_costs(
    *(f"quantized::embedding_bag_{kind}" for kind in ("byte", "4bit")),
    *(f"quantized::embedding_bag_{kind}_rowwise_offsets" for kind in ("byte", "4bit", "2bit")),
)
def bag_with_packed_weight(weight: Any, indices: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """Going back to floats, and an addition, for each element of each row that is looked up."""
    return quantization.dequantize_and_add(indices.numel * out[-1])


@register_op_costs("sparse::qlinear", "sparse::qlinear_dynamic", "sparse::qlinear_relu", "sparse::qlinear_relu_dynamic")
def sparse_linear_with_packed_weight(*_: Any, out: Any, **__: Any) -> Cost:
    """Unknown from shapes: the blocks of the weight that are stored are packed away."""
    return UNCOUNTED


@register_op_costs(
    *("_quantized::wrapped_quantized_linear", "_quantized::_wrapped_quantized_linear_prepacked"),
    *("_quantized::wrapped_fbgemm_linear_fp16_weight", "quantized::linear_dynamic_fp16_unpacked_weight"),
)
def linear_on_floats(x: Shape, *_: Any, out: Shape, **__: Any) -> Cost:
    """``x @ weight.T + bias``: out * in_features, and an addition for each output element."""
    return matmul.product(x.numel * out[-1], out.numel)


#: What a package of a convolution is asked for.
_SETTINGS = ("stride", "padding", "output_padding", "dilation", "groups", "transpose")
#: Work on integers alone, which is no FLOP.
_ON_INTEGERS = """
    add add_out add_relu add_relu_out add_scalar add_scalar_out add_scalar_relu add_scalar_relu_out mul mul_out
    mul_relu mul_relu_out mul_scalar mul_scalar_out mul_scalar_relu mul_scalar_relu_out batch_norm batch_norm_relu
    batch_norm1d batch_norm1d_relu batch_norm2d batch_norm2d_relu batch_norm3d batch_norm3d_relu cat cat_out cat_relu
    cat_relu_out celu clamp dropout elu group_norm hardswish instance_norm layer_norm leaky_relu max_pool1d max_pool2d
    prelu relu6 sigmoid softmax threshold
"""
#: Weights that are put into a package, and taken out.
_PACKING = """
    conv_prepack linear_prepack linear_prepack_fp16 linear_prepack_legacy linear_prepack_fp16_legacy linear_unpack
    linear_unpack_fp16 embedding_bag_prepack
"""
register_free(
    *(f"{space}::{name}" for space in ("quantized", "_quantized", "onednn") for name in _PACKING.split()),
    *(f"{space}::conv{d}d_prepack" for space in ("quantized", "_quantized", "mkldnn_prepacked") for d in (1, 2, 3)),
    *(f"{space}::conv_transpose{d}d_prepack" for space in ("quantized", "_quantized") for d in (1, 2, 3)),
    *(f"quantized::conv{kind}{d}d_unpack" for kind in ("", "_transpose") for d in (1, 2, 3)),
    *(f"quantized::embedding_bag_{kind}_prepack" for kind in ("byte", "4bit", "2bit")),
    *(f"quantized::embedding_bag_{kind}_unpack" for kind in ("byte", "4bit", "2bit")),
    *(f"quantized::embedding_bag_{kind}_prepack_with_rowwise_min_max" for kind in ("byte", "4bit", "2bit")),
    *("onednn::qconv_prepack", "onednn::qlinear_prepack", "sparse::qlinear_prepack", "sparse::qlinear_unpack"),
    *("_quantized::_wrapped_linear_prepack", "_quantized::wrapped_fbgemm_pack_gemm_matrix_fp16"),
    *(f"quantized::{name}" for name in _ON_INTEGERS.split()),
    *(f"quantized::conv{d}d_{setting}" for d in (2, 3) for setting in _SETTINGS),
    *(f"quantized::conv_transpose{d}d_{setting}" for d in (2, 3) for setting in _SETTINGS),
    *(f"onednn::{name}" for name in ("qadd", "qadd_relu", "qmul")),
    "_quantized::add",
)
