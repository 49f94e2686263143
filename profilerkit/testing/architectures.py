"""Networks that every backend builds in its own framework, and the numbers it must then find.

Each `Architecture` is described here once: its docstring in words (every layer, size, bias, activation, and what is
shared), its layers with their closed forms as data. A backend's author builds each in their own framework, traces it,
and compares `layer_numbers` of the trace with `Architecture.layer_numbers`: equal to these, the numbers of any two
backends are equal to each other.

Conventions of all descriptions: the layers are children of the model in the order they are listed; activations,
pooling, flattening and dropout are layers of their own; operations "in" a model or block are arithmetic of that layer
itself. Sizes of images are height, width, channels; convolutions are padded to keep ``ceil(size / stride)`` unless
they are called unpadded. Models are counted in inference mode. All weights are trainable float32.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..costs import Cost
from .expected import NOTHING, Architecture, DataFormat, ExpectedLayer, InputSpec, LayerNumbers, layer_numbers

__all__ = ["ARCHITECTURES", "Architecture", "DataFormat", "ExpectedLayer", "InputSpec", "LayerNumbers", "layer_numbers"]

# Sizes, for whoever builds these. They differ from each other wherever a mistake could hide behind equal ones.
CLASSES = 10
MLP_FEATURES, MLP_HIDDEN = 20, (32, 16)
LENET_IMAGE, LENET_CHANNELS, LENET_HIDDEN = (28, 28, 1), (6, 16), (120, 84)
DEPTHWISE_IMAGE, DEPTHWISE_CHANNELS = (16, 12, 3), (8, 24)
RESIDUAL_IMAGE, RESIDUAL_CHANNELS = (12, 10, 3), 8
RECURRENT_STEPS, RECURRENT_FEATURES, RECURRENT_UNITS = 7, 5, 12
ENCODER_STEPS, ENCODER_WIDTH, ENCODER_HEADS, ENCODER_HIDDEN = 6, 16, 4, 40
EMBEDDING_STEPS, EMBEDDING_WORDS, EMBEDDING_WIDTH = 9, 50, 16
DICT_IMAGE, DICT_META, DICT_CHANNELS, DICT_WIDTH = (8, 6, 3), 5, 4, 14

# Layers -------------------------------------------------------------------------------------------------------------


def _linear(name: str, inputs: int, outputs: int, positions: int = 1) -> ExpectedLayer:
    """``x @ weight + bias`` at each position: inputs * outputs multiply-accumulates, and the bias."""
    cost = Cost.of_macs(positions * inputs * outputs, positions * outputs)
    return ExpectedLayer("linear", name, inputs * outputs + outputs, cost)


def _convolution(
    name: str, size: tuple[int, int], inputs: int, outputs: int, kernel: int, *, groups: int = 1, bias: bool = True
) -> ExpectedLayer:
    """Each of the outputs of ``size`` is a filter of ``kernel ** 2 * inputs / groups`` elements, and the bias."""
    one_filter = kernel * kernel * inputs // groups
    elements = size[0] * size[1] * outputs
    cost = Cost.of_macs(elements * one_filter, elements if bias else 0)
    return ExpectedLayer("convolution", name, outputs * one_filter + (outputs if bias else 0), cost)


def _batch_norm(name: str, elements: int, channels: int) -> ExpectedLayer:
    """A scale and a shift by known statistics: two operations for each element."""
    cost = Cost(0, 2 * elements)
    return ExpectedLayer("batch normalisation", name, 2 * channels, cost, statistics=2 * channels)


def _layer_norm(name: str, positions: int, width: int) -> ExpectedLayer:
    """Five operations for each element, one for the weight and one for the bias."""
    return ExpectedLayer("layer normalisation", name, 2 * width, Cost(0, 7 * positions * width))


def _activation(name: str, elements: int, operations: int = 1) -> ExpectedLayer:
    """ReLU and tanh are one operation for each element, ReLU6 (two comparisons) two, GELU by erf five."""
    return ExpectedLayer("activation", name, 0, Cost(0, operations * elements))


def _pooling(name: str, window: int, outputs: int) -> ExpectedLayer:
    """One operation for each element of each output's window."""
    return ExpectedLayer("pooling", name, 0, Cost(0, window * outputs))


