"""What a cost formula is given and what it returns: the same for every backend."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .errors import CostFormulaError, RegistrationConflictError

__all__ = ["Cost", "Formula", "FormulaTable", "Shape", "evaluated"]


class Cost(NamedTuple):
    """Multiply-accumulates and floating-point operations, two of them for each multiply-accumulate."""

    macs: int
    flops: int

    @classmethod
    def of_macs(cls, macs: int, further_flops: int = 0) -> Cost:
        """Return the cost of that many multiply-accumulates, and further operations."""
        return cls(macs, 2 * macs + further_flops)


class Shape(tuple[int, ...]):
    """The shape of a tensor, as formulas get it; ``numel`` is the number of its elements."""

    __slots__ = ()

    @property
    def numel(self) -> int:
        """Return the number of elements: 1 for an empty shape, a scalar's."""
        return math.prod(self)


Formula: TypeAlias = "Callable[..., Cost]"
F = TypeVar("F", bound="Callable[..., Cost]")


class FormulaTable:
    """Which formula gives the cost of what: of operators by name, of layers by class.

    ``changed`` is called whenever a formula is added or taken away, so that what was derived can be forgotten.
    """

    def __init__(self, kind: str, changed: Callable[[], None] = lambda: None) -> None:
        self.kind = kind
        self._changed = changed
        self._formulas: dict[Any, Formula] = {}

    def register(self, key: Any, formula: F, override: bool, name: str | None = None) -> F:
        """Add a formula and return it; over another one only with ``override``, else `RegistrationConflictError`."""
        if key in self._formulas and not override:
            raise RegistrationConflictError(
                f"{self.kind} {name or key} has a cost formula already; pass override=True to replace it"
            )
        self._formulas[key] = formula
        self._changed()
        return formula

    def get(self, key: Any) -> Formula | None:
        """Return the formula for a key, or None."""
        return self._formulas.get(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self._formulas))

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """Forget at the end whatever formulas were registered inside."""
        before = dict(self._formulas)
        try:
            yield
        finally:
            self._formulas.clear()
            self._formulas.update(before)
            self._changed()


def evaluated(what: str, formula: Callable[[], Any], given: Callable[[], str]) -> Cost:
    """Return what a formula returns; raises `CostFormulaError` where it raises, or that is no `Cost`."""
    try:
        cost = formula()
    except Exception as error:
        raise CostFormulaError(
            f"the cost formula of {what} raised {type(error).__name__}: {error}; it was called with {given()}"
        ) from error
    if not isinstance(cost, Cost):
        raise CostFormulaError(f"the cost formula of {what} returned {cost!r}, which is no Cost")
    return cost
