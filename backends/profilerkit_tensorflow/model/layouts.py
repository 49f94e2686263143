"""Inputs in the layout that a model takes: images with the channels first become ones with the channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_calls import read_declared_shapes
from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.layouts import in_declared_layout

from .input_checks import require_tensors

__all__ = ["fit_inputs"]


def fit_inputs(model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs as a Keras model declares them, where their channels only need to be moved to the end.

    A batch of images ``(N, 3, 224, 224)``, as PyTorch has them, becomes ``(N, 224, 224, 3)`` for a model with an input
    of shape ``(None, 224, 224, 3)``; so do sequences and volumes. Inputs that fit already, or that would not fit even
    so, are returned unchanged.

    Raises `InputError` for inputs that no Keras model can take: symbolic tensors, data sets, iterators, bare numbers.
    """
    if inputs.function is not None:  # it may take any inputs
        return inputs
    require_tensors(model, inputs)
    if inputs.kwargs or not is_any_keras(model):
        return inputs
    args = in_declared_layout(inputs.args, read_declared_shapes(model), _find_shape, tf.transpose)
    return inputs if args is inputs.args else ModelInputs(*args)


def _find_shape(leaf: Any) -> Sequence[int | None] | None:
    return leaf.shape if tf.is_tensor(leaf) and leaf.shape.rank is not None else None
