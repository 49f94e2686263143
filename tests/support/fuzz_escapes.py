"""Ways out of torch for fuzzed modules: threads, a pool that is always there, numpy, functions that work in numpy.

``ESCAPED`` has what the run has taken of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

__all__ = ["ESCAPED", "IntoEmpty", "IntoZeros", "Table", "array", "aside", "run_in_pool"]

ESCAPED: list[str] = []
_POOL = ThreadPoolExecutor(1)
_POOL.submit(int).result()  # its thread is there before any pass


def aside(work: Callable[[], Any]) -> Any:
    """Return what a thread of its own makes."""
    ESCAPED.append("thread")
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def run_in_pool(work: Callable[[], Any]) -> Any:
    """Return what a thread makes that was there before."""
    ESCAPED.append("pool")
    return _POOL.submit(work).result()


def array(tensor: torch.Tensor) -> Any:
    """Return a tensor's numbers in numpy, of a contiguous tensor's memory."""
    ESCAPED.append("numpy")
    return tensor.detach().numpy()


class IntoEmpty(torch.autograd.Function):
    """Multiplies in numpy, and fills memory that torch made empty."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), len(x), dtype=x.dtype)
        out.numpy()[...] = array(x) @ array(x).T
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None


class IntoZeros(IntoEmpty):
    """The same, into memory that an operator has written to."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(len(x), len(x), dtype=x.dtype)
        out.numpy()[...] = array(x) @ array(x).T + 1  # memory that stays as it was has nothing new to notice
        return out


class Table:
    """An input that holds a tensor, and that can be called."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __call__(self) -> int:
        return 0
