"""Which formula gives the cost of which operator or module.

A formula is a pure function of shapes. What is known of the operators that have none, see `classification`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast, overload

import torch
from torch import nn

from profilerkit.cost import Cost, Formula, FormulaTable, Shape
from profilerkit.keras_costs import KERAS_LAYER_COSTS
from profilerkit.keras_layers import is_shipped

__all__ = [
    "UNCOUNTED",
    "Cost",
    "Formula",
    "Shape",
    "forget_what_was_derived",
    "formula_of",
    "is_free",
    "module_cost",
    "override",
    "register_free",
    "register_module_cost",
    "register_op_cost",
    "register_op_costs",
    "scoped_costs",
]

F = TypeVar("F", bound="Callable[..., Cost]")

#: What a formula returns of a call whose arguments do not tell what it costs: the call is reported as not counted.
UNCOUNTED = Cost(0, 0)

_free: set[str] = set()
_scopes: list[dict[Any, Formula]] = []
_derived: list[Callable[[], None]] = []


def _changed() -> None:
    for forget in _derived:
        forget()


_operators = FormulaTable("operator", _changed)
_modules = FormulaTable("module")


def forget_what_was_derived(forget: Callable[[], None]) -> None:
    """Have a function called whenever a formula is added or taken away."""
    _derived.append(forget)


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
        return _modules.register(_module_class(module_type), function, override, module_type.__name__)

    return register if formula is None else register(formula)


@contextmanager
def scoped_costs() -> Iterator[None]:
    """Forget at the end whatever formulas were registered inside: for tests, and for trying one out."""
    with _operators.scoped(), _modules.scoped():
        yield


@contextmanager
def override(formulas: Mapping[Any, Callable[..., Cost]]) -> Iterator[None]:
    """Count by other formulas inside a ``with`` block; at its end those that were there are there again.

    Args:
        formulas: A formula for each operator (what `register_op_cost` takes) or class of modules (what
            `register_module_cost` takes). They stand before all others; of two blocks, one inside the other, the inner
            one's stand first.

    Raises:
        TypeError: For a key that is neither, or a formula that cannot be called; then nothing is changed.

    >>> from profilerkit_torch import costs
    >>> with costs.override({"aten::mm": lambda a, b, *, out: costs.Cost.of_macs(a.numel * b[-1] // 2)}):
    ...     pass
    """
    scope = {(_module_class if isinstance(key, type) else _operator_name)(key): formulas[key] for key in formulas}
    for key, formula in scope.items():
        if not callable(formula):
            raise TypeError(f"the formula for {key} is {formula!r}, which cannot be called")
    _scopes.append(scope)
    _changed()
    try:
        yield
    finally:
        _scopes.pop()
        _changed()


def register_op_costs(*names: str) -> Callable[[F], F]:
    """Give several operators one formula: a decorator."""

    def register(function: F) -> F:
        for name in names:
            register_op_cost(name, function)
        return function

    return register


def register_free(*names: str) -> None:
    """Declare operators that move or choose data and do no arithmetic."""
    _free.update(names)


def is_free(name: str) -> bool:
    """Say whether an operator of that name is declared to do no arithmetic."""
    return name in _free


def formula_of(func: Any) -> Formula | None:
    """Return the formula for an operator: that of the overload before that of them all.

    An operator of torch's own that writes in place, ``aten::mul_``, has that of ``aten::mul`` where it has none.
    """
    name, overload_name = str(func._schema.name), func._schema.overload_name or "default"
    names = (name, name.removesuffix("_")) if name.startswith("aten::") else (name,)
    return _found(tuple(key for form in names for key in (f"{form}.{overload_name}", form)), _operators)


def module_cost(module: nn.Module) -> Formula | None:
    """Return the formula for a module, if its class has one: a layer that Keras ships has it by its name."""
    registered = _found((type(module),), _modules)
    formula = KERAS_LAYER_COSTS.get(type(module).__name__) if registered is None and is_shipped(module) else None
    if formula is None:
        return registered
    return lambda layer, inputs, outputs: cast(Cost, formula(layer, inputs, outputs, False))


def _found(keys: tuple[Any, ...], table: FormulaTable) -> Formula | None:
    for formulas in (*reversed(_scopes), table):
        for key in keys:
            formula: Formula | None = formulas.get(key)
            if formula is not None:
                return formula
    return None


def _module_class(module_type: Any) -> type[nn.Module]:
    if not (isinstance(module_type, type) and issubclass(module_type, nn.Module)):
        raise TypeError(f"a formula for a module takes a subclass of torch.nn.Module, not {module_type!r}")
    return module_type


def _operator_name(op: Any) -> str:
    if isinstance(op, torch._ops.OpOverload):
        return f"{op._schema.name}.{op._schema.overload_name or 'default'}"
    if isinstance(op, torch._ops.OpOverloadPacket):
        return str(op._qualified_op_name)
    if isinstance(op, str) and "::" in op:
        return op
    raise TypeError(f"cannot tell which operator {op!r} is; give torch.ops.mylib.op, an overload of it, or 'mylib::op'")
