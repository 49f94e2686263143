"""A shape that begins with the batch, or stands in the place of inputs, is said with the corrected call."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("tensorflow")
import keras
import tensorflow as tf

from profilerkit import profile


def convolutional() -> Any:
    layers = [keras.layers.Conv2D(4, 3), keras.layers.Flatten(), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((8, 8, 3)), *layers])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"input_shape": (1, 8, 8, 3)},
            "input_shape=(1, 8, 8, 3) begins with the batch, and is to be that of one sample; give "
            "input_shape=(8, 8, 3) (on",
        ),
        (
            {"inputs": (4, 8, 8, 3)},
            "inputs=(4, 8, 8, 3) is a shape, and no inputs; give input_shape=(8, 8, 3), batch_size=4 (on",
        ),
        ({"inputs": (8, 8, 3)}, "inputs=(8, 8, 3) is a shape, and no inputs; give input_shape=(8, 8, 3) (on"),
        ({"input_shape": (1, 9, 9, 3)}, "the model raised ValueError: "),
        (
            {"inputs": (9, 9, 3)},
            "inputs=(9, 9, 3) are numbers, not tensors; if this is a shape, give it as input_shape=",
        ),
    ],
)
def test_counts_and_times_say_what_to_give(given: Any, message: str) -> None:
    report = profile(convolutional(), metrics=["macs", "execution_time"], **given)
    for name in ("macs", "execution_time"):
        (said,) = report.status(name).missing
        assert said.startswith(message)


def test_a_function_that_takes_no_numbers_is_told_too() -> None:
    def product(x: Any) -> Any:
        return x @ tf.ones((4, 2))

    (said,) = profile(product, (3, 4), metrics=["macs"], backend="tensorflow").status("macs").missing
    assert said.startswith("inputs=(3, 4) is a shape, and no inputs; give input_shape=(4,), batch_size=3 (on")
