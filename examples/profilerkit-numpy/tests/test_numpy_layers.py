"""What the layers compute, against loops over single elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from profilerkit_numpy.layers import Array, Layer, Sequential, activation, conv2d, dense, dropout, flatten, pool2d

RANDOM = np.random.default_rng(0)


def image(*shape: int) -> Array:
    return RANDOM.normal(size=shape).astype(np.float32)


def run(layer: Layer, x: Array) -> Array:
    return Sequential(layer)(x)


def test_dense_is_a_product_and_a_bias() -> None:
    layer = dense(3, 2)
    layer.weights.update(weight=np.array([[1, 2], [3, 4], [5, 6]], np.float32), bias=np.array([10, 20], np.float32))
    assert run(layer, np.array([[1, 0, 2]], np.float32)).tolist() == [[1 + 10 + 10, 2 + 12 + 20]]


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 0), (3, 2)])
def test_a_convolution_is_a_sum_over_each_window(stride: int, padding: int) -> None:
    layer, x = conv2d(2, 4, 3, stride, padding), image(2, 7, 8, 2)
    layer.weights["bias"] += np.arange(4, dtype=np.float32)
    out = run(layer, x)
    height, width = (7 + 2 * padding - 3) // stride + 1, (8 + 2 * padding - 3) // stride + 1
    assert out.shape == (2, height, width, 4)
    for b, h, w, c in itertools.product(*map(range, out.shape)):
        expected = float(c)
        for i, j in itertools.product(range(3), range(3)):
            row, column = h * stride + i - padding, w * stride + j - padding
            if 0 <= row < 7 and 0 <= column < 8:
                expected += float((x[b, row, column] * layer.weights["weight"][i, j, :, c]).sum())
        assert out[b, h, w, c] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("function", "whole"), [(np.max, max), (np.mean, lambda values: sum(values) / 4)])
def test_pooling_looks_at_windows_side_by_side(function: Any, whole: Any) -> None:
    x = image(1, 5, 4, 3)
    out = run(pool2d(2, function), x)
    assert out.shape == (1, 2, 2, 3)  # the fifth row fills no window
    for h, w, c in itertools.product(range(2), range(2), range(3)):
        window = [float(x[0, 2 * h + i, 2 * w + j, c]) for i in range(2) for j in range(2)]
        assert out[0, h, w, c] == pytest.approx(whole(window))


def test_activations_go_by_element() -> None:
    x = np.array([[-1.0, 0.0, 2.0]], np.float32)
    assert run(activation(), x).tolist() == [[0, 0, 2]]
    assert run(activation(np.tanh), x)[0, 2] == pytest.approx((np.e**2 - np.e**-2) / (np.e**2 + np.e**-2))


def test_flatten_is_a_view_also_of_what_a_convolution_and_a_pooling_return() -> None:
    for layer in (conv2d(2, 4, 3), pool2d(2), pool2d(2, np.mean)):
        out = run(layer, image(3, 6, 6, 2))
        flat = run(flatten(), out)
        assert flat.shape == (3, out.size // 3)
        assert np.shares_memory(flat, out)


def test_a_dropout_drops_in_training_alone() -> None:
    model, x = Sequential(dropout(0.75)), np.ones((4, 1000), np.float32)
    assert model(x) is x
    model.training = True
    np.random.seed(1)
    out = model(x)
    assert set(out.ravel().tolist()) == {0.0, 4.0}
    assert 850 < np.count_nonzero(out) < 1150  # a quarter of 4000, 27 being the standard deviation


def test_layers_keep_the_dtype() -> None:
    layers = (conv2d(2, 4, 3), activation(), pool2d(2), pool2d(2, np.mean), flatten(), dense(16, 3), dropout())
    model = Sequential(*layers)
    assert model(image(1, 10, 10, 2)).dtype == np.float32


def test_inputs_that_do_not_fit_are_said() -> None:
    with pytest.raises(ValueError, match=r"a convolution over 3 channels was given an array of shape \(1, 8, 8, 1\)"):
        run(conv2d(3, 4, 3), image(1, 8, 8, 1))
    with pytest.raises(ValueError, match="mismatch"):
        run(dense(3, 4), image(1, 5))
