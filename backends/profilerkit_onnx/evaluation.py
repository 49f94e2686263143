"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model, or its path, and a loader. onnxruntime runs the model; `profilerkit_metrics.scoring` computes the
scores, for every framework alike.
"""

from __future__ import annotations

from typing import Any

from onnx import GraphProto, ModelProto

from profilerkit import ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.scoring import Batches
from profilerkit_metrics.scoring_arrays import ReadyModel, score_opened

from .loaders import open_model
from .model.constants import MOVES
from .running.devices import resolve_device
from .running.runs import make_call, make_feeds
from .running.sessions import LEVELS, make_options, make_session

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]

#: The operators whose results are logits for sure.
_LINEAR = ("Gemm", "MatMul", "Conv")
#: Operators whose results are probabilities, of which a linear operator may be a mean.
_PROBABILITIES = ("Sigmoid", "Softmax")
#: Operators whose results are probabilities if they read such.
_HANDING_ON = (*MOVES, "Concat", "Dropout", "Gather", "Mean", "ReduceMean")


def _make_ready(proto: ModelProto, device: DeviceLike) -> ReadyModel:
    resolved = resolve_device(device)
    session = make_session(proto, make_options(next(iter(LEVELS))), resolved)

    def call(inputs: ModelInputs) -> Any:
        return make_call(session, make_feeds(proto, inputs), resolved, inputs)()

    return ReadyModel(call, _gives_probabilities(proto))


score_batches = score_opened(
    open_model, ModelProto, "give an onnx.ModelProto, or the path of a .onnx file", _make_ready
)
_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss: the mean over samples of the results of ``loss_fn(output, target)`` for each batch.

    Output and target are numpy arrays. A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)


def _gives_probabilities(model: ModelProto) -> bool | None:
    """Return True for a graph that ends in a sigmoid, False for one that ends in a linear operator; else None.

    An addition adds a bias only if it follows a linear operator: it may also add probabilities up. And a linear
    operator may weigh probabilities.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    last = makers.get(model.graph.output[0].name) if model.graph.output else None
    if last is None or last.op_type == "Sigmoid":
        return None if last is None else True
    ends = [makers[name] for name in last.input if name in makers] if last.op_type == "Add" else [last]
    linear = [node for node in ends if node.op_type in _LINEAR]
    probabilities = _find_probabilities(model.graph)
    return False if linear and all(probabilities.isdisjoint(node.input) for node in linear) else None


def _find_probabilities(graph: GraphProto) -> set[str]:
    """Return the names of the results of a softmax or a sigmoid, also where they are only moved or averaged."""
    names: set[str] = set()
    for node in graph.node:
        if node.op_type in _PROBABILITIES or (node.op_type in _HANDING_ON and not names.isdisjoint(node.input)):
            names.update(node.output)
    return names
