"""Inputs of a model of torch: numbers that it takes, whatever shape they could be, and dtypes that it does not take."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from profilerkit import compare, profile


def test_numbers_that_a_model_takes_are_inputs() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, rows: int, columns: int) -> Any:
            return self.linear(self.linear.weight.new_ones(rows, columns))

    assert profile(Scaled(), (3, 4), metrics=["macs"])["macs"] == 24


def test_inputs_of_another_dtype_than_the_weights_are_said_to_be() -> None:
    """Of the same inputs the model in float32 has a value: 3 x 4 positions, 8 x 2 weights."""
    model = nn.Conv1d(8, 2, 1)
    other = copy.deepcopy(model).bfloat16()
    compared = compare(model, other, inputs={"input": torch.randn(3, 8, 4)}, metrics=["macs"], names=["a", "b"])
    assert compared["macs"] == {"a": 192, "b": None}
    (reason,) = compared.other("b").status("macs").missing
    assert reason.endswith("; the inputs are of float32; input_shape= in place of inputs makes inputs of bfloat16")
