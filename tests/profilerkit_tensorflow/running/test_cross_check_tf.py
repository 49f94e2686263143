"""What a run does is compared with the static trace: a contradiction makes the counts partial, agreement does not."""

from __future__ import annotations

from itertools import count
from typing import Any

import keras
import pytest
import tensorflow as tf
from one_product import ONE, W, X
from small import ones

from profilerkit import ModelInputs, Profiler, Report, profile
from profilerkit_tensorflow.trace.observation import Observation


def profile_both(model: Any, x: Any = X, **options: Any) -> Report:
    return profile(model, x, metrics=["macs", "execution_time"], num_iters=2, warmup=1, backend="tensorflow", **options)


def difference(report: Report) -> str:
    status = report.status("macs")
    assert (status.completeness.value == "complete") == (not status.missing)
    return "; ".join(status.missing)


# Contradictions ---------------------------------------------------------------------------------------------------


def other_work_eagerly(x: Any) -> Any:
    """Multiply eagerly alone, told by a question that nothing notices: the name of the tensor's class."""
    return x @ W if "Eager" in type(x).__name__ else x


def test_an_eager_run_of_other_work_makes_the_counts_partial() -> None:
    report = profile_both(other_work_eagerly, mode="eager")
    assert report["macs"] == 0
    assert difference(report) == (
        "the model does other work when it is run than in the static pass, which is counted here: its first run has "
        f"{ONE} MACs in its operators, the static pass 0"
    )
    assert difference(profile_both(other_work_eagerly)) == "", "as a graph it does what is counted"


def test_a_model_that_keras_runs_eagerly_is_compared_where_predict_runs_it() -> None:
    class Layer(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return other_work_eagerly(x)

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Layer()(inputs))
    assert difference(profile_both(model, mode="predict")) == ""
    model.compile(run_eagerly=True)
    assert f"its first run has {ONE} MACs" in difference(profile_both(model, mode="predict"))


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_a_function_that_is_traced_anew_is_compared(mode: str) -> None:
    """It multiplies in its first trace alone, so that what is timed is not what was counted."""
    traces = count()
    report = profile_both(lambda x: x @ W if not next(traces) else x, mode=mode)
    assert report["macs"] == ONE
    assert difference(report).endswith(f"the function that is timed has 0 MACs in its operators, the static pass {ONE}")


def test_a_trace_of_another_model_in_between_hides_no_contradiction() -> None:
    """All profilers share the backend."""
    traces = count()
    profiler, other = (
        Profiler(function, backend="tensorflow", inputs=X)
        for function in (lambda x: x if next(traces) else x @ W, lambda x: x)
    )
    for one in (profiler, other):
        one.register_defaults()
        one.compute_status("macs")
    assert profiler.backend is other.backend
    profiler.compute_status("execution_time", num_iters=2, warmup=1)
    assert "has 0 MACs in its operators" in difference(profiler.report())


@pytest.mark.parametrize("metric", ["layer_times", "operator_table"])
def test_times_of_layers_and_operators_are_compared(metric: str) -> None:
    traces = count()

    def function(x: Any) -> Any:
        return x * 2.0 if next(traces) else x @ W

    options: dict[str, Any] = {"passes": 2, "backward": False, "backend": "tensorflow"}
    assert "has 0 MACs in its operators" in difference(profile(function, X, metrics=["macs", metric], **options))


def test_a_recurrent_layer_runs_its_cell_once_more_when_it_is_run_eagerly() -> None:
    """Keras calls the cell before the loop, for the shape of its outputs: in a graph nothing needs that."""
    model = keras.Sequential([keras.Input((4, 6)), keras.layers.LSTM(5)])
    step = 2 * (6 + 5) * 4 * 5  # of two samples
    report = profile_both(model, ones(2, 4, 6), mode="eager")
    assert report["macs"] == 4 * step
    assert f"its first run has {5 * step:,} MACs" in difference(report)
    assert difference(profile_both(model, ones(2, 4, 6))) == ""


# Agreement --------------------------------------------------------------------------------------------------------


def attention() -> Any:
    inputs = keras.Input((4, 6))
    return keras.Model(inputs, keras.layers.MultiHeadAttention(2, 3)(inputs, inputs))


def convolutions() -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((12, 12, 4)),
            layers.Conv2D(8, 3, dilation_rate=2, padding="same"),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(3, dilation_rate=2),
            layers.Conv2D(8, 3, groups=2),
            layers.Conv2DTranspose(3, 3, strides=2),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2),
        ]
    )


