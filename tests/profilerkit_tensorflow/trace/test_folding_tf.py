"""Constants that follow from others are those that TensorFlow's kernels compute."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from profilerkit_tensorflow.trace.folding import Folding

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


@pytest.mark.parametrize(("numbers", "mean"), [([1, 4], 2), ([-1, -4], -2)])
def test_the_mean_of_integers_is_an_integer(numbers: list[int], mean: int) -> None:
    """5 / 2 and -5 / 2, rounded toward zero: a loop up to the mean of 1 and 4 runs twice, and not three times."""
    with tf.Graph().as_default():
        made = tf.reduce_mean(tf.constant(numbers))
    constant = Folding().find_constant(made)
    assert (constant.dtype, constant.item()) == ("int32", mean)


def test_what_is_gathered() -> None:
    """Of each row of a batch one element is taken, 3 and 4; without the batch each row gives both, and 6 too."""
    with tf.Graph().as_default():
        rows, indices = tf.constant([[1, 2, 3], [4, 5, 6]]), tf.constant([[2], [0]])
        gathered = [tf.gather(rows, indices, axis=1, batch_dims=dims) for dims in (1, 0)]
    in_batch, in_all = (Folding().find_constant(tensor).tolist() for tensor in gathered)
    assert in_batch == [[3], [4]]
    assert in_all == [[[3], [1]], [[6], [4]]]
