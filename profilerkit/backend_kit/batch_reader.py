"""Reads the batches of a data split: what a model is called with, what is expected of it, and how many samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..arguments.checks import to_call
from ..arguments.structures import map_leaves
from ..data_splits import LOADER, DataLoader
from ..error_text import shown
from ..errors import InputError
from ..inputs import ModelInputs

__all__ = ["BatchReader", "Samples", "Transform", "read_length"]

Transform: TypeAlias = "Callable[[Any, Any], tuple[Any, Any]]"
_TRANSFORM = to_call("a function of inputs and targets that returns both").or_none()


class Samples(NamedTuple):
    """The samples of one batch: the model's inputs and the targets, as a backend has them, and their number."""

    inputs: ModelInputs
    target: Any
    number: int


class BatchReader:
    """Reads the batches of a user's loader, for the models of one backend.

    Args:
        data_loader: A `DataLoader`, or any iterable of batches, of which ``wrap`` makes one.
        transform: Called with the inputs and the targets of each batch; returns both.
        as_tensor: Returns the backend's tensor for an array, and anything else as it is.
        is_tensor: Whether a value is a tensor of the backend.
        wrap: Returns the loader of the backend for an iterable of batches.

    Raises:
        ArgumentError: One of both is no loader, or no transform.
    """

    def __init__(
        self,
        data_loader: Iterable[Any],
        transform: Transform | None,
        as_tensor: Callable[[Any], Any],
        is_tensor: Callable[[Any], bool],
        wrap: Callable[[Any], DataLoader] = DataLoader,
    ) -> None:
        data_loader = LOADER("data_loader", data_loader)
        self.loader: DataLoader = data_loader if isinstance(data_loader, DataLoader) else wrap(data_loader)
        self._transform: Transform | None = _TRANSFORM("transform", transform)
        self._as_tensor = as_tensor
        self._is_tensor = is_tensor

    def read(self, batch: Any) -> Samples:
        """Return the samples of a batch of the loader."""
        forward_pass = self.loader.forward_pass
        inputs = forward_pass.extract_model_inputs(batch)
        target = map_leaves(forward_pass.extract_targets(batch), self._as_tensor)
        if self._transform is not None:
            inputs, target = _apply_transform(self._transform, inputs, target)
        model_inputs = ModelInputs.of(inputs).map(self._as_tensor)
        if isinstance(target, (tuple, list)) and target and all(isinstance(item, Mapping) for item in target):
            return Samples(model_inputs, target, len(target))  # boxes and labels of each image, as detectors take them
        return Samples(model_inputs, target, read_length([target, *model_inputs.leaves()], self._is_tensor))


def _apply_transform(transform: Transform, inputs: Any, target: Any) -> tuple[Any, Any]:
    """Return the inputs and the target that a user's transform returns; raises `InputError` if it returns no pair.

    Inputs that are a tuple of one are given to it without the tuple.
    """
    is_single = isinstance(inputs, tuple) and len(inputs) == 1
    pair: Any = transform(inputs[0] if is_single else inputs, target)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"transform returned {shown(pair)}; return the inputs and the targets: (inputs, targets)")
    return pair[0], pair[1]


def read_length(values: Iterable[Any], is_tensor: Callable[[Any], bool]) -> int:
    """Return the length of the first tensor that has one: of the target, or of an input; 1 if none has.

    A symbolic tensor of TensorFlow's has none.
    """
    lengths = (value.shape[0] for value in values if is_tensor(value) and len(value.shape))
    return next((int(length) for length in lengths if length is not None), 1)
