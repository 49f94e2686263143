"""Recurrent layers, all layers and directions in one operator: which operator goes to which formula."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from profilerkit.costs import recurrent

from .families import register_by_name
from .registry import Cost, Shape, register_op_cost

#: The kinds by their numbers in cuDNN, MIOpen and oneDNN.
_MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")


def _count_elements(weights: Sequence[Shape], dimensions: int) -> int:
    """Return the elements of all weights with so many dimensions: matrices have two, biases one."""
    return sum(weight.numel for weight in weights if len(weight) == dimensions)


def _count_layers(kind: str, weights: Sequence[Shape], positions: int) -> Cost:
    """Return the cost of layers by their weights, at each step of each sample."""
    matrices = [shape for shape in weights if len(shape) == 2]
    # Every layer and direction has one input matrix of gates * hidden rows; projections have other numbers of rows.
    rows = max(shape[0] for shape in matrices)
    cells = sum(shape[0] == rows for shape in matrices) // 2
    units = cells * (rows // recurrent.GATES[kind])
    return recurrent.layers(kind, positions, _count_elements(weights, 2), _count_elements(weights, 1), units)


def _count_positions(x: Shape) -> int:
    """Return the steps of all samples: the leading dimensions of a padded input, the rows of a packed one."""
    return Shape(x[:-1]).numel


def _price_layers(kind: str, *, x: Shape, params: tuple[Shape, ...], out: Any, **_: Any) -> Cost:
    """All layers and directions, of a padded or a packed sequence."""
    return _count_layers(kind, params, _count_positions(x))


for _kind in recurrent.GATES:
    register_by_name(f"aten::{_kind}.input", f"aten::{_kind}.data")(partial(_price_layers, _kind))
register_by_name("aten::_lstm_mps")(partial(_price_layers, "lstm"))


@register_by_name("aten::_cudnn_rnn", "aten::miopen_rnn")
def library_layers(
    *, x: Shape, weight: tuple[Shape, ...], weight_stride0: int, mode: int, hidden_size: int, out: Any, **_: Any
) -> Cost:
    """All layers and directions, with ``weight_stride0`` weights each; a packed sequence has a row for each step."""
    matrices, biases = _count_library_elements(weight, weight_stride0)
    cells = len(weight) // weight_stride0
    return recurrent.layers(_MODES[mode], _count_positions(x), matrices, biases, cells * hidden_size)


def _count_library_elements(weights: Sequence[Shape], per_cell: int) -> tuple[int, int]:
    """Return the elements of all matrices and of all biases, by their positions in each cell.

    Their dimensions do not help: under autocast each is a single column of one buffer. A cell has the matrix of the
    input and the matrix of the state, then two biases or none, then the projection or none.
    """
    elements = sum(weight.numel for weight in weights)
    if per_cell < 4:
        return elements, 0
    biases = sum(weight.numel for index, weight in enumerate(weights) if index % per_cell in (2, 3))
    return elements - biases, biases


@register_by_name("aten::mkldnn_rnn_layer")
def onednn_layer(*, x: Shape, weight0: Shape, weight1: Shape, mode: int, has_biases: bool, out: Any, **_: Any) -> Cost:
    """One layer in one direction."""
    biases = (Shape((weight0[0],)),) * 2 if has_biases else ()
    return _count_layers(_MODES[mode], (weight0, weight1, *biases), _count_positions(x))


@register_op_cost("aten::_thnn_fused_lstm_cell")
def lstm_cell_after_products(gates: Shape, hidden: Shape, cx: Shape, *biases: Shape | None, out: Any) -> Cost:
    """Return the cost of one step after its products."""
    return _count_cell("lstm", gates, cx, biases)


@register_op_cost("aten::_thnn_fused_gru_cell")
def gru_cell_after_products(gates: Shape, hidden: Shape, hx: Shape, *biases: Shape | None, out: Any) -> Cost:
    """Return the cost of one step after its products."""
    return _count_cell("gru", gates, hx, biases)


def _count_cell(kind: str, gates: Shape, state: Shape, biases: Sequence[Shape | None]) -> Cost:
    """Return the cost of one step after its products, with the addition of each bias, if any."""
    added = sum(bias is not None for bias in biases)
    return recurrent.cell_after_products(kind, state.numel, gates.numel * added)


# Gradients ------------------------------------------------------------------------------------------------------------


def _count_all_gradients(kind: str, weights: Sequence[Shape], x: Shape, units: int) -> Cost:
    """Return the cost of the gradients by inputs, states and weights: twice the cost of the forward pass."""
    matrices, biases = _count_elements(weights, 2), _count_elements(weights, 1)
    return recurrent.layers_gradient(kind, Shape(x[:-1]).numel, matrices, biases, units)


@register_by_name("aten::mkldnn_rnn_layer_backward")
def onednn_layer_gradient(
    *, x: Shape, mode: int, hidden_size: int, has_biases: bool, out: Any, **arguments: Any
) -> Cost:
    """One layer in one direction; this kernel returns every gradient always."""
    weights = [arguments[f"weight{number}"] for number in ((1, 2, 3, 4) if has_biases else (1, 2))]
    return _count_all_gradients(_MODES[mode], weights, x, hidden_size)


@register_by_name("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def library_gradient(
    *,
    x: Shape,
    weight: Sequence[Shape],
    weight_stride0: int,
    hx: Shape,
    mode: int,
    hidden_size: int,
    bidirectional: bool,
    output_mask: Sequence[bool],
    out: Any,
    **_: Any,
) -> Cost:
    """All layers and directions; each has ``weight_stride0`` weights, the input's and the state's matrix first."""
    by_input, by_state, _cells, by_weights = output_mask
    positions, samples = Shape(x[:-1]).numel, hx[1]
    omitted = 0
    if not by_input:
        first_layer = weight[: (1 + bidirectional) * weight_stride0]
        omitted += sum(matrix.numel for matrix in first_layer[::weight_stride0]) * positions
    if not by_state:
        omitted += sum(matrix.numel for matrix in weight[1::weight_stride0]) * samples
    matrices, biases = _count_library_elements(weight, weight_stride0)
    units = len(weight) // weight_stride0 * hidden_size
    return recurrent.layers_gradient(_MODES[mode], positions, matrices, biases, units, bool(by_weights), omitted)


@register_by_name("aten::lstm_mps_backward")
def metal_gradient(*, x: Shape, hx: Sequence[Shape], params: Sequence[Shape], out: Any, **_: Any) -> Cost:
    """All layers and directions of an LSTM; this kernel returns every gradient always."""
    cells, units = hx[1][0], hx[1][-1]
    return _count_all_gradients("lstm", params, x, cells * units)


@register_by_name("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_gradient(*, cx: Shape, workspace: Shape, has_bias: bool, grad_cy: Any, out: Any, **_: Any) -> Cost:
    """Return the cost of one step's gradients; the bias takes the sum of the gates', which are in the workspace."""
    return recurrent.lstm_cell_gradient(cx.numel, workspace.numel * has_bias, grad_cy is not None)


@register_op_cost("aten::_thnn_fused_gru_cell_backward")
def gru_cell_gradient(dhy: Shape, gates: Any, has_bias: bool, *, out: Any) -> Cost:
    """Return the cost of one step's gradients."""
    return recurrent.gru_cell_gradient(dhy.numel, bool(has_bias))
