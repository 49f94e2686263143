"""What the tests of the TensorFlow backend share: small models and inputs, and a trace in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from profilerkit import ModelInputs, ModelTrace
from profilerkit_tensorflow import TFBackend

BACKEND = TFBackend()


def trace(model: Any, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace one forward pass of the model."""
    return BACKEND.trace(model, ModelInputs(*args, **kwargs))


def trace_complete(model: Any, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace one forward pass, which must neither fail nor leave anything uncounted."""
    return complete(trace(model, *args, **kwargs))


def by_shapes(*args: Any) -> ModelInputs:
    """Return inputs whose numbers decide nothing, as ``input_shape=`` makes them."""
    inputs = ModelInputs(*args)
    inputs.are_random = True
    return inputs


def trace_by_shapes(model: Any, *args: Any) -> ModelTrace:
    """Trace one forward pass of the model for inputs whose numbers decide nothing."""
    return BACKEND.trace(model, by_shapes(*args))


def trace_complete_by_shapes(model: Any, *args: Any) -> ModelTrace:
    """Trace such a pass, which must neither fail nor leave anything uncounted."""
    return complete(trace_by_shapes(model, *args))


def trace_complete_step(model: Any, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace one training step, which must neither fail nor leave anything uncounted."""
    return complete(BACKEND.trace_training(model, ModelInputs(*args, **kwargs)))


def complete(found: ModelTrace) -> ModelTrace:
    """Return a trace, of which nothing may be missing, and whose layers share out all of its work."""
    assert found.failure is None, found.failure
    assert found.missing == ()
    assert found.method == "a traced graph"
    assert sum(row["own_macs"] for row in found.table) == found.macs
    return found


def cost(function: Callable[..., Any], *args: Any) -> tuple[int, int]:
    """Return MACs and FLOPs of a function of tensors."""
    found = trace_complete(function, *args)
    return found.macs, found.flops


def own_macs(found: ModelTrace) -> Mapping[str, int]:
    """Return the multiply-accumulates of each layer that has any, by its path."""
    return {row["path"]: row["own_macs"] for row in found.table if row["own_macs"]}


def ones(*shape: int, dtype: Any = tf.float32) -> Any:
    """Return a tensor of ones."""
    return tf.ones(shape, dtype)


def make_model(
    layer: Any, *shapes: tuple[int | None, ...], dtype: str = "float32", spread: bool = False, **call: Any
) -> Any:
    """Return a functional model of one layer for inputs of these shapes, given as a list or (``spread``) one by one."""
    inputs = [keras.Input(shape, dtype=dtype) for shape in shapes]
    args = inputs if spread or len(inputs) == 1 else [inputs]
    return keras.Model(inputs[0] if len(inputs) == 1 else inputs, layer(*args, **call))
