"""A profiler notices every change of a model: profile, change, profile again, and it says what a new profiler says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from slow_ones import slow_ones
from structure_changes import StructureChanges

from profilerkit_tensorflow import TFProfiler

layers = keras.layers
CHANGES_OF = StructureChanges(
    TFProfiler,
    lambda text: [{"same": "valid", "valid": "same"}[text]] if text in ("same", "valid") else [],
    raised=(Exception,),
    refused=(AttributeError, ValueError),
)
profiler_of, counts = CHANGES_OF.make_profiler, CHANGES_OF.counts


LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Conv2D": (partial(layers.Conv2D, 4, 3, padding="same"), (1, 8, 8, 3)),
    "DepthwiseConv2D": (partial(layers.DepthwiseConv2D, 3, padding="same"), (1, 8, 8, 3)),
    "Conv2DTranspose": (partial(layers.Conv2DTranspose, 4, 3, padding="same"), (1, 8, 8, 3)),
    "MaxPooling2D": (partial(layers.MaxPooling2D, 2), (1, 8, 8, 3)),
    "AveragePooling2D": (partial(layers.AveragePooling2D, 2), (1, 8, 8, 3)),
    "UpSampling2D": (partial(layers.UpSampling2D, 2), (1, 8, 8, 3)),
    "ZeroPadding2D": (partial(layers.ZeroPadding2D, 1), (1, 8, 8, 3)),
    "Dense": (partial(layers.Dense, 4), (2, 8)),
    "BatchNormalization": (layers.BatchNormalization, (2, 8)),
    "LayerNormalization": (layers.LayerNormalization, (2, 8)),
    "Dropout": (partial(layers.Dropout, 0.5), (2, 8)),
    "Softmax": (layers.Softmax, (2, 8)),
}


@cache
def attributes_that_count(name: str) -> int:
    make, shape = LAYERS[name]
    inputs = np.zeros(shape, "float32")

    def built() -> Any:
        layer = make()
        layer(inputs)
        return layer

    return CHANGES_OF.attributes_that_count(built, inputs, but=("built", "name"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", slow_ones(LAYERS, ["Conv2D", "DepthwiseConv2D", "BatchNormalization", "Conv2DTranspose"])
)
def test_every_plain_attribute_of_every_layer(name: str) -> None:
    attributes_that_count(name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", slow_ones(["Conv2D", "MaxPooling2D", "UpSampling2D"], ["Conv2D"]))
def test_the_attributes_above_change_counts(name: str) -> None:
    assert attributes_that_count(name)


class Net(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.body = layers.Dense(8)
        self.act: Any = keras.activations.relu
        self.repeats = [1]
        self.again = 0

    def call(self, x: Any) -> Any:
        for _ in range(sum(self.repeats) + self.again):
            x = self.act(self.body(x))
        return x


class Plain(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.zeros((8, 8)))
        self.repeats = [1]
        self.again = 0
        self.more = np.zeros((), int)
        self.act: Any = tf.nn.relu
        self.part: Any = partial(tf.pow, y=2.0)

    def __call__(self, x: Any) -> Any:
        for _ in range(sum(self.repeats) + self.again + int(self.more)):
            x = self.act(tf.matmul(x, self.weight))
        return self.part(x)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a layer or function replaced": lambda net: setattr(
        net, "act", keras.activations.softmax if isinstance(net, Net) else tf.nn.softmax
    ),
    "a list changed in place": lambda net: net.repeats.append(2),
    "an attribute": lambda net: setattr(net, "again", 3),
}


@pytest.mark.parametrize("make", [Net, Plain])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_structure(change: str, make: Callable[[], Any]) -> None:
    net, inputs = make(), tf.zeros((4, 8))
    net(inputs)
    CHANGES_OF.assert_noticed(net, inputs, CHANGES[change])


def test_values_in_an_array_or_a_partial_function() -> None:
    CHANGES_OF.assert_noticed(Plain(), tf.zeros((4, 8)), lambda net: net.more.fill(2))
    net = Plain()
    net.part = partial(tf.tile, multiples=[1, 1])
    CHANGES_OF.assert_noticed(net, tf.zeros((4, 8)), lambda net: net.part.keywords.update(multiples=[9, 1]))


def _of_class(base: type, inputs: Any) -> Any:
    """Return an instance of a new class, which repeats an operation as often as its attribute says."""

    def call(self: Any, x: Any) -> Any:
        for _ in range(self.times):
            x = tf.nn.softmax(x)
        return x

    net = type("Repeating", (base,), {"call" if base is keras.Model else "__call__": call, "times": 1})()
    net(inputs)
    return net


@pytest.mark.parametrize("base", [keras.Model, tf.Module])
def test_an_attribute_of_a_class(base: type) -> None:
    inputs = tf.zeros((4, 8))
    CHANGES_OF.assert_noticed(_of_class(base, inputs), inputs, lambda net: setattr(type(net), "times", 2))


TIMES = 1


class ReadsGlobal(tf.Module):  # type: ignore[misc]
    def __call__(self, x: Any) -> Any:
        return _repeat(x)


def _repeat(x: Any) -> Any:
    for _ in range(TIMES):
        x = tf.nn.softmax(x)
    return x


def test_a_global_variable_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    CHANGES_OF.assert_noticed(
        ReadsGlobal(), tf.zeros((4, 8)), lambda _: monkeypatch.setattr(sys.modules[__name__], "TIMES", 2)
    )


def test_a_call_patched_on_a_layer() -> None:
    net = Net()
    inputs = tf.zeros((4, 8))
    net(inputs)
    profiler = profiler_of(net, inputs)
    assert counts(profiler)[0] == 4 * 8 * 8
    net.body.call = lambda inputs, training=None: tf.matmul(tf.matmul(inputs, tf.ones((8, 16))), tf.ones((16, 8)))
    assert counts(profiler)[0] == 2 * 4 * 8 * 16, profiler.status_get("macs", to_value=False).outcome


def test_inputs_changed_in_place() -> None:
    inputs = {"inputs": tf.zeros((1, 8))}
    profiler = profiler_of(layers.Dense(2), inputs)
    assert counts(profiler)[0] == 8 * 2
    inputs["inputs"] = tf.zeros((100, 8))
    assert counts(profiler)[0] == 100 * 8 * 2
    array = np.zeros((2, 8), "float32")
    profiler = profiler_of(layers.Dense(2), array)
    assert counts(profiler)[0] == 2 * 8 * 2
    array.resize((1, 2, 8), refcheck=False)  # in place; numpy 2.5 deprecates array.shape = ...
    assert profiler.compute_status("inputs").args[0].shape == (1, 2, 8)


@pytest.mark.parametrize("make", [Net, Plain])
def test_what_did_not_change_is_remembered(make: Callable[[], Any]) -> None:
    net, inputs = make(), tf.zeros((4, 8))
    net(inputs)
    CHANGES_OF.assert_remembered(net, inputs, lambda net: net(inputs))
