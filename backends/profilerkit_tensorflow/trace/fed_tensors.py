"""The tensors among a model's inputs, which a traced program takes; all else is a part of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs

__all__ = ["list_fed_types", "put_back"]


def list_fed_types(inputs: ModelInputs) -> list[Any]:
    """Return the types of the tensors among the inputs, sparse and ragged ones and variables included."""
    return [tf.type_spec_from_value(leaf) for leaf in inputs.leaves() if tf.is_tensor(leaf)]


def put_back(inputs: ModelInputs, tensors: Sequence[Any]) -> ModelInputs:
    """Return the inputs with other tensors in the place of theirs, in the same order."""
    remaining = iter(tensors)
    return inputs.map(lambda leaf: next(remaining) if tf.is_tensor(leaf) else leaf)
