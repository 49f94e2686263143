"""Evaluation functions for classifiers and losses: OpenVINO runs the model, the metrics compute the scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import openvino

from profilerkit import ArgumentError
from profilerkit.backend import DeviceLike
from profilerkit.error_text import shown
from profilerkit_metrics.scoring import Batches, EvaluationFunctions, GetTopk, ScoredBatch, ScoreFunction, Transform
from profilerkit_metrics.scoring_arrays import ArrayLossEvaluation, score_arrays

from .loaders import open_model
from .runs import MODES, compile_model, make_call, resolve_device

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


@contextmanager
def score_batches(
    model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
) -> Iterator[Iterable[ScoredBatch]]:
    """Yield the scored batches of a loader."""
    opened = open_model(model)
    if not isinstance(opened, openvino.Model):
        raise ArgumentError(f"model={shown(model)}: give an openvino.Model, or the path of an .xml file")
    request = compile_model(opened, None, resolve_device(device), next(iter(MODES))).create_infer_request()
    last = opened.get_results()[0].input_value(0).get_node().get_type_name()
    probabilities = True if last == "Sigmoid" else False if last in ("MatMul", "Add", "Convolution") else None
    yield score_arrays(lambda inputs: make_call(opened, request, inputs)(), data_loader, transform, probabilities)


_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(ArrayLossEvaluation):
    """Evaluates a loss of arrays: the mean over samples of what ``loss_fn(output, target)`` returns for each batch."""

    batches: Batches = staticmethod(score_batches)
