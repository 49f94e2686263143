"""Tensors that a model makes with values and then writes computed numbers to: each is one storage, as in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call, ones, trace_complete

ROW = 16 * 4
BATCH = 4 * ROW


def add(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(4, 16)
    y.add_(x)
    return y * 2


def fill_by_rows(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(4, 16)
    for index in range(4):
        y[index] = x[index]
    return y * 2


def write_to_a_view(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(64, 16)
    view = y[:4]
    view += x
    del y  # the view keeps all of it
    return view * 2


def take_what_is_returned(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(4, 16).add_(x)
    return y.mul_(2) * 2


def write_out(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(4, 16)
    torch.exp(x, out=y)
    return y * 2


def add_at(self: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(4, 16).index_copy_(0, torch.arange(4), x) * 2


def drop(self: Any, x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        y = torch.zeros(64, 16)
        y[:4] = x
        del y
    return x * 2


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (add, BATCH + BATCH),
        (fill_by_rows, BATCH + BATCH),
        (write_to_a_view, 64 * ROW + BATCH),
        (take_what_is_returned, BATCH + BATCH),
        (write_out, BATCH + BATCH),
        (add_at, BATCH + BATCH),
        (drop, 64 * ROW),
    ],
)
def test_what_is_written_to_is_one_storage(function: Callable[..., Any], most: int) -> None:
    """Beside the input there are what is written to, and its double; torch's allocator gives out so many bytes."""
    memory = trace_complete(Call(function), ones(4, 16)).memory
    assert memory.peak_bytes() == BATCH + most
