"""Updates of weights by an optimizer in one operator: the operations of its rule for each element of the gradient.

Numbers that are computed once for all elements (``lr * (1 - beta)``, say) are left out. In the docstrings ``w`` is the
weight and ``g`` its gradient.
"""

from __future__ import annotations

from .cost import per_element
from .numbers import constants as c


def _average() -> int:
    """Return the operations of ``m = beta * m + (1 - beta) * g``."""
    return 2 * c.MULTIPLY + c.ADD


def _average_of_squares() -> int:
    """Return the operations of ``v = beta * v + (1 - beta) * g * g``."""
    return _average() + c.MULTIPLY


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
def momentum_with_rate_inside(nesterov: bool = False) -> int:
    """``m = m * momentum + g`` and ``w -= lr * m``, or ``w -= g * lr + m * momentum * lr`` (TensorFlow's Momentum)."""
    step = 3 * c.MULTIPLY + c.ADD + c.SUBTRACT if nesterov else _step()
    return c.MULTIPLY + c.ADD + step


@per_element
def keras_momentum(nesterov: bool = False) -> int:
    """``m = m * momentum - lr * g`` and ``w += m``, or ``w += m * momentum - lr * g``."""
    moved = 2 * c.MULTIPLY + c.SUBTRACT
    return moved + (moved + c.ADD if nesterov else c.ADD)


@per_element
def proximal_sgd() -> int:
    """``sign(v) / (1 + lr * l2) * max(abs(v) - lr * l1, 0)`` of ``v = w - lr * g``."""
    return _step() + c.SIGN + c.DIVIDE + c.ABSOLUTE + c.SUBTRACT + c.COMPARE + c.MULTIPLY


@per_element
def adam(amsgrad: bool = False, nesterov: bool = False) -> int:
    """Two moving averages, and ``w -= lr * m / (sqrt(v) + epsilon)`` (Kingma and Ba, 2014).

    AMSGrad takes the maximum of v; Nesterov's ``beta * m + (1 - beta) * g`` in place of m.
    """
    step = c.SQRT + c.ADD + c.MULTIPLY + c.DIVIDE + c.SUBTRACT
    return _average() + _average_of_squares() + step + amsgrad * c.COMPARE + nesterov * _average()


@per_element
def adamax() -> int:
    """``v = max(beta * v, abs(g))`` and ``w -= lr * m / (v + epsilon)`` (Kingma and Ba, 2014)."""
    return _average() + (c.MULTIPLY + c.ABSOLUTE + c.COMPARE) + (c.ADD + c.MULTIPLY + c.DIVIDE + c.SUBTRACT)


@per_element
def adagrad(updates: bool = True, by_rsqrt: bool = False) -> int:
    """``s += g * g`` and ``w -= lr * g / (sqrt(s) + epsilon)``; by ``rsqrt(s)`` without epsilon (Duchi, 2011).

    Without ``updates`` s does not change.
    """
    step = c.MULTIPLY + c.SUBTRACT + (c.RSQRT + c.MULTIPLY if by_rsqrt else c.SQRT + c.ADD + c.DIVIDE)
    return updates * (c.MULTIPLY + c.ADD) + step


@per_element
def adadelta() -> int:
    """Two averages of squares, ``u = sqrt(b + epsilon) * rsqrt(a + epsilon) * g``, ``w -= lr * u`` (Zeiler, 2012)."""
    update = 2 * c.ADD + c.SQRT + c.RSQRT + 2 * c.MULTIPLY
    return 2 * _average_of_squares() + update + _step()


@per_element
def rmsprop(centered: bool = False) -> int:
    """``s += (g * g - s) * (1 - rho)``, ``m = m * momentum + lr * g * rsqrt(s + epsilon)``, ``w -= m``.

    Centered: ``a += (g - a) * (1 - rho)`` and ``s - a * a`` in place of s (Tieleman and Hinton 2012; Graves 2013).
    """
    squares = c.MULTIPLY + c.SUBTRACT + c.MULTIPLY + c.ADD
    moved = 3 * c.MULTIPLY + 2 * c.ADD + c.RSQRT
    extra = (c.SUBTRACT + c.MULTIPLY + c.ADD) + (c.MULTIPLY + c.SUBTRACT)
    return squares + moved + c.SUBTRACT + centered * extra


@per_element
def ftrl(shrinkage: bool = False) -> int:
    """Follow the regularized leader (McMahan and others, 2013).

    ``a += g * g``; ``l += g - (a ** p - old ** p) / lr * w``; ``q = a ** p / lr + 2 * l2``; where ``abs(l) > l1``,
    ``(sign(l) * l1 - l) / q``. With shrinkage ``g + 2 * l2 * w`` in place of g.
    """
    squares = c.MULTIPLY + c.ADD
    linear = 2 * c.POWER + c.SUBTRACT + c.DIVIDE + c.MULTIPLY + c.SUBTRACT + c.ADD
    quadratic = c.POWER + c.DIVIDE + c.MULTIPLY + c.ADD
    weight = c.ABSOLUTE + c.COMPARE + c.SIGN + c.SUBTRACT + c.DIVIDE
    return squares + linear + quadratic + weight + shrinkage * (c.MULTIPLY + c.ADD)


@per_element
def step_by_sign(power: bool = False) -> int:
    """``m`` averaged, ``u = (alpha + decay * sign(g) * sign(m)) * g``, ``w -= lr * u``.

    With power ``exp(k * decay * sign(g) * sign(m)) * g`` (Bello and others, Neural Optimizer Search, 2017).
    """
    signs = 2 * c.SIGN + 2 * c.MULTIPLY + (c.EXP if power else c.ADD) + c.MULTIPLY
    return _average() + signs + _step()
