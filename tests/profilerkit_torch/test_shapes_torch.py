"""A shape that begins with the batch, or stands in the place of inputs, is said with the corrected call."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from profilerkit import profile


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"input_shape": (1, 3, 8, 8)},
            "input_shape=(1, 3, 8, 8) begins with the batch, and is to be that of one sample; give "
            "input_shape=(3, 8, 8) (on",
        ),
        (
            {"inputs": (4, 3, 8, 8)},
            "inputs=(4, 3, 8, 8) is a shape, and no inputs; give input_shape=(3, 8, 8), batch_size=4 (on",
        ),
        ({"inputs": (3, 8, 8)}, "inputs=(3, 8, 8) is a shape, and no inputs; give input_shape=(3, 8, 8) (on"),
        ({"input_shape": (1, 3, 9, 9)}, "the model raised RuntimeError: "),
        ({"inputs": (3, 9, 9)}, "the model raised "),
    ],
)
def test_counts_and_times_say_what_to_give(given: Any, message: str) -> None:
    report = profile(convolutional(), metrics=["macs", "execution_time"], **given)
    for name in ("macs", "execution_time"):
        (said,) = report.status(name).missing
        assert said.startswith(message)


def test_numbers_that_a_model_takes_are_inputs() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, rows: int, columns: int) -> Any:
            return self.linear(self.linear.weight.new_ones(rows, columns))

    assert profile(Scaled(), (3, 4), metrics=["macs"])["macs"] == 24


def test_a_shape_that_fits_both_ways_is_that_of_one_sample() -> None:
    assert profile(nn.Linear(4, 2), input_shape=(5, 4), metrics=["macs"])["macs"] == 40
