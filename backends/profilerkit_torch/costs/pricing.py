"""The cost of one call of an operator: by its formula, or by torch's tags.

Views and copies cost nothing, element-wise operators one operation for each output element, reductions one for each
input element. All other operators are reported as not counted, never as zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Any

import torch

from profilerkit.costs import Cost, Formula, Numbers, Shape, apply_formula, constants, evaluate_formula

from ..compat.operators import OpOverloadPacket, find_tag, is_composite, read_schema
from .argument_names import name_arguments
from .elementwise import count_operations
from .families import is_free
from .registry import COSTS, find_formula
from .shapes import ShapedCall, count_stored_elements, find_numbers, has_floats, replace_by_shapes, split_samples

__all__ = ["Kind", "are_as_shipped", "classify", "list_outputs", "op_cost"]


def op_cost(func: Any, kind: Kind, args: Any, kwargs: Any, result: Any) -> Cost | None:
    """Return the cost of one call, or None if it is unknown."""
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
    """Return the cost of an operator with equal work for each element of a tensor."""
    name, elements = schema_name(func), count_stored_elements(counted)

    def count() -> Cost:
        factor = constants.MULTIPLY if _multiplies_tensor(name, args, kwargs) else 0
        return Cost(0, elements * (count_operations(name) + factor))

    return apply_formula(count, find_numbers(args, kwargs, result))


def _multiplies_tensor(name: str, args: Any, kwargs: Any) -> bool:
    """Return whether an operator is a sum with a factor of a tensor; the factor of a number is multiplied once.

    ``add(x, y, alpha)`` and ``sub(x, y, alpha)`` multiply y, but ``rsub(x, y, alpha)``, which is ``y - alpha * x``, x.
    """
    if name == "aten::rsub":
        return bool(kwargs.get("alpha", args[2] if len(args) > 2 else 1) != 1)
    return kwargs.get("alpha", 1) != 1 and isinstance(args[1], torch.Tensor)


def _price_by_formula(func: Any, formula: Formula, args: Any, kwargs: Any, result: Any) -> Cost | None:
    """Return the cost by a formula, of nested tensors the sum over their samples; None if the formula knows none."""
    named = {name: value for name, value in kwargs.items() if name not in list_outputs(func)} if kwargs else {}
    whole = ShapedCall(replace_by_shapes(args), replace_by_shapes(named), replace_by_shapes(result))
    numbers = find_numbers(args, kwargs, result)
    total = Cost(0, 0)
    for call in split_samples(whole):
        args, named = name_arguments(formula, func, call.args, call.kwargs)
        cost = _price_call(schema_name(func), formula, ShapedCall(args, named, call.out), numbers)
        if cost is None:
            return None
        total = total.plus(cost)
    return total


def _price_call(name: str, formula: Formula, call: ShapedCall, numbers: Numbers) -> Cost | None:
    """Return the result of a formula, None if the call is not counted; raises `CostFormulaError` if it fails."""
    args, kwargs, out = call
    return evaluate_formula(
        name,
        lambda: formula(*args, **kwargs, out=out),
        lambda: f"{args!r}, {kwargs!r} and out={out!r}",
        numbers,
    )


def _multiply(a: Shape, b: Shape, *, out: Shape) -> Cost:
    """``(..., m, k) @ (..., k, n)``: out * k."""
    return Cost.of_macs(out.numel * a[-1])


def _cost_nothing(*_: Any, out: Any, **__: Any) -> Cost:
    """Moving and choosing data costs nothing."""
    return Cost(0, 0)


#: Operators that are made of others, except for nested tensors, for which they have kernels of their own.
_OF_NESTED: dict[str, Formula] = {
    "aten::matmul": _multiply,
    **dict.fromkeys(
        ("aten::reshape", "aten::contiguous", "aten::to", "aten::reshape_as", "aten::flatten"), _cost_nothing
    ),
}


def are_as_shipped() -> bool:
    """Return whether torch's own operators have the formulas that come with this package, and no others.

    If not, an operator and the operators that torch takes it apart into need not cost the same.
    """
    return not any(isinstance(key, str) and key.startswith("aten::") for key in COSTS.list_added())


# The kinds of operators -----------------------------------------------------------------------------------------------


class Kind(Enum):
    """The way to find the cost of an operator."""

    FORMULA = "formula"  #: by a formula of shapes, from this package or registered by the user
    #: Not work, and not recorded: the operator returns a view of its argument, or no tensor at all (a size, a device).
    #: An operator that had to copy is noticed by the memory that it takes, and recorded.
    VIEW = "view"
    FREE = "free"  #: recorded as work without FLOPs: the operator makes or copies a tensor, which moves bytes
    POINTWISE = "pointwise"  #: one operation for each element of the output
    REDUCTION = "reduction"  #: one operation for each element of the input
    COMPOSITE = "composite"  #: made of other operators, which are recorded instead
    UNKNOWN = "unknown"  #: reported as not counted


#: By its schema ``coalesce`` returns a view; it does so only if there is nothing to add up.
_NOT_ALWAYS_VIEWS = ("aten::coalesce",)
#: It returns a view that autograd takes for a new tensor; its schema does not say so.
_UNTOLD_VIEWS = ("aten::_unsafe_view",)
#: The namespaces of torch's own operators. An operator in them without tensors among its results answers a question, an
#: operator without tensors among its arguments fills a new tensor. Operators of other libraries may do anything.
_TORCH_NAMESPACES = ("aten", "prims", "profiler")
#: Tags of operators that change the shape of a tensor in place, and of operators that return a copy instead of a view.
_VIEW_IN_PLACE, _COPY_OF_VIEW = find_tag("inplace_view"), find_tag("view_copy")
_POINTWISE, _REDUCTION = find_tag("pointwise"), find_tag("reduction")
#: Operators without a formula that torch 2.6 to 2.9 do not tag so.
_UNTAGGED_POINTWISE = ("aten::_conj_physical", "aten::ldexp")
_UNTAGGED_REDUCTIONS = frozenset(
    f"aten::{name}"
    for name in ("all", "any", "amax", "amin", "count_nonzero", "max", "mean", "min", "nansum", "prod", "sum")
)


def classify(func: Any) -> Kind:
    """Return the way to find the cost of an operator."""
    return _find_kind(func, COSTS.version)


def schema_name(func: Any) -> str:
    """Return the operator's name by which formulas are registered: ``aten::mm``."""
    return str(read_schema(func).name)


