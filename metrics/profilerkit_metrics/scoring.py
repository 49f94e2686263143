"""Scores of classifiers and losses over a data split, once for every backend: over numpy arrays.

A backend runs the model and yields a `ScoredBatch` for each batch. Which predictions are right is decided here, so that
one model has one score on a data set in every framework. Everything is weighted by samples, also if the last batch is
shorter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from profilerkit import InputError
from profilerkit.arguments.checks import between
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.batch_reader import Transform

from .scoring_notes import note

__all__ = [
    "Batches",
    "ScoredBatch",
    "accuracy",
    "mean_loss",
    "missclass",
    "topk_hits",
]

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class ScoredBatch:
    """The outputs and the targets of one batch.

    Attributes:
        output: The output of the model, in the framework's own types.
        target: The targets, in the framework's own types.
        samples: How many samples the batch has.
        scores: Returns the scores as an array with the classes last: ``(batch, ..., classes)``, or ``(batch,)``.
        targets: Returns the targets as an array: class indices, or one-hot in the shape of the scores.
        probabilities: Whether the scores are probabilities (a sigmoid's result); None if unknown.
    """

    output: Any
    target: Any
    samples: int
    scores: Callable[[], Array]
    targets: Callable[[], Array]
    probabilities: bool | None = None


#: Runs a model over a loader: called with the model, the loader, a device and a transform; inside the block the model
#: is in inference mode, and at its end as it was.
Batches: TypeAlias = (
    "Callable[[Any, Iterable[Any], DeviceLike, Transform | None], AbstractContextManager[Iterable[ScoredBatch]]]"
)


def missclass(batches: Iterable[ScoredBatch], threshold: float | None = None) -> float:
    """Return the per cent of samples whose predicted class is not the target.

    With several classes the highest score is the prediction. A single score is class 1 above the threshold: 0.5 for
    probabilities, 0 for logits. Where it is not known which of both they are, it is 0.5 if all scores of the split
    lie from 0 to 1, which a warning says, and 0 elsewhere. A target that is the number of no class counts as wrong,
    which a warning says too.
    """
    samples, single = _Samples(), _SingleScores(_THRESHOLD("threshold", threshold))
    wrong = 0
    for batch in batches:
        scores = np.asarray(batch.scores())
        expected = _find_class_indices(np.asarray(batch.targets()), scores)
        is_lost = samples.add(scores, expected)
        if _is_single(scores):
            single.add(scores.reshape(expected.shape), expected, batch.probabilities)
        else:
            wrong += int(((scores.argmax(-1) != expected) | is_lost).sum())
    total = samples.count()
    return 100.0 * (wrong + single.count_wrong()) / total


def accuracy(batches: Iterable[ScoredBatch], threshold: float | None = None) -> float:
    """Return the per cent of samples whose predicted class is the target; see `missclass`."""
    return 100.0 - missclass(batches, threshold)


def topk_hits(batches: Iterable[ScoredBatch], topk: Sequence[int]) -> dict[str, float]:
    """Return the per cent of samples whose target is among the k highest scores, by name: ``{"top-1": ...}``.

    Raises `ValueError` for scores that are not of shape ``(batch, classes)``, of fewer classes than the largest k, or
    of one: a single score has no order, and says by its height which of two classes it is, see `missclass`.
    """
    hits, guesses = dict.fromkeys(topk, 0), max(topk)
    samples = _Samples()
    for batch in batches:
        scores = np.asarray(batch.scores())
        targets = _find_class_indices(np.asarray(batch.targets()), _require_classes(scores, guesses))
        is_lost = samples.add(scores, targets)
        is_right = (_rank_classes(scores)[:, :guesses] == targets[:, None]) & ~is_lost[:, None]
        for k in hits:
            hits[k] += int(is_right[:, :k].any(1).sum())
    total = samples.count()
    return {f"top-{k}": 100.0 * count / total for k, count in hits.items()}


def mean_loss(batches: Iterable[ScoredBatch], loss: Callable[[Any, Any], Any], mean: Callable[[Any], float]) -> float:
    """Return the mean over samples of ``loss(output, target)``; a loss that is a dict of parts counts as their sum.

    ``mean`` makes one number of the result of the loss, or of a part of it. Raises `InputError` for a loss without
    parts.
    """
    weighted, total = 0.0, 0
    for batch in batches:
        value = loss(batch.output, batch.target)
        parts = list(value.values()) if isinstance(value, Mapping) else [value]
        if not parts:
            raise InputError("the loss is a dict without parts; give one that returns a number, or parts that add up")
        weighted += sum(map(mean, parts)) * batch.samples
        total += batch.samples
    return weighted / _require_samples(total)


@dataclass
class _Samples:
    """The samples of a split: how many there are, how many have lost their scores, and how many targets are none."""

    total: int = 0
    lost: int = 0
    unmet: int = 0

    def add(self, scores: Array, expected: Array) -> Array:
        """Take the samples of a batch; return of each whether a score is no number, as after an overflow.

        Nothing is predicted then. Nor can a prediction meet a target that is the number of no class.
        """
        is_nan: Array = np.isnan(scores)
        is_lost = is_nan if scores.ndim == 1 else np.asarray(is_nan.any(-1))
        classes = 2 if _is_single(scores) else scores.shape[-1]
        self.total += expected.size
        self.lost += int(is_lost.sum())
        self.unmet += int((~np.isin(expected, np.arange(classes))).sum())
        return is_lost

    def count(self) -> int:
        """Return the number of samples, with notes on wrong samples; raises `InputError` if there are none."""
        if self.lost:
            note(f"{self.lost} of {self.total} samples have scores that are no numbers (nan); they count as wrong")
        if self.unmet:
            note(
                f"{self.unmet} of {self.total} targets are no class, such as -100, 0.5, one beyond the last class, or "
                "a one-hot row of several classes; they count as wrong; leave such samples out, or give class indices "
                "from 0"
            )
        return _require_samples(self.total)


# A single score for each sample ---------------------------------------------------------------------------------------


_THRESHOLD = between(-math.inf, math.inf, "a number to compare a single score with").or_none()
_OF_PROBABILITIES, _OF_LOGITS = 0.5, 0.0


class _SingleScores:
    """Counts single scores that are wrong; if they may be probabilities or logits, after all of them were seen."""

    def __init__(self, threshold: float | None) -> None:
        self._threshold = threshold
        self._wrong = 0
        #: Of scores that may be either, how many are wrong by each threshold.
        self._wrong_of_unknown = {_OF_PROBABILITIES: 0, _OF_LOGITS: 0}
        self._has_unknown = False
        self._lie_in_unit_range = True

    def add(self, values: Array, expected: Array, are_probabilities: bool | None) -> None:
        """Take the scores of a batch."""
        if self._threshold is not None:
            self._wrong += _count_wrong(values, expected, self._threshold)
            return
        lie_in_unit_range = not bool(((values < 0) | (values > 1)).any())
        if values.dtype.kind in "iu" and not lie_in_unit_range:
            raise InputError(
                f"the model gives one score of {values.dtype} for a sample, and which of these integers stands for a "
                "half is not known; give it: threshold=128, for example"
            )
        if are_probabilities is not None:
            self._wrong += _count_wrong(values, expected, _OF_PROBABILITIES if are_probabilities else _OF_LOGITS)
            return
        self._has_unknown = True
        self._lie_in_unit_range &= lie_in_unit_range
        for threshold in self._wrong_of_unknown:
            self._wrong_of_unknown[threshold] += _count_wrong(values, expected, threshold)

    def count_wrong(self) -> int:
        """Return how many are wrong; a note says where they were taken for probabilities."""
        if self._has_unknown and self._lie_in_unit_range:
            note(
                "it is not known whether the model's scores are probabilities or logits; all of them lie from 0 to "
                "1, so a score above 0.5 counts as class 1; pass threshold=0 if they are logits, threshold=0.5 to say "
                "that they are not"
            )
        return self._wrong + self._wrong_of_unknown[_OF_PROBABILITIES if self._lie_in_unit_range else _OF_LOGITS]


def _count_wrong(values: Array, expected: Array, threshold: float) -> int:
    """Return how many single scores are wrong; one that is no number predicts nothing."""
    is_wrong = (values > threshold) != expected
    return int((is_wrong | np.isnan(values)).sum())


# Scores and targets as arrays -----------------------------------------------------------------------------------------


def _require_classes(scores: Array, guesses: int) -> Array:
    if scores.ndim != 2:
        raise ValueError(f"top-k needs scores of shape (batch, classes), but the model gives {scores.shape}")
    if scores.shape[1] < guesses:
        raise ValueError(f"topk: top-{guesses} needs as many classes, but the model gives {scores.shape[1]}")
    if scores.shape[1] == 1:
        raise ValueError("top-k needs the scores of several classes, but the model gives one score; see get_accuracy")
    return scores


def _rank_classes(scores: Array) -> Array:
    """Return the classes of each sample, that with the highest score first."""
    falling = -scores.astype(np.float64)  # the integers of a quantized model have no negative, or another range
    return np.argsort(falling, axis=1, kind="stable")


def _is_single(scores: Array) -> bool:
    return scores.ndim == 1 or scores.shape[-1] == 1


def _find_class_indices(targets: Array, scores: Array) -> Array:
    """Return the class of each target, in the shape of the scores without their classes.

    Of a one-hot row that marks several classes, or none, it is -1: no class.
    """
    samples = scores.shape if scores.ndim == 1 else scores.shape[:-1]
    if not _is_single(scores) and targets.shape == scores.shape:
        marks = (targets == targets.max(-1, keepdims=True)).sum(-1)
        return np.where(marks == 1, targets.argmax(-1), -1)
    if targets.size != int(np.prod(samples)):
        raise InputError(
            f"targets of shape {targets.shape} do not fit scores of shape {scores.shape}; give class indices of shape "
            f"{samples}, or one-hot targets of the shape of the scores"
        )
    indices: Array = targets.reshape(samples)
    return indices


def _require_samples(total: int) -> int:
    if total == 0:
        raise InputError("the data split has no samples to evaluate on; give a data_loader with at least one batch")
    return total
