"""Numbers that a model of torch takes are its inputs, whatever shape they could be."""

from __future__ import annotations

from typing import Any

from torch import nn

from profilerkit import profile


def test_numbers_that_a_model_takes_are_inputs() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, rows: int, columns: int) -> Any:
            return self.linear(self.linear.weight.new_ones(rows, columns))

    assert profile(Scaled(), (3, 4), metrics=["macs"])["macs"] == 24
