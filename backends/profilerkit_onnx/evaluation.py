"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model, or its path, and a loader. onnxruntime runs the model; `profilerkit_metrics.scoring` computes the
scores, for every framework alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import ModelProto

from profilerkit import ArgumentError, DataLoader, InputError, ModelInputs
from profilerkit.arguments.structures import apply_transform, map_leaves
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.numpy_data import as_tensor
from profilerkit.error_text import shown
from profilerkit.inputs import LOADER, TRANSFORM
from profilerkit_metrics.scoring import (
    Batches,
    EvaluationFunctions,
    GetTopk,
    LossEvaluation,
    ScoredBatch,
    ScoreFunction,
    Transform,
    count_samples,
)

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
    data_loader, transform = LOADER("data_loader", data_loader), TRANSFORM("transform", transform)
    loader = data_loader if isinstance(data_loader, DataLoader) else DataLoader(data_loader)
    yield _score_batches(proto, loader, resolve_device(device), transform)


def _score_batches(
    model: ModelProto, loader: DataLoader, device: str, transform: Transform | None
) -> Iterator[ScoredBatch]:
    session = make_session(model, make_options(next(iter(LEVELS))), device)
    probabilities = _gives_probabilities(model)
    for batch in loader:
        inputs = loader.forward_pass.extract_model_inputs(batch)
        target = map_leaves(loader.forward_pass.extract_targets(batch), as_tensor)
        if transform is not None:
            inputs, target = apply_transform(transform, inputs, target)
        model_inputs = ModelInputs.of(inputs).map(as_tensor)
        output = make_call(session, make_feeds(model, model_inputs), device, model_inputs)()
        samples = count_samples([target, *model_inputs.leaves()], lambda value: isinstance(value, np.ndarray))
        yield ScoredBatch(
            output,
            target,
            samples,
            scores=lambda output=output, target=target: _scores(output, np.shape(target)),  # type: ignore[misc]
            targets=lambda output=output, target=target: _targets(output, target),  # type: ignore[misc]
            probabilities=probabilities,
        )


_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss: the mean over samples of what ``loss_fn(output, target)`` returns for each batch.

    Output and target are numpy arrays. A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)

    @staticmethod
    def mean(value: Any) -> float:
        """Return the mean of what a loss returned."""
        return float(np.mean(np.asarray(value, np.float64)))


def _gives_probabilities(model: ModelProto) -> bool | None:
    """Return whether the graph ends in a sigmoid; None where its last operator leaves that open."""
    result = model.graph.output[0].name
    last = next((node for node in reversed(model.graph.node) if result in node.output), None)
    if last is None or last.op_type not in ("Sigmoid", *_LINEAR):
        return None
    return bool(last.op_type == "Sigmoid")


def _scores(output: Any, target_shape: tuple[int, ...]) -> Any:
    """Return the scores with the classes last; of images and sequences they are the second dimension in most models.

    The shape of the targets tells where it is: all dimensions of the scores but that of the classes.
    """
    if not isinstance(output, np.ndarray) or output.ndim == 0:
        raise InputError(
            f"the model gives {shown(output)} for a batch, not one array with a score for each sample; evaluate a "
            "model with one output"
        )
    scores = output.astype(np.float32) if output.dtype.isbuiltin == 2 else output
    return np.moveaxis(scores, 1, -1) if _has_classes_second(scores.shape, target_shape) else scores


def _targets(output: Any, target: Any) -> Any:
    targets = np.asarray(target)
    is_moved = targets.shape == np.shape(output) and _has_classes_second(targets.shape, targets.shape)
    return np.moveaxis(targets, 1, -1) if is_moved else targets


def _has_classes_second(shape: tuple[int, ...], target_shape: tuple[int, ...]) -> bool:
    if len(shape) < 3:
        return False
    return target_shape in ((shape[0], *shape[2:]), shape) or target_shape != shape[:-1]
