"""Arithmetic with a measured quantity: where a number is expected, it is its median."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

__all__ = ["NumberByMedian"]


class NumberByMedian(ABC):
    """Samples that can be computed with as with a number.

    With a number, every sample is changed, and the result is of this class again. Of two such quantities the medians
    are taken, and the result is a number. Comparisons, rounding and formats are of the median.
    """

    @property
    @abstractmethod
    def median(self) -> float:
        """The number that stands for all samples."""

    @abstractmethod
    def map(self, function: Callable[[float], float]) -> Self:
        """Return the same quantity with a function applied to each sample."""

    def __float__(self) -> float:
        return self.median

    def __truediv__(self, other: float | NumberByMedian) -> Any:
        return self._with(other, lambda sample, number: sample / number)

    def __rtruediv__(self, other: float) -> Any:
        return self._with(other, lambda sample, number: number / sample)

    def __mul__(self, other: float | NumberByMedian) -> Any:
        return self._with(other, lambda sample, number: sample * number)

    __rmul__ = __mul__

    def __add__(self, other: float | NumberByMedian) -> Any:
        return self._with(other, lambda sample, number: sample + number)

    __radd__ = __add__

    def __sub__(self, other: float | NumberByMedian) -> Any:
        return self._with(other, lambda sample, number: sample - number)

    def __rsub__(self, other: float) -> Any:
        return self._with(other, lambda sample, number: number - sample)

    def __le__(self, other: float | NumberByMedian) -> bool:
        return float(self) <= float(other)

    def __ge__(self, other: float | NumberByMedian) -> bool:
        return float(self) >= float(other)

    def __lt__(self, other: float | NumberByMedian) -> bool:
        return float(self) < float(other)

    def __gt__(self, other: float | NumberByMedian) -> bool:
        return float(self) > float(other)

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)

    def __format__(self, specification: str) -> str:
        return format(float(self), specification) if specification else str(self)

    def _with(self, other: float | NumberByMedian, operation: Callable[[float, float], float]) -> Any:
        """Apply an operation to every sample and a number; of two measurements, to their medians."""
        if isinstance(other, NumberByMedian):
            return operation(self.median, other.median)
        try:
            number = float(other)
        except (TypeError, ValueError):
            return NotImplemented
        return self.map(lambda sample: operation(sample, number))
