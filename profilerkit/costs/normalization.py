"""Normalization layers, and their gradients.

Normalizing takes the mean (an addition for each element), the variance (a difference, a square, an addition), and the
product with the inverse deviation. A scale takes a product, a shift an addition. Work on the means and deviations
themselves, one for each group of elements, is left out.

With the normalized ``n = (x - mean) / deviation``, the gradient by the input is
``scale / deviation * (dy - mean(dy) - n * mean(dy * n))``. With known statistics no mean depends on the input, and
it is ``dy * scale / deviation``. The gradient by the scale is the sum of ``dy * n``, that by the shift the sum of
``dy``.
"""

from __future__ import annotations

from .cost import Cost, per_element
from .numbers import constants as c


@per_element
def statistics() -> int:
    """``mean(x)`` and ``mean((x - mean) ** 2)``."""
    return c.ADD + c.SUBTRACT + c.POWER + c.ADD


@per_element
def normalize(scale: bool = True, shift: bool = True) -> int:
    """``(x - mean) * rsqrt(variance) * scale + shift``, the mean and the variance included."""
    return statistics.operations() + c.MULTIPLY + scale * c.MULTIPLY + shift * c.ADD


@per_element
def normalize_with_known_statistics() -> int:
    """``x * a + b``: with known statistics, normalization is a scale and a shift."""
    return c.MULTIPLY + c.ADD


@per_element
def scale_by_deviation() -> int:
    """``x * rsqrt(variance) * scale`` with the variance about the mean, which is not taken off (Keras' rms_scaling)."""
    return statistics.operations() + c.MULTIPLY + c.MULTIPLY


def rms_norm(elements: int, means: int, scale: bool = True) -> Cost:
    """``x * rsqrt(mean(x ** 2) + epsilon) * scale``: an addition and a root for each of the means, as shapes tell them.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
    """
    operations = c.POWER + c.ADD + c.MULTIPLY + scale * c.MULTIPLY
    return Cost(0, elements * operations + means * (c.ADD + c.RSQRT))


@per_element
def limit_norm() -> int:
    """``x * limit / norm(x)``: square, add and scale (renorm)."""
    return c.POWER + c.ADD + c.MULTIPLY


def weight_norm(elements: int, norms: int) -> Cost:
    """``v * (g / norm(v))``: square, add and multiply for each element of v, a division for each of g.

    Source: Salimans and Kingma, Weight Normalization, 2016.
    """
    return Cost(0, elements * (c.POWER + c.ADD + c.MULTIPLY) + norms * c.DIVIDE)


@per_element
def local_response(window: int) -> int:
    """``x / (k + alpha * sum(x ** 2)) ** beta`` with a sum over a window (Krizhevsky and others, 2012)."""
    return c.POWER + window * c.ADD + c.MULTIPLY + c.ADD + c.POWER + c.DIVIDE


# Gradients ------------------------------------------------------------------------------------------------------------


def _standardize() -> int:
    return c.SUBTRACT + c.DIVIDE


def _by_input() -> int:
    """Return n, ``dy * n``, two sums, two differences and two products: with it both sums are there."""
    return _standardize() + c.MULTIPLY + 2 * c.ADD + 2 * c.SUBTRACT + 2 * c.MULTIPLY


@per_element
def batch_norm_gradient(
    training: bool = True, by_input: bool = True, by_scale: bool = True, by_shift: bool = True
) -> int:
    """``scale / deviation * (dy - mean(dy) - n * mean(dy * n))``; with known statistics ``dy * scale / deviation``.

    The sums that it takes are the gradients by scale and shift; alone, these take ``sum(dy * n)`` and ``sum(dy)``.
    A group norm's is the same.
    """
    if training and by_input:
        return _by_input()
    operations = c.MULTIPLY if by_input else 0
    if by_scale:
        operations += _standardize() + c.MULTIPLY + c.ADD
    if by_shift:
        operations += c.ADD
    return operations


@per_element
def batch_norm_gradient_sums() -> int:
    """The first part of a batch norm's over several devices: ``x - mean``, ``dy * (x - mean)`` and two sums."""
    return c.SUBTRACT + c.MULTIPLY + 2 * c.ADD


@per_element
def batch_norm_gradient_rest() -> int:
    """The second part: ``(dy - mean(dy) - (x - mean) * k) * k2``."""
    return 3 * c.SUBTRACT + 2 * c.MULTIPLY


@per_element
def layer_norm_gradient(scaled: bool, by_input: bool = True, by_scale: bool = True, by_shift: bool = True) -> int:
    """As a batch norm's, and ``dy * scale``; the sums for scale and shift run over other elements, so they are extra.

    n is computed for the scale if the gradient by the input has not computed it.
    """
    operations = 0
    if by_input:
        operations += _by_input() + (c.MULTIPLY if scaled else 0)
    elif by_scale:
        operations += _standardize()
    if by_scale:
        operations += c.MULTIPLY + c.ADD
    if by_shift:
        operations += c.ADD
    return operations


def rms_norm_gradient(elements: int, roots: int, scaled: bool, by_input: bool = True, by_scale: bool = True) -> Cost:
    """The gradients by autograd of ``y = x * r * scale`` with ``r = rsqrt(mean(x ** 2) + epsilon)``.

    With ``g = dy * scale``, by the input ``g * r``, the sum of ``g * x``, and the mean's share ``s / n * 2 * x ** 1``
    added; ``s = -0.5 * sum * r ** 3`` for each root. By the scale ``dy * (x * r)`` and the sum.
    """
    flops = 0
    if by_input:
        share = c.DIVIDE + c.MULTIPLY + c.POWER + c.MULTIPLY + c.ADD
        operations = (c.MULTIPLY if scaled else 0) + c.MULTIPLY + (c.MULTIPLY + c.ADD) + share
        flops += elements * operations + roots * (2 * c.MULTIPLY + c.POWER)
    if by_scale:
        flops += elements * (c.MULTIPLY + c.ADD)
    return Cost(0, flops)


def weight_norm_gradient(elements: int, norms: int) -> Cost:
    """``g / norm * (dw - v * s / norm ** 2)`` of ``s = sum(dw * v)`` by v, and ``s / norm`` by g."""
    operations = c.MULTIPLY + c.ADD + c.MULTIPLY + c.SUBTRACT + c.MULTIPLY
    return Cost(0, elements * operations + norms * (c.POWER + 3 * c.DIVIDE))
