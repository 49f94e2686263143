"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model and a loader, and is weighted by samples: a short last batch counts for what it holds. The model
runs in inference mode, in a loop of our own: ``model.evaluate`` and ``compile`` would change it.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from profilerkit import DataLoader, InputError, ModelInputs, ProfilerKitWarning
from profilerkit.backend import DeviceLike
from profilerkit.errors import ProfilerKitError
from profilerkit.structures import map_leaves

from .calling import CompiledCall, compiled
from .data import TFDataLoader, as_tensor, is_tensor
from .devices import resolve_device
from .failing import failed
from .layouts import fitted
from .preservation import preserved
from .running import build_weightless, require_values

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]

Transform = Callable[[Any, Any], tuple[Any, Any]]


def get_missclass(
    model: Any,
    data_loader: Iterable[Any],
    device: DeviceLike = None,
    transform: Transform | None = None,
    threshold: float | None = None,
) -> float:
    """Return the per cent of samples whose predicted class is not the target.

    Args:
        model: Gives scores of shape ``(batch, ..., classes)``; with one class, or of shape ``(batch,)``, a score above
            the threshold is class 1.
        data_loader: Batches of inputs and targets: class indices, of shape ``(batch, ...)`` or ``(batch, ..., 1)``, or
            one-hot. Targets of the very shape of scores with several classes are taken as one-hot.
        device: Where the model runs; where it is unless given.
        transform: Called with inputs and targets of each batch before the model is.
        threshold: What a single score is compared with. Unless given 0, as a logit is; 0.5 where the model is seen to
            end in a sigmoid. Where that is not seen and all scores lie in 0 to 1, a warning says so.
    """
    run = compiled(model)
    scores = _SingleScores(run, threshold)
    wrong = total = 0
    with preserved(model, variable_values=True):
        for output, target, _ in _outputs(run, data_loader, device, transform):
            found = _scores(output)
            predicted, expected = scores.classes(found), _class_indices(target, found)
            wrong += int(tf.math.count_nonzero(tf.not_equal(predicted, expected)))
            total += int(tf.size(expected))
    scores.warn_of_probabilities()
    return 100.0 * wrong / _counted(total)


def get_accuracy(
    model: Any,
    data_loader: Iterable[Any],
    device: DeviceLike = None,
    transform: Transform | None = None,
    threshold: float | None = None,
) -> float:
    """Return the per cent of samples whose predicted class is the target; see `get_missclass` for the arguments."""
    return 100.0 - get_missclass(model, data_loader, device, transform, threshold)


class _GetTopk:
    """Callable with a model and a loader; called without, it returns itself for other values of k."""

    __name__ = "get_topk"

    def __init__(self, topk: Sequence[int] = (1, 5)) -> None:
        self.topk = tuple(topk)
        if not self.topk or any(k < 1 for k in self.topk):
            raise ValueError(f"topk={topk!r}: give numbers of guesses from 1, such as (1, 5)")

    def __call__(
        self,
        model: Any = None,
        data_loader: Iterable[Any] | None = None,
        device: DeviceLike = None,
        topk: Sequence[int] | None = None,
        transform: Transform | None = None,
    ) -> Any:
        """Return the per cent of samples whose target is among the k highest scores, by name: ``{"top-1": ...}``."""
        wanted = _GetTopk(topk) if topk is not None else self
        if model is None or data_loader is None:
            return wanted
        hits = dict.fromkeys(wanted.topk, 0)
        total = 0
        with preserved(model, variable_values=True):
            for output, target, _ in _outputs(compiled(model), data_loader, device, transform):
                scores = _scores(output)
                right = _ranked(scores, max(wanted.topk)) == _class_indices(target, scores)[:, None]
                for k in wanted.topk:
                    hits[k] += int(tf.math.count_nonzero(tf.reduce_any(right[:, :k], axis=1)))
                total += int(scores.shape[0])
        return {f"top-{k}": 100.0 * count / _counted(total) for k, count in hits.items()}


get_topk = _GetTopk()


class EvalLossFunction:
    """Evaluates a loss: the mean over samples of what ``loss_fn(output, target)`` returns for each batch.

    A ``keras.losses.Loss``, or a function whose first parameter is ``y_true``, is called in Keras' order:
    ``loss_fn(target, output)``. A loss of several values counts as their mean, a dict of parts as their sum.
    """

    def __init__(self, loss_fn: Callable[[Any, Any], Any]) -> None:
        self.loss_fn = loss_fn
        self.__name__ = f"EvalLossFunction({getattr(loss_fn, '__name__', type(loss_fn).__name__)})"

    def __call__(
        self, model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
    ) -> float:
        """Return the mean loss."""
        target_first = _takes_target_first(self.loss_fn)
        loss = 0.0
        total = 0
        with preserved(model, variable_values=True):
            for output, target, samples in _outputs(compiled(model), data_loader, device, transform):
                value = self.loss_fn(target, output) if target_first else self.loss_fn(output, target)
                loss += sum(map(_mean, value.values() if isinstance(value, Mapping) else [value])) * samples
                total += samples
        return loss / _counted(total)


