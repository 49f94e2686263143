"""Models that ask what a graph and an eager run answer differently: their counts are not complete where it matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402 - TensorFlow comes first
import numpy as np  # noqa: E402
from one_product import ONE, W, X  # noqa: E402
from small import trace  # noqa: E402
from tensorflow.python.eager import context  # noqa: E402
from tensorflow.python.framework import ops  # noqa: E402
from tensorflow.python.framework import tensor as tensors  # noqa: E402

from profilerkit import profile  # noqa: E402

Asking = Callable[[Any], bool]


def reads_numpy(x: Any) -> bool:
    try:
        return x.numpy() is not None
    except AttributeError:
        return False


def reads_array(x: Any) -> bool:
    try:
        return np.asarray(x) is not None
    except NotImplementedError:
        return False


def has_numpy(x: Any) -> bool:
    return hasattr(x, "numpy")


def is_true(x: Any) -> bool:
    try:
        return bool(tf.reduce_sum(x) > 0)
    except Exception:
        return False


def is_iterated(x: Any) -> bool:
    try:
        return len(list(x)) > 0
    except Exception:
        return False


def is_float(x: Any) -> bool:
    try:
        return x.__float__ is not None and float(x[0, 0]) > 0
    except (AttributeError, TypeError):
        return False


def runs_eagerly(x: Any) -> bool:
    return bool(tf.executing_eagerly())


def is_on_a_cpu(x: Any) -> bool:
    return "CPU" in x.device


def has_a_static_value(x: Any) -> bool:
    return tf.get_static_value(x) is not None


def is_outside_of_functions(x: Any) -> bool:
    return not tf.inside_function()


def is_no_symbol(x: Any) -> bool:
    return not tf.is_symbolic_tensor(x)


QUESTIONS: dict[str, tuple[Asking, str]] = {
    "numpy": (reads_numpy, ".numpy of a tensor"),
    "array": (reads_array, "the values of a tensor"),
    "hasattr": (has_numpy, ".numpy of a tensor"),
    "bool": (is_true, "bool() or iter() of a tensor"),
    "iter": (is_iterated, "bool() or iter() of a tensor"),
    "float": (is_float, "float"),
    "eagerly": (runs_eagerly, "tf.executing_eagerly()"),
    "device": (is_on_a_cpu, ".device of a tensor"),
    "static value": (has_a_static_value, "tf.get_static_value()"),
    "inside": (is_outside_of_functions, "tf.inside_function()"),
    "symbolic": (is_no_symbol, "tf.is_symbolic_tensor()"),
}


class Module(tf.Module):  # type: ignore[misc,name-defined]
    """Multiplies where the answer is yes; a module's own code is not converted by autograph when it is called."""

    def __init__(self, asks: Asking) -> None:
        super().__init__()
        self.asks = asks

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        return x @ W if self.asks(x) else x


class Layer(keras.layers.Layer):  # type: ignore[misc]
    """The same as a layer of Keras."""

    def __init__(self, asks: Asking) -> None:
        super().__init__()
        self.asks = asks
        self.built = True

    def call(self, x: Any) -> Any:
        return x @ W if self.asks(x) else x


@pytest.mark.parametrize("case", QUESTIONS)
def test_a_trace_that_takes_another_way_than_an_eager_run_is_not_complete(case: str) -> None:
    asks, words = QUESTIONS[case]
    found = trace(Module(asks), X)
    assert found.macs == 0, "the graph goes without the product"
    [contradiction] = found.contradictions
    assert contradiction.startswith(f"the model asks what a graph and an eager run answer differently ({words}")
    has_values = case in ("numpy", "static value")  # which may do any work
    assert (
        "not all work of an eager run is known" if has_values else f"run eagerly it has {ONE} MACs"
    ) in contradiction


@pytest.mark.parametrize("case", ["numpy", "eagerly", "device"])
def test_a_report_of_a_keras_model_names_the_question(case: str) -> None:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, Layer(QUESTIONS[case][0])(inputs))
    status = profile(model, X, metrics=["macs"]).status("macs")
    assert status.completeness.value == "partial"
    assert QUESTIONS[case][1] in status.missing[0]


def test_a_question_that_changes_nothing_leaves_the_counts_complete() -> None:
    def function(x: Any) -> Any:
        return (x @ W) + 1.0 if tf.executing_eagerly() else 1.0 + (x @ W)

    found = trace(function, X)
    assert (found.macs, found.contradictions) == (ONE, ())


def test_operations_alone_are_compared_too() -> None:
    """A softmax of six numbers in place of a ReLU: no multiply-accumulates in either."""

    def function(x: Any) -> Any:
        return tf.nn.softmax(x) if tf.executing_eagerly() else tf.nn.relu(x)

    [contradiction] = trace(function, X).contradictions
    assert "FLOPs" in contradiction


def test_what_is_always_a_graph_has_one_answer() -> None:
    """A ``tf.function`` runs as a graph; so does one that a module calls, whichever way the module runs."""
    function = tf.function(lambda x: x @ W if tf.executing_eagerly() else x)
    assert trace(function, X).contradictions == ()
    module = Module(lambda x: True)
    module.asks = lambda x: bool(function(x) is None)
    assert trace(module, X).contradictions == ()


def test_a_model_without_values_is_not_said_to_be_complete() -> None:
    class Unbuilt(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(4)

        def call(self, x: Any) -> Any:
            return self.dense(x) if tf.executing_eagerly() else self.dense(x) * 2.0

    [contradiction] = trace(Unbuilt(), X).contradictions
    assert contradiction.endswith("and has no values to be run eagerly with; its graph is counted")


def test_a_model_that_raises_when_it_is_run_eagerly_is_not_complete() -> None:
    def function(x: Any) -> Any:
        if tf.executing_eagerly():
            raise RuntimeError("only as a graph")
        return x @ W

    [contradiction] = trace(function, X).contradictions
    assert contradiction.endswith("and raises RuntimeError in an eager run")


def test_keras_asks_for_itself_without_a_note() -> None:
    model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization()])
    found = trace(model, tf.ones((1, 8, 8, 3)))
    assert (found.macs, found.contradictions) == (6 * 6 * 4 * 27, ())


@pytest.mark.parametrize("raises", [False, True])
def test_tensorflow_is_as_it_was_afterwards(raises: bool) -> None:
    owners = (context.Context, tensors.Tensor, ops.SymbolicTensor)
    before = [dict(vars(owner)) for owner in owners], (tf.get_static_value, tf.inside_function, tf.is_symbolic_tensor)

    def function(x: Any) -> Any:
        if raises:
            raise ValueError("wrong")
        return x @ W

    assert (trace(function, X).failure is not None) == raises
    after = [dict(vars(owner)) for owner in owners], (tf.get_static_value, tf.inside_function, tf.is_symbolic_tensor)
    assert after == before
