"""Equations of a jaxpr that have numbers, by which they are found again in the program that XLA makes of it.

XLA keeps the scopes of an equation with each instruction that it makes of it: the number is the name of a scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, TypeVar

from ..compat import add_scope, open_jaxpr, scope_names
from ..model.scope_names import EQUATION

__all__ = ["Chain", "find_by_chain", "list_ends", "list_numbers", "number_equations", "read_number"]

_NUMBERS = re.compile(rf"{EQUATION}\.(\d+)")

V = TypeVar("V")
#: The numbers of an equation and of the equations around it, in whose jaxprs it is; the outermost first.
Chain = tuple[int, ...]


def number_equations(jaxpr: Any, numbers: count[int] | None = None) -> Any:
    """Return a jaxpr, open or closed, whose equations have numbers, also the equations of inner jaxprs."""
    numbers = count() if numbers is None else numbers
    plain = open_jaxpr(jaxpr)
    if plain is not jaxpr:  # before JAX 0.12 a closed jaxpr has an open one inside
        return jaxpr.replace(jaxpr=number_equations(plain, numbers))
    return jaxpr.replace(eqns=[_number(equation, numbers) for equation in jaxpr.eqns])


def _number(equation: Any, numbers: count[int]) -> Any:
    params = {name: _number_inside(value, numbers) for name, value in equation.params.items()}
    return add_scope(equation.replace(params=params), f"{EQUATION}.{next(numbers)}")


def _number_inside(value: Any, numbers: count[int]) -> Any:
    """Return the parameter of an equation, with numbers where it is a jaxpr, or several."""
    if isinstance(value, (tuple, list)) and any(map(_is_jaxpr, value)):
        return type(value)(_number_inside(item, numbers) for item in value)
    return number_equations(value, numbers) if _is_jaxpr(value) else value


def _is_jaxpr(value: Any) -> bool:
    return hasattr(getattr(value, "jaxpr", value), "eqns")


def read_number(equation: Any) -> int | None:
    """Return the number of an equation; None for one that has none."""
    names = scope_names(equation)
    numbers = list_numbers(names[-1].name) if names else ()
    return numbers[0] if numbers else None


def list_numbers(scopes: str) -> Chain:
    """Return the numbers among the scopes of an instruction."""
    return tuple(map(int, _NUMBERS.findall(scopes)))


def list_ends(chain: Chain) -> Iterator[Chain]:
    """Yield the numbers of an equation, then all but the outermost, and so on: XLA may know only inner numbers.

    JAX leaves out the scopes around a ``shard_map``. No other equation has the number of the equation itself.
    """
    return (chain[start:] for start in range(len(chain)))


def find_by_chain(values: Mapping[Chain, V], chain: Chain) -> V | None:
    """Return the value for the numbers of an equation, or for as many of the innermost as there is one for."""
    return next((values[end] for end in list_ends(chain) if end in values), None)