class _SingleScores:
    """Turns scores into classes, and single scores by a threshold that suits what the model ends in."""

    def __init__(self, run: CompiledCall, threshold: float | None) -> None:
        self.run = run
        self.threshold = threshold
        #: The range of the scores that were compared with 0 for want of anything better.
        self.low = self.high = 0.5
        self.unsure = False

    def classes(self, scores: tf.Tensor) -> tf.Tensor:
        """Return the class of each sample: the one with the highest score, or whether a single one is above."""
        if not _is_single(scores):
            return tf.cast(tf.argmax(scores, axis=-1), tf.float64)
        single = tf.cast(scores if scores.shape.rank == 1 else scores[..., 0], tf.float64)
        if self.threshold is not None:
            return tf.cast(single > self.threshold, tf.float64)
        if self.run.ends_in_sigmoid is None and tf.size(single):
            self.low = min(self.low, float(tf.reduce_min(single)))
            self.high = max(self.high, float(tf.reduce_max(single)))
            self.unsure = True
        return tf.cast(single > (0.5 if self.run.ends_in_sigmoid else 0.0), tf.float64)

    def warn_of_probabilities(self) -> None:
        """Warn where scores that were compared with 0, as logits, look like probabilities."""
        if self.unsure and self.low >= 0 and self.high <= 1:
            warnings.warn(
                "all the model's scores lie from 0 to 1, as probabilities do, but were compared with 0, as logits are: "
                "every one above it counts as class 1; pass threshold=0.5 for probabilities, threshold=0 for logits",
                ProfilerKitWarning,
                stacklevel=3,
            )


def _outputs(
    run: CompiledCall, data_loader: Iterable[Any], device: DeviceLike, transform: Transform | None
) -> Iterator[tuple[Any, Any, int]]:
    """Yield the model's output, the target and the number of samples of each batch."""
    place = resolve_device(run.model, device)
    loader = data_loader if isinstance(data_loader, DataLoader) else TFDataLoader(data_loader)
    if isinstance(loader, TFDataLoader) and loader.endless:
        raise InputError(
            "the data set has no end, so there is nothing to evaluate to; give dataset.take(n), of n batches"
        )
    for batch in loader:
        with tf.device(place):  # never across a yield: the device would be the caller's too
            inputs = loader.forward_pass.extract_model_inputs(batch)
            target = map_leaves(loader.forward_pass.extract_targets(batch), as_tensor)
            if transform is not None:
                inputs, target = transform(_alone(inputs), target)
            placed = fitted(run.model, ModelInputs.of(inputs).map(as_tensor))
            samples = _first_dimension([target, *placed.leaves()])
            try:
                require_values(run.model, placed)
                build_weightless(run.model, placed)
                output = run(*placed.args, **placed.kwargs)
            except ProfilerKitError:
                raise
            except Exception as error:  # whatever the model raises
                raise failed(run.model, error, placed) from error
        yield output, target, samples


def _scores(output: Any) -> tf.Tensor:
    """Return the one tensor of scores: the output, or the only entry of a dict or list that a saved model gives."""
    entries = list(output.values()) if isinstance(output, Mapping) else output
    if isinstance(entries, (list, tuple)):
        if len(entries) != 1:
            named = ", ".join(map(repr, output)) if isinstance(output, Mapping) else f"{len(entries)} entries"
            raise InputError(
                f"the model gives a {type(output).__name__} of {named}, not one tensor of scores; evaluate a callable "
                "that returns the one to score"
            )
        return _scores(entries[0])
    return tf.convert_to_tensor(output)


def _is_single(scores: tf.Tensor) -> bool:
    return bool(scores.shape.rank == 1 or scores.shape[-1] == 1)


def _class_indices(target: Any, scores: tf.Tensor) -> tf.Tensor:
    """Return the class of each target, in the shape of the scores without their classes."""
    given = tf.convert_to_tensor(target)
    single = _is_single(scores)
    samples = scores.shape if scores.shape.rank == 1 else scores.shape[:-1]
    if not single and given.shape == scores.shape:
        return tf.cast(tf.argmax(given, axis=-1), tf.float64)
    if given.shape.num_elements() != samples.num_elements():
        raise InputError(
            f"targets of shape {given.shape} do not fit scores of shape {scores.shape}; give class indices of shape "
            f"{samples}, or one-hot targets of the shape of the scores"
        )
    return tf.cast(tf.reshape(given, samples), tf.float64)


def _ranked(scores: tf.Tensor, guesses: int) -> tf.Tensor:
    """Return the classes of the highest scores, the highest first."""
    if scores.shape.rank != 2:
        raise ValueError(f"top-k needs scores of shape (batch, classes), but the model gives {scores.shape}")
    if scores.shape[1] < guesses:
        raise ValueError(f"top-{guesses} needs as many classes, but the model gives {scores.shape[1]}")
    return tf.cast(tf.math.top_k(scores, guesses).indices, tf.float64)


def _takes_target_first(loss_fn: Callable[..., Any]) -> bool:
    """Say whether a loss has Keras' order of arguments: (y_true, y_pred)."""
    for package in ("keras", "tf_keras"):
        losses = getattr(sys.modules.get(package), "losses", None)
        if losses is not None and isinstance(loss_fn, losses.Loss):
            return True
    try:
        names = list(inspect.signature(loss_fn).parameters)
    except (TypeError, ValueError):  # a callable without a signature, such as one of C's
        return False
    return names[:1] == ["y_true"]


def _mean(value: Any) -> float:
    return float(tf.reduce_mean(tf.cast(value, tf.float64)))


def _first_dimension(candidates: Iterable[Any]) -> int:
    """Return the length of the first tensor that has one: of the target, or of an input; 1 where none has."""
    return next((int(value.shape[0]) for value in candidates if is_tensor(value) and len(value.shape)), 1)


def _alone(inputs: Any) -> Any:
    return inputs[0] if isinstance(inputs, tuple) and len(inputs) == 1 else inputs


def _counted(total: int) -> int:
    if total == 0:
        raise InputError("the data split has no samples to evaluate on")
    return total
