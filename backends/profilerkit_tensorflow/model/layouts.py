"""Inputs in the layout that a model takes: images with the channels first become ones with the channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_layers import channels_last_order, declared_shapes, is_keras, is_legacy_keras

from ..trace.messages import require_tensors

__all__ = ["fitted"]


def fitted(model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs as a Keras model declares them, where their channels only need to be moved to the end.

    A batch of images ``(N, 3, 224, 224)``, as PyTorch has them, becomes ``(N, 224, 224, 3)`` for a model with an input
    of shape ``(None, 224, 224, 3)``; so do sequences and volumes. Whatever fits as it is, or not even so, stays.

    Raises `InputError` for what no Keras model can take: symbolic tensors, data sets, iterators, bare numbers.
    """
    if inputs.function is not None:  # it takes what it likes
        return inputs
    require_tensors(model, inputs)
    declared = declared_shapes(model) if is_keras(model) or is_legacy_keras(model) else []
    if not declared or inputs.kwargs or len(declared) != len(inputs.args):
        return inputs
    return ModelInputs(*(_moved(leaf, shape) for leaf, shape in zip(inputs.args, declared, strict=True)))


def _moved(leaf: Any, declared: Sequence[int | None]) -> Any:
    if not tf.is_tensor(leaf) or leaf.shape.rank is None:
        return leaf
    order = channels_last_order(leaf.shape, declared)
    return leaf if order is None else tf.transpose(leaf, order)
