"""The arguments and the result of a cost formula, which are the same for every backend."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeAlias

from .numbers import constants

__all__ = ["UNCOUNTED", "Cost", "Formula", "PerElement", "Shape", "per_element"]

P = ParamSpec("P")


class Cost(NamedTuple):
    """Multiply-accumulates and floating-point operations, two of them for each multiply-accumulate."""

    macs: int
    flops: int

    @classmethod
    def of_macs(cls, macs: int, further_flops: int = 0) -> Cost:
        """Return the cost of that many multiply-accumulates, and further operations.

        While an operator on complex numbers is counted, each is a complex one: four MACs and eight FLOPs.
        """
        return cls(macs * constants.MACS, (constants.MULTIPLY + constants.ADD) * macs + further_flops)

    @property
    def is_counted(self) -> bool:
        """Whether it has counts, and is not computed from `UNCOUNTED`."""
        return not all(isinstance(number, float) and math.isnan(number) for number in self)

    def plus(self, other: Cost) -> Cost:
        """Return the cost of both."""
        return Cost(self.macs + other.macs, self.flops + other.flops)

    def times(self, count: int) -> Cost:
        """Return the cost of so many of them."""
        return Cost(self.macs * count, self.flops * count)


_NOT_A_NUMBER: Any = math.nan
#: A formula returns this if the arguments of a call do not determine its cost: the call is reported as not counted.
#: So is a call with a cost that is computed from it: any arithmetic with "not a number" gives that again.
UNCOUNTED = Cost(_NOT_A_NUMBER, _NOT_A_NUMBER)


class Shape(tuple[int, ...]):
    """The shape of a tensor, as formulas get it; ``numel`` is the number of its elements."""

    __slots__ = ()

    @property
    def numel(self) -> int:
        """Return the number of elements: 1 for an empty shape, a scalar's."""
        return math.prod(self)


Formula: TypeAlias = "Callable[..., Cost]"


class PerElement(Generic[P]):
    """A formula of an element-wise operator: called with the number of elements, it returns their `Cost`.

    ``operations`` returns the operations for one element.
    """

    def __init__(self, operations: Callable[P, int]) -> None:
        self.operations = operations
        self.__name__: str = operations.__name__
        self.__doc__ = operations.__doc__
        self.__module__ = operations.__module__

    def __call__(self, elements: int, *args: P.args, **kwargs: P.kwargs) -> Cost:
        """Return the cost of so many elements."""
        return Cost(0, elements * self.operations(*args, **kwargs))

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__name__}"


def per_element(operations: Callable[P, int]) -> PerElement[P]:
    """Make a formula from the operations for one element: a decorator."""
    return PerElement(operations)
