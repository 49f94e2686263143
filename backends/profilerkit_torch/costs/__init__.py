"""Cost formulas by family of operators: one operator, one pure function of shapes."""

from __future__ import annotations

from . import (
    activation,
    attention,
    communication,
    convolution,
    foreach,
    fourier,
    gradients_elementwise,
    gradients_normalisation,
    gradients_places,
    gradients_product,
    gradients_recurrent,
    linear_algebra,
    loss,
    low_precision,
    matmul,
    movement,
    normalisation,
    optimiser,
    pooling,
    quantisation,
    quantised_layers,
    recurrent,
    reduction,
    sparse,
    vision,
)
from .classification import Kind, classify, has_nested_kernel
from .pricing import op_cost
from .registry import (
    UNCOUNTED,
    Cost,
    Formula,
    Shape,
    module_cost,
    override,
    register_module_cost,
    register_op_cost,
    scoped_costs,
)
from .shapes import SparseShape, require_plain, shapes_of

#: The families, each a module of formulas.
FAMILIES = (
    *(activation, attention, communication, convolution, foreach, fourier, linear_algebra, loss, low_precision),
    *(matmul, movement, normalisation, optimiser, pooling, quantisation, quantised_layers, recurrent, reduction),
    *(sparse, vision),
    *(gradients_elementwise, gradients_normalisation, gradients_places, gradients_product, gradients_recurrent),
)

__all__ = [
    "FAMILIES",
    "UNCOUNTED",
    "Cost",
    "Formula",
    "Kind",
    "Shape",
    "SparseShape",
    "classify",
    "has_nested_kernel",
    "module_cost",
    "op_cost",
    "override",
    "register_module_cost",
    "register_op_cost",
    "require_plain",
    "scoped_costs",
    "shapes_of",
]
