"""Scores of models that a runtime calls with numpy arrays: for the backends that read a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from profilerkit import InputError, ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.batch_reader import BatchReader, Transform
from profilerkit.backend_kit.numpy_data import as_tensor
from profilerkit.error_text import shown

from .scoring import Batches, ScoredBatch

__all__ = ["ReadyModel", "score_with"]


class ReadyModel(NamedTuple):
    """A model that is ready to run.

    Attributes:
        call: Runs it on the arrays of a batch.
        gives_probabilities: Whether its scores are probabilities; None if that is not known.
    """

    call: Callable[[ModelInputs], Any]
    gives_probabilities: bool | None


def score_with(make_ready: Callable[[Any, DeviceLike], ReadyModel]) -> Batches:
    """Return the `Batches` of a backend, whose models are run on every batch of a loader.

    Args:
        make_ready: Called with the user's model, or its path, and a device, once for all batches.
    """

    @contextmanager  # as `Batches` asks for; a model in a runtime has no mode to put back
    def score_batches(
        model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
    ) -> Iterator[Iterable[ScoredBatch]]:
        ready = make_ready(model, device)
        reader = BatchReader(data_loader, transform, as_tensor, lambda value: isinstance(value, np.ndarray))
        yield _score_batches(ready, reader)

    return score_batches


def _score_batches(model: ReadyModel, reader: BatchReader) -> Iterator[ScoredBatch]:
    """Run a model on each batch; yield what its scores are computed from."""
    for batch in reader.loader:
        inputs, target, samples = reader.read(batch)
        output = model.call(inputs)
        # Read only when asked for: a loss takes the output itself, which need not be one array of scores.
        scores, targets = partial(_read_scores, output, np.shape(target)), partial(_read_targets, output, target)
        yield ScoredBatch(output, target, samples, scores, targets, model.gives_probabilities)


def _read_scores(output: Any, target_shape: tuple[int, ...]) -> Any:
    """Return the scores of a batch with the classes last."""
    if not isinstance(output, np.ndarray) or output.ndim == 0:
        raise InputError(
            f"the model gives {shown(output)} for a batch, not one array with a score for each sample; evaluate a "
            "model with one output"
        )
    is_foreign = output.dtype.isbuiltin == 2  # registered by another package, such as bfloat16
    return _move_classes_last(output.astype(np.float32) if is_foreign else output, target_shape)


def _read_targets(output: Any, target: Any) -> Any:
    """Return the targets of a batch: class indices, or one-hot with the classes last."""
    targets = np.asarray(target)
    is_one_hot = targets.shape == np.shape(output)
    return _move_classes_last(targets, targets.shape) if is_one_hot else targets


def _move_classes_last(values: Any, target_shape: tuple[int, ...]) -> Any:
    """Return scores, or one-hot targets, with the classes as the last dimension.

    Class indices have the shape of the scores without the dimension of the classes, which tells where it is. Where
    the last and the second dimension fit, or neither, as for one-hot targets, it is the second: most models of images
    and sequences have it there.
    """
    shape = values.shape
    if len(shape) < 3:
        return values
    fits_second, fits_last = target_shape == (shape[0], *shape[2:]), target_shape == shape[:-1]
    is_last = fits_last and not fits_second
    return values if is_last else np.moveaxis(values, 1, -1)