@lru_cache(maxsize=4096)
def _find_kind(func: Any, version: object) -> Kind:
    """Return the kind of an operator by the first rule that holds: certain rules come before inferences.

    The result is cached for a ``version`` of the formulas, because a rule looks for formulas.

    1. A question of torch's interpreter (``prim::device``), which never computes.
    2. A registration, by the user or here: a formula, or a free operator.
    3. The schema: an answer that is no tensor (``aten::sym_size``), or a view. This rule comes before the parts of a
       composite operator: ``aten::expand_as`` is composite, and returns a view.
    4. The tags of torch, our tags, and the tags of other forms of the operator, because torch has not tagged all alike.
    """
    schema = read_schema(func)
    if func.namespace == "prim":
        return Kind.VIEW
    if find_formula(func) is not None:
        return Kind.FORMULA
    if is_free(func):
        return Kind.FREE
    if _answers_question(func) or _returns_views(schema) or _VIEW_IN_PLACE in func.tags:
        return Kind.VIEW
    if _COPY_OF_VIEW in func.tags:
        return Kind.FREE
    if is_composite(func):
        return Kind.COMPOSITE
    kind = _find_by_tags(func)
    if kind is Kind.UNKNOWN and func.namespace in _TORCH_NAMESPACES:
        kind = _find_by_other_forms(func)
    return kind


def _answers_question(func: Any) -> bool:
    """Return whether an operator of torch returns a result that is no tensor, such as the sizes of a nested tensor."""
    results = read_schema(func).returns
    return func.namespace in _TORCH_NAMESPACES and bool(results) and not any(map(_is_tensor, results))


def _is_tensor(value: Any) -> bool:
    """Return whether an argument or a result in a schema is a tensor, or holds tensors: ``Tensor[]``, ``Tensor?``."""
    return "Tensor" in str(value.type)


def _returns_views(schema: Any) -> bool:
    """Return whether all that an operator returns shares memory with its arguments, which it does not write to.

    A schema marks it with a letter: ``t(Tensor(a) self) -> Tensor(a)``; ``Tensor(a!)`` is written to.
    """
    if schema.name in _UNTOLD_VIEWS:
        return True
    aliases = [value.alias_info for value in schema.returns]
    return (
        schema.name not in _NOT_ALWAYS_VIEWS
        and bool(aliases)
        and all(alias is not None and not alias.is_write for alias in aliases)
    )


def _find_by_tags(func: Any) -> Kind:
    """Return the kind by torch's tags, and by our tags for operators that torch does not tag."""
    name = schema_name(func)
    if _POINTWISE in func.tags or name in _UNTAGGED_POINTWISE:
        return Kind.POINTWISE
    return Kind.REDUCTION if _REDUCTION in func.tags or name in _UNTAGGED_REDUCTIONS else Kind.UNKNOWN


def _find_by_other_forms(func: Any) -> Kind:
    """Return the kind of an operator of torch from its other forms; torch does not tag all forms alike.

    An operator without tensors among its arguments, except the tensor that it writes to, reads no data: it is free.
    """
    outputs = list_outputs(func)
    read = [argument for argument in read_schema(func).arguments if argument.name not in outputs]
    if not any(map(_is_tensor, read)):
        return Kind.FREE
    kinds = {_find_by_tags(form) for form in _list_other_forms(func)} - {Kind.UNKNOWN}
    return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN


def list_outputs(func: Any) -> set[str]:
    """Return the names of the arguments that an operator writes its results to: ``out``, or ``Q`` and ``R``.

    In the schema of a user's operator another argument of this kind may be a state, which the operator reads too.
    """
    if func.namespace not in _TORCH_NAMESPACES:
        return {"out"}
    return {
        argument.name
        for argument in read_schema(func).arguments
        if argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write
    }


def _list_other_forms(func: Any) -> Iterator[Any]:
    """Yield aten's overloads of an operator's name, and of the name without the ``_`` of an operator in place."""
    name = schema_name(func).split("::")[1]
    for form in (name, name.removesuffix("_")):
        packet = getattr(torch.ops.aten, form, None)
        if isinstance(packet, OpOverloadPacket):
            yield from (getattr(packet, overload) for overload in packet.overloads())
