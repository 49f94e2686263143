"""Constants that follow from others are those that TensorFlow's kernels compute."""

from __future__ import annotations

from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from profilerkit_tensorflow.trace.folding import Folding  # noqa: E402

#: Operators of two inputs, by the numbers that they are tried with: signs, remainders, and what is no whole number.
BINARY = ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "FloorDiv", "FloorMod", "Div", "RealDiv")
NUMBERS = ([-7, -7, 7, 7, 6, 0], [2, -2, 2, -2, 3, 5])


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("name", BINARY)
def test_an_operator_of_constants_is_what_its_kernel_returns(name: str, dtype: str) -> None:
    """``Div`` of integers among them: -7 by 2 is -3, and not -3.5 or -4."""
    if (name, dtype) == ("RealDiv", "int32"):
        pytest.skip("TensorFlow has no such kernel")
    operator: Any = getattr(tf.raw_ops, name)
    expected = operator(x=tf.constant(NUMBERS[0], dtype), y=tf.constant(NUMBERS[1], dtype)).numpy()
    with tf.Graph().as_default():
        made = operator(x=tf.constant(NUMBERS[0], dtype), y=tf.constant(NUMBERS[1], dtype))
        constant = Folding().find_constant(made)
    assert constant.dtype == expected.dtype
    assert constant.tolist() == expected.tolist()
