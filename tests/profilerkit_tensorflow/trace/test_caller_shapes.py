"""What a graph leaves open and its caller knows: shapes of functions and saved models. And TensorFlow's own counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from one_product import ONE, Function, W, X, macs
from small import ones, trace, trace_complete

from profilerkit import ModelInputs
from profilerkit_tensorflow.trace.program import trace_program

# Shapes that only the caller knows --------------------------------------------------------------------------------


class Open(tf.Module):  # type: ignore[misc]
    """A module whose function was made for any batch and any length."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(ones(3, 4))

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3])])  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        flat = tf.reshape(x, [-1, 3]) @ self.kernel
        shaped = tf.reshape(flat, [tf.shape(x)[0], tf.shape(x)[1], 4])
        total = tf.zeros_like(shaped[:, 0])
        for step in tf.range(tf.shape(x)[1]):
            total += shaped[:, step] @ ones(4, 4)
        return total


OPEN_MACS = 2 * 5 * 3 * 4 + 5 * 2 * 4 * 4


def test_functions_of_open_signatures() -> None:
    model = Open()
    assert macs(model, ones(2, 5, 3)) == OPEN_MACS
    assert macs(lambda x: -model(x), ones(2, 5, 3)) == OPEN_MACS
    assert macs(model.__call__.get_concrete_function(), ones(2, 5, 3)) == OPEN_MACS


ROW = [[1.0, 2.0, 3.0, 4.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda function: function(ROW, {"scale": 2}),
        lambda function: function(x=ROW, other={"scale": 2}),
        lambda function: function(np.array(ROW, "int64"), other={"scale": np.int64(2)}),
        lambda function: function(tf.constant(ROW), {"scale": tf.constant(2.0)}),
    ],
    ids=["lists and numbers", "by name", "integers of numpy", "tensors"],
)
@pytest.mark.parametrize("is_method", [False, True], ids=["function", "method"])
def test_a_signature_makes_tensors_of_arguments(call: Callable[[Any], Any], is_method: bool) -> None:
    """A product of (1, 4) and (4, 4), and a multiplication of its 4 elements, on floats whatever is given."""
    signature = [tf.TensorSpec([None, 4]), {"scale": tf.TensorSpec([])}]

    def scaled(x: Any, other: Any) -> Any:
        assert x.shape == (1, 4)
        assert other["scale"].dtype == tf.float32
        return x @ ones(4, 4) * other["scale"]

    class Holder(tf.Module):  # type: ignore[misc]
        method = tf.function(lambda self, x, other: scaled(x, other), input_signature=signature)

    function = Holder().method if is_method else tf.function(scaled, input_signature=signature)
    found = trace_complete(lambda x: x + call(function), ones(1, 4))
    assert (found.macs, found.flops) == (16, 2 * 16 + 4 + 4)


def read_default(x: Any, scale: Any = 2) -> Any:
    assert scale.dtype == tf.float32
    return x @ ones(4, 4) * scale


def read_keyword_default(x: Any, *, scale: Any = 2) -> Any:
    assert scale.dtype == tf.float32
    return x @ ones(4, 4) * scale


@pytest.mark.parametrize("function", [read_default, read_keyword_default], ids=["by position", "by name alone"])
@pytest.mark.parametrize("given", [{}, {"scale": 3}], ids=["its default", "a number"])
def test_a_signature_makes_tensors_of_defaults(function: Callable[..., Any], given: dict[str, int]) -> None:
    """A product of (1, 4) and (4, 4), and a multiplication of its 4 elements."""
    signed = tf.function(function, input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([])])
    found = trace_complete(lambda x: x + signed(x, **given), ones(1, 4))
    assert (found.macs, found.flops) == (16, 2 * 16 + 4 + 4)


