"""Recurrent layers and cells whose weights are packed quantized integers: they cost what those of floats do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.costs import recurrent

from .quantized_layers import read_packed_weight
from .registry import Cost, Formula, Shape, register_op_cost


def _make_cell_formula(kind: str) -> Formula:
    def formula(x: Shape, hx: Any, input_weight: Any, hidden_weight: Any, *biases: Shape, out: Any) -> Cost:
        """One step: both products with their biases, and the gates."""
        return _count_cell(kind, input_weight, hidden_weight, Shape(x[:-1]).numel, is_step=True)

    return formula


def _make_padded_formula(kind: str) -> Formula:
    def formula(x: Shape, hx: Any, cells: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """Steps and samples are the leading dimensions; all layers and directions."""
        return _count_cells(kind, cells, Shape(x[:-1]).numel)

    return formula


def _make_sequence_formula(kind: str) -> Formula:
    def formula(x: Shape, sizes: Any, hx: Any, cells: Any, *_: Any, out: Any, **__: Any) -> Cost:
        """A packed sequence has one row for each step of each sample."""
        return _count_cells(kind, cells, x[0])

    return formula


def _count_cells(kind: str, cells: Sequence[Any], positions: int) -> Cost:
    """Return the cost of recurrent cells, one for each layer and direction, at each step of each sample."""
    total = Cost(0, 0)
    for cell in cells:
        (_, _, _, _, (input_weight, hidden_weight)), *_ = cell.__getstate__()  # after kind, tensors, floats, numbers
        total = total.plus(_count_cell(kind, input_weight, hidden_weight, positions))
    return total


def _count_cell(kind: str, input_weight: Any, hidden_weight: Any, positions: int, is_step: bool = False) -> Cost:
    """Return the cost of a cell with these packed weights; ``is_step`` as `recurrent.layers` has ``cell``."""
    matrices = [read_packed_weight(weight).weight for weight in (input_weight, hidden_weight)]
    rows, units = matrices[1]
    biases = 2 * rows  # each product adds its own
    return recurrent.layers(kind, positions, sum(matrix.numel for matrix in matrices), biases, units, is_step)


for _kind in recurrent.GATES:
    register_op_cost(f"quantized::quantized_{_kind}_cell_dynamic", _make_cell_formula(_kind))
for _kind in ("lstm", "gru"):
    register_op_cost(f"aten::quantized_{_kind}.input", _make_padded_formula(_kind))
    register_op_cost(f"aten::quantized_{_kind}.data", _make_sequence_formula(_kind))
