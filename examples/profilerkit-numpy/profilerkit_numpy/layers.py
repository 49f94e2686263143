"""Networks in numpy: the forward pass of each layer, and beside it what that costs. Images are channels-last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from profilerkit.costs import Cost, Shape, constants

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(eq=False)
class Layer:
    """``forward(x, **weights)``; ``cost`` goes by the shapes of input and output, and is None where it is not known."""

    type: str
    forward: Callable[..., Any]
    cost: Callable[[Shape, Shape], Cost] | None = None
    weights: dict[str, Array] = field(default_factory=dict)
    in_training: Callable[..., Any] | None = None
    trainable: bool = True


class Sequential:
    """Layers that are called one after the other; ``training`` is set by whoever trains them."""

    def __init__(self, *layers: Layer) -> None:
        self.layers, self.training = layers, False

    def __call__(self, x: Array) -> Array:
        for layer in self.layers:
            run = layer.in_training if self.training and layer.in_training else layer.forward
            x = run(x, **layer.weights)
        return x


def dense(inputs: int, outputs: int) -> Layer:
    """Return ``x @ weight + bias``."""
    return Layer(
        "Dense",
        lambda x, weight, bias: np.add(out := x @ weight, bias, out),
        lambda x, out: Cost.of_macs(out.numel * inputs, out.numel * constants.ADD),
        _weights(inputs, outputs),
    )


def conv2d(inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0) -> Layer:
    """Return a convolution with bias, over images with ``padding`` zeros on each side."""

    def forward(x: Array, weight: Array, bias: Array) -> Any:
        if x.shape[3:] != (inputs,):  # einsum would repeat a single channel
            raise ValueError(f"a convolution over {inputs} channels was given an array of shape {x.shape}")
        windows = _windows(np.pad(x, [(0, 0), *[(padding, padding)] * 2, (0, 0)]) if padding else x, size, stride)
        return np.add(out := np.einsum("bhwcij,ijco->bhwo", windows, weight, order="C"), bias, out)

    def cost(x: Shape, out: Shape) -> Cost:
        return Cost.of_macs(out.numel * size**2 * inputs, out.numel * constants.ADD)

    return Layer("Conv2D", forward, cost, _weights(size, size, inputs, outputs))


def pool2d(size: int, function: Callable[..., Any] = np.max) -> Layer:
    """Return the largest value of each window, or with ``np.mean`` the mean; the windows lie side by side."""
    return Layer(
        "Pool2D", lambda x: function(_windows(x, size, size), (-2, -1)), lambda x, out: Cost(0, size**2 * out.numel)
    )


def activation(function: Callable[..., Any] = lambda x: np.maximum(x, 0)) -> Layer:
    """Return ReLU, or another function of one operation for each element, such as ``np.tanh``."""
    return Layer("Activation", function, lambda x, out: Cost(0, out.numel))


def flatten() -> Layer:
    """Return all elements of a sample in one dimension."""
    return Layer("Flatten", lambda x: x.reshape(len(x), -1), lambda x, out: Cost(0, 0))


def dropout(rate: float = 0.5) -> Layer:
    """Return what drops elements at random in training, and does nothing otherwise."""

    def in_training(x: Array) -> Any:
        return x * (np.random.random(x.shape) >= rate) / (1 - rate)

    return Layer("Dropout", lambda x: x, lambda x, out: Cost(0, 0), in_training=in_training)


def _weights(*shape: int) -> dict[str, Array]:
    weight = np.random.default_rng().normal(0, np.prod(shape[:-1]) ** -0.5, shape)
    return {"weight": weight.astype(np.float32), "bias": np.zeros(shape[-1], np.float32)}


def _windows(x: Array, size: int, stride: int) -> Array:
    return sliding_window_view(x, (size, size), (1, 2))[:, ::stride, ::stride]
