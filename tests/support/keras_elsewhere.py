"""What the tests of Keras on JAX and of Keras on torch share; imported where Keras runs on the framework already."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import pytest

if os.environ.get("KERAS_BACKEND") not in ("jax", "torch"):
    pytest.skip("Keras runs on TensorFlow in this process", allow_module_level=True)

import keras
import numpy as np

from profilerkit import Backend
from profilerkit.testing.architectures import ARCHITECTURES, layer_numbers

__all__ = ["FEATURES", "PRODUCTS", "RECURRENT", "STEPS", "UNITS", "ones", "require_closed_forms", "stack_layers"]

layers = keras.layers

STEPS, FEATURES, UNITS = 6, 5, 4
PRODUCTS = STEPS * UNITS * (FEATURES + UNITS)

#: Recurrent layers, with the MACs of one sample, and the FLOPs of one unit in one step besides the products.
RECURRENT = [
    (lambda: layers.LSTM(UNITS), 4 * PRODUCTS, 13 + 4),
    (lambda: layers.LSTM(UNITS, unroll=True), 4 * PRODUCTS, 13 + 4),
    (lambda: layers.GRU(UNITS), 3 * PRODUCTS, 11 + 6),
    (lambda: layers.SimpleRNN(UNITS), PRODUCTS, 2 + 1),
    (lambda: layers.RNN(layers.LSTMCell(UNITS)), 4 * PRODUCTS, 13 + 4),
]


def ones(*shape: int) -> Any:
    return np.ones(shape, "float32")


def stack_layers(shape: tuple[int, ...], *inside: Any, name: str | None = None) -> Any:
    return keras.Sequential([keras.Input(shape), *inside], name=name)


def require_closed_forms(backend: Backend, name: str) -> None:
    """Require that a backend counts a shared architecture as the TensorFlow backend does, row by row."""
    pytest.importorskip("tensorflow")  # the module that builds them asks for it
    built_by = import_module("keras_architectures")
    described = ARCHITECTURES[name]
    trace = backend.trace(built_by.build(name), described.model_inputs(backend, "channels_last", 3))
    assert trace.failure is None, trace.failure
    assert trace.missing == ()
    assert (trace.total_params, trace.trainable_params) == (described.params + described.statistics, described.params)
    assert layer_numbers(trace.table, built_by.KINDS) == described.layer_numbers(3, with_statistics=True)
