"""Scores of classifiers and losses over a data split, once for every backend: over numpy arrays.

A backend runs the model and yields `ScoredBatch` after `ScoredBatch`; what is right and what is wrong is decided here,
so that one model on one data set scores the same whichever framework it runs on. Everything is weighted by
samples, also if the last batch is shorter.
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
    """What one batch came to.

    Attributes:
        output: What the model returned, in the framework's own types.
        target: The targets, in the framework's own types.
        samples: How many samples the batch has.
        scores: Returns the scores as an array with the classes last: ``(batch, ..., classes)``, or ``(batch,)``.
        targets: Returns the targets as an array: class indices, or one-hot in the shape of the scores.
        probabilities: Whether the scores are probabilities (a sigmoid's result); None where that is not known.
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
    misses = _Misses(threshold)
    for batch in batches:
        misses.add(batch)
    return misses.compute_per_cent()


def accuracy(batches: Iterable[ScoredBatch], threshold: float | None = None) -> float:
    """Return the per cent of samples whose predicted class is the target; see `missclass`."""
    return 100.0 - missclass(batches, threshold)


_THRESHOLD = between(-math.inf, math.inf, "a number to compare a single score with").or_none()


class _Misses:
    """Counts wrong predictions, by both thresholds as long as it is not known which one is right."""

    def __init__(self, threshold: float | None) -> None:
        self._threshold: float | None = _THRESHOLD("threshold", threshold)
        self._total = self._wrong = self._lost = self._unmet = 0
        #: Of single scores that are not known to be probabilities or logits: how many are wrong as either of them.
        self._wrong_as_probabilities = self._wrong_as_logits = 0
        self._are_unsure = False
        self._in_unit_range = True

    def add(self, batch: ScoredBatch) -> None:
        """Count the wrong predictions of a batch."""
        scores = np.asarray(batch.scores())
        expected = _find_class_indices(np.asarray(batch.targets()), scores)
        self._total += expected.size
        lost = _find_lost(scores)
        self._lost += int(lost.sum())
        self._unmet += _count_unmet(expected, scores)
        if _is_single(scores):
            values = scores if scores.ndim == 1 else scores[..., 0]
            self._add_single(values, expected, self._choose_threshold(batch))
        else:
            self._wrong += int(((scores.argmax(-1) != expected) | lost).sum())

    def _add_single(self, values: Array, expected: Array, threshold: float | None) -> None:
        """Count the wrong ones of single scores; by both thresholds if it is not known which one is right."""
        is_in_unit_range = not bool(((values < 0) | (values > 1)).any())
        if self._threshold is None and values.dtype.kind in "iu" and not is_in_unit_range:
            raise InputError(
                f"the model gives one score of {values.dtype} for a sample, and which of these integers stands for a "
                "half is not known; give it: threshold=128, for example"
            )
        if threshold is not None:
            self._wrong += _count_wrong(values, expected, threshold)
            return
        self._are_unsure = True
        self._in_unit_range &= is_in_unit_range
        self._wrong_as_probabilities += _count_wrong(values, expected, 0.5)
        self._wrong_as_logits += _count_wrong(values, expected, 0.0)

    def _choose_threshold(self, batch: ScoredBatch) -> float | None:
        """Return what a single score is compared with; None if it is not known what the scores are."""
        if self._threshold is not None or batch.probabilities is None:
            return self._threshold
        return 0.5 if batch.probabilities else 0.0

    def compute_per_cent(self) -> float:
        """Return the per cent of wrong predictions; notes say if scores were taken for probabilities, or were none."""
        _note_lost(self._lost, self._total)
        _note_unmet(self._unmet, self._total)
        if not self._are_unsure:
            return 100.0 * self._wrong / _require_samples(self._total)
        if self._in_unit_range:
            note(
                "it is not known whether the model's scores are probabilities or logits; all of them lie from 0 to "
                "1, so a score above 0.5 counts as class 1; pass threshold=0 if they are logits, threshold=0.5 to say "
                "that they are not"
            )
        unsure = self._wrong_as_probabilities if self._in_unit_range else self._wrong_as_logits
        return 100.0 * (self._wrong + unsure) / _require_samples(self._total)


def _count_wrong(values: Array, expected: Array, threshold: float) -> int:
    """Return how many single scores are wrong; one that is no number predicts nothing."""
    is_wrong = (values > threshold) != expected
    return int((is_wrong | np.isnan(values)).sum())


def _find_lost(scores: Array) -> Array:
    """Return of each sample whether one of its scores is no number, as after an overflow: nothing is predicted then."""
    is_nan: Array = np.isnan(scores)
    return is_nan if scores.ndim == 1 else np.asarray(is_nan.any(-1))


def _note_lost(lost: int, total: int) -> None:
    if lost:
        note(f"{lost} of {total} samples have scores that are no numbers (nan); they count as wrong")


def _count_unmet(expected: Array, scores: Array) -> int:
    """Return how many targets are the number of no class, so that no prediction can meet them."""
    classes = 2 if _is_single(scores) else scores.shape[-1]
    return int((~np.isin(expected, np.arange(classes))).sum())


def _note_unmet(unmet: int, total: int) -> None:
    if unmet:
        note(
            f"{unmet} of {total} targets are the number of no class, such as -100, 0.5, or one beyond the last class; "
            "they count as wrong; leave such samples out, or give class indices from 0"
        )


def topk_hits(batches: Iterable[ScoredBatch], topk: Sequence[int]) -> dict[str, float]:
    """Return the per cent of samples whose target is among the k highest scores, by name: ``{"top-1": ...}``.

    Raises `ValueError` for scores that are not of shape ``(batch, classes)``, or of fewer classes than the largest k.
    """
    hits, guesses = dict.fromkeys(topk, 0), max(topk)
    total = lost = unmet = 0
    for batch in batches:
        scores = np.asarray(batch.scores())
        targets = _find_class_indices(np.asarray(batch.targets()), _require_classes(scores, guesses))
        is_lost = _find_lost(scores)
        is_right = (_rank_classes(scores)[:, :guesses] == targets[:, None]) & ~is_lost[:, None]
        for k in hits:
            hits[k] += int(is_right[:, :k].any(1).sum())
        total += len(scores)
        lost += int(is_lost.sum())
        unmet += _count_unmet(targets, scores)
    _note_lost(lost, total)
    _note_unmet(unmet, total)
    return {f"top-{k}": 100.0 * count / _require_samples(total) for k, count in hits.items()}


def _require_classes(scores: Array, guesses: int) -> Array:
    if scores.ndim != 2:
        raise ValueError(f"top-k needs scores of shape (batch, classes), but the model gives {scores.shape}")
    if scores.shape[1] < guesses:
        raise ValueError(f"topk: top-{guesses} needs as many classes, but the model gives {scores.shape[1]}")
    return scores


def _rank_classes(scores: Array) -> Array:
    """Return the classes of each sample, that with the highest score first."""
    falling = -scores.astype(np.float64)  # the integers of a quantized model have no negative, or another range
    return np.argsort(falling, axis=1, kind="stable")


def mean_loss(batches: Iterable[ScoredBatch], loss: Callable[[Any, Any], Any], mean: Callable[[Any], float]) -> float:
    """Return the mean over samples of ``loss(output, target)``; a loss that is a dict of parts counts as their sum.

    ``mean`` makes one number of what the loss returned, or of a part of it.
    """
    weighted, total = 0.0, 0
    for batch in batches:
        value = loss(batch.output, batch.target)
        weighted += sum(map(mean, value.values() if isinstance(value, Mapping) else [value])) * batch.samples
        total += batch.samples
    return weighted / _require_samples(total)


def _is_single(scores: Array) -> bool:
    return scores.ndim == 1 or scores.shape[-1] == 1


def _find_class_indices(targets: Array, scores: Array) -> Array:
    """Return the class of each target, in the shape of the scores without their classes."""
    samples = scores.shape if scores.ndim == 1 else scores.shape[:-1]
    if not _is_single(scores) and targets.shape == scores.shape:
        highest: Array = targets.argmax(-1)
        return highest
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
