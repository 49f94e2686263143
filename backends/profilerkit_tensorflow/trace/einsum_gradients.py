"""Einsums that are gradients of earlier einsums, known by their equations."""

from __future__ import annotations

from typing import Any, TypeAlias

from .ownership import is_gradient_name

__all__ = ["EinsumGradients"]

#: The labels of an einsum's result, and in any order the labels of its two operands.
_Labels: TypeAlias = tuple[str, frozenset[str]]


class EinsumGradients:
    """Keeps the equations of a walk's einsums, and recognizes by them the gradients of earlier einsums.

    The gradient of ``A,B->R`` by A is ``R,B->A``. A gradient's function may compute an einsum of the forward pass
    again: then its name is a gradient's name, but its equation is not.
    """

    def __init__(self) -> None:
        self._seen: set[_Labels] = set()

    def is_gradient(self, operator: Any, equation: str) -> bool:
        """Return whether an einsum is a gradient of an earlier einsum; if not, keep it, for its gradients."""
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
    """Return the labels without the labels of one operand alone: TensorFlow takes their gradient apart."""
    one = "".join(label for label in first if label in second + result)
    other = "".join(label for label in second if label in first + result)
    return result, frozenset((one, other))
