"""What the caller may be in the middle of: where a model is profiled all the same, and where that is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
from attack_calls import in_a_thread
from attack_cases import NO_CONTEXT
from keras.src.backend.common.variables import AutocastScope

__all__ = ["CONTEXTS", "REFUSED"]

Inside = Callable[[], None]
CONTEXTS: dict[str, Callable[[Inside], Any]] = {NO_CONTEXT: lambda inside: inside()}
#: Where nothing may be profiled.
REFUSED: set[str] = set()


def _within(make: Callable[[], Any]) -> Callable[[Inside], None]:
    def run(inside: Inside) -> None:
        with make():
            inside()

    return run


def context(refused: bool = False) -> Callable[[Callable[[Inside], Any]], Any]:
    def register(function: Callable[[Inside], Any]) -> Callable[[Inside], Any]:
        CONTEXTS[function.__name__] = function
        if refused:
            REFUSED.add(function.__name__)
        return function

    return register


@contextlib.contextmanager
def _policy(name: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


@contextlib.contextmanager
def _run_eagerly() -> Iterator[None]:
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@contextlib.contextmanager
def _compile_by_xla() -> Iterator[None]:
    before = tf.config.optimizer.get_jit()
    tf.config.optimizer.set_jit("autoclustering")
    try:
        yield
    finally:
        tf.config.optimizer.set_jit(before or False)


def _creator(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    return next_creator(**kwargs)


for _name, _make in {
    "device": lambda: tf.device("/cpu:0"),
    "functions run eagerly": _run_eagerly,
    "one device": lambda: tf.distribute.OneDeviceStrategy("/cpu:0").scope(),
    "mirrored": lambda: tf.distribute.MirroredStrategy(["/cpu:0"]).scope(),
    "mixed precision": lambda: _policy("mixed_bfloat16"),
    "autocast": lambda: AutocastScope("float16"),
    "rematerialised": lambda: keras.RematScope(mode="full"),
    "name scope": lambda: tf.name_scope("outer"),
    "keras name scope": lambda: keras.name_scope("outer"),
    "variable creator": lambda: tf.variable_creator_scope(_creator),
    "control dependencies": lambda: tf.control_dependencies([tf.constant(1)]),
    "compiled by XLA": _compile_by_xla,
}.items():
    CONTEXTS[_name] = _within(_make)

for _name, _make in {
    "graph": lambda: tf.Graph().as_default(),
    "init scope": tf.init_scope,
    "stateless scope": keras.StatelessScope,
    "symbolic scope": keras.SymbolicScope,
    "forward accumulator": lambda: tf.autodiff.ForwardAccumulator(tf.constant(1.0), tf.constant(1.0)),
}.items():
    CONTEXTS[_name] = _within(_make)
    REFUSED.add(_name)


@context(refused=True)
def tape(inside: Inside) -> None:
    variable = tf.Variable(2.0)
    with tf.GradientTape() as outer:
        loss = variable * 3.0
        inside()
    if [watched_variable.ref() for watched_variable in outer.watched_variables()] != [variable.ref()]:
        raise AssertionError("the caller's tape watches more than the caller's variable")
    if float(outer.gradient(loss, variable)) != 3.0:
        raise AssertionError("the caller's tape has lost its gradient")


@context()
def paused_tape(inside: Inside) -> None:
    variable = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as outer:
        loss = variable * 3.0
        with outer.stop_recording():
            inside()
    if [watched_variable.ref() for watched_variable in outer.watched_variables()] != [variable.ref()]:
        raise AssertionError("the caller's tape watches more than the caller's variable")
    if float(outer.gradient(loss, variable)) != 3.0:
        raise AssertionError("the caller's tape has lost its gradient")


@context(refused=True)
def traced_function(inside: Inside) -> None:
    size: list[int] = []

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def function(x: Any) -> Any:
        inside()
        size.append(len(tf.compat.v1.get_default_graph().get_operations()))
        return x

    function(tf.constant(1.0))
    if size != [1]:
        raise AssertionError(f"the caller's graph has {size[0]} operators instead of its one input")


@context(refused=True)
def data_pipeline(inside: Inside) -> None:
    def function(x: Any) -> Any:
        inside()
        return x

    list(tf.data.Dataset.from_tensors(tf.constant(1.0)).map(tf.autograph.experimental.do_not_convert(function)))


@context(refused=True)
def symbolic_construction(inside: Inside) -> None:
    class Calling(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            inside()
            return x

    Calling()(keras.Input((4,)))


@context()
def python_function(inside: Inside) -> None:
    def function(x: Any) -> Any:
        inside()
        return x

    tf.function(lambda x: tf.py_function(function, [x], tf.float32))(tf.constant(1.0))


@context()
def callback_of_fit(inside: Inside) -> None:
    class Calling(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            inside()

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(tf.ones((4, 2)), tf.ones((4, 1)), verbose=0, callbacks=[Calling()])
    if int(model.optimizer.iterations.numpy()) != 1:
        raise AssertionError("the caller's training was disturbed")


@context()
def another_thread(inside: Inside) -> None:
    in_a_thread(inside)
