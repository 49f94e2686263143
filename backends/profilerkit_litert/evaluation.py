"""Evaluation functions for classifiers and losses: LiteRT runs the model, the metrics compute the scores."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.scoring import Batches
from profilerkit_metrics.scoring_arrays import ReadyModel, score_opened

from .model.inputs import fit_inputs
from .model.quantized import dequantize_outputs
from .model.reading import LiteRTModel, open_model
from .running.runs import MODES, make_call

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


#: Operators whose results are probabilities for sure, or logits.
_GIVES_PROBABILITIES = {"LOGISTIC": True, "FULLY_CONNECTED": False}


def _make_ready(model: LiteRTModel, device: DeviceLike) -> ReadyModel:
    graph, mode = model.graphs[model.signature.graph], next(iter(MODES))
    makers = {index: operator.name for operator in graph.operators for index in operator.outputs}
    last = makers.get(next(iter(graph.outputs), -1), "")

    def call(inputs: ModelInputs) -> Any:
        return dequantize_outputs(model, make_call(model, fit_inputs(model, inputs), mode)())

    return ReadyModel(call, _GIVES_PROBABILITIES.get(last))


score_batches = score_opened(
    open_model, LiteRTModel, "give the path of a .tflite file, its bytes, or a LiteRTModel", _make_ready
)
_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss of arrays: the mean over samples of what ``loss_fn(output, target)`` returns for each batch."""

    batches: Batches = staticmethod(score_batches)
