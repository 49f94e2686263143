"""The call of a cost formula: its arguments, the kind of numbers it counts, and the check of what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

from ..error_text import shown
from ..errors import ArgumentError, CostFormulaError
from ..process.containment import describe_origin, plugin_error_text
from .cost import Cost
from .numbers import Numbers, complex_is_counted

__all__ = ["CallForm", "apply_formula", "describe_fault", "evaluate_formula", "require_formula"]


class CallForm(NamedTuple):
    """The arguments of formulas of a kind.

    Attributes:
        positional: Names for the arguments by position; none if these differ from formula to formula.
        keywords: The names of the arguments by keyword.
    """

    positional: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join([*self.positional, *(f"{keyword}=" for keyword in self.keywords)])


def require_formula(formula: Any, what: str, form: CallForm | None = None) -> None:
    """Raise `ArgumentError` for an object that is no formula, or cannot be called with the arguments of a form.

    ``what`` is the operator or layer that it is given for, in words.
    """
    if not callable(formula) or isinstance(formula, type):
        raise ArgumentError(f"formula={shown(formula)} for {what} is no function; give one that returns a Cost")
    if form is None:
        return
    try:
        signature = inspect.signature(formula)
    except ValueError:  # a function of C's, which does not tell
        return
    bind = signature.bind if form.positional else signature.bind_partial
    try:
        bind(*form.positional, **dict.fromkeys(form.keywords))
    except TypeError as error:
        raise ArgumentError(
            f"formula={shown(formula)} for {what} cannot be called as formulas are, with {form}: {error}"
        ) from None


def apply_formula(formula: Callable[..., Cost], numbers: Numbers, *arguments: Any) -> Cost:
    """Return the cost by a formula for a kind of numbers: for integers, only the multiply-accumulates."""
    if numbers is Numbers.COMPLEX:
        token = complex_is_counted.set(True)
        try:
            return formula(*arguments)
        finally:
            complex_is_counted.reset(token)
    cost = formula(*arguments)
    if numbers is Numbers.INTEGER and isinstance(cost, Cost):
        return Cost.of_macs(cost.macs)
    return cost


def evaluate_formula(
    what: str,
    formula: Callable[[], Any],
    shown_call: Callable[[], str],
    numbers: Numbers = Numbers.REAL,
    may_raise: tuple[type[Exception], ...] = (),
) -> Cost | None:
    """Return the cost by a formula for an operator on a kind of numbers; None if the cost is not counted.

    Raises `CostFormulaError` if the formula does not return a `Cost` of counts, or raises an error.
    """
    try:
        cost = apply_formula(formula, numbers)
    except MemoryError:
        raise
    except may_raise:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:  # a formula must not end the program either
        blame = describe_origin(error)
        raise CostFormulaError(
            f"the cost formula of {what} raised {plugin_error_text(error)}; "
            f"it was called with {shown_call()}{blame and f'; {blame}'}"
        ) from error
    fault = describe_fault(cost)
    if fault:
        raise CostFormulaError(f"the cost formula of {what} {fault}")
    return Cost(*map(index, cost)) if cost.is_counted else None  # a count of numpy's would wrap around in a sum


def describe_fault(cost: object) -> str:
    """Return a text about the fault of a formula's result; an empty text for a `Cost` of counts, and for `UNCOUNTED`.

    >>> describe_fault(Cost(0, 512.0))
    'returned Cost(macs=0, flops=512.0), which is no Cost of whole numbers that are 0 or more'
    """
    if not isinstance(cost, Cost):
        return f"returned {shown(cost)}, which is no Cost"
    if cost.is_counted and not all(map(_is_count, cost)):
        return f"returned {shown(cost)}, which is no Cost of whole numbers that are 0 or more"
    return ""


def _is_count(number: Any) -> bool:
    try:
        return index(number) >= 0
    except TypeError:  # an array of several too
        return False
