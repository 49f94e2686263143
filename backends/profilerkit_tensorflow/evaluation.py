"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model and a loader. The model runs in inference mode, in a separate loop (``model.evaluate`` and
``compile`` would change it), and is restored afterwards; `profilerkit_metrics.scoring` computes the scores, for every
framework alike.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit import InputError
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.batch_reader import BatchReader, Transform
from profilerkit.backend_kit.keras_kinds import ends_in_sigmoid, is_any_keras
from profilerkit.error_text import shown
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.scoring import Batches, ScoredBatch

from .data import TFDataLoader, as_tensor, is_tensor
from .model.inputs import fit_inputs
from .running.devices import use_device
from .running.repeated_calls import RepeatedCall
from .untouched.preservation import preserve

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


@contextmanager
def score_batches(
    model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
) -> Iterator[Iterable[ScoredBatch]]:
    """Yield the scored batches of a loader, on which the model runs in inference mode; restore the model."""
    reader = BatchReader(data_loader, transform, as_tensor, is_tensor, TFDataLoader)
    if isinstance(reader.loader, TFDataLoader) and reader.loader.endless:
        raise InputError(
            "the data set has no end, so there is nothing to evaluate to; give dataset.take(n), of n batches"
        )
    with preserve(model, variable_values=True):
        yield _score_batches(RepeatedCall(model), reader, device)


def _score_batches(call: RepeatedCall, reader: BatchReader, device: DeviceLike) -> Iterator[ScoredBatch]:
    probabilities = ends_in_sigmoid(call.model) if is_any_keras(call.model) else None
    for batch in reader.loader:
        with use_device(device):  # never across a yield: the device would be the caller's too
            inputs, target, number = reader.read(batch)
            output = call.run_on(fit_inputs(call.model, inputs))
        scores, targets = partial(_read_scores, output), partial(_read_targets, target)
        yield ScoredBatch(output, target, number, scores, targets, probabilities)


def _read_scores(output: Any) -> Any:
    return _make_array(_find_scores(output))


def _read_targets(target: Any) -> Any:
    return _make_array(tf.convert_to_tensor(target))


def _make_array(tensor: Any) -> Any:
    """Return an array for a tensor; numpy has no bfloat16."""
    return np.asarray(tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor)


_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss: the mean over samples of the results of ``loss_fn(output, target)`` for each batch.

    A ``keras.losses.Loss``, or a function whose first parameter is ``y_true``, is called in Keras' order:
    ``loss_fn(target, output)``. A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)

    @staticmethod
    def mean(value: Any) -> float:
        """Return the mean of the values that a loss returned."""
        return float(tf.reduce_mean(tf.cast(value, tf.float64)))

    def loss(self, output: Any, target: Any) -> Any:
        """Return the loss of one batch."""
        return self.loss_fn(target, output) if _takes_target_first(self.loss_fn) else self.loss_fn(output, target)


def _find_scores(output: Any) -> tf.Tensor:
    """Return the one tensor of scores: the output, or the only entry of a dict or list, as saved models return it."""
    entries = list(output.values()) if isinstance(output, Mapping) else output
    if isinstance(entries, (list, tuple)):
        if len(entries) != 1:
            named = ", ".join(map(repr, output)) if isinstance(output, Mapping) else f"{len(entries)} entries"
            raise InputError(
                f"the model gives a {type(output).__name__} of {named}, not one tensor of scores; evaluate a callable "
                "that returns the one to score"
            )
        return _find_scores(entries[0])
    scores = tf.convert_to_tensor(output)
    if scores.shape.rank == 0:
        raise InputError(f"the model gives {shown(output)} for a batch, not a score for each sample")
    return scores


def _takes_target_first(loss_fn: Callable[..., Any]) -> bool:
    """Return whether a loss has Keras' order of arguments: (y_true, y_pred)."""
    for package in ("keras", "tf_keras"):
        losses = getattr(sys.modules.get(package), "losses", None)
        if losses is not None and isinstance(loss_fn, losses.Loss):
            return True
    try:
        names = list(inspect.signature(loss_fn).parameters)
    except (TypeError, ValueError):  # a callable without a signature, such as one of C's
        return False
    return names[:1] == ["y_true"]
