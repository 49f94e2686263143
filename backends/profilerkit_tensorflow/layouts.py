"""Inputs in the layout that a model takes: images with the channels first become ones with the channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs

from .calling import is_keras, is_legacy_keras

__all__ = ["fitted"]


def fitted(model: Any, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs as a Keras model declares them, where their channels only need to be moved to the end.

    A batch of images ``(N, 3, 224, 224)``, as PyTorch has them, becomes ``(N, 224, 224, 3)`` for a model with an input
    of shape ``(None, 224, 224, 3)``; so do sequences and volumes. Whatever fits as it is, or not even so, stays.
    """
    declared = _declared_shapes(model)
    if declared is None or inputs.kwargs or len(declared) != len(inputs.args):
        return inputs
    return ModelInputs(*(_moved(leaf, shape) for leaf, shape in zip(inputs.args, declared, strict=True)))


def _declared_shapes(model: Any) -> list[Sequence[int | None]] | None:
    if not (is_keras(model) or is_legacy_keras(model)):
        return None
    try:
        symbolic = model.inputs
    except AttributeError:  # a model that declares nothing
        return None
    return [tuple(tensor.shape) for tensor in symbolic or ()] or None


def _moved(leaf: Any, declared: Sequence[int | None]) -> Any:
    if not tf.is_tensor(leaf) or leaf.shape.rank not in (3, 4, 5) or leaf.shape.rank != len(declared):
        return leaf
    rank = leaf.shape.rank
    order = [0, *range(2, rank), 1]
    moved = [leaf.shape[axis] for axis in order]
    if _fits(leaf.shape, declared) or not _fits(moved, declared):
        return leaf
    return tf.transpose(leaf, order)


def _fits(shape: Sequence[int | None], declared: Sequence[int | None]) -> bool:
    return all(wanted is None or size == wanted for size, wanted in zip(shape, declared, strict=True))