def _flatten() -> ExpectedLayer:
    return ExpectedLayer("flatten", "flatten")


def _model(*layers: ExpectedLayer, params: int = 0, cost: Cost = NOTHING) -> ExpectedLayer:
    return ExpectedLayer("model", "", params, cost, layers)


def _one_output(build: Callable[[], ExpectedLayer], spec: InputSpec, largest_activation: int) -> Architecture:
    return _architecture(build, {0: spec}, {0: (CLASSES,)}, largest_activation)


def _architecture(
    build: Callable[[], ExpectedLayer],
    inputs: Mapping[int | str, InputSpec],
    outputs: Mapping[int | str, tuple[int, ...]],
    largest_activation: int,
) -> Architecture:
    description = inspect.getdoc(build) or ""
    return Architecture(build.__name__, description, inputs, outputs, build(), largest_activation)


def _elements(image: tuple[int, int, int], channels: int) -> int:
    """Return the elements of a feature map as large as an image."""
    return image[0] * image[1] * channels


# Networks: the docstring of each is its description -----------------------------------------------------------------


def mlp() -> ExpectedLayer:
    """Linear 20 -> 32, ReLU, dropout, linear 32 -> 16, ReLU, linear 16 -> 10; all with bias.

    The dropout's rate is 0.5; in inference mode it does nothing.
    """
    first, second = MLP_HIDDEN
    return _model(
        _linear("first", MLP_FEATURES, first),
        _activation("first_activation", first),
        ExpectedLayer("dropout", "dropout"),
        _linear("second", first, second),
        _activation("second_activation", second),
        _linear("classifier", second, CLASSES),
    )


