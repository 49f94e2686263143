"""Evaluation functions for classifiers and losses: OpenVINO runs the model, the metrics compute the scores."""

from __future__ import annotations

from profilerkit.backend import DeviceLike
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.scoring import Batches
from profilerkit_metrics.scoring_arrays import ReadyModel, score_opened

from .loaders import open_model
from .runs import MODES, compile_model, make_call, resolve_device
from .runtime import openvino

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


#: The operators whose results are logits for sure.
_LINEAR = ("Convolution", "MatMul")


def _compile(model: openvino.Model, device: DeviceLike) -> ReadyModel:
    request = compile_model(model, None, resolve_device(device), next(iter(MODES))).create_infer_request()
    return ReadyModel(lambda inputs: make_call(model, request, inputs)(), _gives_probabilities(model))


def _gives_probabilities(model: openvino.Model) -> bool | None:
    """Return whether a model ends in a sigmoid; None where its last operator leaves that open.

    An addition is that of a bias only where it follows a linear operator: it may also add probabilities up.
    """
    last = model.get_results()[0].input_value(0).get_node()
    kind = last.get_type_name()
    kinds = [value.get_node().get_type_name() for value in last.input_values()] if kind == "Add" else [kind]
    if any(kind in _LINEAR for kind in kinds):
        return False
    return True if kind == "Sigmoid" else None


score_batches = score_opened(
    open_model, openvino.Model, "give an openvino.Model, or the path of an .xml file", _compile
)
_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss of arrays: the mean over samples of what ``loss_fn(output, target)`` returns for each batch."""

    batches: Batches = staticmethod(score_batches)
