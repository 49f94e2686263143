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
#: Operators whose results are probabilities if they read such.
_HANDING_ON = (
    "Concat",
    "Convert",
    "Gather",
    "ReduceMean",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)


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
    probabilities: set[str] = set()  # the names of the nodes that give such
    for node in nodes:
        hands_on = node.get_type_name() in _HANDING_ON and _reads_any(node, probabilities)
        if hands_on or node.get_type_name() in _PROBABILITIES:
            probabilities.add(node.get_name())
    for node in _list_sources(last) if last.get_type_name() == "Add" else [last]:
        is_layer = node.get_type_name() in _PRODUCTS and reads_weight[node.get_name()]
        if is_layer and not _reads_any(node, probabilities):
            return False
    return None


def _reads_any(node: Any, names: set[str]) -> bool:
    return any(source.get_name() in names for source in _list_sources(node))


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
