"""Evaluation functions for classifiers and losses: LiteRT runs the model, the metrics compute the scores."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.scoring import Batches
from profilerkit_metrics.scoring_arrays import ReadyModel, score_opened

from .model.graphs import Graph
from .model.inputs import fit_inputs
from .model.quantized import dequantize_outputs
from .model.reading import LiteRTModel, open_model
from .running.runs import MODES, make_call

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


#: Operators whose results are probabilities, of which a linear layer may be a mean.
_PROBABILITIES = ("LOGISTIC", "SOFTMAX")
#: Operators whose results are probabilities if they read such.
_HANDING_ON = (
    "CAST",
    "CONCATENATION",
    "DEQUANTIZE",
    "EXPAND_DIMS",
    "GATHER",
    "MEAN",
    "QUANTIZE",
    "RESHAPE",
    "SLICE",
    "SPLIT",
    "SQUEEZE",
    "STRIDED_SLICE",
    "TRANSPOSE",
)


def _make_ready(model: LiteRTModel, device: DeviceLike) -> ReadyModel:
    mode = next(iter(MODES))

    def call(inputs: ModelInputs) -> Any:
        return dequantize_outputs(model, make_call(model, fit_inputs(model, inputs), mode)())

    return ReadyModel(call, _gives_probabilities(model.graphs[model.signature.graph]))


def _gives_probabilities(graph: Graph) -> bool | None:
    """Return True for a graph that ends in a sigmoid, False for one that ends in a linear layer; else None.

    A linear layer behind probabilities may be a mean of them.
    """
    makers = {index: operator for operator in graph.operators for index in operator.outputs}
    last = makers.get(next(iter(graph.outputs), -1))
    if last is None or last.name == "LOGISTIC":
        return None if last is None else True
    probabilities: set[int] = set()
    for operator in graph.operators:
        hands_on = operator.name in _HANDING_ON and not probabilities.isdisjoint(operator.inputs)
        if hands_on or operator.name in _PROBABILITIES:
            probabilities.update(operator.outputs)
    is_layer = last.name == "FULLY_CONNECTED" and probabilities.isdisjoint(last.inputs)
    return False if is_layer else None


score_batches = score_opened(
    open_model, LiteRTModel, "give the path of a .tflite file, its bytes, or a LiteRTModel", _make_ready
)
_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss of arrays: the mean over samples of the results of ``loss_fn(output, target)`` by batch."""

    batches: Batches = staticmethod(score_batches)
