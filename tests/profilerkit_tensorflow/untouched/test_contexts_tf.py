"""Where nothing can be profiled that is said, by every public call; elsewhere the numbers are right."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from time_limits import join

pytest.importorskip("tf_keras")
import keras
import tensorflow as tf
import tf_keras
from tensorflow.python.autograph.utils import ag_logging

from profilerkit import ModelInputs, Profiler, TracingError, compare, profile
from profilerkit_tensorflow import EvalLossFunction, TFBackend, get_accuracy, get_topk
from profilerkit_tensorflow.untouched.preservation import preserve

BACKEND = TFBackend()
X = np.ones((2, 4), "float32")


def model() -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])


def _trace(call: Callable[[], Any]) -> None:
    sizes: list[int] = []

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def traced(x: Any) -> Any:
        try:
            call()
        finally:
            sizes.append(len(tf.compat.v1.get_default_graph().get_operations()))
        return x

    try:
        traced(tf.constant(1.0))
    finally:
        assert sizes == [1]  # the input alone: nothing of ours is in the caller's graph


def _map(call: Callable[[], Any]) -> None:
    tf.data.Dataset.range(1).map(tf.autograph.experimental.do_not_convert(lambda x: call() or x))


def _symbolic(call: Callable[[], Any]) -> None:
    class Calling(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            call()
            return x

    Calling()(keras.Input((4,)))


def _within(make: Callable[[], Any], call: Callable[[], Any]) -> None:
    with make():
        call()


REFUSED: dict[str, tuple[Callable[[Callable[[], Any]], None], str]] = {
    "function": (_trace, "while TensorFlow traces the function 'traced', which runs nothing; call it outside"),
    "data set": (_map, "while TensorFlow traces the function"),
    "symbolic": (_symbolic, "(inside a keras.SymbolicScope|inside a keras.StatelessScope|while TensorFlow traces)"),
    "graph": (functools.partial(_within, lambda: tf.Graph().as_default()), "inside a tf.Graph, .*eager execution on"),
    "tape": (
        functools.partial(_within, tf.GradientTape),
        r"inside a tf.GradientTape .*`with tape.stop_recording\(\):`",
    ),
    "forward accumulator": (
        functools.partial(_within, lambda: tf.autodiff.ForwardAccumulator(tf.constant(1.0), tf.constant(1.0))),
        r"inside a tf.GradientTape \(or a ForwardAccumulator",
    ),
    "init scope": (functools.partial(_within, tf.init_scope), "inside tf.init_scope"),
    "stateless": (functools.partial(_within, keras.StatelessScope), "inside a keras.StatelessScope"),
    "shapes alone": (functools.partial(_within, keras.SymbolicScope), "inside a keras.SymbolicScope"),
}

_batches = [(X, np.zeros(2, int))]
CALLS: dict[str, Callable[[Any], Any]] = {
    "profile": lambda net: profile(net, X),
    "static profile": lambda net: profile(net, X, metrics=["macs"]),
    "strict profile": lambda net: profile(net, X, strict=True),
    "compare": lambda net: compare(net, net, inputs=X),
    "compute_status": lambda net: Profiler(net, inputs=X).register_defaults().compute_status("macs"),
    "compute_network_status": lambda net: Profiler(net, inputs=X).register_defaults().compute_network_status(),
    "trace": lambda net: BACKEND.trace(net, ModelInputs(X)),
    "training trace": lambda net: BACKEND.trace_training(net, ModelInputs(X)),
    "run": lambda net: BACKEND.run(net, ModelInputs(X)).__enter__(),
    "layer times": lambda net: BACKEND.layer_times(net, ModelInputs(X)),
    "operator times": lambda net: BACKEND.operator_times(net, ModelInputs(X)),
    "evaluate": lambda net: BACKEND.evaluate(net, lambda: 1),
    "preserved": lambda net: BACKEND.preserve(net).__enter__(),
    "accuracy": lambda net: get_accuracy(net, _batches),
    "top-k": lambda net: get_topk(net, _batches, topk=(1,)),
    "loss": lambda net: EvalLossFunction(lambda output, target: tf.reduce_sum(output))(net, _batches),
}


#: Every call while a function is traced, and a profile and a bare trace everywhere else.
CASES = [("function", call) for call in CALLS] + [
    (context, call) for context in list(REFUSED)[1:] for call in ("profile", "trace")
]


@pytest.mark.parametrize(("context", "call"), CASES)
def test_nothing_is_profiled_there(context: str, call: str) -> None:
    net = model()
    enter, message = REFUSED[context]
    with pytest.raises(TracingError, match=message):
        enter(lambda: CALLS[call](net))
    assert BACKEND.trace(net, ModelInputs(X)).macs == 2 * 4 * 3


def test_a_tape_that_is_paused_records_nothing_and_steps_have_their_gradients() -> None:
    net = model()
    alone = BACKEND.trace_training(net, ModelInputs(X)).macs
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(net(X))
        with tape.stop_recording():
            inside = BACKEND.trace_training(net, ModelInputs(X)).macs
    assert inside == alone > 2 * 4 * 3
    assert len(tape.watched_variables()) == 2
    np.testing.assert_array_equal(tape.gradient(loss, net.weights[0]), np.full((4, 3), 2.0))


@pytest.mark.parametrize("package", [keras, tf_keras], ids=["keras", "tf_keras"])
def test_weights_on_several_devices_count_once(package: Any) -> None:
    """A (4, 3) kernel with 3 biases, and batch norm's 4 vectors of 3, mirrored: 15 and 12 parameters, 6 not trained."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        layers = [package.layers.Dense(3), package.layers.BatchNormalization()]
        net = package.Sequential([package.Input((4,)), *layers])
        inside = profile(net, X, metrics=["total_params", "trainable_params", "model_size", "macs"], strict=True)
    outside = profile(net, X, metrics=["total_params", "trainable_params", "model_size", "macs"], strict=True)
    for found in (inside, outside):
        assert (found["total_params"], found["trainable_params"]) == (27, 21)
        assert found["model_size"] == 27 * 4
        assert found["macs"] == 2 * 4 * 3


