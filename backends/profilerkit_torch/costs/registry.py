"""Which formula gives the cost of which operator or module.

A formula is a pure function of shapes. Operators without one are recognised by what torch says of them: views and
copies cost nothing, element-wise operators one operation for each output element, reductions one for each input
element. Whatever is left is reported as not counted, never as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar, cast, overload

import torch
from torch import nn

from profilerkit.cost import Cost, Formula, FormulaTable, Shape, evaluated
from profilerkit.keras_costs import KERAS_LAYER_COSTS
from profilerkit.keras_layers import is_shipped

__all__ = [
    "Cost",
    "Formula",
    "Kind",
    "Shape",
    "classify",
    "module_cost",
    "op_cost",
    "register_free",
    "register_module_cost",
    "register_op_cost",
    "scoped_costs",
]


class Kind(Enum):
    """What is known of an operator's cost."""

    FORMULA = "formula"
    VIEW = "view"
    FREE = "free"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    #: Made of other operators, which are recorded instead.
    COMPOSITE = "composite"
    UNKNOWN = "unknown"


F = TypeVar("F", bound="Callable[..., Cost]")

_free: set[str] = set()
_kinds: dict[Any, Kind] = {}
_operators = FormulaTable("operator", _kinds.clear)
_modules = FormulaTable("module")


@overload
def register_op_cost(op: Any, formula: None = None, *, override: bool = False) -> Callable[[F], F]: ...


@overload
def register_op_cost(op: Any, formula: F, *, override: bool = False) -> F: ...


def register_op_cost(op: Any, formula: F | None = None, *, override: bool = False) -> Any:
    """Give the cost of an operator as a pure function of shapes; also usable as a decorator.

    Args:
        op: The operator: ``torch.ops.mylib.attend``, one overload of it, or its name ``"mylib::attend"``.
        formula: Called with the operator's arguments, every tensor replaced by its `Shape`, and ``out``, the shape of
            its output (a tuple of shapes where there are several); returns a `Cost`. FLOPs without MACs count for calls
            that take or return a floating-point (or complex) tensor alone: work on integers is none.
        override: Replace a formula that is there already; without it that raises `RegistrationConflictError`.

    >>> import torch
    >>> @register_op_cost("mylib::attend")
    ... def attend(q, k, v, *, out):
    ...     return Cost.of_macs(2 * q.numel * k[-2])
    """

    def register(function: F) -> F:
        return _operators.register(_operator_name(op), function, override)

    return register if formula is None else register(formula)


@overload
def register_module_cost(
    module_type: type[nn.Module], formula: None = None, *, override: bool = False
) -> Callable[[F], F]: ...


@overload
def register_module_cost(module_type: type[nn.Module], formula: F, *, override: bool = False) -> F: ...


def register_module_cost(module_type: type[nn.Module], formula: F | None = None, *, override: bool = False) -> Any:
    """Give the cost of a whole module, everything inside it included; also usable as a decorator.

    Args:
        module_type: The class; subclasses do not inherit the formula.
        formula: Called with the module, the shapes of its input tensors and those of its outputs; returns a `Cost`.
        override: Replace a formula that is there already; without it that raises `RegistrationConflictError`.
    """

    def register(function: F) -> F:
        if not (isinstance(module_type, type) and issubclass(module_type, nn.Module)):
            raise TypeError(f"register_module_cost takes a subclass of torch.nn.Module, not {module_type!r}")
        return _modules.register(module_type, function, override, module_type.__name__)

    return register if formula is None else register(formula)


@contextmanager
def scoped_costs() -> Iterator[None]:
    """Forget at the end whatever formulas were registered inside: for tests, and for trying one out."""
    with _operators.scoped(), _modules.scoped():
        yield


def register_free(*names: str) -> None:
    """Declare operators that move or choose data and do no arithmetic."""
    _free.update(names)


