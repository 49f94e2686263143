"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model, or its path, and a loader. onnxruntime runs the model; `profilerkit_metrics.scoring` computes the
scores, for every framework alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from onnx import ModelProto

from profilerkit import ArgumentError, ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.error_text import shown
from profilerkit_metrics.scoring import Batches, EvaluationFunctions, GetTopk, ScoredBatch, ScoreFunction, Transform
from profilerkit_metrics.scoring_arrays import ArrayLossEvaluation, score_arrays

from .loaders import open_model
from .running.devices import resolve_device
from .running.runs import make_call, make_feeds
from .running.sessions import LEVELS, make_options, make_session

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]

#: The operators whose results are logits for sure.
_LINEAR = ("Gemm", "MatMul", "Add", "Conv")


@contextmanager
def score_batches(
    model: Any, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
) -> Iterator[Iterable[ScoredBatch]]:
    """Yield the scored batches of a loader, on which onnxruntime runs the model."""
    proto = open_model(model)
    if not isinstance(proto, ModelProto):
        raise ArgumentError(f"model={shown(model)}: give an onnx.ModelProto, or the path of a .onnx file")
    resolved = resolve_device(device)
    session = make_session(proto, make_options(next(iter(LEVELS))), resolved)

    def call(inputs: ModelInputs) -> Any:
        return make_call(session, make_feeds(proto, inputs), resolved, inputs)()

    yield score_arrays(call, data_loader, transform, _gives_probabilities(proto))


_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(ArrayLossEvaluation):
    """Evaluates a loss: the mean over samples of what ``loss_fn(output, target)`` returns for each batch.

    Output and target are numpy arrays. A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)


def _gives_probabilities(model: ModelProto) -> bool | None:
    """Return whether the graph ends in a sigmoid; None where its last operator leaves that open."""
    result = model.graph.output[0].name
    last = next((node for node in reversed(model.graph.node) if result in node.output), None)
    if last is None or last.op_type not in ("Sigmoid", *_LINEAR):
        return None
    return bool(last.op_type == "Sigmoid")
