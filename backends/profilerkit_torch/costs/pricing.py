"""What one call of an operator costs."""

from __future__ import annotations

from typing import Any

import torch

from profilerkit.costs import Cost, Formula, Numbers, Shape, apply_formula, evaluate_formula

from .classification import Kind, list_outputs, schema_name
from .elementwise import count_operations
from .registry import UNCOUNTED, find_formula, name_arguments
from .shapes import ShapedCall, count_stored_elements, find_numbers, has_floats, replace_by_shapes, split_samples

__all__ = ["op_cost"]


def _multiply(a: Shape, b: Shape, *, out: Shape) -> Cost:
    """``(..., m, k) @ (..., k, n)``: out * k."""
    return Cost.of_macs(out.numel * a[-1])


def _cost_nothing(*_: Any, out: Any, **__: Any) -> Cost:
    """Moving and choosing data costs nothing."""
    return Cost(0, 0)


#: Operators that are made of others, but for nested tensors: these have kernels of their own for them.
_OF_NESTED: dict[str, Formula] = {
    "aten::matmul": _multiply,
    "aten::reshape": _cost_nothing,
    "aten::contiguous": _cost_nothing,
    "aten::to": _cost_nothing,
    "aten::reshape_as": _cost_nothing,
    "aten::flatten": _cost_nothing,
}


def op_cost(func: Any, kind: Kind, args: Any, kwargs: Any, result: Any) -> Cost | None:
    """Return the cost of one call, or None where it is unknown."""
    if kind is Kind.FREE:
        return Cost(0, 0)
    if kind is Kind.POINTWISE:
        output = result[0] if isinstance(result, (tuple, list)) else result
        return _price_elements(func, output, args, kwargs, result) if has_floats(output) else Cost(0, 0)
    if kind is Kind.REDUCTION:
        works_on_floats = has_floats((args[0], result))
        return _price_elements(func, args[0], args, kwargs, result) if works_on_floats else Cost(0, 0)
    formula = find_formula(func)
    if formula is None and kind is Kind.UNKNOWN:
        formula = _OF_NESTED.get(schema_name(func))
    return None if formula is None else _price_by_formula(func, formula, args, kwargs, result)


def _price_elements(func: Any, counted: torch.Tensor, args: Any, kwargs: Any, result: Any) -> Cost:
    """Return the cost of an operator that does the same for each element of a tensor."""
    name, elements = schema_name(func), count_stored_elements(counted)
    return apply_formula(lambda: Cost(0, elements * count_operations(name)), find_numbers(args, kwargs, result))


def _price_by_formula(func: Any, formula: Formula, args: Any, kwargs: Any, result: Any) -> Cost | None:
    """Return the cost by a formula, of nested tensors the sum over their samples; None where the formula knows none."""
    named = {name: value for name, value in kwargs.items() if name not in list_outputs(func)} if kwargs else {}
    whole = ShapedCall(replace_by_shapes(args), replace_by_shapes(named), replace_by_shapes(result))
    numbers = find_numbers(args, kwargs, result)
    total = Cost(0, 0)
    for call in split_samples(whole):
        args, named = name_arguments(formula, func, call.args, call.kwargs)
        cost = _price_call(schema_name(func), formula, ShapedCall(args, named, call.out), numbers)
        if cost is UNCOUNTED:
            return None
        total = total.plus(cost)
    return total


def _price_call(name: str, formula: Formula, call: ShapedCall, numbers: Numbers) -> Cost:
    """Return what a formula returns; raises `CostFormulaError`, with the call, where that goes wrong."""
    args, kwargs, out = call
    return evaluate_formula(
        name,
        lambda: formula(*args, **kwargs, out=out),
        lambda: f"{args!r}, {kwargs!r} and out={out!r}",
        numbers,
    )
