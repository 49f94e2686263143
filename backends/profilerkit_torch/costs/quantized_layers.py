"""Layers of quantized integers: their products count as those of floats, other work on integers costs nothing.

Weights come packed with their bias; both are read from the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from profilerkit.costs import matmul, quantization, recurrent

from ..compat.modes import disable_dispatch_modes
from .convolution import cost_of_convolution
from .registry import UNCOUNTED, Cost, Shape, register_op_cost, register_op_costs


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
    @register_op_cost(f"aten::quantized_{kind}.input")
    def count_padded(x: Shape, hx: Any, cells: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """Steps and samples are the leading dimensions; all layers and directions."""
        return _count_cells(kind, Shape(x[:-1]).numel, cells)

    @register_op_cost(f"aten::quantized_{kind}.data")
    def count_packed_sequence(x: Shape, sizes: Any, hx: Any, cells: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """A packed sequence has one row for each step of each sample."""
        return _count_cells(kind, x[0], cells)


def _count_cells(kind: str, positions: int, cells: Sequence[Any]) -> Cost:
    """Return the cost of recurrent cells, one for each layer and direction, at each step of each sample."""
    total = Cost(0, 0)
    for cell in cells:
        input_weight, hidden_weight = _unpack_cell(cell)
        rows, hidden = input_weight[0], hidden_weight[1]
        elements = input_weight.numel + hidden_weight.numel
        total = total.plus(recurrent.layers(kind, positions, elements, 2 * rows, hidden))
    return total


def _unpack_cell(cell: Any) -> tuple[Shape, Shape]:
    """Return the shapes of the weights of a packed cell: for the input, and for the hidden state."""
    state, *_ = cell.__getstate__()
    _, _, _, _, (input_package, hidden_package) = state  # after the kind, tensors, floats and numbers
    (input_weight, _), (hidden_weight, _) = _unpack_shapes(input_package), _unpack_shapes(hidden_package)
    return input_weight, hidden_weight


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
