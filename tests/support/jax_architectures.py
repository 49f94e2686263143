"""The shared architectures as modules of Flax's nnx, as `profilerkit.testing.architectures` describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from profilerkit.testing import architectures as sizes

pytest.importorskip("jax")  # doctests are looked for here too, in environments that lack it
pytest.importorskip("flax")

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

#: The kind of each layer type that the models are made of.
KINDS = {
    "Attention": "attention",
    "AveragePool": "pooling",
    "BatchNorm": "batch normalisation",
    "Block": "block",
    "Conv": "convolution",
    "Dropout": "dropout",
    "Embed": "embedding",
    "EncoderBlock": "block",
    "Flatten": "flatten",
    "GRU": "gru",
    "Gelu": "activation",
    "GlobalPool": "pooling",
    "LSTM": "lstm",
    "LayerNorm": "layer normalisation",
    "Linear": "linear",
    "Relu": "activation",
    "Relu6": "activation",
    "Tanh": "activation",
}


def _activation(name: str, function: Callable[[Any], Any]) -> type[nnx.Module]:
    return type(name, (nnx.Module,), {"__call__": lambda self, x: function(x), "__module__": __name__})


Relu, Relu6, Tanh = _activation("Relu", nnx.relu), _activation("Relu6", nnx.relu6), _activation("Tanh", jnp.tanh)
Gelu = _activation("Gelu", lambda x: nnx.gelu(x, approximate=False))
Flatten = _activation("Flatten", lambda x: x.reshape(x.shape[0], -1))
AveragePool = _activation("AveragePool", lambda x: nnx.avg_pool(x, (2, 2), (2, 2)))
GlobalPool = _activation("GlobalPool", lambda x: jnp.mean(x, (1, 2), keepdims=True))


def normal(_: Any, shape: tuple[int, ...], dtype: Any = jnp.float32, *, seed: int = 1) -> jax.Array:
    """Return random weights by numpy: JAX compiles for seconds, for each shape that it draws anew."""
    return jnp.asarray(0.1 * np.random.default_rng(seed).standard_normal(shape), dtype)


linear, convolution = partial(nnx.Linear, kernel_init=normal), partial(nnx.Conv, kernel_init=normal)


class Mlp(nnx.Module):
    def __init__(self, dtype: Any = jnp.float32) -> None:
        rngs, (first, second) = nnx.Rngs(0), sizes.MLP_HIDDEN
        self.first = linear(sizes.MLP_FEATURES, first, param_dtype=dtype, rngs=rngs)
        self.first_activation = Relu()
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.second = linear(first, second, param_dtype=dtype, rngs=rngs)
        self.second_activation = Relu()
        self.classifier = linear(second, sizes.CLASSES, param_dtype=dtype, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.dropout(self.first_activation(self.first(x)))
        return self.classifier(self.second_activation(self.second(x)))


class Lenet5(nnx.Module):
    def __init__(self) -> None:
        rngs, (first, second), (wide, narrow) = nnx.Rngs(0), sizes.LENET_CHANNELS, sizes.LENET_HIDDEN
        self.first = convolution(1, first, (5, 5), rngs=rngs)
        self.first_activation, self.first_pooling = Tanh(), AveragePool()
        self.second = convolution(first, second, (5, 5), padding="VALID", rngs=rngs)
        self.second_activation, self.second_pooling, self.flatten = Tanh(), AveragePool(), Flatten()
        self.third, self.third_activation = linear(25 * second, wide, rngs=rngs), Tanh()
        self.fourth, self.fourth_activation = linear(wide, narrow, rngs=rngs), Tanh()
        self.classifier = linear(narrow, sizes.CLASSES, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.first_pooling(self.first_activation(self.first(x)))
        x = self.flatten(self.second_pooling(self.second_activation(self.second(x))))
        return self.classifier(self.fourth_activation(self.fourth(self.third_activation(self.third(x)))))


class DepthwiseCnn(nnx.Module):
    def __init__(self) -> None:
        rngs, (first, second) = nnx.Rngs(0), sizes.DEPTHWISE_CHANNELS
        self.stem, self.stem_activation = convolution(3, first, (3, 3), rngs=rngs), Relu6()
        self.depthwise = convolution(
            first, first, (3, 3), strides=2, feature_group_count=first, use_bias=False, rngs=rngs
        )
        self.norm, self.depthwise_activation = nnx.BatchNorm(first, rngs=rngs), Relu6()
        self.pointwise, self.pointwise_activation = convolution(first, second, (1, 1), rngs=rngs), Relu6()
        self.pooling, self.flatten = GlobalPool(), Flatten()
        self.classifier = linear(second, sizes.CLASSES, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.depthwise(self.stem_activation(self.stem(x)))
        x = self.pointwise(self.depthwise_activation(self.norm(x)))
        return self.classifier(self.flatten(self.pooling(self.pointwise_activation(x))))


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.convolution = convolution(
            sizes.RESIDUAL_CHANNELS, sizes.RESIDUAL_CHANNELS, (3, 3), use_bias=False, rngs=rngs
        )
        self.norm, self.activation = nnx.BatchNorm(sizes.RESIDUAL_CHANNELS, rngs=rngs), Relu()

    def __call__(self, x: Any) -> Any:
        return self.activation(self.norm(self.convolution(x)))


class ResidualCnn(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.stem = convolution(3, sizes.RESIDUAL_CHANNELS, (3, 3), use_bias=False, rngs=rngs)
        self.stem_norm = nnx.BatchNorm(sizes.RESIDUAL_CHANNELS, rngs=rngs)
        self.block, self.pooling, self.flatten = Block(rngs), GlobalPool(), Flatten()
        self.classifier = linear(sizes.RESIDUAL_CHANNELS, sizes.CLASSES, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.stem_norm(self.stem(x))
        x = x + self.block(x)
        x = x + self.block(x)
        return self.classifier(self.flatten(self.pooling(x)))


def _weight(*shape: int, seed: int = 1) -> nnx.Param[Any]:
    return nnx.Param(normal(None, shape, seed=seed))


class LSTM(nnx.Module):
    """Every step multiplies input and state apart, and adds them up."""

    def __init__(self) -> None:
        self.of_input = _weight(sizes.RECURRENT_FEATURES, 4 * sizes.RECURRENT_UNITS)
        self.of_state = _weight(sizes.RECURRENT_UNITS, 4 * sizes.RECURRENT_UNITS, seed=2)

    def __call__(self, x: Any) -> Any:
        of_input, of_state = self.of_input[...], self.of_state[...]

        def step(carry: Any, now: Any) -> Any:
            hidden, cell = carry
            gates = now @ of_input + hidden @ of_state
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            cell = nnx.sigmoid(f) * cell + nnx.sigmoid(i) * jnp.tanh(g)
            hidden = nnx.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), None

        zeros = jnp.zeros((x.shape[0], sizes.RECURRENT_UNITS))
        (hidden, _), _ = jax.lax.scan(step, (zeros, zeros), x.swapaxes(0, 1))
        return hidden


class GRU(nnx.Module):
    """The reset gate applies after the product with the state, so there are two biases."""

    def __init__(self) -> None:
        self.of_input = _weight(sizes.RECURRENT_FEATURES, 3 * sizes.RECURRENT_UNITS)
        self.of_state = _weight(sizes.RECURRENT_UNITS, 3 * sizes.RECURRENT_UNITS, seed=2)
        self.input_bias, self.state_bias = (
            _weight(3 * sizes.RECURRENT_UNITS, seed=3),
            _weight(3 * sizes.RECURRENT_UNITS, seed=4),
        )

    def __call__(self, x: Any) -> Any:
        weights = self.of_input[...], self.of_state[...], self.input_bias[...], self.state_bias[...]

        def step(hidden: Any, now: Any) -> Any:
            of_input, of_state, input_bias, state_bias = weights
            r, z, n = jnp.split(now @ of_input + input_bias, 3, axis=-1)
            hr, hz, hn = jnp.split(hidden @ of_state + state_bias, 3, axis=-1)
            r, z = nnx.sigmoid(r + hr), nnx.sigmoid(z + hz)
            n = jnp.tanh(n + r * hn)
            return (1 - z) * n + z * hidden, None

        hidden, _ = jax.lax.scan(step, jnp.zeros((x.shape[0], sizes.RECURRENT_UNITS)), x.swapaxes(0, 1))
        return hidden


class Recurrent(nnx.Module):
    def __init__(self, recurrent: nnx.Module) -> None:
        self.recurrent = recurrent
        self.classifier = linear(sizes.RECURRENT_UNITS, sizes.CLASSES, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        layer: Any = self.recurrent
        return self.classifier(layer(x))


class Attention(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.query = linear(sizes.ENCODER_WIDTH, sizes.ENCODER_WIDTH, rngs=rngs)
        self.key = linear(sizes.ENCODER_WIDTH, sizes.ENCODER_WIDTH, rngs=rngs)
        self.value = linear(sizes.ENCODER_WIDTH, sizes.ENCODER_WIDTH, rngs=rngs)
        self.output = linear(sizes.ENCODER_WIDTH, sizes.ENCODER_WIDTH, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        def heads(values: Any) -> Any:
            return values.reshape(*values.shape[:2], sizes.ENCODER_HEADS, -1).swapaxes(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = (query @ key.swapaxes(2, 3)) * (sizes.ENCODER_WIDTH // sizes.ENCODER_HEADS) ** -0.5
        attended = jax.nn.softmax(scores) @ value
        return self.output(attended.swapaxes(1, 2).reshape(x.shape))


class EncoderBlock(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm, self.attention = nnx.LayerNorm(sizes.ENCODER_WIDTH, rngs=rngs), Attention(rngs)
        self.second_norm = nnx.LayerNorm(sizes.ENCODER_WIDTH, rngs=rngs)
        self.first, self.activation = linear(sizes.ENCODER_WIDTH, sizes.ENCODER_HIDDEN, rngs=rngs), Gelu()
        self.second = linear(sizes.ENCODER_HIDDEN, sizes.ENCODER_WIDTH, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = x + self.attention(self.norm(x))
        return x + self.second(self.activation(self.first(self.second_norm(x))))


class TransformerEncoder(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.positions = _weight(sizes.ENCODER_STEPS, sizes.ENCODER_WIDTH)
        self.first_block, self.second_block = EncoderBlock(rngs), EncoderBlock(rngs)
        self.norm = nnx.LayerNorm(sizes.ENCODER_WIDTH, rngs=rngs)
        self.classifier = linear(sizes.ENCODER_WIDTH, sizes.CLASSES, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.norm(self.second_block(self.first_block(x + self.positions[...])))
        return self.classifier(jnp.mean(x, axis=1))


class EmbeddingClassifier(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.embedding = nnx.Embed(sizes.EMBEDDING_WORDS, sizes.EMBEDDING_WIDTH, embedding_init=normal, rngs=rngs)
        self.classifier = linear(sizes.EMBEDDING_WIDTH, sizes.CLASSES, rngs=rngs)

    def __call__(self, words: Any) -> Any:
        return self.classifier(jnp.mean(self.embedding(words), axis=1))


class DictInAndOut(nnx.Module):
    def __init__(self) -> None:
        rngs, (height, width, channels) = nnx.Rngs(0), sizes.DICT_IMAGE
        self.convolution = convolution(channels, sizes.DICT_CHANNELS, (3, 3), rngs=rngs)
        self.activation, self.flatten = Relu(), Flatten()
        self.image_features = linear(height * width * sizes.DICT_CHANNELS, sizes.DICT_WIDTH, rngs=rngs)
        self.meta_features = linear(sizes.DICT_META, sizes.DICT_WIDTH, rngs=rngs)
        self.scores = linear(sizes.DICT_WIDTH, sizes.CLASSES, rngs=rngs)
        self.value = linear(sizes.DICT_WIDTH, 1, rngs=rngs)

    def __call__(self, image: Any, meta: Any) -> dict[str, Any]:
        features = self.image_features(self.flatten(self.activation(self.convolution(image))))
        joined = features + self.meta_features(meta)
        return {"scores": self.scores(joined), "value": self.value(joined)}


BUILDERS: Mapping[str, Callable[[], Any]] = {
    "mlp": Mlp,
    "lenet5": Lenet5,
    "depthwise_cnn": DepthwiseCnn,
    "residual_cnn": ResidualCnn,
    "lstm": lambda: Recurrent(LSTM()),
    "gru": lambda: Recurrent(GRU()),
    "transformer_encoder": TransformerEncoder,
    "embedding_classifier": EmbeddingClassifier,
    "dict_in_and_out": DictInAndOut,
}
