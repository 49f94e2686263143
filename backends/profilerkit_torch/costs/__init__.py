"""Cost formulas by family of operators: one operator, one pure function of shapes."""

from __future__ import annotations

from . import (
    activation,
    attention,
    convolution,
    foreach,
    fourier,
    loss,
    matmul,
    movement,
    normalisation,
    pooling,
    quantisation,
    recurrent,
    reduction,
)
from .registry import (
    Cost,
    Kind,
    Shape,
    classify,
    module_cost,
    op_cost,
    register_module_cost,
    register_op_cost,
    scoped_costs,
)

#: The families, each a module of formulas.
FAMILIES = (
    *(activation, attention, convolution, foreach, fourier, loss, matmul, movement),
    *(normalisation, pooling, quantisation, recurrent, reduction),
)

__all__ = [
    "FAMILIES",
    "Cost",
    "Kind",
    "Shape",
    "classify",
    "module_cost",
    "op_cost",
    "register_module_cost",
    "register_op_cost",
    "scoped_costs",
]
