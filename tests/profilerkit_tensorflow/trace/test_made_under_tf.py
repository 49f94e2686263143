"""What the caller switched on around a profile stands in its report, and is noticed by a profiler that remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import pytest
import tensorflow as tf

from profilerkit.costs import Cost
from profilerkit_tensorflow import ComputeComplexity, TFProfiler, register_layer_cost
from profilerkit_tensorflow.costs.registry import scoped_costs


@contextmanager
def use_mixed_precision() -> Iterator[None]:
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


@contextmanager
def eagerly() -> Iterator[None]:
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


@contextmanager
def formula() -> Iterator[None]:
    with scoped_costs():
        register_layer_cost("Dense", lambda layer, inputs, outputs, training: Cost(7, 14), override=True)
        yield


CONDITIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "mixed precision": (use_mixed_precision, "the policy mixed_float16 of keras for new layers"),
    "eager functions": (eagerly, "functions that run eagerly"),
    "a formula of a layer": (formula, "your own cost formulas for Dense"),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_trace_says_what_it_was_made_under(name: str) -> None:
    context, words = CONDITIONS[name]
    profiler = TFProfiler(keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)]), inputs=tf.zeros((2, 8)))
    profiler.register_profiler_function(ComputeComplexity())
    assert profiler.compute_status("trace").conditions == ()
    with context():
        (condition,) = profiler.compute_status("trace").conditions
    assert condition.startswith(words)
    assert profiler.compute_status("trace").conditions == ()


def test_layers_of_mixed_precision_and_jit_compile_are_told() -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, dtype="mixed_bfloat16")])
    model.compile(jit_compile=True)
    profiler = TFProfiler(model, inputs=tf.zeros((2, 8)))
    found = profiler.compute_status("trace").conditions
    assert found == ("layers of the policy mixed_bfloat16", "jit_compile of the model")
