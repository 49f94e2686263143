"""The tensors of the operators that a calibration measures: described first, and made when an operator is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Described", "Operand", "Operands", "choose_maker", "indices", "positive", "random", "statistic"]

#: How many random elements are drawn; larger tensors repeat them, which is many times faster than drawing all.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Operand:
    """A tensor that is not made yet; an operand that appears twice in an operator is made once."""

    shape: tuple[int, ...]
    is_positive: bool = False  #: whether its values are absolute values, such as variances
    #: For integers: the number that they are less than. None for random numbers of the measured dtype.
    below: int | None = None
    #: Whether a layer of normalization saves it in its forward pass, on CUDA in float32 at least.
    is_saved: bool = False


Operands = tuple[Operand, ...]
#: Descriptions of operators: a name, a function, and its operands.
Described = Iterator[tuple[str, Callable[..., Any], Operands]]


def random(*sizes: int) -> Operand:
    """Return a tensor of random numbers."""
    return Operand(sizes)


def positive(*sizes: int) -> Operand:
    """Return a tensor of random numbers that are not negative."""
    return Operand(sizes, is_positive=True)


def statistic(*sizes: int) -> Operand:
    """Return a tensor of means, or of inverse deviations, that a layer of normalization has saved."""
    return Operand(sizes, is_positive=True, is_saved=True)


def indices(below: int, *sizes: int) -> Operand:
    """Return a tensor of random integers from 0, less than a number."""
    return Operand(sizes, below=below)


def choose_maker(device: torch.device, dtype: torch.dtype) -> Callable[[Operands], tuple[torch.Tensor, ...]]:
    """Return a function that makes the tensors of one operator, by random numbers of its own."""
    generator = torch.Generator(device).manual_seed(0)
    block = torch.randn(_BLOCK, device=device, dtype=dtype, generator=generator)

    def make_operand(operand: Operand) -> torch.Tensor:
        if operand.below is not None:
            return torch.randint(0, operand.below, operand.shape, device=device, generator=generator)
        elements = math.prod(operand.shape)
        values = block.repeat(-(-elements // _BLOCK))[:elements].reshape(operand.shape)
        values = values.abs() if operand.is_positive else values
        is_wider = operand.is_saved and device.type == "cuda" and dtype.itemsize < torch.float32.itemsize
        return values.float() if is_wider else values

    def make(operands: Operands) -> tuple[torch.Tensor, ...]:
        tensors = {operand: make_operand(operand) for operand in dict.fromkeys(operands)}
        return tuple(tensors[operand] for operand in operands)

    return make
