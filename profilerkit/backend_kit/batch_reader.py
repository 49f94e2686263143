"""Reads the batches of a data split: the inputs of a model, the targets, and the number of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
        ArgumentError: ``data_loader`` is no loader, or ``transform`` no function.
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
        return Samples(model_inputs, target, self._count_samples(target, list(model_inputs.leaves())))

    def _count_samples(self, target: Any, inputs: Sequence[Any]) -> int:
        """Return the number of samples: the length of the targets, if they have one, else that of the inputs.

        Detectors take targets by sample: a mapping with the boxes and labels of each image. But where all tensors in
        the mappings are as long as the inputs, these may be targets of several tasks, each for the whole batch.
        """
        is_mappings = isinstance(target, (tuple, list)) and target and all(isinstance(item, Mapping) for item in target)
        if not is_mappings:
            return read_length([target, *inputs], self._is_tensor)
        length = read_length(inputs, self._is_tensor)
        lengths_of_targets = {read_length([value], self._is_tensor) for item in target for value in item.values()}
        is_of_tasks = lengths_of_targets == {length} and len(target) not in (length, len(inputs))
        return length if is_of_tasks else len(target)


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

    A symbolic tensor of TensorFlow's may have dimensions whose lengths are not known.
    """
    lengths = (value.shape[0] for value in values if is_tensor(value) and len(value.shape))
    return next((int(length) for length in lengths if length is not None), 1)
