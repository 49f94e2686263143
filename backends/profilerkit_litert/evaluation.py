"""Evaluation functions for classifiers and losses: LiteRT runs the model, the metrics compute the scores."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelInputs
from profilerkit.arguments.checks import instance
from profilerkit.backend import DeviceLike
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.graph_scores import GraphStep, Role, gives_probabilities
from profilerkit_metrics.scoring import Batches
from profilerkit_metrics.scoring_arrays import ReadyModel, score_with

from .model.inputs import dequantize_outputs, fit_inputs
from .model.reading import LiteRTModel, open_model
from .running.runs import MODES, make_call

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]

_MOVES = "CAST DEQUANTIZE EXPAND_DIMS GATHER MEAN QUANTIZE RESHAPE SLICE SQUEEZE STRIDED_SLICE TRANSPOSE"
_MODEL = instance(LiteRTModel, "the path of a .tflite file, its bytes, or a LiteRTModel")
_ROLES = {
    **dict.fromkeys(_MOVES.split(), Role.MOVE),
    **dict.fromkeys(("CONCATENATION", "SPLIT"), Role.JOIN),  # the first input of SPLIT is its axis
    "ADD": Role.ADD,
    "FULLY_CONNECTED": Role.LINEAR,
    "LOGISTIC": Role.SIGMOID,
    "SOFTMAX": Role.SOFTMAX,
}


def _make_ready(source: Any, device: DeviceLike) -> ReadyModel:
    model = _MODEL("model", open_model(source))
    mode = next(iter(MODES))

    def call(inputs: ModelInputs) -> Any:
        return dequantize_outputs(model, make_call(model, fit_inputs(model, inputs), mode)())

    graph = model.graphs[model.signature.graph]
    steps = [GraphStep(_ROLES.get(one.name, Role.OTHER), one.inputs, one.outputs) for one in graph.operators]
    return ReadyModel(call, gives_probabilities(steps, next(iter(graph.outputs), None)))


score_batches = score_with(_make_ready)
_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss of arrays: the mean over samples of the results of ``loss_fn(output, target)`` by batch."""

    batches: Batches = staticmethod(score_batches)
