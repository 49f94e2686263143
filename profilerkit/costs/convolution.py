"""Convolutions in any number of dimensions: grouped, depthwise, dilated, transposed, deformable; their gradients.

A convolution multiplies each output element with one filter of ``in_channels / groups * kernel`` elements. A transposed
one does so with each input element and a filter of ``out_channels / groups * kernel``. Padding counts as if it were
data.
"""

from __future__ import annotations

from .cost import Cost
from .numbers import constants as c
from .pooling import interpolate


def convolution(filtered: int, filter_elements: int, biased: int = 0) -> Cost:
    """Return the cost of a convolution.

    Args:
        filtered: The elements with one filter each: all output elements, or all input elements if it is transposed.
        filter_elements: The elements of one filter.
        biased: The output elements that a bias is added to; 0 without a bias.
    """
    return Cost.of_macs(filtered * filter_elements, biased * c.ADD)


def convolution_gradient(filtered: int, filter_elements: int, by_factors: int, biased: int = 0) -> Cost:
    """Return the cost of the gradients by input, weight or both: as many multiply-accumulates as forward for each.

    The bias takes the sum of ``biased`` elements of the gradient.
    """
    return Cost.of_macs(filtered * filter_elements * by_factors, biased * c.ADD)


def deformable_convolution(filtered: int, filter_elements: int, sampled: int, has_mask: bool, biased: int = 0) -> Cost:
    """Return the cost of a convolution whose ``sampled`` inputs are first interpolated between four neighbours each.

    A mask adds one product for each sampled input (Zhu and others, Deformable ConvNets v2, 2019).
    """
    sampling = sampled * (interpolate(4) + has_mask * c.MULTIPLY)
    return Cost.of_macs(filtered * filter_elements, biased * c.ADD + sampling)


def dilation(outputs: int, window: int) -> Cost:
    """Return the cost of a morphological dilation: an addition and a comparison for each element of the window."""
    return Cost(0, outputs * window * (c.ADD + c.COMPARE))
