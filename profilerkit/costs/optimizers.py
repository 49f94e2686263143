"""Updates of weights by an optimizer in one operator: the operations of its rule for each element of the gradient.

Numbers that are computed once for all elements (``lr * (1 - beta)``, say) are left out. In the docstrings ``w`` is the
weight and ``g`` its gradient.
"""

from __future__ import annotations

from .cost import per_element
from .numbers import constants as c


def _step() -> int:
    """Return the operations of ``w -= lr * g``."""
    return c.MULTIPLY + c.SUBTRACT


@per_element
def decay() -> int:
    """``g + decay * w``: a decay of the weights, on top of the rule."""
    return c.MULTIPLY + c.ADD


@per_element
def sgd() -> int:
    """``w -= lr * g``."""
    return _step()


@per_element
def momentum(nesterov: bool = False) -> int:
    """``m = momentum * m + g`` and ``w -= lr * m``; Nesterov's ``g + momentum * m`` in place of m.

    Sources: Polyak 1964; Nesterov 1983.
    """
    return c.MULTIPLY + c.ADD + nesterov * (c.MULTIPLY + c.ADD) + _step()


@per_element
def adam(amsgrad: bool = False) -> int:
    """``m = beta * m + (1 - beta) * g``, likewise v of ``g * g``, and ``w -= lr * m / (sqrt(v) + epsilon)``.

    AMSGrad takes the maximum of v. Source: Kingma and Ba, 2014.
    """
    averages = 2 * (2 * c.MULTIPLY + c.ADD) + c.MULTIPLY
    return averages + c.SQRT + c.ADD + c.MULTIPLY + c.DIVIDE + c.SUBTRACT + amsgrad * c.COMPARE


@per_element
def adagrad() -> int:
    """``s += g * g`` and ``w -= lr * g / (sqrt(s) + epsilon)`` (Duchi, 2011)."""
    return (c.MULTIPLY + c.ADD) + c.SQRT + c.ADD + c.DIVIDE + _step()
