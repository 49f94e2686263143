"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model and a loader. ``jax.jit`` compiles the model once for each form of batch;
`profilerkit_metrics.scoring` computes the scores, for every framework alike. The classes are the last dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np

from profilerkit import ArgumentError, InputError, ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.batch_reader import BatchReader, Transform
from profilerkit.backend_kit.keras_kinds import ends_in_sigmoid, is_keras
from profilerkit.error_text import shown
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.scoring import Batches, ScoredBatch

from .data import as_tensor
from .model.arrays import is_array
from .model.recognition import is_model
from .model.subject import Subject
from .model.subjects import find_subject
from .running.devices import resolve_device
from .running.runs import CompiledCall

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


@contextmanager
def score_batches(
    model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
) -> Iterator[Iterable[ScoredBatch]]:
    """Yield the scored batches of a loader, on which the model runs in inference mode."""
    if not is_model(model):
        raise ArgumentError(
            f"model={shown(model)}: give a function, a module of Flax or Equinox, a Keras model on JAX, or a JaxModel"
        )
    reader = BatchReader(data_loader, transform, as_tensor, is_array)
    yield _score_batches(model, reader, None if device is None else resolve_device(find_subject(model), device))


def _score_batches(model: Any, reader: BatchReader, device: str | None) -> Iterator[ScoredBatch]:
    calls: dict[Any, CompiledCall] = {}
    subject = find_subject(model)
    probabilities = ends_in_sigmoid(model) if is_keras(model) else None
    for inputs, target, number in map(reader.read, reader.loader):
        output = _compile(calls, subject, inputs, device).run_on(inputs)
        scores, targets = partial(_read_scores, output), partial(np.asarray, target)
        yield ScoredBatch(output, target, number, scores, targets, probabilities)


def _compile(calls: dict[Any, CompiledCall], subject: Subject, inputs: ModelInputs, device: str | None) -> CompiledCall:
    """Return the compiled model for inputs of one structure; values other than arrays are part of it."""
    leaves, tree = jax.tree.flatten((inputs.args, dict(inputs.kwargs)))
    form = (tree, tuple("array" if hasattr(leaf, "dtype") else repr(leaf) for leaf in leaves))
    if form not in calls:
        calls[form] = CompiledCall(subject, inputs, device)
    return calls[form]


_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss: the mean over samples of the results of ``loss_fn(output, target)`` for each batch.

    Output and target are arrays. A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)


def _read_scores(output: Any) -> Any:
    """Return the array that a model gives for a batch; dtypes that numpy lacks as float32."""
    if not isinstance(output, (jax.Array, np.ndarray)) or output.ndim == 0:
        raise InputError(
            f"the model gives {shown(output)} for a batch, not one array with a score for each sample; evaluate a "
            "model with one output"
        )
    scores = np.asarray(output)
    return scores.astype(np.float32) if scores.dtype.isbuiltin == 2 else scores