def call_functions(x: Any) -> Any:
    inner = tf.function(lambda y: tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z @ W), (0, y))[1])
    return tf.function(lambda y: inner(y) @ W)(x) @ W


def dense_over_sparse() -> Any:
    layer = keras.layers.Dense(5)
    layer.build((None, 6))
    return layer


def convolve_and_crop(x: Any) -> Any:
    """A convolution of dilation two over nine places as TensorFlow spells it: of 6 x 6 outputs 5 x 5 are left."""
    blocks, paddings, kernel = [2, 2], [[0, 1], [0, 1]], ones(3, 3, 1, 2)
    convolved = tf.nn.conv2d(tf.space_to_batch(x, blocks, paddings), kernel, 1, "VALID")
    return tf.batch_to_space(convolved, blocks, paddings), convolved


class Cropping(keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return convolve_and_crop(x)


def convolve_turned_round(x: Any) -> Any:
    return tf.nn.atrous_conv2d_transpose(x, ones(3, 3, 2, 1), (1, 9, 9, 2), 2, "VALID")


AGREEING: dict[str, tuple[Any, Any]] = {
    "an output that is cropped and returned": (lambda: convolve_and_crop, ones(1, 9, 9, 1)),
    "a transposed convolution with a padded input": (lambda: convolve_turned_round, ones(1, 5, 5, 1)),
    "attention": (attention, ones(2, 4, 6)),
    "convolutions": (convolutions, ones(2, 12, 12, 4)),
    "functions": (lambda: call_functions, X),
    "einsum": (lambda: lambda x: tf.einsum("ij,jk->ki", x, W), X),
    "sparse": (dense_over_sparse, tf.sparse.from_dense(tf.eye(4, 6))),
    "condition": (lambda: lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x @ W, lambda: x), X),
}


@pytest.mark.parametrize("case", AGREEING)
def test_an_eager_run_of_the_same_work_is_no_contradiction(case: str) -> None:
    made, x = AGREEING[case]
    assert difference(profile_both(made(), x, mode="eager")) == ""


def test_an_output_that_keras_reads_is_no_contradiction() -> None:
    """All 6 x 6 outputs of 2 channels are returned, 3 x 3 products each; ``predict`` makes arrays of them."""
    inputs = keras.Input((9, 9, 1))
    model = keras.Model(inputs, Cropping()(inputs))
    model.compile(run_eagerly=True)
    report = profile_both(model, ones(1, 9, 9, 1), mode="predict")
    assert (report["macs"], difference(report)) == (36 * 2 * 9, "")


def test_all_of_an_eager_run_is_seen() -> None:
    """Three products in the loop of a function that a function calls, one behind it, and one behind both."""
    observation = Observation()
    observation.observe(lambda: call_functions(X))
    assert observation.report_run("a run").macs == 5 * ONE


def test_what_is_not_known_of_a_run_is_not_compared() -> None:
    observation = Observation()
    observation.observe(lambda: tf.sparse.add(tf.sparse.from_dense(X), tf.sparse.from_dense(X)))
    assert observation.report_run("a run").macs is None


def test_tensorflow_is_as_it_was_after_a_run_that_raises() -> None:
    from tensorflow.python.eager import context
    from tensorflow.python.eager.polymorphic_function import atomic_function

    def fail() -> None:
        raise ValueError("wrong")

    before = vars(atomic_function.AtomicFunction)["call_flat"], list(context.context().op_callbacks)
    with pytest.raises(ValueError, match="wrong"):
        Observation().observe(fail)
    assert (vars(atomic_function.AtomicFunction)["call_flat"], list(context.context().op_callbacks)) == before


def test_a_trace_of_a_model_without_formulas_of_the_users_tells_the_macs_of_its_operators() -> None:
    from profilerkit.costs import Cost
    from profilerkit_tensorflow import register_layer_cost
    from profilerkit_tensorflow.backend import TFBackend
    from profilerkit_tensorflow.costs import scoped_costs

    model, inputs = dense_over_sparse(), ModelInputs(ones(4, 6))
    assert TFBackend().trace(model, inputs).operator_macs == 4 * 6 * 5
    with scoped_costs():
        register_layer_cost(keras.layers.Dense, lambda layer, ins, outs, training: Cost(7, 14), override=True)
        trace = TFBackend().trace(model, inputs)
    assert (trace.macs, trace.operator_macs) == (7, None)
