"""Cost formulas by family of operators: one operator, one pure function of one call."""

from __future__ import annotations

from . import (
    activation,
    attention,
    bookkeeping,
    convolution,
    data_input,
    elementwise,
    fourier,
    fused,
    layers,
    linear_algebra,
    loss,
    matmul,
    movement,
    normalisation,
    optimizer,
    pooling,
    quantisation,
    random_numbers,
    recurrent,
    reduction,
    resampling,
)
from .registry import (
    OpCall,
    Shapes,
    UnknownCostError,
    UnknownShapeError,
    layer_cost,
    op_cost,
    register_layer_cost,
    register_op_cost,
    scoped_costs,
)

#: The families, each a module of formulas.
FAMILIES = (
    *(activation, attention, bookkeeping, convolution, data_input, elementwise, fourier, fused, layers, linear_algebra),
    *(loss, matmul, movement, normalisation, optimizer, pooling, quantisation, random_numbers, recurrent, reduction),
    resampling,
)

__all__ = [
    "FAMILIES",
    "OpCall",
    "Shapes",
    "UnknownCostError",
    "UnknownShapeError",
    "layer_cost",
    "op_cost",
    "register_layer_cost",
    "register_op_cost",
    "scoped_costs",
]
