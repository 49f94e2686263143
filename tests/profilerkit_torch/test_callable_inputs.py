"""Inputs that can be called are inputs: only a function makes inputs of a batch size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from profilerkit import profile


class Graph:
    """An object of a graph library: its call yields what it stores."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __call__(self, *names: str) -> Iterator[tuple[str, torch.Tensor]]:
        return iter([("x", self.x)])


class OfGraph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, graph: Graph) -> torch.Tensor:
        return self.fc(graph.x)  # type: ignore[no-any-return]


class OfLayer(nn.Module):
    """Runs the layer that it is given, on numbers of its own."""

    def forward(self, layer: nn.Module) -> Any:
        return layer(torch.ones(4, 8))


def test_an_object_that_can_be_called_is_an_input() -> None:
    assert profile(OfGraph(), Graph(torch.randn(4, 8)), metrics=["macs"])["macs"] == 4 * 8 * 8


def test_a_layer_is_an_input() -> None:
    assert profile(OfLayer(), nn.Linear(8, 2), metrics=["macs"])["macs"] == 4 * 8 * 2


def make(width: int, batch_size: int) -> torch.Tensor:
    return torch.randn(batch_size, width)


class Maker:
    def make(self, batch_size: int) -> torch.Tensor:
        return make(8, batch_size)


@pytest.mark.parametrize("function", [lambda size: make(8, size), partial(make, 8), Maker().make])
def test_a_function_makes_inputs(function: Any) -> None:
    assert profile(nn.Linear(8, 2), function, batch_size=3, metrics=["macs"])["macs"] == 3 * 8 * 2
