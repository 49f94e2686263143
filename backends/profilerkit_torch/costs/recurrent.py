"""Recurrent layers, all layers and directions in one operator.

Each weight matrix is applied once for each step and sample, so the multiply-accumulates are the elements of all
matrices times steps times batch. The gates cost, for each hidden unit, layer, direction, step and sample:

- LSTM: 4 additions of the two products, 5 sigmoids and tanhs, 3 products, 1 addition: 13.
- GRU: 3 additions, 3 sigmoids and tanhs, and 5 for ``r * h`` and ``(1 - z) * n + z * h``: 11. A single cell of torch's
  is ``(h - n) * z + n``, one less.
- RNN: 1 addition, 1 tanh (or ReLU): 2.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Formula, Shape, register_op_cost, register_op_costs

#: Operations of the gates for each hidden unit, layer, direction, step and sample.
UNIT_FLOPS = {"lstm": 13, "gru": 11, "rnn_tanh": 2, "rnn_relu": 2}
#: The same of one step by a cell.
CELL_FLOPS = {**UNIT_FLOPS, "gru": 10}
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _recurrent(parameters: tuple[Shape, ...], positions: int, kind: str) -> Cost:
    matrices = [shape for shape in parameters if len(shape) == 2]
    biases = sum(shape.numel for shape in parameters if len(shape) == 1)
    # Every layer and direction has one input matrix of gates * hidden rows; projections have other numbers of rows.
    rows = max(shape[0] for shape in matrices)
    cells = sum(shape[0] == rows for shape in matrices) // 2
    macs = sum(shape.numel for shape in matrices) * positions
    return Cost.of_macs(macs, positions * (biases + cells * (rows // _GATES[kind]) * UNIT_FLOPS[kind]))


def _input_formula(kind: str) -> Formula:
    def formula(x: Shape, hx: Any, parameters: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
        """Steps and samples are the leading dimensions of a padded input."""
        return _recurrent(parameters, Shape(x[:-1]).numel, kind)

    return formula


def _packed_formula(kind: str) -> Formula:
    def formula(x: Shape, sizes: Shape, hx: Any, parameters: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
        """A packed sequence has one row for each step of each sample."""
        return _recurrent(parameters, x[0], kind)

    return formula


for _name in UNIT_FLOPS:
    register_op_cost(f"aten::{_name}.input", _input_formula(_name))
    register_op_cost(f"aten::{_name}.data", _packed_formula(_name))

#: What cuDNN, MIOpen and oneDNN call them.
_MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")


@register_op_costs("aten::_cudnn_rnn", "aten::miopen_rnn")
def library_rnn(x: Shape, weights: tuple[Shape, ...], stride: int, *arguments: Any, out: Any, **__: Any) -> Cost:
    """Cost as above; of a packed sequence, with one row for each step of each sample, as well."""
    mode = next(argument for argument in arguments if type(argument) is int)
    return _recurrent(weights, Shape(x[:-1]).numel, _MODES[mode])


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
def fused_lstm_cell(gates: Shape, hidden: Shape, cx: Shape, *biases: Shape | None, out: Any) -> Cost:
    """One step after its products: 13 for each unit, and an addition for each gate and bias."""
    return _cell(gates, cx, biases, "lstm")


@register_op_cost("aten::_thnn_fused_gru_cell")
def fused_gru_cell(gates: Shape, hidden: Shape, hx: Shape, *biases: Shape | None, out: Any) -> Cost:
    """One step after its products: 10 for each unit, and an addition for each gate and bias."""
    return _cell(gates, hx, biases, "gru")


def _cell(gates: Shape, state: Shape, biases: tuple[Shape | None, ...], kind: str) -> Cost:
    return Cost(0, CELL_FLOPS[kind] * state.numel + gates.numel * sum(bias is not None for bias in biases))