def module_cost(module: nn.Module) -> Formula | None:
    """Return the formula for a module, if its class has one: a layer that Keras ships has it by its name."""
    formula = KERAS_LAYER_COSTS.get(type(module).__name__) if is_shipped(module) else None
    if formula is None or _modules.get(type(module)) is not None:
        return _modules.get(type(module))
    return lambda layer, inputs, outputs: cast(Cost, formula(layer, inputs, outputs, False))


#: Operators that return their input where nothing is to be done, and sums of its elements elsewhere.
_VIEWS_ONLY_AT_TIMES = ("aten::coalesce",)
#: Where an operator that takes no tensors only makes one, or marks a place for torch's profiler.
_TORCHS_OWN = ("aten", "prims", "profiler")


def classify(func: Any) -> Kind:
    """Say what is known of an operator."""
    kind = _kinds.get(func)
    if kind is None:
        kind = _kinds[func] = _classified(func)
    return kind


def _classified(func: Any) -> Kind:
    schema = func._schema
    if func.namespace == "prim":  # a question: fake tensors answer one for their device
        return Kind.VIEW
    if _formula(func) is not None:
        return Kind.FORMULA
    if schema.name in _free:
        return Kind.FREE
    returned = [value.alias_info for value in schema.returns]
    is_view = returned and all(alias is not None and not alias.is_write for alias in returned)
    if is_view and schema.name not in _VIEWS_ONLY_AT_TIMES:
        return Kind.VIEW
    if torch.Tag.inplace_view in func.tags:
        return Kind.FREE
    if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return Kind.COMPOSITE
    if torch.Tag.pointwise in func.tags:
        return Kind.POINTWISE
    if torch.Tag.reduction in func.tags:
        return Kind.REDUCTION
    takes_data = any("Tensor" in str(argument.type) for argument in schema.arguments)
    return Kind.FREE if func.namespace in _TORCHS_OWN and not takes_data else Kind.UNKNOWN


def op_cost(func: Any, kind: Kind, args: Any, kwargs: Any, result: Any) -> Cost | None:
    """Return the cost of one call, or None where it is not known."""
    if kind is Kind.FREE:
        return Cost(0, 0)
    if kind is Kind.POINTWISE:
        first = result[0] if isinstance(result, (tuple, list)) else result
        return Cost(0, first.numel() if _has_floats(first) else 0)
    if kind is Kind.REDUCTION:
        return Cost(0, args[0].numel() if _has_floats(args[0]) or _has_floats(result) else 0)
    formula = _formula(func)
    if formula is None:
        return None
    shapes, out = _shapes(args), _shapes(result)
    named = {name: _shapes(value) for name, value in kwargs.items() if name != "out"}
    cost = evaluated(
        schema_name(func),
        lambda: formula(*shapes, **named, out=out),
        lambda: f"{shapes!r}, {named!r} and out={out!r}",
    )
    of_floats = cost.macs or _has_floats(args) or _has_floats(list(kwargs.values())) or _has_floats(result)
    return cost if of_floats else Cost(0, 0)


def schema_name(func: Any) -> str:
    """Return the operator's name as formulas are registered by: ``aten::mm``."""
    return str(func._schema.name)


def _formula(func: Any) -> Formula | None:
    schema = func._schema
    overload = f"{schema.name}.{schema.overload_name or 'default'}"
    return _operators.get(overload) or _operators.get(schema.name)


def _has_floats(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_floats, value))
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _shapes(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Shape(value.shape)
    if isinstance(value, (list, tuple)):
        return tuple(map(_shapes, value))
    return value


def _operator_name(op: Any) -> str:
    if isinstance(op, torch._ops.OpOverload):
        return f"{op._schema.name}.{op._schema.overload_name or 'default'}"
    if isinstance(op, torch._ops.OpOverloadPacket):
        return str(op._qualified_op_name)
    if isinstance(op, str) and "::" in op:
        return op
    raise TypeError(f"cannot tell which operator {op!r} is; give torch.ops.mylib.op, an overload of it, or 'mylib::op'")
