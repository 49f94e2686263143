"""How the families of operators, a module each, register the formulas that come with the package.

No formula is registered for an in-place operator, ``aten::mul_``: it has that of ``aten::mul``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch

from profilerkit.costs import Cost, Formula

from ..compat.operators import read_schema
from .argument_names import take_by_name
from .registry import register_op_cost
from .shapes import count_elements

__all__ = [
    "is_free",
    "register_by_name",
    "register_existing",
    "register_free",
    "register_op_costs",
    "register_per_element",
]

F = TypeVar("F", bound="Callable[..., Cost]")

#: The operators that do no arithmetic, some with their overload.
_free: set[str] = set()


def register_op_costs(*names: str) -> Callable[[F], F]:
    """Give several operators one formula: a decorator. A text may have several names, with spaces between them."""

    def register(function: F) -> F:
        for name in " ".join(names).split():
            register_op_cost(name, function)
        return function

    return register


def register_by_name(*names: str) -> Callable[[F], F]:
    """Give several operators one formula, which takes the arguments that it needs by torch's names.

    So a formula names a few arguments of a long list, at any position. If torch has several names for an argument, such
    as ``self`` and ``input``, formulas have one name, here ``x``: see `argument_names`.
    """

    def register(function: F) -> F:
        take_by_name(function)
        return register_op_costs(*names)(function)

    return register


def register_existing(formula: Formula, *names: str) -> None:
    """Give a formula to the operators of aten that this release of torch has."""
    for name in names:
        if hasattr(torch.ops.aten, name):
            register_op_cost(f"aten::{name}", formula)


def register_per_element(formulas: Mapping[str, Callable[[int], Cost]], argument: int | None = 0) -> None:
    """Give the operators in each text a formula for each element of an argument, or of the output.

    A name without a namespace is an operator of aten, which this release of torch may lack. ``argument`` is the
    position of the argument; None for the output, which may be several tensors.
    """
    for names, formula in formulas.items():
        per_element = partial(_count_elements, formula, argument)
        for name in names.split():
            if "::" in name:
                register_op_cost(name, per_element)
            else:
                register_existing(per_element, name)


def _count_elements(formula: Callable[[int], Cost], argument: int | None, *args: Any, out: Any, **_: Any) -> Cost:
    return formula(count_elements(out if argument is None else args[argument]))


def register_free(space: str, names: str) -> None:
    """Declare that operators of a namespace, named in a text, only move or choose data and do no arithmetic.

    A name may have an overload, ``repeat_interleave.Tensor``, where others are made of other operators.
    """
    _free.update(f"{space}::{name}" for name in names.split())


def is_free(func: Any) -> bool:
    """Return whether an operator is declared to do no arithmetic, or all of its overloads are."""
    schema = read_schema(func)
    return schema.name in _free or f"{schema.name}.{schema.overload_name}" in _free
