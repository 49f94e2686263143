"""Scores of models that a runtime calls with numpy arrays: for the backends that read a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from profilerkit import ArgumentError, InputError, ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.batch_reader import BatchReader, Transform
from profilerkit.backend_kit.numpy_data import as_tensor
from profilerkit.error_text import shown

from .evaluation_functions import LossEvaluation
from .scoring import Batches, ScoredBatch

__all__ = ["ArrayLossEvaluation", "ReadyModel", "score_opened"]

#: What runs a model on the arrays of a batch, and whether it gives probabilities; None if that is not known.
ReadyModel: TypeAlias = "tuple[Callable[[ModelInputs], Any], bool | None]"


class ArrayLossEvaluation(LossEvaluation):
    """Evaluates a loss of numpy arrays; a backend's subclass says how it runs a model over a loader.

    A loss of several values counts as their mean, a dict of parts as their sum.
    """

    @staticmethod
    def mean(value: Any) -> float:
        """Return the mean of what a loss returned."""
        return float(np.mean(np.asarray(value, np.float64)))


def score_opened(
    open_model: Callable[[Any], Any],
    model_type: type[Any],
    advice: str,
    make_ready: Callable[[Any, DeviceLike], ReadyModel],
) -> Batches:
    """Return what scores the batches of a loader by the model of a file.

    Args:
        open_model: Returns the model of a path, and anything else as it is.
        model_type: What it must be then; anything else raises `ArgumentError`.
        advice: What to give instead.
        make_ready: Called with the opened model and a device, once for all batches.

    What is no loader, and no transform, raises `ArgumentError` too.
    """

    @contextmanager
    def score_batches(
        model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
    ) -> Iterator[Iterable[ScoredBatch]]:
        opened = open_model(model)
        if not isinstance(opened, model_type):
            raise ArgumentError(f"model={shown(model)}: {advice}")
        reader = BatchReader(data_loader, transform, as_tensor, _is_array)
        yield _score_batches(*make_ready(opened, device), reader)

    return score_batches


def _score_batches(
    call: Callable[[ModelInputs], Any], probabilities: bool | None, reader: BatchReader
) -> Iterator[ScoredBatch]:
    """Yield the scored batches of a loader."""
    for inputs, target, number in map(reader.read, reader.loader):
        output = call(inputs)
        scores, targets = partial(_read_scores, output, np.shape(target)), partial(_read_targets, output, target)
        yield ScoredBatch(output, target, number, scores, targets, probabilities)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _read_scores(output: Any, target_shape: tuple[int, ...]) -> Any:
    """Return the scores with the classes last; of images and sequences they are the second dimension in most models.

    The shape of the targets tells where it is: all dimensions of the scores but that of the classes.
    """
    if not isinstance(output, np.ndarray) or output.ndim == 0:
        raise InputError(
            f"the model gives {shown(output)} for a batch, not one array with a score for each sample; evaluate a "
            "model with one output"
        )
    scores = output.astype(np.float32) if output.dtype.isbuiltin == 2 else output
    return np.moveaxis(scores, 1, -1) if _has_classes_second(scores.shape, target_shape) else scores


def _read_targets(output: Any, target: Any) -> Any:
    targets = np.asarray(target)
    is_moved = targets.shape == np.shape(output) and _has_classes_second(targets.shape, targets.shape)
    return np.moveaxis(targets, 1, -1) if is_moved else targets


def _has_classes_second(shape: tuple[int, ...], target_shape: tuple[int, ...]) -> bool:
    if len(shape) < 3:
        return False
    fits_second, fits_last = target_shape == (shape[0], *shape[2:]), target_shape == shape[:-1]
    return fits_second or not fits_last
