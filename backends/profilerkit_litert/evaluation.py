"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model, or its path, and a loader. LiteRT runs the model; `profilerkit_metrics.scoring` computes the
scores, for every framework alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from profilerkit import ArgumentError
from profilerkit.backend import DeviceLike
from profilerkit.error_text import shown
from profilerkit_metrics.scoring import Batches, EvaluationFunctions, GetTopk, ScoredBatch, ScoreFunction, Transform
from profilerkit_metrics.scoring_arrays import ArrayLossEvaluation, score_arrays

from .model.reading import LiteRTModel, open_model
from .running.runs import MODES, make_call

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


@contextmanager
def score_batches(
    model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
) -> Iterator[Iterable[ScoredBatch]]:
    """Yield the scored batches of a loader, on which LiteRT runs the model."""
    opened = open_model(model)
    if not isinstance(opened, LiteRTModel):
        raise ArgumentError(f"model={shown(model)}: give the path of a .tflite file, its bytes, or a LiteRTModel")
    graph = opened.graphs[opened.signature.graph]
    last = {index: op.name for op in graph.operators for index in op.outputs}.get(next(iter(graph.outputs), -1))
    probabilities = {"LOGISTIC": True, "FULLY_CONNECTED": False}.get(last or "")
    mode = next(iter(MODES))
    yield score_arrays(lambda inputs: make_call(opened, inputs, mode)(), data_loader, transform, probabilities)


_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(ArrayLossEvaluation):
    """Evaluates a loss: the mean over samples of what ``loss_fn(output, target)`` returns for each batch.

    Output and target are numpy arrays. A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)