def test_another_thread_that_profiles_waits_and_gets_the_same_numbers() -> None:
    net, found = model(), []
    threads = [
        threading.Thread(target=lambda: found.append(profile(net, X, metrics=["macs"])["macs"])) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert found == [24, 24, 24]


def test_another_thread_that_calls_the_model_meanwhile_gets_values() -> None:
    """Keras' models are run without a change of the model: who calls it meanwhile gets what it would get alone."""
    net, stop, strange = model(), threading.Event(), []
    expected = net(X).numpy()

    def calling() -> None:
        while not stop.is_set():
            outputs = net(X)
            if not hasattr(outputs, "numpy") or not np.array_equal(outputs.numpy(), expected):
                strange.append(outputs)

    thread = threading.Thread(target=calling)
    thread.start()
    try:
        for _ in range(5):
            profile(net, X, metrics=["macs", "execution_time", "training_macs"], num_iters=3)
    finally:
        stop.set()
        join(thread)
    assert strange == []


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "determinism": (
        tf.config.experimental.enable_op_determinism,
        lambda: __import__("tensorflow.python.framework.config", fromlist=["x"]).is_op_determinism_enabled(),
    ),
    "soft placement": (
        lambda: tf.config.set_soft_device_placement(not tf.config.get_soft_device_placement()),
        tf.config.get_soft_device_placement,
    ),
    "placement log": (lambda: tf.debugging.set_log_device_placement(True), tf.debugging.get_log_device_placement),
    "tf32": (
        lambda: tf.config.experimental.enable_tensor_float_32_execution(False),
        tf.config.experimental.tensor_float_32_execution_enabled,
    ),
    "compiler": (lambda: tf.config.optimizer.set_jit(True), tf.config.optimizer.get_jit),
    "graph options": (
        lambda: tf.config.optimizer.set_experimental_options({"constant_folding": False}),
        tf.config.optimizer.get_experimental_options,
    ),
    "functions": (lambda: tf.config.run_functions_eagerly(True), tf.config.functions_run_eagerly),
    "numpy's errors": (lambda: np.seterr(over="raise"), np.geterr),
    "what numpy calls": (lambda: np.seterrcall(lambda *error: None), np.geterrcall),
    "recursion": (lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1), sys.getrecursionlimit),
    "AutoGraph's words": (lambda: tf.autograph.set_verbosity(1), lambda: ag_logging.verbosity_level),
    "tracebacks": (tf.debugging.disable_traceback_filtering, tf.debugging.is_traceback_filtering_enabled),
    "exceptions": (lambda: setattr(sys, "excepthook", repr), lambda: sys.excepthook),
    "exceptions of threads": (lambda: setattr(threading, "excepthook", repr), lambda: threading.excepthook),
    "exceptions that are lost": (lambda: setattr(sys, "unraisablehook", repr), lambda: sys.unraisablehook),
    "mixed precision": (
        lambda: keras.config.set_dtype_policy("mixed_bfloat16"),
        lambda: keras.config.dtype_policy().name,
    ),
    "legacy mixed precision": (
        lambda: tf_keras.mixed_precision.set_global_policy("mixed_bfloat16"),
        lambda: tf_keras.mixed_precision.global_policy().name,
    ),
    "custom objects": (
        lambda: keras.saving.register_keras_serializable("tests")(type("Registered", (), {"get_config": None})),
        lambda: sorted(keras.saving.get_custom_objects()),
    ),
}
for package in (keras, tf_keras):
    backend, name = package.backend, package.__name__
    SETTINGS[f"floats of {name}"] = functools.partial(backend.set_floatx, "float16"), backend.floatx
    SETTINGS[f"epsilon of {name}"] = functools.partial(backend.set_epsilon, 0.5), backend.epsilon
    channels_first = functools.partial(backend.set_image_data_format, "channels_first")
    SETTINGS[f"layout of {name}"] = channels_first, backend.image_data_format
if hasattr(keras.config, "max_epochs"):  # Keras 3.12
    SETTINGS["epochs"] = (lambda: keras.config.set_max_epochs(3)), keras.config.max_epochs
if hasattr(keras.config, "disable_flash_attention"):  # Keras 3.8
    SETTINGS["flash attention"] = keras.config.disable_flash_attention, keras.config.is_flash_attention_enabled


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_the_call_leaves_changed_comes_back(name: str) -> None:
    change, read = SETTINGS[name]
    before = read()
    with preserve(model()):
        change()
        assert read() != before
    assert read() == before