def lenet5() -> ExpectedLayer:
    """LeNet-5 on 28 x 28 x 1, as it is taught today: all connections, average pooling, tanh, linear output.

    Convolution 5 x 5 (1 -> 6), tanh, average pooling 2 x 2; unpadded convolution 5 x 5 (6 -> 16), tanh, average pooling
    2 x 2; flatten; linear 400 -> 120, tanh; linear 120 -> 84, tanh; linear 84 -> 10. All with bias; strides are 1, of
    the pooling 2.
    """
    (height, width, channels), (first, second), (wide, narrow) = LENET_IMAGE, LENET_CHANNELS, LENET_HIDDEN
    inner = (height // 2 - 4, width // 2 - 4)
    pooled = inner[0] // 2 * (inner[1] // 2) * second
    return _model(
        _convolution("first", (height, width), channels, first, 5),
        _activation("first_activation", height * width * first),
        _pooling("first_pooling", 4, height // 2 * (width // 2) * first),
        _convolution("second", inner, first, second, 5),
        _activation("second_activation", inner[0] * inner[1] * second),
        _pooling("second_pooling", 4, pooled),
        _flatten(),
        _linear("third", pooled, wide),
        _activation("third_activation", wide),
        _linear("fourth", wide, narrow),
        _activation("fourth_activation", narrow),
        _linear("classifier", narrow, CLASSES),
    )


def depthwise_cnn() -> ExpectedLayer:
    """A separable convolution on 16 x 12 x 3, as MobileNets are made of.

    Convolution 3 x 3 (3 -> 8, bias), ReLU6; depthwise convolution 3 x 3, stride 2 (8 channels, one filter each, no
    bias), batch norm, ReLU6; pointwise convolution 1 x 1 (8 -> 24, bias), ReLU6; global average pooling to 1 x 1 x 24;
    flatten; linear 24 -> 10 with bias.
    """
    (height, width, channels), (first, second) = DEPTHWISE_IMAGE, DEPTHWISE_CHANNELS
    half = (height // 2, width // 2)
    area = half[0] * half[1]
    return _model(
        _convolution("stem", (height, width), channels, first, 3),
        _activation("stem_activation", height * width * first, 2),
        _convolution("depthwise", half, first, first, 3, groups=first, bias=False),
        _batch_norm("norm", area * first, first),
        _activation("depthwise_activation", area * first, 2),
        _convolution("pointwise", half, first, second, 1),
        _activation("pointwise_activation", area * second, 2),
        _pooling("pooling", area, second),
        _flatten(),
        _linear("classifier", second, CLASSES),
    )


def residual_cnn() -> ExpectedLayer:
    """A residual network on 12 x 10 x 3 whose two blocks are one and the same.

    Convolution 3 x 3 (3 -> 8, no bias), batch norm; then twice, in the model, ``x = x + block(x)`` with the same block:
    convolution 3 x 3 (8 -> 8, no bias), batch norm, ReLU; then global average pooling to 1 x 1 x 8; flatten; linear
    8 -> 10 with bias. The block is one layer of the model that is called twice: its parameters are there once, its work
    twice.
    """
    (height, width, channels), filters = RESIDUAL_IMAGE, RESIDUAL_CHANNELS
    elements = height * width * filters
    block = ExpectedLayer(
        "block",
        "block",
        inside=(
            _convolution("convolution", (height, width), filters, filters, 3, bias=False),
            _batch_norm("norm", elements, filters),
            _activation("activation", elements),
        ),
    )
    return _model(
        _convolution("stem", (height, width), channels, filters, 3, bias=False),
        _batch_norm("stem_norm", elements, filters),
        block.share(2),
        _pooling("pooling", height * width, filters),
        _flatten(),
        _linear("classifier", filters, CLASSES),
        cost=Cost(0, 2 * elements),
    )


def lstm() -> ExpectedLayer:
    """An LSTM of 12 units without biases over 7 steps of 5 features; linear 12 -> 10 with bias on its last step.

    One layer, one direction, sigmoid gates, tanh: four gates of ``features + units`` multiply-accumulates for each unit
    and step; 13 operations more for each unit and step. The LSTM is a single layer whatever a framework makes it of.
    """
    size, units = RECURRENT_FEATURES, RECURRENT_UNITS
    weights = 4 * units * (size + units)
    cost = Cost.of_macs(RECURRENT_STEPS * weights, RECURRENT_STEPS * 13 * units)
    return _model(ExpectedLayer("lstm", "recurrent", weights, cost), _linear("classifier", units, CLASSES))


def gru() -> ExpectedLayer:
    """A GRU of 12 units over 7 steps of 5 features; linear 12 -> 10 with bias on its last step.

    One layer, one direction, sigmoid gates, tanh, the reset gate applied after the product with the state, and so two
    biases for each of the three gates: three gates of ``features + units`` multiply-accumulates and two biases for each
    unit and step; 11 operations more for each unit and step. The GRU is a single layer.
    """
    size, units = RECURRENT_FEATURES, RECURRENT_UNITS
    weights, biases = 3 * units * (size + units), 2 * 3 * units
    cost = Cost.of_macs(RECURRENT_STEPS * weights, RECURRENT_STEPS * (biases + 11 * units))
    return _model(ExpectedLayer("gru", "recurrent", weights + biases, cost), _linear("classifier", units, CLASSES))


def transformer_encoder() -> ExpectedLayer:
    """Two encoder blocks, normalised before, over 6 positions of 16 features with learned positions.

    In the model ``x = x + positions``, a 6 x 16 parameter of the model itself; two blocks, each with weights of its
    own; layer norm (weight, bias); in the model the mean over the positions (one operation for each element); linear
    16 -> 10 with bias.

    A block: layer norm, attention, layer norm, linear 16 -> 40, GELU (by erf), linear 40 -> 16, with two sums in the
    block: ``x = x + attention(norm(x))`` and ``x = x + second(gelu(first(second_norm(x))))``.

    Attention, 4 heads of 4 features: linear 16 -> 16 for query, key, value and output, all with bias; in the attention
    layer ``scores = (query @ key.T) * scale``, softmax over the keys, ``weights @ value``. No mask, no dropout.
    """
    one = _encoder_block("first_block")
    return _model(
        one,
        replace(one, name="second_block"),
        _layer_norm("norm", ENCODER_STEPS, ENCODER_WIDTH),
        _linear("classifier", ENCODER_WIDTH, CLASSES),
        params=ENCODER_STEPS * ENCODER_WIDTH,
        cost=Cost(0, 2 * ENCODER_STEPS * ENCODER_WIDTH),
    )


def _encoder_block(name: str) -> ExpectedLayer:
    steps, width, hidden = ENCODER_STEPS, ENCODER_WIDTH, ENCODER_HIDDEN
    projections = tuple(_linear(which, width, width, steps) for which in ("query", "key", "value", "output"))
    products = 2 * steps * steps * width
    scores = ENCODER_HEADS * steps * steps
    attention = ExpectedLayer("attention", "attention", 0, Cost.of_macs(products, (1 + 5) * scores), projections)
    layers = (
        _layer_norm("norm", steps, width),
        attention,
        _layer_norm("second_norm", steps, width),
        _linear("first", width, hidden, steps),
        _activation("activation", steps * hidden, 5),
        _linear("second", hidden, width, steps),
    )
    return ExpectedLayer("block", name, 0, Cost(0, 2 * steps * width), layers)


def embedding_classifier() -> ExpectedLayer:
    """Embedding of 50 words in 16 dimensions, the mean over 9 int64 words in the model, linear 16 -> 10 with bias.

    Looking words up is no arithmetic; the mean is one operation for each element.
    """
    steps, width = EMBEDDING_STEPS, EMBEDDING_WIDTH
    return _model(
        ExpectedLayer("embedding", "embedding", EMBEDDING_WORDS * width),
        _linear("classifier", width, CLASSES),
        cost=Cost(0, steps * width),
    )


def dict_in_and_out() -> ExpectedLayer:
    """A model called as ``model(image=..., meta=...)`` that returns ``{"scores": ..., "value": ...}``.

    The image, 8 x 6 x 3: convolution 3 x 3 (3 -> 4), ReLU, flatten, linear 192 -> 14. The meta data, 5 features: linear
    5 -> 14. In the model the sum of both; "scores" is linear 14 -> 10 of it, "value" linear 14 -> 1. All with bias.
    """
    (height, width, channels), filters = DICT_IMAGE, DICT_CHANNELS
    elements = height * width * filters
    return _model(
        _convolution("convolution", (height, width), channels, filters, 3),
        _activation("activation", elements),
        _flatten(),
        _linear("image_features", elements, DICT_WIDTH),
        _linear("meta_features", DICT_META, DICT_WIDTH),
        _linear("scores", DICT_WIDTH, CLASSES),
        _linear("value", DICT_WIDTH, 1),
        cost=Cost(0, DICT_WIDTH),
    )


_SEQUENCE = InputSpec.of(RECURRENT_STEPS, RECURRENT_FEATURES)

#: Every architecture by its name.
ARCHITECTURES: Mapping[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        _one_output(mlp, InputSpec.of(MLP_FEATURES), max(MLP_HIDDEN)),
        _one_output(lenet5, InputSpec.image(*LENET_IMAGE), _elements(LENET_IMAGE, LENET_CHANNELS[0])),
        _one_output(
            depthwise_cnn, InputSpec.image(*DEPTHWISE_IMAGE), _elements(DEPTHWISE_IMAGE, DEPTHWISE_CHANNELS[0])
        ),
        _one_output(residual_cnn, InputSpec.image(*RESIDUAL_IMAGE), _elements(RESIDUAL_IMAGE, RESIDUAL_CHANNELS)),
        _one_output(lstm, _SEQUENCE, RECURRENT_UNITS),
        _one_output(gru, _SEQUENCE, RECURRENT_UNITS),
        _one_output(transformer_encoder, InputSpec.of(ENCODER_STEPS, ENCODER_WIDTH), ENCODER_STEPS * ENCODER_HIDDEN),
        _one_output(
            embedding_classifier, InputSpec.of(EMBEDDING_STEPS, dtype="int64"), EMBEDDING_STEPS * EMBEDDING_WIDTH
        ),
        _architecture(
            dict_in_and_out,
            {"image": InputSpec.image(*DICT_IMAGE), "meta": InputSpec.of(DICT_META)},
            {"scores": (CLASSES,), "value": (1,)},
            _elements(DICT_IMAGE, DICT_CHANNELS),
        ),
    )
}
