"""A model that is not built yet and counts its calls: its first call is what is counted, as a user makes it."""

from __future__ import annotations

from collections import deque
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import profilerkit as pk

PRODUCT = 16 * 16  # multiply-accumulates of one row by a square matrix


def make_counting(library: Any) -> Any:
    """Return a class of models, of Keras 3 or tf_keras, that multiply as often as they have been called."""

    class Counting(library.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = library.layers.Dense(16, use_bias=False)
            self.count = 0

        def call(self, x: Any) -> Any:
            self.count += 1
            for _ in range(self.count):
                x = self.dense(x)
            return x

    return Counting


Counting: Any = make_counting(keras)
Legacy: Any = make_counting(tf_keras)


class BuildsItself(Counting):  # type: ignore[misc]
    """Builds its layer without being called."""

    def build(self, input_shape: Any) -> None:
        """Build the layer."""
        self.dense.build(input_shape)
        self.built = True


class LeavesItsLayers(Counting):  # type: ignore[misc]
    """Has a `build` that leaves the layer to the first call."""

    def build(self, input_shape: Any) -> None:
        """Build nothing."""
        self.built = True


class Listing(BuildsItself):
    """Keeps a list of its calls, and knows the first."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.is_first = True

    def call(self, x: Any) -> Any:
        """Return the product: two of them but in the first call."""
        self.seen.append(len(self.seen))
        times = len(self.seen) if self.is_first else 100
        self.is_first = False
        for _ in range(times):
            x = self.dense(x)
        return x


class InAContainer(BuildsItself):
    """Keeps its count in a container, which is as long after a call as before."""

    def __init__(self, container: Any) -> None:
        super().__init__()
        self.container = container

    def call(self, x: Any) -> Any:
        """Return the product."""
        times = self.count_call()
        for _ in range(times):
            x = self.dense(x)
        return x

    def count_call(self) -> int:
        """Add one to the only number in the container, and return it."""
        if isinstance(self.container, set):
            (count,) = self.container
            self.container.clear()
            self.container.add(count + 1)
            return int(count + 1)
        key = "calls" if isinstance(self.container, dict) else 0
        self.container[key] += 1
        return int(self.container[key])


class Around(keras.Model):  # type: ignore[misc]
    """Has a model inside that counts its calls."""

    def __init__(self, inside: type[keras.Model]) -> None:
        super().__init__()
        self.inside = inside()

    def call(self, x: Any) -> Any:
        """Return what the model inside returns."""
        return self.inside(x)


class Lazy(tf_keras.Model):  # type: ignore[misc]
    """Makes its layer in the first call, and notes that it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False

    def call(self, x: Any) -> Any:
        """Return the product."""
        if not self.is_ready:
            self.dense = tf_keras.layers.Dense(16, use_bias=False)
            self.is_ready = True
        return self.dense(x)


class Module(tf.Module):  # type: ignore[misc]
    """Multiplies as often as it has been called, and makes the weights of its layer and its own in the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(16, use_bias=False)
        self.count = 0

    def __call__(self, x: Any) -> Any:
        """Return the product."""
        self.count += 1
        if not hasattr(self, "matrix"):
            self.matrix = tf.Variable(tf.ones((16, 16)))
        for _ in range(self.count):
            x = self.dense(x) @ self.matrix
        return x


@pytest.mark.parametrize(
    ("make", "products"),
    [
        (Counting, 2),  # Keras runs `call` to build the layers, and then for the user
        (BuildsItself, 1),
        (LeavesItsLayers, 1),
        (Listing, 1),
        (lambda: Around(Counting), 3),  # Keras runs both to build the outer one, before that the inner to build it
        (lambda: Around(BuildsItself), 2),
        (Lazy, 1),
        (Legacy, 1),
        (Module, 2),  # its two matrices
    ],
    ids=[
        "counts",
        "builds",
        "leaves",
        "lists",
        "around one that counts",
        "around one that builds",
        "lazy",
        "legacy",
        "module",
    ],
)
@pytest.mark.parametrize("metric", ["macs", "training_macs"])
def test_the_first_call_is_counted(make: Any, products: int, metric: str) -> None:
    model, x = make(), tf.ones((1, 16))
    counted = model.inside if isinstance(model, Around) else model
    status = pk.profile(model, x, metrics=[metric]).status(metric)
    # Back through a product: one product for the weights, and one for the inputs but where these are the model's own.
    expected = products * PRODUCT if metric == "macs" else (3 * products - 1) * PRODUCT
    assert (status.value, status.completeness.value) == (expected, "complete")
    assert (getattr(model, "built", False), getattr(counted, "count", 0)) == (False, 0)
    model(x)  # the user's own first call
    assert getattr(counted, "count", 0) in (0, 1, products)


@pytest.mark.parametrize("container", [{"calls": 0}, [0], {0}, deque([0])], ids=["dict", "list", "set", "deque"])
@pytest.mark.parametrize("metric", ["macs", "training_macs"])
def test_a_count_in_a_container_is_that_of_the_first_call(container: Any, metric: str) -> None:
    model = InAContainer(container.copy())
    status = pk.profile(model, tf.ones((1, 16)), metrics=[metric]).status(metric)
    expected = PRODUCT if metric == "macs" else 2 * PRODUCT  # forward, and the gradient of the weights
    assert (status.value, status.completeness.value, model.count_call()) == (expected, "complete", 1)


def test_an_eager_run_is_the_first_call_too() -> None:
    class Eager(LeavesItsLayers):
        def call(self, x: Any) -> Any:
            float(tf.reduce_sum(x))  # a graph has no values
            return super().call(x)

    model = Eager()
    status = pk.profile(model, tf.ones((1, 16)), metrics=["macs"]).status("macs")
    assert (status.value, model.built, model.count) == (PRODUCT, False, 0)


class Narrow(keras.layers.Layer):  # type: ignore[misc]
    """Multiplies four features by a square matrix for five."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(4)
        self.matrix = self.add_weight(shape=(5, 5))

    def call(self, x: Any) -> Any:
        """Return the product."""
        return tf.matmul(self.dense(x), self.matrix)


class NarrowModule(tf.Module):  # type: ignore[misc]
    """The same as a module, which TensorFlow rewrites: the error that it raises is another then."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = tf.Variable(tf.ones((5, 5)))

    def __call__(self, x: Any) -> Any:
        """Return the product."""
        return tf.matmul(x, self.matrix)


class AroundModule(tf.Module):  # type: ignore[misc]
    """Has a module inside."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = NarrowModule()

    def __call__(self, x: Any) -> Any:
        """Return what the module inside returns."""
        return self.inside(x)


@pytest.mark.parametrize("make", [lambda: Around(Narrow), AroundModule], ids=["unbuilt", "module"])
def test_the_layer_that_does_not_fit_is_named(make: Any) -> None:
    (missing,) = pk.profile(make(), tf.ones((2, 4)), metrics=["macs"]).status("macs").missing
    assert "in layer inside; it was called with" in missing