def test_saved_models_get_the_shapes_of_their_caller(tmp_path: Path) -> None:
    tf.saved_model.save(Open(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    found = trace_complete(loaded, ones(2, 5, 3))
    assert (found.macs, found.total_params) == (OPEN_MACS, 12)


def test_saved_models_of_keras(tmp_path: Path) -> None:
    row = [layers.Conv1D(4, 3, dilation_rate=2, padding="same"), layers.LSTM(6), layers.Dense(2)]
    model = keras.Sequential([keras.Input((None, 3)), *row])
    model.export(tmp_path, verbose=False)
    expected = 2 * (7 * 4 * 9 + 7 * 4 * 6 * (4 + 6) + 6 * 2)
    assert macs(model, ones(2, 7, 3)) == expected
    loaded = tf.saved_model.load(str(tmp_path))
    assert trace_complete(loaded, ones(2, 7, 3)).macs == expected
    layer = layers.TFSMLayer(str(tmp_path))
    assert trace_complete(keras.Sequential([layer]), ones(2, 7, 3)).macs == expected


def save_by_tensorflow_1(path: Path, function: Function) -> Any:
    """Return a model that TensorFlow 1 saved, with its own kind of loops and conditions."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_control_flow_v2()
        try:
            x = v1.placeholder(tf.float32, [2, 3])
            y = function(x, tf.constant(W.numpy()))
        finally:
            v1.enable_control_flow_v2()
        builder = v1.saved_model.Builder(str(path / "model"))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
    return tf.saved_model.load(str(path / "model"))


def test_loops_of_tensorflow_1_count_once_and_say_so(tmp_path: Path) -> None:
    def function(x: Any, kernel: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 7, lambda i, y: (i + 1, y + x @ kernel), (0, x))[1]

    found = trace(save_by_tensorflow_1(tmp_path, function), X)
    assert found.macs == ONE
    assert "LoopCond (how often a loop of TensorFlow 1 runs is not known; counted once) (1 call)" in found.missing


def test_conditions_of_tensorflow_1_count_all_branches_and_say_so(tmp_path: Path) -> None:
    def function(x: Any, kernel: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ kernel, lambda: x @ kernel @ kernel)

    found = trace_complete(save_by_tensorflow_1(tmp_path, function), X)
    assert found.macs == (1 + 2) * ONE
    assert "of a condition of TensorFlow 1 all branches are counted" in found.notes


# Lists of tensors, whose elements only the caller knows -----------------------------------------------------------


def make_for_any_shape(function: Function) -> Function:
    """Return a function that was made for any shape of its rank."""
    made = tf.function(function).get_concrete_function(tf.TensorSpec([None, None, 3]))
    return lambda x: made(x) + 0.0


#: Functions of five steps of a batch of two, and how often they multiply a (2, 3) with W.
OVER_LISTS: dict[str, tuple[Function, int]] = {
    "map": (lambda x: tf.map_fn(lambda step: step @ W, x), 5),
    "map, then a product": (lambda x: tf.map_fn(lambda step: step @ W, x)[0] @ W, 5 + 1),
    "scan": (lambda x: tf.scan(lambda state, step: (state + step) @ W, x), 4),
    "fold": (lambda x: tf.foldl(lambda state, step: state @ W + step, x), 4),
    "map of a map": (lambda x: tf.map_fn(lambda step: step @ W, tf.map_fn(lambda step: step @ W, x)), 10),
}


@pytest.mark.parametrize("name", OVER_LISTS)
def test_elements_of_lists(name: str) -> None:
    function, products = OVER_LISTS[name]
    assert macs(function, ones(5, 2, 3)) == products * ONE
    assert macs(make_for_any_shape(function), ones(5, 2, 3)) == products * ONE


def test_elements_that_are_filled_in_one_loop_and_read_in_another() -> None:
    def function(x: Any) -> Any:
        steps = tf.shape(x)[0]
        array = tf.TensorArray(tf.float32, steps)
        array = tf.while_loop(lambda i, a: i < steps, lambda i, a: (i + 1, a.write(i, x[i] @ W)), (0, array))[1]
        total = tf.zeros_like(x[0])
        return tf.while_loop(lambda i, t: i < steps, lambda i, t: (i + 1, t + array.read(i) @ W), (0, total))[1]

    assert macs(function, ones(5, 2, 3)) == macs(make_for_any_shape(function), ones(5, 2, 3)) == 10 * ONE


def test_elements_of_two_shapes_are_not_known() -> None:
    """Rows of two are written over rows of one; which are read is not known."""

    def function(x: Any) -> Any:
        array = tf.TensorArray(tf.float32, 5, element_shape=[None, 3], infer_shape=False).unstack(x[:, :1])
        array = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, a.read(i + 1) + x[0])), (0, array))[1]
        return array.read(4) @ W

    found = trace(make_for_any_shape(function), ones(5, 2, 3))
    assert "MatMul of unknown shape (1 call)" in found.missing


# TensorFlow's own profiler ----------------------------------------------------------------------------------------


def float_operations(model: Any, *inputs: Any) -> int:
    """Return what ``tf.compat.v1.profiler`` counts in the graph that we count in."""
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation())
    graph = trace_program(model, ModelInputs(*inputs)).graph
    counted: int = profiler.profile(graph, cmd="scope", options=options.with_empty_output().build()).total_float_ops
    return counted


def test_it_agrees_about_convolutions_and_dense_layers() -> None:
    """Without biases and activations, of which it counts some."""
    row = [
        layers.Conv2D(4, 3, use_bias=False),
        layers.Conv2D(6, 3, strides=2, padding="same", use_bias=False),
        layers.DepthwiseConv2D(3, use_bias=False),
        layers.Flatten(),
        layers.Dense(5, use_bias=False),
    ]
    model = keras.Sequential([keras.Input((12, 12, 3)), *row])
    x = ones(2, 12, 12, 3)
    places = (100 * 4 * 27, 25 * 6 * 36, 9 * 6 * 9, 9 * 6 * 5)
    assert float_operations(model, x) == 2 * trace_complete(model, x).macs == 2 * 2 * sum(places)
