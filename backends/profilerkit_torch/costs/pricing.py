"""What one call of an operator costs."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import Cost, Formula, Shape, evaluated

from .classification import Kind, schema_name
from .elementwise import operations_of
from .registry import UNCOUNTED, formula_of
from .shapes import has_floats, parts_of, shapes_of, stored_elements

__all__ = ["op_cost"]


def _matmul(a: Shape, b: Shape, *, out: Shape) -> Cost:
    """``(..., m, k) @ (..., k, n)``: out * k."""
    return Cost.of_macs(out.numel * a[-1])


def _nothing(*_: Any, out: Any, **__: Any) -> Cost:
    """Moving and choosing data costs nothing."""
    return Cost(0, 0)


#: Operators that are made of others, but for nested tensors: these have kernels of their own for them.
_OF_NESTED: dict[str, Formula] = {
    "aten::matmul": _matmul,
    **dict.fromkeys(("aten::reshape", "aten::contiguous", "aten::to", "aten::reshape_as", "aten::flatten"), _nothing),
}


def op_cost(func: Any, kind: Kind, args: Any, kwargs: Any, result: Any) -> Cost | None:
    """Return the cost of one call, or None where it is unknown."""
    if kind is Kind.FREE:
        return Cost(0, 0)
    if kind is Kind.POINTWISE:
        first = result[0] if isinstance(result, (tuple, list)) else result
        return Cost(0, stored_elements(first) * operations_of(schema_name(func)) if has_floats(first) else 0)
    if kind is Kind.REDUCTION:
        counted = has_floats(args[0]) or has_floats(result)
        return Cost(0, stored_elements(args[0]) * operations_of(schema_name(func)) if counted else 0)
    formula = formula_of(func) or (_OF_NESTED.get(schema_name(func)) if kind is Kind.UNKNOWN else None)
    if formula is None:
        return None
    named = {name: value for name, value in kwargs.items() if name != "out"}
    of_floats = has_floats(args) or has_floats(list(kwargs.values())) or has_floats(result)
    macs = flops = 0
    for shapes, names, out in parts_of(shapes_of(args), shapes_of(named), shapes_of(result)):
        cost = evaluated(
            schema_name(func),
            lambda: formula(*shapes, **names, out=out),  # noqa: B023
            lambda: f"{shapes!r}, {names!r} and out={out!r}",  # noqa: B023
        )
        if cost is UNCOUNTED:
            return None
        macs, flops = macs + cost.macs, flops + cost.flops
    return Cost(macs, flops) if macs or of_floats else Cost(0, 0)
