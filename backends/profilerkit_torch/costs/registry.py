"""The formulas for operators and modules of torch: how users register theirs, and which is in force.

A formula is a pure function of shapes. Those that come with the package are registered by `families`. For operators
without a formula see `pricing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast, overload

import torch
from torch import nn

from profilerkit.arguments.checks import mapping
from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.costs import UNCOUNTED, CallForm, Cost, CostRegistry, Formula, Shape
from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError

from ..compat.operators import OpOverload, OpOverloadPacket, read_schema

__all__ = [
    "COSTS",
    "UNCOUNTED",
    "Cost",
    "Formula",
    "Shape",
    "find_formula",
    "module_cost",
    "override",
    "register_module_cost",
    "register_op_cost",
    "scoped_costs",
]

F = TypeVar("F", bound="Callable[..., Cost]")


def _is_torchs(key: Any) -> bool:
    """Return whether a class of modules comes with torch, or with Keras."""
    return isinstance(key, type) and key.__module__.partition(".")[0] in ("torch", "keras")


COSTS = CostRegistry(
    "torch",
    shipped=_is_torchs,
    called_with={"operator": CallForm(keywords=("out",)), "module": CallForm(("module", "inputs", "outputs"))},
)


@overload
def register_op_cost(op: Any, formula: None = None, *, override: bool = False) -> Callable[[F], F]: ...


@overload
def register_op_cost(op: Any, formula: F, *, override: bool = False) -> F: ...


def register_op_cost(op: Any, formula: F | None = None, *, override: bool = False) -> Any:
    """Give the cost of an operator as a pure function of shapes; also usable as a decorator.

    Args:
        op: The operator: ``torch.ops.mylib.attend``, one overload of it, or its name ``"mylib::attend"``.
        formula: Called with the operator's arguments, every tensor replaced by its `Shape`, and ``out``, the shape of
            its output (a tuple of shapes if there are several); returns a `Cost`. Of calls on integers
            alone two FLOPs for each MAC count, and no others; of calls on complex numbers `Cost.of_macs` returns four
            MACs and eight FLOPs for each.
        override: Replace an existing formula; without it an existing one raises `RegistrationConflictError`.

    >>> import torch
    >>> @register_op_cost("mylib::attend")
    ... def attend(q, k, v, *, out):
    ...     return Cost.of_macs(2 * q.numel * k[-2])
    """
    return COSTS.register(_operator_name(op), formula, override=override)


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
        formula: Called with the module and the shapes of its input tensors and of its outputs; returns a `Cost`.
        override: Replace a formula that is there already, or count a class that comes with torch or Keras by a formula
            and not by its operators; without it either raises `RegistrationConflictError`.
    """
    kind = _module_class(module_type)
    return COSTS.register(kind, formula, override=override, kind="module", name=kind.__name__)


@contextmanager
def scoped_costs() -> Iterator[None]:
    """Forget at the end the formulas registered inside: for tests, and for trying one out."""
    with COSTS.scoped():
        yield


@contextmanager
def override(formulas: Mapping[Any, Callable[..., Cost]]) -> Iterator[None]:
    """Count by other formulas inside a ``with`` block, in this thread; the end of the block restores the earlier ones.

    Args:
        formulas: A formula for each operator (as `register_op_cost` takes it) or class of modules (as
            `register_module_cost` takes it). They are used before all others, and formulas of an inner block before
            formulas of an outer block.

    Raises:
        TypeError: For another key, or a formula that cannot be called; then nothing is changed.

    >>> from profilerkit_torch import costs
    >>> with costs.override({"aten::mm": lambda a, b, *, out: costs.Cost.of_macs(a.numel * b[-1] // 2)}):
    ...     pass
    """
    formulas = mapping("a mapping from operators or classes of modules to formulas")("formulas", formulas)
    named = {(_module_class if isinstance(key, type) else _operator_name)(key): formulas[key] for key in formulas}
    with COSTS.override(named, kind=lambda key: "module" if isinstance(key, type) else "operator"):
        yield


def find_formula(func: Any) -> Formula | None:
    """Return the formula for an operator: a formula for the overload comes before a formula for all overloads.

    An in-place operator of torch, ``aten::mul_``, has the formula of ``aten::mul``, unless somebody gives it another:
    no formula is shipped for it, which would be left when a user replaces the other one.
    """
    name, overload_name = str(read_schema(func).name), read_schema(func).overload_name or "default"
    names = (name, name.removesuffix("_")) if name.startswith("aten::") else (name,)
    return COSTS.get(*(key for form in names for key in (f"{form}.{overload_name}", form)))


def module_cost(module: nn.Module) -> Formula | None:
    """Return the formula for a module, if its class has one: a layer that Keras ships has it by its name."""
    registered = COSTS.get(type(module))
    formula = KERAS_LAYER_COSTS.get(type(module).__name__) if registered is None and is_shipped(module) else None
    if formula is None:
        return registered
    return lambda layer, inputs, outputs: cast(Cost, formula(layer, inputs, outputs, False))


def _module_class(module_type: Any) -> type[nn.Module]:
    if not (isinstance(module_type, type) and issubclass(module_type, nn.Module)):
        raise ArgumentError(f"module_type={shown(module_type)}: give a subclass of torch.nn.Module")
    return module_type


def _operator_name(op: Any) -> str:
    if isinstance(op, OpOverload):
        return f"{read_schema(op).name}.{read_schema(op).overload_name or 'default'}"
    if isinstance(op, OpOverloadPacket):
        return str(op).replace(".", "::", 1)
    if isinstance(op, str) and "::" in op:
        return op
    if isinstance(op, type) and issubclass(op, torch.autograd.Function):
        raise ArgumentError(
            f"op={op.__name__}: torch shows no autograd function to those who count, only the operators inside; give "
            "the formula to the module that applies it: register_module_cost(MyModule, formula)"
        )
    raise ArgumentError(
        f"op={shown(op)}: cannot tell which operator it is; give torch.ops.mylib.op, an overload of it, or 'mylib::op'"
    )
