"""The cost of an equation: the formula of its primitive, and the facts about values that formulas ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profilerkit.costs import Cost

from ..compat import parameters
from ..costs.registry import OPERATORS, UNCOUNTED, PrimitiveCall, Shapes
from .frames import Context
from .values import Value

__all__ = ["PASSING", "VIEWS", "describe_missing", "note_facts", "price"]

#: Primitives whose output is their first input in another form: XLA reads the input in place if it can.
VIEWS = (
    "broadcast_in_dim",
    "copy",
    "name",
    "pvary",
    "reshape",
    "sharding_constraint",
    "slice",
    "squeeze",
    "stop_gradient",
    "transpose",
)
#: Primitives whose output has the numbers of their input: it is a sum of as many elements.
PASSING = (*VIEWS, "convert_element_type", "reduce_precision")


def price(equation: Any, inputs: Sequence[Value], outputs: Sequence[Value], context: Context) -> tuple[Cost, str]:
    """Return the cost of one run of an equation, and the work that is not counted, in words; "" if all is counted."""
    frame = context.frame
    call = PrimitiveCall(
        equation.primitive.name,
        inputs=Shapes([value.shape for value in inputs]),
        outputs=Shapes([value.shape for value in outputs]),
        input_dtypes=tuple(value.dtype for value in inputs),
        output_dtypes=tuple(value.dtype for value in outputs),
        params=parameters(equation),
        is_backward=frame.is_backward and not frame.is_recomputed,
        is_second_gradient=frame.gradients > 1 and not frame.is_recomputed,
        divides_sum=_divides_sum(inputs),
        has_reversed=len(inputs) > 1 and inputs[1].is_reversed,
        unpadded=inputs[0].unpadded if inputs else 0,
        axis_sizes=context.axis_sizes,
        value=lambda index: inputs[index].scalar,
    )
    cost = OPERATORS.cost(call)
    if cost is not None:
        return cost, ""
    missing = describe_missing(equation)
    return Cost(0, 0), f"{missing}, in the gradient of a gradient" if call.is_second_gradient else missing


def _divides_sum(inputs: Sequence[Value]) -> bool:
    """Return whether the first input is a sum, and the second the number of its summands, like for a mean."""
    if len(inputs) < 2 or inputs[0].summands == 0 or inputs[1].scalar is None:
        return False
    return bool(inputs[1].scalar == inputs[0].summands)


def note_facts(equation: Any, inputs: Sequence[Value], output: Value, context: Context) -> None:
    """Note the facts about the first output that formulas ask for."""
    name, first = equation.primitive.name, inputs[0]
    if name in PASSING:
        output.summands, output.is_reversed = first.summands, first.is_reversed
    elif name == "reduce_sum":
        output.summands = first.shape.numel // max(output.shape.numel, 1)
    elif name == "reduce_window_sum":
        output.summands = math.prod(parameters(equation)["window_dimensions"])
    elif name == "pad":
        output.unpadded = first.shape.numel
    elif name == "rev":
        output.is_reversed = context.frame.is_backward


def describe_missing(equation: Any) -> str:
    """Return the description of an equation that is not counted: its primitive, its own name, and the reason."""
    primitive = equation.primitive.name
    # of a call of a function, and of a kernel of Pallas
    name = equation.params.get("name") or getattr(equation.params.get("name_and_src_info"), "name", None)
    description = f"{primitive} {name!r}" if isinstance(name, str) and name else primitive
    reason = UNCOUNTED.get(primitive)
    return f"{description}: {reason}" if reason else description
