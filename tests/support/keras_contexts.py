"""What the caller may be in the middle of while a model is profiled; ``test_contexts_tf`` has what is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
from attack_calls import in_a_thread
from attack_cases import NO_CONTEXT
from keras.src.backend.common.variables import AutocastScope

__all__ = ["CONTEXTS"]

Inside = Callable[[], None]
CONTEXTS: dict[str, Callable[[Inside], Any]] = {NO_CONTEXT: lambda inside: inside()}


def _within(make: Callable[[], Any]) -> Callable[[Inside], None]:
    def run(inside: Inside) -> None:
        with make():
            inside()

    return run


def context(function: Callable[[Inside], Any]) -> Callable[[Inside], Any]:
    CONTEXTS[function.__name__] = function
    return function


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


@context
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


@context
def python_function(inside: Inside) -> None:
    def function(x: Any) -> Any:
        inside()
        return x

    tf.function(lambda x: tf.py_function(function, [x], tf.float32))(tf.constant(1.0))


@context
def callback_of_fit(inside: Inside) -> None:
    class Calling(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            inside()

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(tf.ones((4, 2)), tf.ones((4, 1)), verbose=0, callbacks=[Calling()])
    if int(model.optimizer.iterations.numpy()) != 1:
        raise AssertionError("the caller's training was disturbed")


@context
def another_thread(inside: Inside) -> None:
    in_a_thread(inside)
