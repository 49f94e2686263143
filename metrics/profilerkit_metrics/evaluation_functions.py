"""The functions that evaluate a model on a data split, made for every backend from its way to run a model.

A backend gives `Batches`, which run a model over a loader; `scoring` decides which predictions are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from profilerkit import ArgumentError
from profilerkit.arguments.checks import Check, at_least, several, to_call
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.batch_reader import Transform
from profilerkit.error_text import shown
from profilerkit.process.restoring import whole_call

from .scoring import Batches, accuracy, mean_loss, missclass, topk_hits

__all__ = ["EvaluationFunctions", "GetTopk", "LossEvaluation", "ScoreFunction"]


class LossEvaluation:
    """Evaluates a loss: the mean over samples of the results of ``loss_fn(output, target)`` for each batch.

    A loss of several values counts as their mean, a dict of parts as their sum. Raises `ArgumentError` for a loss with
    ``reduction="sum"``, which adds the samples of a batch up.

    Attributes:
        batches: How a backend runs a model over a loader: a static method of the backend's class.
    """

    batches: Batches
    better = "lower"

    def __init__(self, loss_fn: Callable[[Any, Any], Any]) -> None:
        self.loss_fn: Callable[[Any, Any], Any] = to_call("a function of outputs and targets")("loss_fn", loss_fn)
        called, fixed = (loss_fn.func, loss_fn.keywords) if isinstance(loss_fn, partial) else (loss_fn, {})
        if fixed.get("reduction", getattr(called, "reduction", None)) == "sum":
            raise ArgumentError(f"loss_fn={shown(loss_fn)} adds the samples up; give one that returns their mean")
        self.__name__: str = f"EvalLossFunction({getattr(loss_fn, '__name__', type(loss_fn).__name__)})"

    @whole_call
    def __call__(
        self, model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
    ) -> float:
        """Return the mean loss."""
        with self.batches(model, data_loader, device, transform) as batches:
            return mean_loss(batches, self.loss, self.mean)

    def loss(self, output: Any, target: Any) -> Any:
        """Return the loss of one batch."""
        return self.loss_fn(output, target)

    @staticmethod
    def mean(value: Any) -> float:
        """Return the mean of a loss's result; a backend whose tensors numpy cannot read replaces this method."""
        return float(np.mean(np.asarray(value, np.float64)))


def _read_guesses(value: Any) -> tuple[int, ...]:
    """Return how many guesses a target may be among; raises `ValueError` for none, as `Check` expects."""
    single = isinstance(value, int) or getattr(value, "shape", None) == ()
    guesses = tuple(map(at_least(1).read, [value] if single else several(value)))
    if not guesses:
        raise ValueError
    return guesses


_GUESSES = Check("a number of guesses from 1, or several such as (1, 5)", _read_guesses)


class GetTopk:
    """Callable with a model and a loader; called without, it returns itself for other values of k."""

    __name__ = "get_topk"
    better = "higher"

    def __init__(self, batches: Batches, topk: int | Sequence[int] = (1, 5)) -> None:
        self._batches = batches
        self.topk: tuple[int, ...] = _GUESSES("topk", topk)

    @whole_call
    def __call__(
        self,
        model: Any = None,
        data_loader: Iterable[Any] | None = None,
        device: DeviceLike = None,
        topk: int | Sequence[int] | None = None,
        transform: Transform | None = None,
    ) -> Any:
        """Return the per cent of samples whose target is among the k highest scores, by name: ``{"top-1": ...}``."""
        requested = self if topk is None else GetTopk(self._batches, topk)
        if model is None or data_loader is None:
            return requested
        with self._batches(model, data_loader, device, transform) as batches:
            return topk_hits(batches, requested.topk)


class ScoreFunction(Protocol):
    """A percentage of the samples of a data split: a method of `EvaluationFunctions`."""

    def __call__(
        self,
        model: Any,
        data_loader: Iterable[Any],
        device: DeviceLike = None,
        transform: Transform | None = None,
        threshold: float | None = None,
    ) -> float:
        """Return the percentage."""


F = TypeVar("F", bound=Callable[..., Any])


def _better(direction: str) -> Callable[[F], F]:
    """Have a function say which of its values are better, "higher" or "lower", as `ComputeEvalMetric` reads it."""

    def mark(function: F) -> F:
        function.better = direction  # type: ignore[attr-defined]
        return function

    return mark


class EvaluationFunctions:
    """The evaluation functions of one backend, made of the way it runs a model over a loader (``batches``)."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.get_topk: GetTopk = GetTopk(batches)

    @_better("lower")
    @whole_call
    def get_missclass(
        self,
        model: Any,
        data_loader: Iterable[Any],
        device: DeviceLike = None,
        transform: Transform | None = None,
        threshold: float | None = None,
    ) -> float:
        """Return the percentage of samples whose predicted class is not the target.

        The model runs in inference mode and is not changed.

        Args:
            model: Gives scores of shape ``(batch, classes, ...)`` (PyTorch) or ``(batch, ..., classes)`` (Keras); with
                one class, or of shape ``(batch,)``, a score above the threshold is class 1.
            data_loader: Batches of inputs and targets: class indices, of shape ``(batch, ...)`` or
                ``(batch, ..., 1)``, or one-hot in the shape of the scores. A target that is no class, such as -100 or
                a one-hot row of several classes, counts as wrong, with a warning.
            device: The device of the inputs. Default: the device of the model.
            transform: A function of the inputs and targets of each batch, which is called before the model.
            threshold: The limit of a single score. Default: 0.5 if the model ends in a sigmoid, 0 if it ends in another
                operation. If the end is unknown: 0.5, with a warning, if all scores of the split are from 0 to 1;
                otherwise 0. The integers of a quantized model need one.
        """
        with self._batches(model, data_loader, device, transform) as batches:
            return missclass(batches, threshold)

    @_better("higher")
    @whole_call
    def get_accuracy(
        self,
        model: Any,
        data_loader: Iterable[Any],
        device: DeviceLike = None,
        transform: Transform | None = None,
        threshold: float | None = None,
    ) -> float:
        """Return the percentage of samples whose predicted class is the target, with the same arguments."""
        with self._batches(model, data_loader, device, transform) as batches:
            return accuracy(batches, threshold)
