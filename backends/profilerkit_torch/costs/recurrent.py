"""Recurrent layers, all layers and directions in one operator, and their gradients: which goes to which formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.costs import recurrent

from .registry import Cost, Formula, Shape, register_op_cost, register_op_costs


def _elements(weights: Sequence[Shape], dimensions: int) -> int:
    return sum(weight.numel for weight in weights if len(weight) == dimensions)


def _recurrent(parameters: Sequence[Shape], positions: int, kind: str) -> Cost:
    matrices = [shape for shape in parameters if len(shape) == 2]
    # Every layer and direction has one input matrix of gates * hidden rows; projections have other numbers of rows.
    rows = max(shape[0] for shape in matrices)
    cells = sum(shape[0] == rows for shape in matrices) // 2
    units = cells * (rows // recurrent.GATES[kind])
    return recurrent.layers(kind, positions, _elements(parameters, 2), _elements(parameters, 1), units)


def _input_formula(kind: str) -> Formula:
    def formula(x: Shape, hx: Any, parameters: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
        """Steps and samples are the leading dimensions of a padded input."""
        return _recurrent(parameters, Shape(x[:-1]).numel, kind)

    return formula


def _make_packed_formula(kind: str) -> Formula:
    def formula(x: Shape, sizes: Shape, hx: Any, parameters: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
        """A packed sequence has one row for each step of each sample."""
        return _recurrent(parameters, x[0], kind)

    return formula


for _name in recurrent.GATES:
    register_op_cost(f"aten::{_name}.input", _input_formula(_name))
    register_op_cost(f"aten::{_name}.data", _make_packed_formula(_name))

#: What cuDNN, MIOpen and oneDNN call them.
_MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")


@register_op_costs("aten::_cudnn_rnn", "aten::miopen_rnn")
def library_rnn(x: Shape, weights: tuple[Shape, ...], per_cell: int, *arguments: Any, out: Any, **__: Any) -> Cost:
    """Cost as above; of a packed sequence, with one row for each step of each sample, as well.

    The first two integers of the arguments are the kind and the hidden units.
    """
    mode, units = [argument for argument in arguments if type(argument) is int][:2]
    matrices, biases = _library_weights(weights, per_cell)
    cells = len(weights) // per_cell
    return recurrent.layers(_MODES[mode], Shape(x[:-1]).numel, matrices, biases, cells * units)


def _library_weights(weights: Sequence[Shape], per_cell: int) -> tuple[int, int]:
    """Return the elements of all matrices and of all biases, by their places in each cell.

    Not by their dimensions: under autocast they are pieces of one buffer, each of them a single column. A cell has the
    matrix of the input and that of the state, then two biases or none, then the projection or none.
    """
    with_biases = per_cell >= 4
    biases = sum(weight.numel for at, weight in enumerate(weights) if with_biases and at % per_cell in (2, 3))
    return sum(weight.numel for weight in weights) - biases, biases


@register_op_cost("aten::mkldnn_rnn_layer")
def mkldnn_rnn_layer(
    x: Shape,
    input_weight: Shape,
    hidden_weight: Shape,
    input_bias: Shape,
    hidden_bias: Shape,
    hx: Any,
    cx: Any,
    reverse: bool,
    batch_sizes: Any,
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    *_: Any,
    out: Any,
) -> Cost:
    """Cost as above, of one layer in one direction."""
    biases = (Shape((input_weight[0],)),) * 2 if has_biases else ()
    return _recurrent((input_weight, hidden_weight, *biases), Shape(x[:-1]).numel, _MODES[mode])


@register_op_cost("aten::_lstm_mps")
def lstm_mps(x: Shape, hx: Any, parameters: tuple[Shape, ...], *_: Any, out: Any) -> Cost:
    """Cost as above, of an LSTM."""
    return _recurrent(parameters, Shape(x[:-1]).numel, "lstm")


@register_op_cost("aten::_thnn_fused_lstm_cell")
def lstm_cell_after_products(gates: Shape, hidden: Shape, cx: Shape, *biases: Shape | None, out: Any) -> Cost:
    """Return the cost of one step after its products."""
    return _cell(gates, cx, biases, "lstm")


@register_op_cost("aten::_thnn_fused_gru_cell")
def gru_cell_after_products(gates: Shape, hidden: Shape, hx: Shape, *biases: Shape | None, out: Any) -> Cost:
    """Return the cost of one step after its products."""
    return _cell(gates, hx, biases, "gru")


def _cell(gates: Shape, state: Shape, biases: tuple[Shape | None, ...], kind: str) -> Cost:
    return recurrent.cell_after_products(kind, state.numel, gates.numel * sum(bias is not None for bias in biases))


# Gradients ------------------------------------------------------------------------------------------------------------


def _gradient(
    kind: str, weights: Sequence[Shape], positions: int, units: int, by_weights: bool = True, omitted: int = 0
) -> Cost:
    matrices, biases = _elements(weights, 2), _elements(weights, 1)
    return recurrent.layers_gradient(kind, positions, matrices, biases, units, by_weights, omitted)


@register_op_cost("aten::mkldnn_rnn_layer_backward")
def onednn_layer_gradient(
    x: Shape,
    w1: Shape,
    w2: Shape,
    w3: Shape,
    w4: Shape,
    hx: Any,
    cx: Any,
    y: Any,
    hy: Any,
    cy: Any,
    dy: Any,
    dhy: Any,
    dcy: Any,
    reverse: Any,
    mode: int,
    units: int,
    layers: int,
    has_biases: bool,
    *_: Any,
    out: Any,
) -> Cost:
    """One layer in one direction: twice the forward pass, since this kernel returns every gradient always."""
    positions = Shape(x[:-1]).numel
    weights = (w1, w2, w3, w4) if has_biases else (w1, w2)
    return _gradient(_MODES[mode], weights, positions, units)


@register_op_costs("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def library_gradient(
    x: Shape,
    weights: Sequence[Shape],
    per_cell: int,
    buffer: Any,
    hx: Shape,
    cx: Any,
    y: Any,
    dy: Any,
    dhy: Any,
    dcy: Any,
    mode: int,
    units: int,
    *arguments: Any,
    out: Any,
) -> Cost:
    """All layers and directions; each has ``per_cell`` weights, the input's and the state's matrix first.

    Of the further arguments, of which cuDNN has one more, the last five are: whether there are two directions, batch
    sizes, the state of dropout, the reserve of the forward pass, and the mask of gradients to return.
    """
    bidirectional, *_, (by_input, by_state, _, by_weights) = arguments[-5:]
    positions, batch = Shape(x[:-1]).numel, hx[1]
    of_input, of_state = weights[: (1 + bidirectional) * per_cell : per_cell], weights[1::per_cell]
    omitted = 0 if by_input else sum(weight.numel for weight in of_input) * positions
    omitted += 0 if by_state else sum(weight.numel for weight in of_state) * batch
    matrices, biases = _library_weights(weights, per_cell)
    cells = len(weights) // per_cell
    return recurrent.layers_gradient(
        _MODES[mode], positions, matrices, biases, cells * units, bool(by_weights), omitted
    )


@register_op_cost("aten::lstm_mps_backward")
def metal_gradient(
    dy: Any,
    dhy: Any,
    dcy: Any,
    z: Any,
    states: Any,
    x: Shape,
    outputs: Any,
    hx: Sequence[Shape],
    weights: Sequence[Shape],
    *_: Any,
    out: Any,
) -> Cost:
    """All layers and directions of an LSTM: twice the forward pass, since it returns every gradient always."""
    positions = Shape(x[:-1]).numel
    cells, units = hx[1][0], hx[1][-1]
    return _gradient("lstm", weights, positions, cells * units)


@register_op_cost("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_gradient(dhy: Any, dcy: Any, cx: Shape, cy: Any, gates: Shape, has_bias: bool, *, out: Any) -> Cost:
    """Return the cost of one step's gradients; the bias takes the sum of the gates'."""
    return recurrent.lstm_cell_gradient(cx.numel, gates.numel * has_bias, dcy is not None)


@register_op_cost("aten::_thnn_fused_gru_cell_backward")
def gru_cell_gradient(dhy: Shape, gates: Any, has_bias: bool, *, out: Any) -> Cost:
    """Return the cost of one step's gradients."""
    return recurrent.gru_cell_gradient(dhy.numel, bool(has_bias))
