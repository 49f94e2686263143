"""The shared architectures in Keras 3, as `profilerkit.testing.architectures` describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from profilerkit import Backend, ModelInputs
from profilerkit.testing import architectures as sizes
from profilerkit.testing.architectures import DataFormat

pytest.importorskip("tensorflow")  # doctests are looked for here too, in environments that lack it

import keras

layers = keras.layers

DATA_FORMAT: DataFormat = "channels_last"

#: A batch norm's mean and variance are weights in Keras, which are not trained: `count_params` has them.
STATISTICS_ARE_PARAMETERS = True

#: The kind of each layer type that the models are made of.
KINDS = {
    "Activation": "activation",
    "Attention": "attention",
    "AveragePooling2D": "pooling",
    "BatchNormalization": "batch normalisation",
    "Conv2D": "convolution",
    "ConvolutionBlock": "block",
    "Dense": "linear",
    "DepthwiseConv2D": "convolution",
    "Dropout": "dropout",
    "Embedding": "embedding",
    "EncoderBlock": "block",
    "Flatten": "flatten",
    "GRU": "gru",
    "GlobalAveragePooling2D": "pooling",
    "LSTM": "lstm",
    "LayerNormalization": "layer normalisation",
    "ReLU": "activation",
}


class Mlp(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        first, second = sizes.MLP_HIDDEN
        self.first = layers.Dense(first)
        self.first_activation = layers.ReLU()
        self.dropout = layers.Dropout(0.5)
        self.second = layers.Dense(second)
        self.second_activation = layers.ReLU()
        self.classifier = layers.Dense(sizes.CLASSES)

    def call(self, x: Any) -> Any:
        x = self.dropout(self.first_activation(self.first(x)))
        return self.classifier(self.second_activation(self.second(x)))


class LeNet5(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        first, second = sizes.LENET_CHANNELS
        wide, narrow = sizes.LENET_HIDDEN
        self.first = layers.Conv2D(first, 5, padding="same")
        self.first_activation = layers.Activation("tanh")
        self.first_pooling = layers.AveragePooling2D(2)
        self.second = layers.Conv2D(second, 5)
        self.second_activation = layers.Activation("tanh")
        self.second_pooling = layers.AveragePooling2D(2)
        self.flatten = layers.Flatten()
        self.third = layers.Dense(wide)
        self.third_activation = layers.Activation("tanh")
        self.fourth = layers.Dense(narrow)
        self.fourth_activation = layers.Activation("tanh")
        self.classifier = layers.Dense(sizes.CLASSES)

    def call(self, x: Any) -> Any:
        x = self.first_pooling(self.first_activation(self.first(x)))
        x = self.second_pooling(self.second_activation(self.second(x)))
        x = self.third_activation(self.third(self.flatten(x)))
        return self.classifier(self.fourth_activation(self.fourth(x)))


class DepthwiseCnn(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        first, second = sizes.DEPTHWISE_CHANNELS
        self.stem = layers.Conv2D(first, 3, padding="same")
        self.stem_activation = layers.ReLU(max_value=6.0)
        self.depthwise = layers.DepthwiseConv2D(3, strides=2, padding="same", use_bias=False)
        self.norm = layers.BatchNormalization()
        self.depthwise_activation = layers.ReLU(max_value=6.0)
        self.pointwise = layers.Conv2D(second, 1)
        self.pointwise_activation = layers.ReLU(max_value=6.0)
        self.pooling = layers.GlobalAveragePooling2D(keepdims=True)
        self.flatten = layers.Flatten()
        self.classifier = layers.Dense(sizes.CLASSES)

    def call(self, x: Any) -> Any:
        x = self.stem_activation(self.stem(x))
        x = self.depthwise_activation(self.norm(self.depthwise(x)))
        x = self.pointwise_activation(self.pointwise(x))
        return self.classifier(self.flatten(self.pooling(x)))


class ConvolutionBlock(layers.Layer):  # type: ignore[misc, name-defined]
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = layers.Conv2D(channels, 3, padding="same", use_bias=False)
        self.norm = layers.BatchNormalization()
        self.activation = layers.ReLU()

    def call(self, x: Any) -> Any:
        return self.activation(self.norm(self.convolution(x)))


class ResidualCnn(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.stem = layers.Conv2D(sizes.RESIDUAL_CHANNELS, 3, padding="same", use_bias=False)
        self.stem_norm = layers.BatchNormalization()
        self.block = ConvolutionBlock(sizes.RESIDUAL_CHANNELS)
        self.pooling = layers.GlobalAveragePooling2D(keepdims=True)
        self.flatten = layers.Flatten()
        self.classifier = layers.Dense(sizes.CLASSES)

    def call(self, x: Any) -> Any:
        x = self.stem_norm(self.stem(x))
        for _ in range(2):
            x = x + self.block(x)
        return self.classifier(self.flatten(self.pooling(x)))


class Lstm(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = layers.LSTM(sizes.RECURRENT_UNITS, use_bias=False, return_sequences=True)
        self.classifier = layers.Dense(sizes.CLASSES)

    def call(self, x: Any) -> Any:
        return self.classifier(self.recurrent(x)[:, -1])


class Gru(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = layers.GRU(sizes.RECURRENT_UNITS, reset_after=True, return_sequences=True)
        self.classifier = layers.Dense(sizes.CLASSES)

    def call(self, x: Any) -> Any:
        return self.classifier(self.recurrent(x)[:, -1])


class Attention(layers.Layer):  # type: ignore[misc, name-defined]
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.query = layers.Dense(width)
        self.key = layers.Dense(width)
        self.value = layers.Dense(width)
        self.projection = layers.Dense(width)  # `output` is a property of every Keras layer

    def call(self, x: Any) -> Any:
        query, key, value = (self.apart(layer(x)) for layer in (self.query, self.key, self.value))
        scores = keras.ops.matmul(query, keras.ops.swapaxes(key, -2, -1)) * self.scale
        attended = keras.ops.matmul(keras.ops.softmax(scores, axis=-1), value)
        return self.projection(keras.ops.reshape(keras.ops.swapaxes(attended, 1, 2), keras.ops.shape(x)))

    def apart(self, x: Any) -> Any:
        batch, steps, width = keras.ops.shape(x)
        return keras.ops.swapaxes(keras.ops.reshape(x, (batch, steps, self.heads, width // self.heads)), 1, 2)


class EncoderBlock(layers.Layer):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.norm = layers.LayerNormalization(epsilon=1e-5)
        self.attention = Attention(sizes.ENCODER_WIDTH, sizes.ENCODER_HEADS)
        self.second_norm = layers.LayerNormalization(epsilon=1e-5)
        self.first = layers.Dense(sizes.ENCODER_HIDDEN)
        self.activation = layers.Activation("gelu")
        self.second = layers.Dense(sizes.ENCODER_WIDTH)

    def call(self, x: Any) -> Any:
        x = x + self.attention(self.norm(x))
        return x + self.second(self.activation(self.first(self.second_norm(x))))


class TransformerEncoder(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.positions = self.add_weight(shape=(sizes.ENCODER_STEPS, sizes.ENCODER_WIDTH), name="positions")
        self.first_block = EncoderBlock()
        self.second_block = EncoderBlock()
        self.norm = layers.LayerNormalization(epsilon=1e-5)
        self.classifier = layers.Dense(sizes.CLASSES)

    def call(self, x: Any) -> Any:
        x = self.second_block(self.first_block(x + self.positions))
        return self.classifier(keras.ops.mean(self.norm(x), axis=1))


class EmbeddingClassifier(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = layers.Embedding(sizes.EMBEDDING_WORDS, sizes.EMBEDDING_WIDTH)
        self.classifier = layers.Dense(sizes.CLASSES)

    def call(self, words: Any) -> Any:
        return self.classifier(keras.ops.mean(self.embedding(words), axis=1))


class DictInAndOut(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.convolution = layers.Conv2D(sizes.DICT_CHANNELS, 3, padding="same")
        self.activation = layers.ReLU()
        self.flatten = layers.Flatten()
        self.image_features = layers.Dense(sizes.DICT_WIDTH)
        self.meta_features = layers.Dense(sizes.DICT_WIDTH)
        self.scores = layers.Dense(sizes.CLASSES)
        self.value = layers.Dense(1)

    def call(self, image: Any, meta: Any) -> Any:
        seen = self.flatten(self.activation(self.convolution(image)))
        both = self.image_features(seen) + self.meta_features(meta)
        return {"scores": self.scores(both), "value": self.value(both)}


#: What builds each architecture.
BUILDERS: Mapping[str, Callable[[], Any]] = {
    "mlp": Mlp,
    "lenet5": LeNet5,
    "depthwise_cnn": DepthwiseCnn,
    "residual_cnn": ResidualCnn,
    "lstm": Lstm,
    "gru": Gru,
    "transformer_encoder": TransformerEncoder,
    "embedding_classifier": EmbeddingClassifier,
    "dict_in_and_out": DictInAndOut,
}


def build(name: str) -> Any:
    """Return the model of an architecture, with its weights: Keras makes them in the first call."""
    model = BUILDERS[name]()
    specs = ModelInputs.of(sizes.ARCHITECTURES[name].input_shape(DATA_FORMAT))
    inputs = specs.map(lambda spec: np.zeros((1, *spec.shape), spec.dtype))
    model(*inputs.args, **inputs.kwargs)
    return model


def backend() -> Backend:
    """Return the backend that is to find the numbers."""
    from profilerkit_tensorflow import TFBackend

    found: Backend = TFBackend()
    return found


def count_weights(model: Any) -> tuple[int, int]:
    """Return the elements of the trainable weights and of the others, by Keras alone: it counts both as parameters."""
    trainable = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    return trainable, model.count_params() - trainable
