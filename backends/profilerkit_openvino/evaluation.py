"""Evaluation functions for classifiers and losses: OpenVINO runs the model, the metrics compute the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from profilerkit.arguments.checks import instance
from profilerkit.backend import DeviceLike
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.graph_scores import GraphStep, Role, gives_probabilities
from profilerkit_metrics.scoring import Batches
from profilerkit_metrics.scoring_arrays import ReadyModel, score_with

from .loaders import open_model
from .nodes import is_made_of_constants
from .runs import MODES, compile_model, make_call, read_outputs, resolve_device
from .runtime import openvino
from .weights import find_readers, find_weights

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]

_PRODUCTS = ("Convolution", "MatMul")
_MOVES = "Convert Gather ReduceMean Reshape Slice Split Squeeze StridedSlice Transpose Unsqueeze VariadicSplit"
_MODEL = instance(openvino.Model, "an openvino.Model, or the path of an .xml file")
_ROLES = {
    **dict.fromkeys(_MOVES.split(), Role.MOVE),
    "Add": Role.ADD,
    "Concat": Role.JOIN,
    "Sigmoid": Role.SIGMOID,
    "Softmax": Role.SOFTMAX,
}


def _make_ready(source: Any, device: DeviceLike) -> ReadyModel:
    model = _MODEL("model", open_model(source))
    request = compile_model(model, None, resolve_device(device), next(iter(MODES))).create_infer_request()
    scores = model.get_results()[0].input_value(0).get_node().get_name()
    return ReadyModel(
        lambda inputs: read_outputs(model, make_call(model, request, inputs)()),
        gives_probabilities(_list_steps(model.get_ordered_ops()), scores),
    )


def _list_steps(nodes: Sequence[Any]) -> Iterator[GraphStep]:
    """Yield the operators that compute with more than constants; a product is linear only with a weight."""
    is_constant: dict[str, bool] = {}
    readers = find_readers(find_weights(nodes))
    for node in nodes:
        name, kind = node.get_name(), node.get_type_name()
        reads = [value.get_node().get_name() for value in node.input_values()]
        is_constant[name] = is_made_of_constants(node, [is_constant[source] for source in reads])
        if not is_constant[name] and kind != "Parameter":
            role = Role.LINEAR if kind in _PRODUCTS and name in readers else _ROLES.get(kind, Role.OTHER)
            yield GraphStep(role, reads, [name])


score_batches = score_with(_make_ready)
_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss of arrays: the mean over samples of the results of ``loss_fn(output, target)`` by batch."""

    batches: Batches = staticmethod(score_batches)
