"""Every Keras layer that has weights, in one forward pass, against its closed form."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from keras import config, layers
from small import make_model, ones, trace_complete
from weighted_layers import CASES

BATCH = 2


@pytest.mark.parametrize("name", CASES)
def test_a_layer_counts_what_its_closed_form_says(name: str) -> None:
    expected = CASES[name]
    model = make_model(expected.build(), *expected.shapes, dtype=expected.dtype, spread=expected.spread)
    inputs = [ones(BATCH, *shape, dtype=expected.dtype) for shape in expected.shapes]
    found = trace_complete(model, *inputs)
    assert found.macs == BATCH * expected.macs + expected.once
    assert found.flops >= 2 * found.macs
    assert (found.total_params, found.trainable_params) == (expected.params, expected.params - expected.frozen)
    assert found.total_params == sum(math.prod(variable.shape) for variable in model.weights)


# Which layers there are -------------------------------------------------------------------------------------------

#: Layers of other frameworks, and those that get their weights in a file: no arguments say what they cost.
FOREIGN = {"FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper"}
#: What layers are given that need arguments, by the arguments' names.
GIVEN: dict[str, Any] = {
    **dict.fromkeys(("output_size", "pool_size", "height", "width", "n", "size", "num_bins", "max_number"), 2),
    **dict.fromkeys(("rate", "stddev", "height_factor", "width_factor", "x_factor", "y_factor"), 0.5),
    **dict.fromkeys(("shape", "target_shape"), (4,)),
    **dict.fromkeys(("factor", "axes"), 1),
    "activation": "relu",
    "bin_boundaries": [0.0, 1.0],
    "dims": (1,),
    "function": abs,
    "layers": [],
    "num_tokens": 4,
    "scale": 2.0,
}
#: Arguments that need not be given, but without which a layer cannot be made.
REQUIRED_ALL_THE_SAME = {
    "CategoryEncoding": ("num_tokens",),
    "Discretization": ("bin_boundaries",),
    "InputLayer": ("shape",),
}
BUILD_SHAPES: tuple[Any, ...] = ((2, 4), (2, 4, 4), (2, 8, 8, 3), (2, 4, 4, 4, 3), [(2, 4), (2, 4)])


@pytest.mark.skipif(not hasattr(config, "disable_flash_attention"), reason="Keras 3.8")
def test_no_layer_with_weights_is_left_out() -> None:
    covered = {type(layer) for expected in CASES.values() for layer in _with_inner_ones(expected.build())}
    uncovered = {
        name: cls
        for name, cls in vars(layers).items()
        if inspect.isclass(cls) and issubclass(cls, layers.Layer) and cls not in covered and name not in FOREIGN
    }
    assert [name for name, cls in uncovered.items() if not _has_no_weights(name, cls)] == ["Wrapper"]  # an abstract one


def _with_inner_ones(layer: Any) -> Iterator[Any]:
    yield layer
    for inner in layer._layers:
        yield from _with_inner_ones(inner)


def _has_no_weights(name: str, cls: Callable[..., Any]) -> bool:
    """Say whether a layer can be made and built and has no weights then; what cannot be made must be a case above."""
    parameters = inspect.signature(cls).parameters.values()
    needed = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    arguments = {item: GIVEN.get(item) for item in (*needed, *REQUIRED_ALL_THE_SAME.get(name, ()))}
    if None in arguments.values():
        return False
    for shape in BUILD_SHAPES:
        layer = cls(**arguments)
        try:
            layer.build(shape)
        except (ValueError, TypeError, IndexError):
            continue
        return not layer.weights
    return False


# Everything, not products alone -----------------------------------------------------------------------------------

#: FLOPs of a batch of two, operation by operation, as the convention counts them.
FLOPS: dict[str, tuple[Callable[[], Any], tuple[int, ...], int]] = {
    "dense": (lambda: layers.Dense(5), (7,), 2 * (2 * 35 + 5)),
    "dense without bias": (lambda: layers.Dense(5, use_bias=False), (7,), 2 * 2 * 35),
    "dense, relu": (lambda: layers.Dense(5, "relu"), (7,), 2 * (2 * 35 + 5 + 5)),
    "dense, silu": (lambda: layers.Dense(5, "silu"), (7,), 2 * (2 * 35 + 5 + 2 * 5)),
    "dense, softmax": (lambda: layers.Dense(5, "softmax"), (7,), 2 * (2 * 35 + 5 + 5 * 5)),
    "convolution": (lambda: layers.Conv2D(6, 3), (6, 5, 4), 2 * 4 * 3 * 6 * (2 * 36 + 1)),
    "convolution, sigmoid": (lambda: layers.Conv1D(6, 3, activation="sigmoid"), (6, 4), 2 * 4 * 6 * (2 * 12 + 1 + 1)),
    "dilated convolution": (lambda: layers.Conv1D(6, 3, dilation_rate=2), (9, 4), 2 * 5 * 6 * (2 * 12 + 1)),
    "depthwise": (lambda: layers.DepthwiseConv2D(3), (6, 5, 4), 2 * 4 * 3 * 4 * (2 * 9 + 1)),
    # the depthwise part has no bias
    "separable": (lambda: layers.SeparableConv2D(6, 3), (6, 5, 4), 2 * 12 * (2 * 4 * 9 + 2 * 4 * 6 + 6)),
    "transposed": (lambda: layers.Conv1DTranspose(6, 2, 2), (5, 4), 2 * (2 * 5 * 4 * 2 * 6 + 10 * 6)),
    "batch norm": (layers.BatchNormalization, (3, 4), 2 * 2 * 12),
    "layer norm": (layers.LayerNormalization, (3, 4), 2 * (5 + 2) * 12),
    "layer norm without offset": (lambda: layers.LayerNormalization(center=False), (3, 4), 2 * (5 + 1) * 12),
    "group norm": (lambda: layers.GroupNormalization(2), (3, 4), 2 * (5 + 2) * 12),
    "prelu": (layers.PReLU, (3, 4), 2 * 2 * 12),
    # a step of 3 features and 4 units: products, one bias for each gate, and 13, 11 or 2 for the rest of each unit
    "lstm": (lambda: layers.LSTM(4), (5, 3), 2 * 5 * (2 * 4 * 4 * 7 + 4 * 4 + 13 * 4)),
    "gru": (lambda: layers.GRU(4), (5, 3), 2 * 5 * (2 * 3 * 4 * 7 + 2 * 3 * 4 + 11 * 4)),
    "rnn": (lambda: layers.SimpleRNN(4), (5, 3), 2 * 5 * (2 * 4 * 7 + 4 + 2 * 4)),
}
if hasattr(layers, "RMSNormalization"):  # Keras 3.9
    FLOPS["rms norm"] = layers.RMSNormalization, (3, 4), 2 * 4 * 12


@pytest.mark.parametrize("name", FLOPS)
def test_a_layer_counts_every_operation(name: str) -> None:
    build, shape, flops = FLOPS[name]
    assert trace_complete(make_model(build(), shape), ones(2, *shape)).flops == flops


@pytest.mark.skipif(not hasattr(config, "disable_flash_attention"), reason="Keras 3.8")
def test_attention_counts_every_operation() -> None:
    """Two heads of four, five queries, seven values: projections, scores, scaled, softmax, sums."""
    model = make_model(layers.MultiHeadAttention(2, 4), (5, 6), (7, 6), spread=True)
    projections = 2 * (5 + 7 + 7) * 6 * 8 + (5 + 7 + 7) * 8
    attending = 2 * (2 * 5 * 7 * 4) + (1 + 5) * (2 * 5 * 7) + 2 * (2 * 5 * 7 * 4)
    assert trace_complete(model, ones(1, 5, 6), ones(1, 7, 6)).flops == projections + attending + 2 * 5 * 8 * 6 + 5 * 6
