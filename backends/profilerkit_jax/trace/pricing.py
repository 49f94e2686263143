"""What an equation costs: the formula of its primitive, called with what the walk knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profilerkit.costs import Cost

from ..compat import parameters
from ..costs import UNCOUNTED, PrimitiveCall, primitive_cost
from ..costs.registry import Shapes
from .values import Value

if TYPE_CHECKING:
    from .walk import Context

__all__ = ["describe_missing", "price"]


def price(equation: Any, inputs: Sequence[Value], outputs: Sequence[Value], context: Context) -> tuple[Cost, str]:
    """Return the cost of one run of an equation, and what is not counted of it, in words; nothing where all is."""
    name = equation.primitive.name
    call = PrimitiveCall(
        name,
        Shapes([value.shape for value in inputs]),
        Shapes([value.shape for value in outputs]),
        tuple(value.dtype for value in inputs),
        tuple(value.dtype for value in outputs),
        parameters(equation),
        context.frame.is_backward and not context.frame.is_recomputed,
        len(inputs) > 1 and inputs[0].summands > 0 and _equal(inputs[1].scalar, inputs[0].summands),
        context.axis_sizes,
        value=lambda index: inputs[index].scalar,
    )
    cost = primitive_cost(call)
    return (Cost(0, 0), describe_missing(equation)) if cost is None else (cost, "")


def _equal(scalar: Any, number: int) -> bool:
    return scalar is not None and bool(scalar == number)


def describe_missing(equation: Any) -> str:
    """Return the description of an equation that is not counted: its primitive, its own name, and the reason."""
    name = equation.primitive.name
    function_name = equation.params.get("name") or getattr(equation.params.get("name_and_src_info"), "name", None)
    reason = UNCOUNTED.get(name)
    named = f"{name} {function_name!r}" if isinstance(function_name, str) and function_name else name
    return f"{named}: {reason}" if reason else named
