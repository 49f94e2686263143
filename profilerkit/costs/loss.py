"""Losses, and their gradients: the operations of their definition for each element.

``reduced`` losses are summed or averaged, which is an addition for each element; the mean's division is not counted,
and goes into ``dy`` of a gradient beforehand.
"""

from __future__ import annotations

from . import activation
from .cost import Cost, per_element
from .numbers import constants as c


@per_element
def mean_squared_error(reduced: bool = True) -> int:
    """``(x - t) ** 2``."""
    return c.SUBTRACT + c.POWER + reduced * c.ADD


@per_element
def smooth_l1(reduced: bool = True) -> int:
    """``0.5 * d * d / beta`` of ``d = abs(x - t)`` where it is below beta."""
    return c.SUBTRACT + c.ABSOLUTE + c.COMPARE + 2 * c.MULTIPLY + c.DIVIDE + reduced * c.ADD


@per_element
def huber(reduced: bool = True) -> int:
    """``0.5 * d * d`` of ``d = abs(x - t)`` where it is below delta."""
    return c.SUBTRACT + c.ABSOLUTE + c.COMPARE + 2 * c.MULTIPLY + reduced * c.ADD


@per_element
def binary_cross_entropy(weighted: bool = False, reduced: bool = True) -> int:
    """``-(t * log(x) + (1 - t) * log(1 - x))``, and a product with the weight."""
    terms = (c.MULTIPLY + c.LOG) + (c.SUBTRACT + c.SUBTRACT + c.LOG + c.MULTIPLY)
    return terms + c.ADD + c.NEGATE + weighted * c.MULTIPLY + reduced * c.ADD


def binary_cross_entropy_with_logits(
    elements: int, weighted: bool = False, positive_weights: int | None = None, reduced: bool = True
) -> Cost:
    """``(1 - t) * x - p * log_sigmoid(x)``, and a product with the weight.

    With weights of positives, ``p = 1 + (weight - 1) * t``: a product and an addition for each element, the product
    with it, and a subtraction for each of the weights.
    """
    operations = c.SUBTRACT + c.MULTIPLY + activation.softplus.operations() + c.SUBTRACT
    operations += weighted * c.MULTIPLY + reduced * c.ADD
    if positive_weights is None:
        return Cost(0, elements * operations)
    return Cost(0, elements * (operations + 2 * c.MULTIPLY + c.ADD) + positive_weights * c.SUBTRACT)


@per_element
def negative_log_likelihood() -> int:
    """``-x[t]`` added up, for each target."""
    return c.ADD


@per_element
def soft_margin(reduced: bool = True) -> int:
    """``log(1 + exp(-t * x))``."""
    return c.NEGATE + c.MULTIPLY + c.EXP + c.ADD + c.LOG + reduced * c.ADD


@per_element
def multi_margin(squared: bool = False, weighted: bool = False) -> int:
    """``sum(max(0, margin - x[t] + x) ** p) / n``: a square if p is 2, a product with the weight."""
    return c.SUBTRACT + c.ADD + c.COMPARE + c.ADD + squared * c.POWER + weighted * c.MULTIPLY


def connectionist_temporal(steps: int, states: int) -> Cost:
    """Add up the probabilities of all alignments (Graves and others, 2006), for each state and step.

    A target of S labels has 2 * S + 1 states, blanks between them. Each is the logarithm of a sum of three: two
    comparisons, three subtractions, three exponentials, two additions, a logarithm, and two additions of the maximum
    and of the label's probability. Steps and labels count as padded to the longest.
    """
    return Cost(0, steps * states * _alignment())


def _alignment() -> int:
    return 2 * c.COMPARE + 3 * c.SUBTRACT + 3 * c.EXP + 2 * c.ADD + c.LOG + 2 * c.ADD


def softmax_cross_entropy(elements: int) -> Cost:
    """``-sum(t * log_softmax(x))`` and, returned with it, the gradient ``softmax(x) - t``."""
    operations = activation.softmax.operations(log=True) + c.MULTIPLY + c.ADD + c.SUBTRACT
    return Cost(0, elements * operations)


def sparse_softmax_cross_entropy(elements: int, targets: int) -> Cost:
    """``-log_softmax(x)[t]`` and, returned with it, the gradient: the softmax less 1 at the target."""
    return Cost(0, elements * activation.softmax.operations(log=True) + targets * (c.NEGATE + c.SUBTRACT))


# Gradients ------------------------------------------------------------------------------------------------------------


@per_element
def mean_squared_error_gradient() -> int:
    """``dy * 2 * (x - t)``."""
    return c.SUBTRACT + 2 * c.MULTIPLY


@per_element
def smooth_l1_gradient() -> int:
    """``dy * d / beta`` of ``d = x - t``, between the bounds."""
    return c.SUBTRACT + 2 * c.COMPARE + c.MULTIPLY + c.DIVIDE


@per_element
def huber_gradient() -> int:
    """``dy * d`` of ``d = x - t``, between the bounds."""
    return c.SUBTRACT + 2 * c.COMPARE + c.MULTIPLY


@per_element
def soft_margin_gradient() -> int:
    """``dy * -t * z / (1 + z)`` of ``z = exp(-t * x)``."""
    return (c.NEGATE + c.MULTIPLY + c.EXP) + 2 * c.MULTIPLY + c.ADD + c.DIVIDE


@per_element
def binary_cross_entropy_gradient(weighted: bool = False) -> int:
    """``dy * (x - t) / max((1 - x) * x, epsilon)``, and a product with the weight."""
    divisor = c.SUBTRACT + c.MULTIPLY + c.COMPARE
    return c.SUBTRACT + c.MULTIPLY + divisor + c.DIVIDE + weighted * c.MULTIPLY


@per_element
def negative_log_likelihood_gradient() -> int:
    """``-dy`` at each target."""
    return c.NEGATE


@per_element
def multi_margin_gradient(squared: bool = False, weighted: bool = False) -> int:
    """``dy`` where ``margin - x[t] + x`` is positive, and the sum for the target; ``2 * z * dy`` if p is 2."""
    return c.SUBTRACT + c.ADD + c.COMPARE + c.ADD + squared * 2 * c.MULTIPLY + weighted * c.MULTIPLY


def connectionist_temporal_gradient(states: int, probabilities: int) -> Cost:
    """The backward variables, as many as the forward ones, and ``exp(alpha + beta)`` added up for each of them.

    Adding it up takes ``alpha + beta``, and the logarithm of a sum of two: maximum, two differences, two exponentials,
    an addition, a logarithm, the maximum added. Each of the probabilities then takes
    ``dy * (exp(p) - exp(sum + loss - p))``.
    """
    added = c.ADD + c.COMPARE + 2 * c.SUBTRACT + 2 * c.EXP + c.ADD + c.LOG + c.ADD
    operations = 2 * c.EXP + c.ADD + 2 * c.SUBTRACT + c.MULTIPLY
    return Cost(0, states * (_alignment() + added) + probabilities * operations)
