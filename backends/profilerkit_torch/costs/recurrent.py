"""Recurrent layers, all layers and directions in one operator.

Each weight matrix is applied once for each step and sample, so the multiply-accumulates are the elements of all
matrices times steps times batch. The gates cost, for each hidden unit, layer, direction, step and sample:

- LSTM: 4 additions of the two products, 5 sigmoids and tanhs, 3 products, 1 addition: 13.
- GRU: 3 additions, 3 sigmoids and tanhs, and 5 for ``r * h`` and ``(1 - z) * n + z * h``: 11.
- RNN: 1 addition, 1 tanh (or ReLU): 2.
"""

from __future__ import annotations

from typing import Any

from .registry import Cost, Formula, Shape, register_op_cost

_GATE_FLOPS = {"lstm": (4, 13), "gru": (3, 11), "rnn_tanh": (1, 2), "rnn_relu": (1, 2)}


def _recurrent(parameters: tuple[Shape, ...], positions: int, gates: int, unit_flops: int) -> Cost:
    matrices = [shape for shape in parameters if len(shape) == 2]
    biases = sum(shape.numel for shape in parameters if len(shape) == 1)
    # Every layer and direction has one input matrix of gates * hidden rows; projections have other numbers of rows.
    rows = max(shape[0] for shape in matrices)
    cells = sum(shape[0] == rows for shape in matrices) // 2
    macs = sum(shape.numel for shape in matrices) * positions
    return Cost.of_macs(macs, positions * (biases + cells * (rows // gates) * unit_flops))


def _input_formula(gates: int, unit_flops: int) -> Formula:
    def formula(x: Shape, hx: Any, parameters: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
        """Steps and samples are the leading dimensions of a padded input."""
        return _recurrent(parameters, Shape(x[:-1]).numel, gates, unit_flops)

    return formula


def _packed_formula(gates: int, unit_flops: int) -> Formula:
    def formula(x: Shape, sizes: Shape, hx: Any, parameters: tuple[Shape, ...], *_: Any, out: Any, **__: Any) -> Cost:
        """A packed sequence has one row for each step of each sample."""
        return _recurrent(parameters, x[0], gates, unit_flops)

    return formula


for _name, (_gates, _unit_flops) in _GATE_FLOPS.items():
    register_op_cost(f"aten::{_name}.input", _input_formula(_gates, _unit_flops))
    register_op_cost(f"aten::{_name}.data", _packed_formula(_gates, _unit_flops))
