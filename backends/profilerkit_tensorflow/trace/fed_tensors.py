"""The tensors among a model's inputs, which a traced program takes; all else is a part of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit import ModelInputs

__all__ = ["FedTensors", "find_fed_tensors", "is_fed"]


class FedTensors(NamedTuple):
    """The tensors among the inputs.

    Attributes:
        specs: Their types.
        put_back: Returns the inputs with other tensors in their place.
    """

    specs: list[Any]
    put_back: Callable[[Sequence[Any]], ModelInputs]


def find_fed_tensors(inputs: ModelInputs) -> FedTensors:
    """Return the tensors among the inputs."""

    def put_back(tensors: Sequence[Any]) -> ModelInputs:
        waiting = iter(tensors)
        return inputs.map(lambda leaf: next(waiting) if is_fed(leaf) else leaf)

    return FedTensors([tf.type_spec_from_value(leaf) for leaf in inputs.leaves() if is_fed(leaf)], put_back)


def is_fed(leaf: Any) -> bool:
    """Return whether an input is a tensor, also a sparse or ragged one, or a variable."""
    return tf.is_tensor(leaf) or isinstance(leaf, tf.Variable)
