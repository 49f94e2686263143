"""Evaluation functions for classifiers and losses: OpenVINO runs the model, the metrics compute the scores."""

from __future__ import annotations

from typing import Any

from profilerkit.backend import DeviceLike
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.scoring import Batches
from profilerkit_metrics.scoring_arrays import ReadyModel, score_opened

from .loaders import open_model
from .runs import MODES, compile_model, make_call, resolve_device
from .runtime import openvino
from .weights import find_weighted

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


#: Products: with a weight, their results are logits.
_PRODUCTS = ("Convolution", "MatMul")
#: Operators whose results are probabilities, of which a product with a weight may be a mean.
_PROBABILITIES = ("Sigmoid", "Softmax")


def _compile(model: openvino.Model, device: DeviceLike) -> ReadyModel:
    request = compile_model(model, None, resolve_device(device), next(iter(MODES))).create_infer_request()
    return ReadyModel(lambda inputs: make_call(model, request, inputs)(), _gives_probabilities(model))


def _gives_probabilities(model: openvino.Model) -> bool | None:
    """Return True for a model that ends in a sigmoid, False for one that ends in a layer with weights; else None.

    An addition is the bias of such a layer only if it directly follows it: otherwise it may sum probabilities, and so
    may a product of activations.
    """
    nodes = model.get_ordered_ops()
    reads_weight = dict(zip((node.get_name() for node in nodes), find_weighted(nodes), strict=True))
    last = model.get_results()[0].input_value(0).get_node()
    if last.get_type_name() == "Sigmoid":
        return True
    for node in _list_sources(last) if last.get_type_name() == "Add" else [last]:
        kinds = [source.get_type_name() for source in _list_sources(node)]
        is_layer = node.get_type_name() in _PRODUCTS and reads_weight[node.get_name()]
        if is_layer and not any(kind in _PROBABILITIES for kind in kinds):
            return False
    return None


def _list_sources(node: Any) -> list[Any]:
    return [value.get_node() for value in node.input_values()]


score_batches = score_opened(
    open_model, openvino.Model, "give an openvino.Model, or the path of an .xml file", _compile
)
_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss of arrays: the mean over samples of the results of ``loss_fn(output, target)`` by batch."""

    batches: Batches = staticmethod(score_batches)
