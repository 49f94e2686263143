"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model, or its path, and a loader. onnxruntime runs the model; `profilerkit_metrics.scoring` computes the
scores, for every framework alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import GraphProto, ModelProto

from profilerkit import ModelInputs
from profilerkit.arguments.checks import instance
from profilerkit.backend import DeviceLike
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.graph_scores import GraphStep, Role, gives_probabilities
from profilerkit_metrics.scoring import Batches
from profilerkit_metrics.scoring_arrays import ReadyModel, score_with

from .loaders import open_model
from .model.constants import MOVES
from .running.devices import resolve_device
from .running.runs import make_call, make_feeds, read_outputs
from .running.sessions import LEVELS, make_options, make_session

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]

_MODEL = instance(ModelProto, "an onnx.ModelProto, or the path of a .onnx file")
_ROLES = {
    **dict.fromkeys((*MOVES, "Dropout", "Gather", "GatherElements", "GatherND", "ReduceMean"), Role.MOVE),
    **dict.fromkeys(("Concat", "Mean"), Role.JOIN),
    **dict.fromkeys(("Conv", "Gemm", "MatMul"), Role.LINEAR),
    "Add": Role.ADD,
    "Sigmoid": Role.SIGMOID,
    "Softmax": Role.SOFTMAX,
}


def _list_steps(graph: GraphProto) -> Iterator[GraphStep]:
    for node in graph.node:
        if node.op_type != "Constant":
            yield GraphStep(_ROLES.get(node.op_type, Role.OTHER), list(filter(None, node.input)), node.output)


def _make_ready(model: Any, device: DeviceLike) -> ReadyModel:
    proto = _MODEL("model", open_model(model))
    resolved = resolve_device(device)
    session = make_session(proto, make_options(next(iter(LEVELS))), resolved)

    def call(inputs: ModelInputs) -> Any:
        return read_outputs(make_call(session, make_feeds(proto, inputs), resolved, inputs)())

    scores = proto.graph.output[0].name if proto.graph.output else None
    return ReadyModel(call, gives_probabilities(_list_steps(proto.graph), scores))


score_batches = score_with(_make_ready)
_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss: the mean over samples of the results of ``loss_fn(output, target)`` for each batch.

    Output and target are numpy arrays. A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)
