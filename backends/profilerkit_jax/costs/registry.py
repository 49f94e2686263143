"""The cost formulas of the primitives of JAX.

A formula is a pure function of one equation of a jaxpr: the shapes of its inputs and outputs, its parameters, and the
values that are known before the function runs. Every primitive that JAX ships stands in one of five lists: it has a
formula of its own, it is element-wise or a reduction, it is free, the equations inside it are counted (`trace`), or it
is not counted, for a reason that stands in `UNCOUNTED`. A primitive that is in none of them is not counted either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from profilerkit.backend_kit.operator_calls import OperatorCall, Shapes, UnknownCostError, UnknownShapeError
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.costs import CallForm, Cost, CostRegistry, Shape

__all__ = [
    "COSTS",
    "OPERATORS",
    "UNCOUNTED",
    "Cost",
    "PrimitiveCall",
    "Shape",
    "Shapes",
    "UnknownCostError",
    "UnknownShapeError",
    "is_known",
    "register_op_cost",
    "register_uncounted",
    "scoped_costs",
]

COSTS = CostRegistry("JAX", called_with={"operator": CallForm(("call",))})
OPERATORS = OperatorCosts(COSTS, example="dot_general")
#: Why a primitive of JAX is not counted, by its name.
UNCOUNTED: dict[str, str] = {}

is_known: Callable[[str], bool] = OPERATORS.is_known
register_op_cost = OPERATORS.register
scoped_costs: Callable[[], AbstractContextManager[None]] = COSTS.scoped


@dataclass(frozen=True)
class PrimitiveCall(OperatorCall):
    """One equation of a jaxpr, as formulas see it. Of its inputs only single numbers have a known ``value``.

    Attributes:
        params: The parameters of the equation, by name.
        is_backward: Whether it computes a gradient; an equation that ``jax.checkpoint`` computes again does not.
        is_second_gradient: Whether it computes the gradient of a gradient.
        divides_sum: Whether it divides a sum by the number of its summands: then it is the division of a mean.
        has_reversed: Whether the backward pass has reversed its second input, such as the filters of a convolution.
        unpadded: How many elements its first input had before it was padded; 0 if it was not.
        axis_sizes: How many devices each named axis has, inside of a ``shard_map``.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    is_backward: bool = False
    is_second_gradient: bool = False
    divides_sum: bool = False
    has_reversed: bool = False
    unpadded: int = 0
    axis_sizes: Mapping[Any, int] = field(default_factory=dict)


def register_uncounted(reason: str, *primitives: str) -> None:
    """Declare primitives of JAX that have no formula, with the reason."""
    UNCOUNTED.update(dict.fromkeys(primitives, reason))
