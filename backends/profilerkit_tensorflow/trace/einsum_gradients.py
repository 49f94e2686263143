"""Which einsums of a graph are gradients of other einsums, found by their names and equations."""

from __future__ import annotations

from typing import Any, TypeAlias

from .gradient_names import is_gradient_name

__all__ = ["EinsumGradients"]

#: The labels of an einsum's result, and in any order those of its two operands.
_Labels: TypeAlias = tuple[str, frozenset[str]]


class EinsumGradients:
    """Keeps the equations of a walk's einsums, and knows by them which later one is a gradient of one of them.

    The gradient of ``A,B->R`` by A is ``R,B->A``. What a gradient's function computes again of the forward pass has a
    gradient's name too, and not such an equation.
    """

    def __init__(self) -> None:
        self._seen: set[_Labels] = set()

    def is_gradient(self, operator: Any, equation: str) -> bool:
        """Return whether an einsum is a gradient of one seen before; if not, keep it as one that may have gradients."""
        operands, _, result = equation.replace(" ", "").replace("...", "").partition("->")
        terms = operands.split(",")
        if len(terms) != 2:
            return False
        first, second = terms
        if is_gradient_name(operator.name) and _labels(result, second, first) in self._seen:
            return True
        self._seen.add(_labels(first, second, result))
        return False


def _labels(first: str, second: str, result: str) -> _Labels:
    """Return the labels without those that one operand alone has: TensorFlow takes their gradient apart."""
    one = "".join(label for label in first if label in second + result)
    other = "".join(label for label in second if label in first + result)
    return result, frozenset((one, other))
